//! The activity of a session, derived from observations.

use serde::Serialize;

use crate::domain::Phase;
use crate::rules::recover::RunFound;

/// Observations of a session, made without touching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The journal's step; absent if the journal cannot be read.
    pub phase: Option<Phase>,
    /// True if a process holds the session.
    pub owned: bool,
    /// The job of the open experiment, agent or run.
    pub job: RunFound,
    /// True if the journal names an outage whose end the loop waits for.
    pub outage: bool,
}

/// The activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The loop waits for an outage of the agent to end.
    Waiting,
    /// All open jobs wait in the queue of the engine that executes them.
    Paused,
    /// The loop waits for the agent.
    Proposing,
    /// The loop commits a change.
    Committing,
    /// The measuring command runs, and the loop waits for it.
    Running,
    /// The guards run, and the loop waits for them.
    Guarding,
    /// Fresh runs decide on a change, and the loop waits for them.
    Confirming,
    /// The reviewer judges a change, and the loop waits for it.
    Reviewing,
    /// The best experiment runs once again, to see whether it still does.
    Checking,
    /// The loop records a verdict.
    Recording,
    /// A loop is active between experiments.
    Between,
    /// A process is active; its step cannot be read.
    Working,
    /// No loop is active; the run continues by itself.
    RunningAlone,
    /// No loop is active; the run finished and is not recorded.
    RunOver,
    /// No loop is active; an experiment is open between two steps.
    Left,
    /// No loop is active and no experiment is open.
    Idle,
}

/// Derives what a session is doing.
pub fn activity(seen: Seen) -> Activity {
    match (seen.owned, seen.phase) {
        (true, None) => Activity::Working,
        (true, Some(_)) if seen.outage => Activity::Waiting,
        (true, Some(Phase::Running | Phase::Guarding | Phase::Confirming)) if seen.job == RunFound::Pending => {
            Activity::Paused
        }
        (true, Some(Phase::Idle | Phase::Waiting)) => Activity::Between,
        (true, Some(Phase::Proposing)) => Activity::Proposing,
        (true, Some(Phase::Committing)) => Activity::Committing,
        (true, Some(Phase::Running)) => Activity::Running,
        (true, Some(Phase::Guarding)) => Activity::Guarding,
        (true, Some(Phase::Confirming)) => Activity::Confirming,
        (true, Some(Phase::Reviewing)) => Activity::Reviewing,
        (true, Some(Phase::Checking)) => Activity::Checking,
        (true, Some(Phase::Recording | Phase::Settling)) => Activity::Recording,
        (false, None | Some(Phase::Idle)) => Activity::Idle,
        (
            false,
            Some(
                Phase::Proposing
                | Phase::Committing
                | Phase::Reviewing
                | Phase::Checking
                | Phase::Waiting
                | Phase::Settling,
            ),
        ) => Activity::Left,
        (false, Some(Phase::Running | Phase::Guarding | Phase::Confirming | Phase::Recording)) => match seen.job {
            RunFound::Pending | RunFound::Going => Activity::RunningAlone,
            RunFound::Over => Activity::RunOver,
            RunFound::Gone | RunFound::Unstarted => Activity::Left,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_an_owner_is_no_loop_and_an_agent_without_one_is_no_run() {
        use RunFound::{Going, Gone, Over};
        for (phase, owned, job, expected) in [
            (Some(Phase::Running), true, Going, Activity::Running),
            (Some(Phase::Running), true, Over, Activity::Running),
            (Some(Phase::Running), false, Going, Activity::RunningAlone),
            (Some(Phase::Running), false, Over, Activity::RunOver),
            (Some(Phase::Running), false, Gone, Activity::Left),
            (Some(Phase::Guarding), true, Going, Activity::Guarding),
            (Some(Phase::Guarding), false, Going, Activity::RunningAlone),
            (Some(Phase::Guarding), false, Over, Activity::RunOver),
            (Some(Phase::Confirming), true, Going, Activity::Confirming),
            (Some(Phase::Confirming), false, Going, Activity::RunningAlone),
            (Some(Phase::Confirming), false, Gone, Activity::Left),
            (Some(Phase::Reviewing), true, Going, Activity::Reviewing),
            (Some(Phase::Reviewing), false, Over, Activity::Left),
            (Some(Phase::Checking), true, Gone, Activity::Checking),
            (Some(Phase::Checking), false, Gone, Activity::Left),
            (Some(Phase::Proposing), true, Going, Activity::Proposing),
            (Some(Phase::Proposing), false, Going, Activity::Left),
            (Some(Phase::Settling), true, Over, Activity::Recording),
            (Some(Phase::Settling), false, Over, Activity::Left),
            (Some(Phase::Idle), true, Gone, Activity::Between),
            (Some(Phase::Idle), false, Gone, Activity::Idle),
            (None, true, Gone, Activity::Working),
            (None, false, Gone, Activity::Idle),
        ] {
            let seen = Seen { phase, owned, job, outage: false };
            assert_eq!(activity(seen), expected, "{phase:?} {owned} {job:?}");
        }
        let seen = Seen { phase: Some(Phase::Idle), owned: true, job: Gone, outage: true };
        assert_eq!(activity(seen), Activity::Waiting);
        assert_eq!(activity(Seen { owned: false, ..seen }), Activity::Idle, "nobody waits");
    }
}
