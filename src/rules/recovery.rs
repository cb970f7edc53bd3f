//! The remaining steps of an experiment that was left open.

use crate::domain::Phase;

/// How often a lost run is started again on the same commit.
pub const LOST_RETRIES: u32 = 2;

/// The state of an open experiment's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFound {
    /// It is still running.
    Going,
    /// It finished and wrote its exit.
    Over,
    /// It died without a trace.
    Gone,
    /// It never started.
    Unstarted,
}

/// The facts about an open experiment: the journal's, and the real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Found {
    /// The journal's step.
    pub phase: Phase,
    /// Whether the journal has a draft of its record.
    pub has_draft: bool,
    /// Whether its record ref exists.
    pub recorded: bool,
    /// Its run, or the guard that is next.
    pub run: RunFound,
    /// How often its run started.
    pub runs: u32,
}

/// One recovery step. Each can be repeated without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// End what remains of the agent and of lost runs.
    EndJobs,
    /// Save the working tree, and reset branch and working tree to the base.
    Reset,
    /// Restore the last measured version in the working tree, for the agent to rework.
    BringBack,
    /// Check out the experiment's commit in branch and working tree.
    CheckOut,
    /// Remove the remains of an earlier run, and enter a new one in the journal.
    Run,
    /// Continue from the journal's step: call the agent again, or start or wait for the run or the guards; then
    /// measure, decide and record.
    Finish,
    /// Write what is missing of its record: ref, row, branch, working tree and memory. Close it in the journal.
    Record,
    /// Record it as lost.
    RecordLost,
    /// Close it in the journal.
    Close,
}

/// Lists the remaining steps in order.
pub fn recover(found: Found) -> Vec<Step> {
    use Step::{BringBack, CheckOut, Close, EndJobs, Finish, Record, RecordLost, Reset, Run};
    if found.recorded {
        // The record is the commit point: the experiment counts, whatever else happened.
        return vec![Record];
    }
    match found.phase {
        Phase::Idle | Phase::Waiting => Vec::new(),
        Phase::Proposing if found.has_draft => vec![EndJobs, Reset, BringBack, Finish],
        Phase::Proposing => vec![EndJobs, Reset, Close],
        Phase::Committing => vec![CheckOut, Run, Finish],
        Phase::Guarding => match found.run {
            RunFound::Going | RunFound::Over => vec![Finish],
            RunFound::Unstarted | RunFound::Gone => vec![EndJobs, CheckOut, Finish],
        },
        // The draft says whether the reviewer had answered.
        Phase::Reviewing => vec![EndJobs, CheckOut, Finish],
        // Should it be of use still, the loop begins it anew.
        Phase::Checking => vec![EndJobs, CheckOut, Close],
        Phase::Recording if found.has_draft => vec![Record],
        Phase::Running | Phase::Recording | Phase::Settling => match found.run {
            RunFound::Going | RunFound::Over => vec![Finish],
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
        let found = |phase, recorded, run, runs| Found { phase, has_draft: false, recorded, run, runs };
        let draft = |found| Found { has_draft: true, ..found };
        for (left, steps) in [
            (found(Phase::Idle, false, RunFound::Gone, 0), vec![]),
            (found(Phase::Proposing, false, RunFound::Gone, 0), vec![EndJobs, Reset, Close]),
            (found(Phase::Committing, false, RunFound::Gone, 0), vec![CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Going, 1), vec![Finish]),
            (found(Phase::Running, false, RunFound::Over, 1), vec![Finish]),
            (found(Phase::Running, false, RunFound::Unstarted, 3), vec![EndJobs, CheckOut, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 1), vec![EndJobs, CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 2), vec![EndJobs, CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 3), vec![EndJobs, CheckOut, RecordLost]),
            (draft(found(Phase::Proposing, false, RunFound::Over, 0)), vec![EndJobs, Reset, BringBack, Finish]),
            (draft(found(Phase::Committing, false, RunFound::Over, 0)), vec![CheckOut, Run, Finish]),
            (draft(found(Phase::Running, false, RunFound::Gone, 1)), vec![EndJobs, CheckOut, Run, Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Going, 1)), vec![Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Over, 1)), vec![Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Gone, 1)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Unstarted, 1)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Guarding, true, RunFound::Over, 1)), vec![Record]),
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
}
