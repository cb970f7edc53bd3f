//! The runs for the winners that wait, in the journal: the line asks for them, and open attempts make them.

use super::{Journal, OpenExperiment};
use crate::domain::{Contract, ExperimentId, Outcome, Phase};
use crate::rules::{History, Line, Standing, Trial};

impl Journal {
    /// Calls `act` with the line and the facts that it compares its winners with. Returns `None` without an incumbent.
    pub fn on_line<T>(
        &mut self,
        history: &History,
        contract: &Contract,
        may_ask: bool,
        act: impl FnOnce(&mut Line, &Standing) -> T,
    ) -> Option<T> {
        let (incumbent, number) = history.standing()?;
        let kept = history.records().iter().filter(|record| record.outcome == Outcome::Keep);
        let kept: Vec<ExperimentId> = kept.map(|record| record.id).collect();
        let running = self.running_trials();
        // With a threshold, no gain is large enough to remove a kept experiment.
        let min_delta =
            if contract.keep_above.is_some() { f64::INFINITY } else { contract.min_delta.value(number.as_ref()) };
        let standing = Standing {
            incumbent,
            number: number.as_ref(),
            direction: contract.metric.direction,
            min_delta,
            kept: &kept,
            running: &running,
            slots: self.layout.as_ref().map_or(1, |layout| layout.slots),
            may_ask,
        };
        Some(act(&mut self.line, &standing))
    }

    /// The attempt that makes this run.
    pub fn attempt_of(&self, trial: &Trial) -> Option<&OpenExperiment> {
        self.open_attempts().find(|open| open.trial.as_ref() == Some(trial))
    }

    /// The winners, and the attempts that are reviewed before they are.
    pub fn winners(&self) -> Vec<ExperimentId> {
        let reviewed = self.in_phase(Phase::Reviewing).map(|open| open.id);
        self.line.cars().map(|car| car.id).chain(reviewed).collect()
    }

    /// The runs that are under way.
    fn running_trials(&self) -> Vec<Trial> {
        let running = self.steps().filter(|(phase, _)| !matches!(phase, Phase::Waiting | Phase::Recording));
        running.filter_map(|(_, open)| open.trial.clone()).collect()
    }

    /// The attempts whose runs are over and of no more use: the line `wants` those runs again, or stands on another `incumbent`.
    pub fn useless_trials(&self, wants: &[Trial], incumbent: Option<ExperimentId>) -> Vec<ExperimentId> {
        let is_useless = |trial: &Trial| wants.contains(trial) || !self.line.uses(trial, incumbent);
        let waiting = self.in_phase(Phase::Waiting).filter(|open| open.trial.as_ref().is_some_and(is_useless));
        waiting.map(|open| open.id).collect()
    }
}
