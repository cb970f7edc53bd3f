//! What is happening to a session, from what can be seen of it.

use serde::Serialize;

use super::RunFound;
use crate::domain::Phase;

/// What can be seen of a session without touching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The step that the journal names; absent when the journal cannot be read.
    pub phase: Option<Phase>,
    /// Whether a process has the session.
    pub owned: bool,
    /// The job of the open experiment, agent or run.
    pub job: RunFound,
    /// Whether the journal tells of an outage of the agent that is waited out.
    pub outage: bool,
}

/// What is happening to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The loop waits for the end of an outage of the agent.
    Waiting,
    /// The loop waits for the agent.
    Proposing,
    /// A change becomes a commit.
    Committing,
    /// The measuring command runs, and somebody waits for it.
    Running,
    /// The guards run, and somebody waits for them.
    Guarding,
    /// A verdict becomes a record and a row.
    Recording,
    /// A loop is at work, and no experiment is open.
    Between,
    /// Somebody is at work; at what cannot be read.
    Working,
    /// Nobody is at work, and the run goes on by itself.
    RunningAlone,
    /// Nobody is at work; the run is over, and nothing is recorded of it.
    RunOver,
    /// Nobody is at work, and the experiment is somewhere in between.
    Left,
    /// Nobody is at work, and no experiment is open.
    Idle,
}

/// Says what is happening.
pub fn activity(seen: Seen) -> Activity {
    match (seen.owned, seen.phase) {
        (true, None) => Activity::Working,
        (true, Some(_)) if seen.outage => Activity::Waiting,
        (true, Some(Phase::Idle)) => Activity::Between,
        (true, Some(Phase::Proposing)) => Activity::Proposing,
        (true, Some(Phase::Committing)) => Activity::Committing,
        (true, Some(Phase::Running)) => Activity::Running,
        (true, Some(Phase::Guarding)) => Activity::Guarding,
        (true, Some(Phase::Recording | Phase::Settling)) => Activity::Recording,
        (false, None | Some(Phase::Idle)) => Activity::Idle,
        (false, Some(Phase::Proposing | Phase::Committing | Phase::Settling)) => Activity::Left,
        (false, Some(Phase::Running | Phase::Guarding | Phase::Recording)) => match seen.job {
            RunFound::Going => Activity::RunningAlone,
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
