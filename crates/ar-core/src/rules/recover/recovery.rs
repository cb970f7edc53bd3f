//! The remaining steps of an attempt that was left open.

use crate::domain::Phase;

/// The number of restarts of a lost run on the same commit.
pub const LOST_RETRIES: u32 = 2;

/// The state of an open experiment's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFound {
    /// It waits in the queue of an engine.
    Pending,
    /// It is still running.
    Going,
    /// It finished and wrote its exit.
    Over,
    /// It died without a trace.
    Gone,
    /// It never started.
    Unstarted,
}

impl RunFound {
    /// Returns whether it can be waited for: it is queued or running, or has finished.
    pub fn is_there(self) -> bool {
        matches!(self, RunFound::Pending | RunFound::Going | RunFound::Over)
    }
}

/// The facts about an open attempt: the journal's, and the real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptFacts {
    /// The journal's step.
    pub phase: Phase,
    /// True for a run that waiting winners need, false for an experiment of its own.
    pub is_trial: bool,
    /// True if the journal has a draft of its record.
    pub has_draft: bool,
    /// True if its record ref exists.
    pub recorded: bool,
    /// Its run, or the guard that is next.
    pub run: RunFound,
    /// The number of starts of its run.
    pub runs: u32,
    /// True if the linked working tree of its run or guard is missing.
    pub tree_is_gone: bool,
}

/// One recovery step. Each can be repeated without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// End what remains of the agent and of lost runs.
    EndJobs,
    /// Remove the results of its run or guard, so that it starts again.
    ForgetRun,
    /// Save the working tree, and reset it to the base, with the branch that follows it.
    Reset,
    /// Restore the last measured version in the working tree, for the agent to rework.
    BringBack,
    /// Let it wait for another call of the agent.
    AwaitCall,
    /// Let it wait for a slot.
    AwaitSlot,
    /// Check out the attempt's commit, with the branch that follows the working tree.
    CheckOut,
    /// Remove the remains of an earlier run, and enter a new one in the journal.
    Run,
    /// Continue from the journal's step: start or wait for the run or the guards; then measure, decide and record. Leave a
    /// rework to the loop.
    Finish,
    /// Write what is missing of its record: ref, row, branch, working tree and memory. Close it in the journal.
    Record,
    /// Record it as lost.
    RecordLost,
    /// Close it in the journal.
    Close,
}

/// Lists the remaining steps in order. A winner that waits needs none.
pub fn recover(found: AttemptFacts) -> Vec<Step> {
    use Step::{
        AwaitCall, AwaitSlot, BringBack, CheckOut, Close, EndJobs, Finish, ForgetRun, Record, RecordLost, Reset, Run,
    };
    match found.phase {
        Phase::Waiting => Vec::new(),
        // The record is the commit point: the experiment counts, whatever else happened.
        _ if found.recorded => vec![Record],
        Phase::Recording if found.has_draft => vec![Record],
        Phase::Idle => vec![Close],
        // The line asks for it again. Earlier versions had trials reworked.
        Phase::Proposing if found.is_trial => vec![EndJobs, Reset, Close],
        Phase::Committing if found.is_trial => vec![Close],
        Phase::Proposing if found.has_draft => vec![EndJobs, Reset, BringBack, AwaitCall],
        Phase::Proposing => vec![EndJobs, Reset, AwaitCall],
        Phase::Committing => vec![AwaitSlot],
        // The draft says whether the reviewer had answered.
        Phase::Reviewing => vec![EndJobs, CheckOut, Finish],
        // Should it be of use still, the loop begins it anew.
        Phase::Checking => vec![EndJobs, CheckOut, Close],
        // Nobody knows what it measured. Once the tree exists again, nothing tells that it was missing.
        _ if found.tree_is_gone => vec![EndJobs, ForgetRun, CheckOut, Finish],
        // Between fresh runs nothing is under way; `Finish` starts one again that was lost.
        Phase::Guarding | Phase::Confirming => match found.run {
            RunFound::Pending | RunFound::Going | RunFound::Over => vec![Finish],
            RunFound::Unstarted | RunFound::Gone => vec![EndJobs, CheckOut, Finish],
        },
        Phase::Running | Phase::Recording | Phase::Settling => match found.run {
            RunFound::Pending | RunFound::Going | RunFound::Over => vec![Finish],
            // Nothing was lost, however many starts the journal has.
            RunFound::Unstarted => vec![EndJobs, CheckOut, Finish],
            RunFound::Gone if found.runs <= LOST_RETRIES => vec![EndJobs, CheckOut, Run, Finish],
            RunFound::Gone => vec![EndJobs, CheckOut, RecordLost],
        },
    }
}

