//! The remaining steps of experiments that were left open beside each other, and what becomes of them when a loop ends.

use crate::domain::Phase;

/// The facts about an attempt that was open beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FoundBeside {
    /// The journal's step.
    pub phase: Phase,
    /// Whether it is a run for winners that wait, and no experiment of its own.
    pub is_trial: bool,
    /// Whether it has a commit.
    pub has_commit: bool,
    /// Whether the journal has a draft of its record: a version of its change was measured.
    pub has_draft: bool,
    /// Whether the agent was to merge it with the incumbent.
    pub is_asked: bool,
    /// Whether it beat its own base: the draft has no failure.
    pub is_sound: bool,
    /// Whether the working tree that its run or guard was executed in still exists.
    pub has_tree: bool,
}

/// One step of its recovery. Each can be repeated without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepBeside {
    /// End what remains of the agent, save what it left in its seat, and reset the seat.
    EndCall,
    /// End what remains of its run or guard.
    EndJobs,
    /// Remove the results of its run or guard, so that it starts again.
    ForgetRun,
    /// Note that no agent works on it: it waits for another call.
    AwaitCall,
    /// Let it wait for a slot.
    AwaitSlot,
    /// Continue its run or its guards in its slot, as [`super::recover`] says.
    Resume,
    /// Write the journal's records that are missing, their rows and the branch; close it and its cars.
    Record,
    /// Close it in the journal.
    Close,
}

/// What becomes of an attempt that nobody works on when the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shelved {
    /// It stays open.
    Stays,
    /// It waits for a train again, and the agent is not asked.
    Waits,
    /// The version that was measured is recorded, and a later one is saved.
    Recorded,
    /// Its commit is saved, and its description becomes an idea.
    Idea,
    /// It is closed: it is a trial, or no agent finished it.
    Closed,
}

/// Lists the remaining steps in order. A winner that waits needs none.
pub fn recover_beside(found: FoundBeside) -> Vec<StepBeside> {
    use StepBeside::{AwaitCall, AwaitSlot, Close, EndCall, EndJobs, ForgetRun, Record, Resume};
    match found.phase {
        Phase::Waiting => Vec::new(),
        Phase::Recording => vec![Record],
        // The line asks for it again. Earlier versions had trials reworked.
        Phase::Proposing if found.is_trial => vec![EndCall, Close],
        Phase::Committing if found.is_trial => vec![Close],
        Phase::Proposing => vec![EndCall, AwaitCall],
        Phase::Committing => vec![AwaitSlot],
        Phase::Running | Phase::Guarding if found.has_tree => vec![Resume],
        // Nobody knows what it measured. Once the tree exists again, nothing tells that it was missing.
        Phase::Running | Phase::Guarding => vec![EndJobs, ForgetRun, Resume],
        // The loop calls the reviewer again.
        Phase::Reviewing => vec![EndJobs],
        // Should it be of use still, the loop begins it anew.
        Phase::Checking => vec![EndJobs, Close],
        Phase::Idle | Phase::Settling => vec![Close],
    }
}

/// What becomes of an attempt when the loop ends. Those with an active run, and winners, stay open.
pub fn shelve(found: FoundBeside) -> Shelved {
    match found.phase {
        // It is no experiment, whatever was measured of it.
        Phase::Proposing | Phase::Committing if found.is_trial => Shelved::Closed,
        Phase::Proposing if found.has_draft && found.is_asked && found.is_sound => Shelved::Waits,
        Phase::Proposing | Phase::Committing if found.has_draft => Shelved::Recorded,
        Phase::Proposing | Phase::Committing if found.has_commit => Shelved::Idea,
        Phase::Proposing | Phase::Committing => Shelved::Closed,
        _ => Shelved::Stays,
    }
}

#[cfg(test)]
#[path = "recovery_beside_world.rs"]
mod world;

#[cfg(test)]
#[path = "recovery_beside_tests.rs"]
mod tests;
