//! The hidden part of a run: the evaluator of the hidden split, in the tree that the run left, before that is cleaned.

use std::path::{Path, PathBuf};

use super::{ActiveRun, MeasuredChange, MeasuringRun, RunningChange, is_tree_lost, restore_after};
use crate::crash;
use crate::domain::{Contract, ExperimentId, Failure, FailureClass, Number, RunResult, RunRole};
use crate::exec::ExecError;
use crate::rules::{
    HiddenEntry, HiddenRun, LOST_RETRIES, MAX_FRESH, Measurement, RunFound, WalledRole, describe_failure, is_confirmed,
};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::clear_folder;
use crate::session::handlers::Workspace;
use crate::session::store::{Interrupt, RUN, Store, run_name};
use crate::session::wait::{Deadline, SessionContext, WaitEnd};

/// The variables that an evaluator gets, of a run with this folder.
pub(crate) fn evaluator_variables(of_run: &Path) -> [(String, String); 2] {
    let told = ("AR_RUN_DIR".to_owned(), of_run.to_string_lossy().into_owned());
    // What an agent left in the user's folder of packages would run with the evaluator.
    [told, ("PYTHONNOUSERSITE".to_owned(), "1".to_owned())]
}

impl RunningChange {
    /// Returns whether the hidden evaluator follows its run: one that counts, and no screen.
    fn has_hidden_part(&self, contract: &Contract) -> bool {
        let counts = match self.run.role {
            RunRole::Baseline => true,
            RunRole::Verify => contract.decides_on_hidden(),
            RunRole::Confirm | RunRole::Trial => is_confirmed(contract),
            _ => false,
        };
        counts && contract.holdout.is_some()
    }

    /// Has the hidden evaluator follow the run of a change that is to be kept, where one run decides; its value may discard the change.
    ///
    /// # Errors
    ///
    /// Its value cannot be noted.
    pub(crate) async fn look_hidden(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
        (measured, visible): (&mut MeasuredChange, RunResult),
    ) -> Result<WaitEnd<()>, SessionError> {
        let noted = match self.evaluated_and_noted(workspace, shared, deadline, visible).await?.done() {
            Ok(noted) => noted,
            Err(ending) => return Ok(ending),
        };
        let store = &mut *shared.store();
        match noted {
            Ok(()) => measured.decide_hidden(store),
            Err(why) if store.contract.decides_on_hidden() => measured.fail_hidden(store, why),
            Err(_) => Ok(()),
        }
        .map(WaitEnd::Done)
    }

    /// Has the hidden evaluator follow a run with this visible result, and notes both values; gives the reason why it gave no number.
    async fn evaluated_and_noted(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
        visible: RunResult,
    ) -> Result<WaitEnd<Result<(), String>>, SessionError> {
        let (value, seconds) = match self.evaluated_number(workspace, shared, deadline).await?.done() {
            Ok(Ok(number)) => number,
            Ok(Err(why)) => return Ok(WaitEnd::Done(Err(why))),
            Err(ending) => return Ok(ending),
        };
        self.note_hidden(&mut shared.store(), visible, Some(value), seconds)?;
        crash::point("hidden.noted");
        Ok(WaitEnd::Done(Ok(())))
    }