#[cfg(test)]
#[path = "recovery_world.rs"]
mod world;

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod interleavings;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_leave_an_experiment_has_its_steps() {
        use Step::*;
        let found = |phase, recorded, run, runs| AttemptFacts { recorded, run, runs, ..left_in(phase) };
        let draft = |found| AttemptFacts { has_draft: true, ..found };
        for (left, steps) in [
            (found(Phase::Idle, false, RunFound::Gone, 0), vec![Close]),
            (found(Phase::Proposing, false, RunFound::Gone, 0), vec![EndJobs, Reset, AwaitCall]),
            (found(Phase::Committing, false, RunFound::Gone, 0), vec![AwaitSlot]),
            (found(Phase::Running, false, RunFound::Going, 1), vec![Finish]),
            (found(Phase::Running, false, RunFound::Over, 1), vec![Finish]),
            (found(Phase::Running, false, RunFound::Unstarted, 3), vec![EndJobs, CheckOut, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 1), vec![EndJobs, CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 2), vec![EndJobs, CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 3), vec![EndJobs, CheckOut, RecordLost]),
            (draft(found(Phase::Proposing, false, RunFound::Over, 0)), vec![EndJobs, Reset, BringBack, AwaitCall]),
            (draft(found(Phase::Committing, false, RunFound::Over, 0)), vec![AwaitSlot]),
            (draft(found(Phase::Running, false, RunFound::Gone, 1)), vec![EndJobs, CheckOut, Run, Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Going, 1)), vec![Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Over, 1)), vec![Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Gone, 1)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Unstarted, 1)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Guarding, true, RunFound::Over, 1)), vec![Record]),
            (draft(found(Phase::Confirming, false, RunFound::Going, 1)), vec![Finish]),
            (draft(found(Phase::Confirming, false, RunFound::Over, 1)), vec![Finish]),
            (draft(found(Phase::Confirming, false, RunFound::Gone, 3)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Confirming, false, RunFound::Unstarted, 0)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Confirming, true, RunFound::Over, 1)), vec![Record]),
            (draft(found(Phase::Reviewing, false, RunFound::Over, 1)), vec![EndJobs, CheckOut, Finish]),
            (found(Phase::Checking, false, RunFound::Over, 0), vec![EndJobs, CheckOut, Close]),
            (draft(found(Phase::Recording, false, RunFound::Over, 1)), vec![Record]),
            (found(Phase::Recording, false, RunFound::Over, 1), vec![Finish]),
            (found(Phase::Recording, true, RunFound::Over, 1), vec![Record]),
            (found(Phase::Settling, true, RunFound::Over, 1), vec![Record]),
            (found(Phase::Settling, true, RunFound::Gone, 1), vec![Record]),
        ] {
            assert_eq!(recover(left), steps, "{left:?}");
        }
    }

    #[test]
    fn every_way_to_leave_an_attempt_beside_others_has_its_steps() {
        use Step::*;
        let found = |phase| AttemptFacts { run: RunFound::Going, runs: 1, ..left_in(phase) };
        let draft = |found| AttemptFacts { has_draft: true, ..found };
        let trial = |found| AttemptFacts { is_trial: true, ..found };
        let no_tree = |found| AttemptFacts { tree_is_gone: true, ..found };
        for (left, steps) in [
            (trial(found(Phase::Committing)), vec![Close]),
            (trial(draft(found(Phase::Proposing))), vec![EndJobs, Reset, Close]),
            (trial(draft(found(Phase::Committing))), vec![Close]),
            (found(Phase::Running), vec![Finish]),
            (draft(found(Phase::Guarding)), vec![Finish]),
            (no_tree(found(Phase::Running)), vec![EndJobs, ForgetRun, CheckOut, Finish]),
            (no_tree(draft(found(Phase::Guarding))), vec![EndJobs, ForgetRun, CheckOut, Finish]),
            (draft(found(Phase::Waiting)), vec![]),
            (no_tree(draft(trial(found(Phase::Waiting)))), vec![]),
            (AttemptFacts { recorded: true, ..draft(found(Phase::Waiting)) }, vec![]),
            (draft(found(Phase::Recording)), vec![Record]),
            (draft(trial(found(Phase::Recording))), vec![Record]),
        ] {
            assert_eq!(recover(left), steps, "{left:?}");
        }
    }

    fn left_in(phase: Phase) -> AttemptFacts {
        AttemptFacts {
            phase,
            is_trial: false,
            has_draft: false,
            recorded: false,
            run: RunFound::Unstarted,
            runs: 0,
            tree_is_gone: false,
        }
    }
}
