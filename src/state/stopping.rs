//! The end of a loop that was asked to stop after its experiments, as its journal tells it.

use super::Journal;
use crate::domain::{ExperimentId, Phase};

/// The open attempts of a loop that was asked to stop, by their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopping {
    /// *In place*: these are finished and recorded.
    After(Vec<ExperimentId>),
    /// With slots.
    Beside(StoppingBeside),
}

/// The open attempts of a loop with slots that was asked to stop, by their end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoppingBeside {
    /// Those whose runs finish first and are recorded.
    pub runs: Vec<ExperimentId>,
    /// Those whose agents finish first, and those that wait for a slot: their proposals are kept and not run.
    pub proposals: Vec<ExperimentId>,
    /// Set if the proposals stay ready for the queue of a cluster.
    pub stay_ready: bool,
    /// Those that beat their own base and wait until the session continues.
    pub winners: Vec<ExperimentId>,
    /// Set if a run of merged winners finishes first.
    pub train: bool,
}

impl Journal {
    /// Returns whether an engine executes the session's runs.
    pub fn is_on_cluster(&self) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.cluster.is_some())
    }

    /// Returns how the open attempts end if the loop is asked to stop after them.
    pub fn stopping(&self) -> Stopping {
        match self.home().is_one_of_many() {
            true => Stopping::Beside(self.stopping_beside()),
            false => Stopping::After(self.last_experiments()),
        }
    }

    fn stopping_beside(&self) -> StoppingBeside {
        let mut stopping = StoppingBeside { stay_ready: self.is_on_cluster(), ..StoppingBeside::default() };
        for (phase, open) in self.steps() {
            match phase {
                _ if open.trial.is_some() => stopping.train = true,
                Phase::Proposing | Phase::Committing => stopping.proposals.push(open.id),
                Phase::Waiting => stopping.winners.push(open.id),
                Phase::Running
                | Phase::Guarding
                | Phase::Confirming
                | Phase::Reviewing
                | Phase::Recording
                | Phase::Settling => {
                    stopping.runs.push(open.id);
                }
                Phase::Idle | Phase::Checking => {}
            }
        }
        stopping
    }

    /// The experiments after which a loop *in place* stops: a baseline that a change waits for is measured for that change's
    /// sake.
    fn last_experiments(&self) -> Vec<ExperimentId> {
        if self.tree.aside().is_some() {
            return vec![ExperimentId::BASELINE.next()];
        }
        let open = self.steps().filter(|(phase, _)| *phase != Phase::Checking);
        open.map(|(_, open)| open.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::{CommitId, Layout};
    use crate::rules::Trial;
    use crate::state::{Aside, OpenExperiment};

    fn journal(open: &[(Phase, u32)]) -> Journal {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        for (phase, id) in open {
            let base = CommitId::new("a".repeat(40));
            journal.enter(*phase, OpenExperiment::new((*id).into(), base, Timestamp::UNIX_EPOCH));
        }
        journal
    }

    #[test]
    fn in_place_the_loop_stops_after_what_is_open_or_waits_for_the_baseline() {
        let mut journal = journal(&[(Phase::Running, 3), (Phase::Checking, 4)]);
        assert_eq!(journal.stopping(), Stopping::After(vec![3.into()]));
        journal.tree.set_aside(Aside {
            commit: CommitId::new("b".repeat(40)),
            description: String::new(),
            direction: None,
            proposal: serde_json::Map::new(),
            reference: String::new(),
        });
        assert_eq!(journal.stopping(), Stopping::After(vec![1.into()]));
    }

    #[test]
    fn with_slots_each_step_ends_in_its_way() {
        let open = [(Phase::Proposing, 3), (Phase::Committing, 4), (Phase::Waiting, 5), (Phase::Guarding, 6)];
        let mut journal = Journal { layout: Some(Layout::of(2)), ..journal(&open) };
        let steps = StoppingBeside {
            runs: vec![6.into()],
            proposals: vec![3.into(), 4.into()],
            stay_ready: false,
            winners: vec![5.into()],
            train: false,
        };
        assert_eq!(journal.stopping(), Stopping::Beside(steps.clone()));
        journal.attempts[3].open.trial = Some(Trial::Afresh(5.into()));
        assert_eq!(journal.stopping(), Stopping::Beside(StoppingBeside { runs: Vec::new(), train: true, ..steps }));
    }
}