    /// Has the hidden evaluator follow a run. Gives its number and its duration in seconds, or the reason why it gave none.
    async fn evaluated_number(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<Result<(Number, f64), String>>, SessionError> {
        let hidden = match self.evaluated(workspace, shared, deadline).await?.done() {
            Ok(hidden) => hidden,
            Err(ending) => return Ok(ending),
        };
        crash::point("hidden.over");
        let value = hidden.value.clone().filter(|_| hidden.failure.is_none());
        let seconds = hidden.run.as_ref().map_or(0.0, |run| run.seconds);
        let number = value.map(|value| (value, seconds));
        Ok(WaitEnd::Done(number.ok_or_else(|| self.why_failed(&shared.store(), &hidden))))
    }

    /// Notes a run's values where no agent can read them.
    fn note_hidden(
        &self,
        store: &mut Store,
        visible: RunResult,
        hidden: Option<Number>,
        seconds: f64,
    ) -> Result<(), SessionError> {
        let (experiment, is_first) = (self.of_experiment(), self.run.is_first());
        store.note_hidden(HiddenEntry::Run(Box::new(HiddenRun { experiment, is_first, visible, hidden, seconds })))
    }

    /// The reason why the evaluator gave no number, in words.
    fn why_failed(&self, store: &Store, hidden: &Measurement) -> String {
        let failure = hidden.failure.clone().unwrap_or_else(|| Failure::new(FailureClass::NoMetric, ""));
        let name = store.contract.of_hidden().map(|own| own.metric.name).unwrap_or_default();
        describe_failure(&failure, &name, &hidden.ended, hidden.run.as_ref())
    }

    /// Returns whether no agent may learn the value of its run.
    pub(crate) fn is_sealed(&self, contract: &Contract) -> bool {
        contract.decides_on_hidden() && self.has_hidden_part(contract) && !self.run.is_first()
    }

    /// Returns whether a slow evaluator is spared: it follows the last fresh run alone, without which nothing is kept.
    fn spares_evaluator(&self, store: &Store) -> bool {
        let is_last = self.run.number as usize + usize::from(self.made.head.is_second_look()) >= MAX_FRESH;
        matches!(self.run.role, RunRole::Confirm | RunRole::Trial)
            && !is_last
            && store.contract.decides_on_hidden()
            && store.hidden.is_slow()
    }

    /// The experiment that its run is one of.
    fn of_experiment(&self) -> ExperimentId {
        if self.run.role == RunRole::Baseline { ExperimentId::BASELINE } else { self.id() }
    }

    /// Has the hidden evaluator follow a run with a number, where one follows, and notes both values where no agent can read them.
    /// For a run that verifies, the comparison notes them.
    /// An evaluator that fails is a guard that fails, whose output no agent sees.
    ///
    /// # Errors
    ///
    /// It fails on the first run of the baseline; its values cannot be noted.
    pub(crate) async fn measure_hidden(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
        mut measured: Box<Measurement>,
    ) -> Result<WaitEnd<Box<Measurement>>, SessionError> {
        let visible = {
            let store = shared.store();
            let is_noted = |run: &HiddenRun| {
                run.is(self.of_experiment(), self.run.role, self.run.seed) && run.commit() == Some(&self.made.commit)
            };
            let is_due = self.has_hidden_part(&store.contract) && !store.hidden.runs().iter().any(is_noted);
            measured.result(&self.made.commit).filter(|_| is_due)
        };
        let Some(visible) = visible else { return Ok(WaitEnd::Done(measured)) };
        if self.run.role == RunRole::Verify {
            // An abandoned run may have had this number.
            let folder = self.hidden_folder(&shared.store())?;
            clear_folder(&folder)?;
            let number = match self.evaluated_number(workspace, shared, deadline).await?.done() {
                Ok(number) => number,
                Err(ending) => return Ok(ending),
            };
            let named = |why| format!("{why}; see {}", folder.join("run.log").display());
            measured.hidden = Some(number.map(|(value, _)| value).map_err(named));
            return Ok(WaitEnd::Done(measured));
        }
        if self.spares_evaluator(&shared.store()) {
            self.note_hidden(&mut shared.store(), visible, None, 0.0)?;
            return Ok(WaitEnd::Done(measured));
        }
        let why = match self.evaluated_and_noted(workspace, shared, deadline, visible).await?.done() {
            Ok(Ok(())) => return Ok(WaitEnd::Done(measured)),
            Ok(Err(why)) => why,
            Err(ending) => return Ok(ending),
        };
        let store = shared.store();
        let decides = store.contract.decides_on_hidden();
        if self.id().is_baseline() && (decides || self.run.is_first()) {
            let log = self.hidden_folder(&store)?.join("run.log");
            return Err(refuse(
                CannotStart,
                format!("the command of --holdout failed after a run of the baseline: {why}"),
            )
            .hint(format!("see {}; it runs in the tree that the run left", log.display()))
            .into());
        }
        if decides {
            measured.hidden = Some(Err(why));
            measured.failure = Some(Failure::new(FailureClass::GuardFailed, ""));
        }
        Ok(WaitEnd::Done(measured))
    }

    /// The folder of the evaluator's own files.
    pub(super) fn hidden_folder(&self, store: &Store) -> Result<PathBuf, SessionError> {
        let folder = store.folder.create_run(self.id())?;
        Ok(folder.join(RunRole::hidden_folder(&self.run.role.folder(self.run.number))))
    }

    /// Runs the evaluator, or picks it up. One that was cut off runs again where the run's tree is as it was; else the run is lost
    /// with it.
    async fn evaluated(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<Measurement>, SessionError> {
        let (folder, contract) = {
            let store = shared.store();
            (self.hidden_folder(&store)?, store.contract.of_hidden().unwrap_or_else(|| store.contract.clone()))
        };
        let mut lost = 0;
        loop {
            shared.runs.await_files(&folder, RUN).await;
            let found = shared.runs.found(&folder, RUN);
            if found == RunFound::Gone && !self.has_its_tree(workspace)? {
                return self.lose_both(&folder, &shared.store());
            }
            let mut run = self.active_evaluator(workspace, shared, (&folder, found), &contract)?;
            let ended = run.wait(shared, deadline, |_, _| Ok(Interrupt::None)).await?;
            if ended.is_over() {
                restore_after(shared, self.id(), &run_name(&self.run)).await?;
            }
            match ended.done::<Measurement>() {
                Ok(Ok(exit)) => return Ok(WaitEnd::Done(run.read(&contract, None, exit)?.0)),
                Ok(Err(ExecError::Lost { .. } | ExecError::Evicted { .. } | ExecError::NoWall { .. }))
                | Err(WaitEnd::Lost)
                    if lost < LOST_RETRIES =>
                {
                    lost += 1;
                    if !self.has_its_tree(workspace)? {
                        return self.lose_both(&folder, &shared.store());
                    }
                    clear_folder(&folder)?;
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(WaitEnd::Interrupted) => {
                    clear_folder(&folder)?;
                    return Ok(WaitEnd::Interrupted);
                }
                Err(ending) => return Ok(ending),
            }
        }
    }

    /// Forgets the run together with its evaluator, as what the run left is gone.
    fn lose_both(&self, folder: &Path, store: &Store) -> Result<WaitEnd<Measurement>, SessionError> {
        clear_folder(folder)?;
        self.forget_run(store)?;
        Ok(WaitEnd::Lost)
    }

    /// Returns whether the tree is there and its tracked files are those of the run's commit.
    fn has_its_tree(&self, workspace: &Workspace) -> Result<bool, SessionError> {
        Ok(!is_tree_lost(workspace) && workspace.changed_meanwhile(&self.made.commit)?.0.is_empty())
    }

    /// Starts the evaluator, or attaches to it. It finds what the run left in the tree and in `$AR_RUN_DIR`.
    fn active_evaluator(
        &self,
        workspace: &Workspace,
        shared: &SessionContext<'_>,
        (folder, found): (&Path, RunFound),
        contract: &Contract,
    ) -> Result<ActiveRun, SessionError> {
        let store = &*shared.store();
        let of_run = self.run_folder(store)?;
        let variables = [&workspace.variables[..], &evaluator_variables(&of_run)].concat();
        let evaluator = MeasuringRun {
            role: self.run.role,
            seed: self.run.seed,
            contract,
            command: &contract.command,
            id: self.of_experiment(),
            commit: self.made.commit.clone(),
            state: store.folder.state(),
            folder: folder.to_owned(),
            root: workspace.root(),
            variables: &variables,
            gpu_sharers: store.gpu_sharers(),
            metric_before: None,
            wall: workspace.wall(store, folder, &contract.command, &WalledRole::Evaluator(of_run)),
        };
        if matches!(found, RunFound::Pending | RunFound::Going | RunFound::Over) {
            return evaluator.attach(&shared.runs);
        }
        clear_folder(folder)?;
        evaluator.start(&shared.runs)
    }
}
