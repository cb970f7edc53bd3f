//! Runs beside which another process was on the GPU: whose presence counts, and that they are repeated.

use std::mem::take;

use super::lifecycle::Attempt;
use crate::domain::{FailureClass, GpuOther, Notice, RunRole};
use crate::exec::Exit;
use crate::measure::Verdict;
use crate::rules::{
    CARRIED_REPEATS, CarriedFate, Measured, OtherGpu, TAINT_REPEATS, carried_clause, changed_text, taint, tainting,
};
use crate::session::errors::{LayoutError, SessionError};
use crate::session::store::{RUN, Store};
use crate::session::tree::Workspace;
use crate::state::OpenAttempt;

/// How often a run in the user's tree is repeated because files changed during it.
const CHANGED_REPEATS: u32 = 2;

/// Why a run is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Files changed during it.
    Changed,
    /// Another process was on its GPU.
    Tainted,
    /// It ran on another model of GPU than the baseline.
    OtherGpu,
    /// It went on from what was there before it, or may have; or it had no number without what the user had there.
    Carried,
}

impl Attempt {
    /// Takes the number from a run during which others were on its GPUs, and gives those others. The baseline keeps its number,
    /// as the session needs one.
    pub(crate) fn taint(&self, store: &Store, seen: Vec<GpuOther>, verdict: &mut Verdict) -> Vec<GpuOther> {
        let class = verdict.failure.as_ref().map(|failure| failure.class);
        let others = tainting(seen, &self.known_on_gpus(store), class);
        if !others.is_empty() && !self.open.id.is_baseline() {
            verdict.failure = Some(taint(&others));
        }
        others
    }

    /// The processes that were on the GPUs when the baseline was measured.
    fn known_on_gpus(&self, store: &Store) -> Vec<GpuOther> {
        if let Some(baseline) = store.history.baseline() {
            return baseline.gpu_others.clone();
        }
        // While the baseline is being measured, those beside its first run, once that is repeated no more.
        let first = store.journal.find(self.open.id).and_then(OpenAttempt::first_run);
        match first.filter(|first| !self.run.is_first() && first.tainted == TAINT_REPEATS) {
            Some(_) => Exit::read(&store.folder.run(self.open.id), RUN).unwrap_or_default().gpu_others,
            None => Vec::new(),
        }
    }

    /// Returns why to repeat a finished run, if it is to be repeated. What makes its number worthless says nothing about
    /// the experiment. In a tree of `ar`'s own, files that change are the run's own doing if they change again, so that one
    /// repeat tells. *In place* the user may edit any file meanwhile, a protected one too.
    pub(crate) fn repeat_of(&self, measured: &Measured) -> Option<Repeat> {
        let class = measured.failure.as_ref().map(|failure| failure.class);
        let repeats = self.run.without.as_ref().map_or(0, |without| without.repeats);
        if !measured.carried.is_empty() && class != Some(FailureClass::Protected) && repeats < CARRIED_REPEATS {
            return Some(Repeat::Carried);
        }
        if measured.other_gpu.is_some() {
            return (self.run.moved < TAINT_REPEATS).then_some(Repeat::OtherGpu);
        }
        if !measured.gpu_others.is_empty() && self.run.tainted < TAINT_REPEATS {
            // Nobody reads the number of a check of the baseline.
            let has_number = !self.is_beside_first() || self.run.role != RunRole::Check;
            return has_number.then_some(Repeat::Tainted);
        }
        let is_disturbed = !self.open.id.is_baseline() && !measured.changed().is_empty();
        let (is_in_place, is_protected) = (self.open.beside.slot.is_none(), class == Some(FailureClass::Protected));
        let is_changed = class == Some(FailureClass::Changed)
            || is_disturbed && !is_protected
            // Its own change was checked before, so that the run or the user did this.
            || is_protected && is_in_place && measured.run.is_some();
        let most = if is_in_place { CHANGED_REPEATS } else { 1 };
        (is_changed && self.run.repeated < most && !self.is_beside_first()).then_some(Repeat::Changed)
    }

