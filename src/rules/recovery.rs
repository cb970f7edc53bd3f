//! What is still to do of an experiment that somebody left open.

use crate::domain::Phase;

/// How often a run that was lost with its machine is started again on the same commit.
pub const LOST_RETRIES: u32 = 2;

/// What there is of the run of an open experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFound {
    /// It goes on.
    Going,
    /// It is over and said how it ended.
    Over,
    /// It died without a word.
    Gone,
    /// It was never started.
    Unstarted,
}

/// What is found of an open experiment: what the journal says, and what is really there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Found {
    /// The step that the journal names.
    pub phase: Phase,
    /// Whether the journal says what would be recorded of it.
    pub has_draft: bool,
    /// Whether its record's ref is there.
    pub recorded: bool,
    /// Its run, or the guard that is next.
    pub run: RunFound,
    /// How often its run was started.
    pub runs: u32,
}

/// One thing to do. Each can be done twice without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// End what is left of the agent and of lost runs.
    EndJobs,
    /// Save what is in the working tree, and put branch and working tree back to the base.
    Reset,
    /// Bring what was measured last back into the working tree, for the agent to work on.
    BringBack,
    /// Bring branch and working tree to the experiment's commit.
    CheckOut,
    /// Clear away what is left of an earlier run, and enter a new one in the journal.
    Run,
    /// Go on from the step that the journal names: call the agent again, or wait for the run or the guards, which are
    /// started if there are none, and measure, decide and record.
    Finish,
    /// Record what the journal says.
    Record,
    /// Record it as lost.
    RecordLost,
    /// Write its row if it is missing, and bring branch and working tree to where its outcome belongs.
    Settle,
    /// Close it in the journal.
    Close,
}

/// Lists what is still to do, in order.
pub fn recover(found: Found) -> Vec<Step> {
    use Step::{BringBack, CheckOut, Close, EndJobs, Finish, Record, RecordLost, Reset, Run, Settle};
    if found.recorded {
        // The record is the commit point: the experiment counts, whatever else was done.
        return vec![Settle, Close];
    }
    match found.phase {
        Phase::Idle => Vec::new(),
        Phase::Proposing if found.has_draft => vec![EndJobs, Reset, BringBack, Finish],
        Phase::Proposing => vec![EndJobs, Reset, Close],
        Phase::Committing => vec![CheckOut, Run, Finish],
        Phase::Guarding => match found.run {
            RunFound::Going | RunFound::Over => vec![Finish],
            RunFound::Unstarted | RunFound::Gone => vec![EndJobs, CheckOut, Finish],
        },
        Phase::Recording if found.has_draft => vec![Record],
        Phase::Running | Phase::Recording | Phase::Settling => match found.run {
            RunFound::Going | RunFound::Over => vec![Finish],
            // Nothing was lost, however often the start was entered in the journal.
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
            (draft(found(Phase::Guarding, true, RunFound::Over, 1)), vec![Settle, Close]),
            (draft(found(Phase::Recording, false, RunFound::Over, 1)), vec![Record]),
            (found(Phase::Recording, false, RunFound::Over, 1), vec![Finish]),
            (found(Phase::Recording, true, RunFound::Over, 1), vec![Settle, Close]),
            (found(Phase::Settling, true, RunFound::Over, 1), vec![Settle, Close]),
            (found(Phase::Settling, true, RunFound::Gone, 1), vec![Settle, Close]),
        ] {
            assert_eq!(recover(left), steps, "{left:?}");
        }
    }
}
