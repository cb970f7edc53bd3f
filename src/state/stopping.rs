//! The end of a loop that was asked to stop after its experiments, as its journal tells it.

use super::Journal;
use crate::domain::{ExperimentId, Phase};

/// What becomes of the open attempts of a loop that was asked to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopping {
    /// *In place*: these are finished and recorded.
    After(Vec<ExperimentId>),
    /// With slots.
    Beside(StoppingBeside),
}

/// What becomes of the open attempts of a loop with slots that was asked to stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoppingBeside {
    /// Those whose runs finish first and are recorded.
    pub runs: Vec<ExperimentId>,
    /// Those whose agents finish first, and those that wait for a slot: their proposals are kept and not run.
    pub proposals: Vec<ExperimentId>,
    /// Those that beat their own base and wait until the session continues.
    pub winners: Vec<ExperimentId>,
    /// Whether a run of merged winners finishes first.
    pub train: bool,
}

impl Journal {
    /// What becomes of the open attempts if the loop is asked to stop after them.
    pub fn stopping(&self) -> Stopping {
        match self.home().is_one_of_many() {
            true => Stopping::Beside(self.stopping_beside()),
            false => Stopping::After(self.last_experiments()),
        }
    }

    fn stopping_beside(&self) -> StoppingBeside {
        let mut stopping = StoppingBeside::default();
        for (phase, open) in self.steps() {
            match phase {
                _ if open.trial.is_some() => stopping.train = true,
                Phase::Proposing | Phase::Committing => stopping.proposals.push(open.id),
                Phase::Waiting => stopping.winners.push(open.id),
                Phase::Running | Phase::Guarding | Phase::Reviewing | Phase::Recording | Phase::Settling => {
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