    /// Puts the tree back, which saves what somebody edited there, and makes the run ready once more.
    pub(crate) fn repeat_run(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        measured: &Measured,
        why: Repeat,
    ) -> Result<(), SessionError> {
        self.count_repeat(store, measured, why);
        self.enter_run(store)?;
        workspace.check_out(store, &self.open)?;
        self.prepare_run(workspace, store)
    }

    /// Counts a repeat of its run and tells of it. The journal is written when the run is made ready.
    pub(crate) fn count_repeat(&mut self, store: &mut Store, measured: &Measured, why: Repeat) {
        let said = match why {
            Repeat::Changed => match (&measured.failure, measured.changed()) {
                (Some(failure), changed) if changed.is_empty() => failure.excerpt.replace('\n', ", "),
                (_, changed) => changed_text(&changed),
            },
            Repeat::Tainted => GpuOther::clause(&measured.gpu_others),
            Repeat::OtherGpu => measured.other_gpu.as_ref().map(OtherGpu::clause).unwrap_or_default(),
            Repeat::Carried => carried_clause(&measured.carried),
        };
        store.note(Notice::RunRepeated { id: self.open.id, why: said });
        match why {
            Repeat::Changed => self.run.repeated += 1,
            Repeat::Tainted => self.run.tainted += 1,
            Repeat::OtherGpu => self.run.moved += 1,
            Repeat::Carried => self.run.without.get_or_insert_default().count(measured),
        }
    }

    /// Decides what becomes of that without which its run was repeated, and tells of it. Returns whether the run is to be
    /// repeated with it.
    pub(crate) fn settle_carried(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        measured: &Measured,
    ) -> Result<bool, SessionError> {
        let Some(without) = &mut self.run.without else { return Ok(false) };
        let (mut aside, mut back, mut needed) = (Vec::new(), Vec::new(), Vec::new());
        for (path, effect) in take(&mut without.tried) {
            match without.fate(effect, measured, workspace.is_users(store, &path)) {
                CarriedFate::Aside => {
                    without.paths.insert(path.display().to_string());
                    aside.push(path);
                }
                CarriedFate::Needed => {
                    workspace.let_runs_find(store, &path)?;
                    needed.push(path);
                }
                CarriedFate::Stays => {
                    workspace.let_stay(store, &path)?;
                    back.push(path);
                }
            }
        }
        let (id, with, value) = (self.open.id, without.value, measured.counted_value());
        let is_missed = with.is_some() && value.is_none() && !(back.is_empty() && needed.is_empty());
        if !aside.is_empty() {
            let text = |value: Option<f64>| value.map_or("no value".to_owned(), |value| value.to_string());
            let (metric, with, without) = (store.contract.metric.name.clone(), text(with), text(value));
            store.note(Notice::CarriedAside { id, paths: aside, metric, with, without });
        }
        if !needed.is_empty() {
            store.note(Notice::CarriedNeeded(needed));
        }
        if !back.is_empty() {
            let why = if is_missed { "the command fails without it" } else { "the value is the same without it" };
            store.note(Notice::CarriedBack { paths: back, why });
        }
        if !measured.carried.is_empty() {
            without.paths.extend(measured.carried.keys().map(|path| path.display().to_string()));
            store.note(Notice::CarriedStill { id, runs: without.repeats + 1, why: carried_clause(&measured.carried) });
        }
        Ok(is_missed)
    }

    /// The error for a run that an engine executes on another model of GPU each time. It is made again when the session goes on.
    pub(crate) fn on_other_gpu(&mut self, store: &Store, OtherGpu { measured, given }: OtherGpu) -> SessionError {
        self.run.starts = self.run.starts.saturating_sub(self.run.moved + 1);
        self.run.moved = 0;
        match self.forget_run(store) {
            Ok(()) => LayoutError::OtherGpu { measured, given }.into(),
            Err(error) => error,
        }
    }

    /// Tells that the baseline keeps the number of a tainted run, if it does.
    pub(crate) fn note_tainted_baseline(&self, store: &mut Store, measured: &Measured) {
        let keeps = self.open.id.is_baseline() && self.run.role == RunRole::Baseline && measured.failure.is_none();
        if keeps && !measured.gpu_others.is_empty() {
            let (runs, who) = (TAINT_REPEATS + 1, GpuOther::clause(&measured.gpu_others));
            store.note(Notice::BaselineTainted { runs, who });
        }
    }
}
