//! The control of a gain with `--decide once`: the run of the experiment to beat, before a change that beat it is kept.

use super::lifecycle::Attempt;
use crate::domain::{ExperimentId, Number, Outcome, Phase, Record, RunRole};
use crate::rules::{Measured, control_due, controlled, describe_failure, is_confirmed, is_research, is_timed};
use crate::session::errors::SessionError;
use crate::session::store::{Store, commit_of, draft_of};
use crate::state::OpenRun;

impl Attempt {
    /// The experiment that is to run again before its draft is kept, with the number that it stands for.
    pub(super) fn to_control(&self, store: &Store) -> Option<(ExperimentId, Number)> {
        let Store { contract, history, journal, .. } = store;
        let draft =
            self.open.draft.as_ref().filter(|draft| draft.outcome == Outcome::Keep && draft.control.is_none())?;
        // One that has begun is awaited, whatever the settings say now.
        let has_begun = journal.find(self.open.id).is_some_and(|left| left.runs.iter().any(is_control));
        let compares = !is_confirmed(contract) && contract.keep_above.is_none();
        if !(contract.control || has_begun) || !compares || self.open.trial.is_some() || is_research(contract) {
            return None;
        }
        let rival = history.get(history.kept_at(&self.open.base)?)?;
        let (claimed, before) = draft.metric.number().zip(history.number_to_beat(rival))?;
        // A simplification may claim no gain. Beside others, the number may have moved since it was judged.
        if contract.simpler_wins.is_some() && !draft.metric.direction.better(claimed.value, before.value) {
            return None;
        }
        let others = journal.open_attempts().filter(|open| open.id != self.open.id);
        let winners = others.filter_map(|open| open.draft.as_deref());
        let is_due = || control_due(is_timed(&draft.metric), history.records().iter().chain(winners));
        (has_begun || is_due()).then_some((rival.id, before))
    }

    /// The control, which gets the seed of the run that it controls.
    pub(super) fn control_run(&self) -> OpenRun {
        let run = self.open.draft.as_ref().and_then(|draft| draft.runs.last());
        OpenRun { seed: run.and_then(|run| run.seed), ..OpenRun::new(RunRole::Control, 1) }
    }

    /// Takes in what a control gave: its draft has it, and the number to beat with it.
    pub(super) fn take_control(
        &mut self,
        store: &mut Store,
        control: &Attempt,
        measured: &Measured,
    ) -> Result<(), SessionError> {
        let draft = draft_of(&self.open)?;
        if let Some((id, before)) = self.to_control(store) {
            let now = measured.value.clone().filter(|_| measured.failure.is_none()).ok_or_else(|| {
                let name = &store.contract.metric.name;
                let failure = measured.failure.as_ref();
                failure.map(|it| describe_failure(it, name, &measured.ended, measured.run.as_ref())).unwrap_or_default()
            });
            let mut draft: Record = controlled(draft, (id, &before), now);
            draft.add_runs(measured.counted_run(Some(&commit_of(&control.open)?)), measured.sandbox);
            draft.carried.extend(control.run.carried().cloned());
            self.open.draft = Some(Box::new(draft));
        }
        let first = store.journal.find(self.open.id).and_then(|left| left.first_run().cloned());
        self.run = first.unwrap_or_else(|| self.run.clone());
        store.journal.forget_runs(self.open.id, is_control);
        self.enter(store, Phase::Confirming)
    }
}

fn is_control(run: &OpenRun) -> bool {
    run.role == RunRole::Control
}
