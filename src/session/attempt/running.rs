//! The run of an attempt: prepared, started or picked up, watched, and started again if it was lost.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::{
    ActiveRun, MeasuringRun, RepeatReason, RunningChange, await_files, is_changed, metric_file_stamp, point_run_log,
    restore_after,
};
use crate::crash;
use crate::domain::{
    Actor, Contract, Environment, Event, FailureClass, Metrics, Notice, Number, Phase, Record, RunRole,
};
use crate::exec::{ExecError, Executor, Exit, Job, Started};
use crate::fs::remove_left_over;
use crate::machine::{Attempt, Made};
use crate::rules::{
    History, LOST_RETRIES, Measurement, OtherGpu, RunFound, WalledRole, axis_values, outside_cause,
    spoilt_by_full_disk, unranged,
};
use crate::session::errors::SessionError;
use crate::session::files::{clear_folder, full_elsewhere, refuse_spoilt, remove_file};
use crate::session::handlers::Workspace;
use crate::session::store::{Interrupt, RUN, RUN_FILES, Store, clear_run_folder, guard_name, job_place, run_name};
use crate::session::wait::{Deadline, Heartbeat, SessionContext, WaitEnd, gate_of_run};

/// Limit on retries after a job's files were deleted while it was started or picked up.
pub(crate) const DELETIONS: u32 = 3;

impl RunningChange {
    /// Removes the files of an earlier run, and enters the run in the journal unless the experiment is refused. From here on, an
    /// `exit.json` belongs to this run.
    pub(crate) fn prepare_run(&mut self, workspace: &Workspace, store: &mut Store) -> Result<(), SessionError> {
        if self.made.refused.is_some() {
            return self.enter(store, Attempt::Ready);
        }
        if self.run.is_first() {
            self.clear_first_run(store)?;
        } else {
            clear_folder(&self.run_folder(store)?)?;
        }
        if store.contract.holdout.is_some() {
            // What the evaluator gave for an earlier run there says nothing about this one.
            clear_folder(&self.hidden_folder(store)?)?;
        }
        crash::point("running.folder_cleared");
        self.run.metric_file = metric_file_stamp(&store.contract, workspace.root());
        self.run.starts += 1;
        if self.run.is_first() {
            self.enter(store, Attempt::Run)?;
        } else {
            self.enter_run(store)?;
        }
        self.is_prepared = true;
        crash::point("running.entered");
        Ok(())
    }

    /// Notes the commit in the journal, and removes the files of an earlier run, its guards and its artifacts.
    fn clear_first_run(&mut self, store: &mut Store) -> Result<(), SessionError> {
        let folder = clear_run_folder(&store.folder, self.id(), store.contract.guards.len(), &mut store.notices)?;
        if self.phase == Phase::Running || !self.made.head.versions.is_empty() {
            // Without the files removed now, a lost run would look like one that was never started, and a version to be
            // reworked would have no log.
            self.enter(store, Attempt::Ready)?;
            crash::point("running.left");
        }
        remove_left_over(&folder)?;
        if self.run.starts == 0 && !self.made.head.versions.is_empty() {
            store.folder.set_version_aside(self.id(), self.made.head.versions.len(), store.contract.guards.len())?;
            crash::point("running.version_set_aside");
        }
        for name in RUN_FILES {
            remove_file(&folder.join(name))?;
        }
        for number in 1..=store.contract.guards.len() {
            let name = guard_name(number);
            for kind in ["log", "job.json", "started.json", "exit.json"] {
                remove_file(&folder.join(format!("{name}.{kind}")))?;
            }
        }
        Ok(store.folder.forget_artifacts(self.id())?)
    }

    /// The folder of its run's own files.
    pub(crate) fn run_folder(&self, store: &Store) -> Result<PathBuf, SessionError> {
        let folder = store.folder.create_run(self.id())?;
        Ok(job_place(&folder, &run_name(&self.run)).0)
    }

    /// Attaches to the run, or starts it if there is none. `None` for one that was lost since it was looked for.
    async fn take_run(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Option<ActiveRun>, SessionError> {
        let mut deletions = 0;
        loop {
            if !self.is_prepared {
                await_files(shared, self.id(), &run_name(&self.run)).await;
            }
            let folder = self.run_folder(&shared.store())?;
            match shared.runs.found(&folder, RUN) {
                RunFound::Gone if !self.is_prepared => return Ok(None),
                RunFound::Gone | RunFound::Unstarted => {
                    // Further runs and checks passed it with what asked for them.
                    if self.run.is_first() {
                        gate_of_run(shared, &self.made.commit, !workspace.owner.is_one_of_many()).await?;
                    }
                    if !self.is_prepared {
                        self.note_metric_file(workspace, &mut shared.store())?;
                    }
                    return self.start_run(workspace, &mut shared.store(), &shared.runs).map(Some);
                }
                RunFound::Pending | RunFound::Going | RunFound::Over => {}
            }
            let attached = self.measuring(workspace, &shared.store())?.attach(&shared.runs);
            match attached {
                // Its files were deleted meanwhile.
                Err(SessionError::Exec(ExecError::File { source, .. }))
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                run => {
                    workspace.recall_tree(&folder);
                    workspace.recall_files(&folder, &self.made.commit, self.is_of_baseline());
                    shared.store().begin_detection(Actor::Run, self.id())?;
                    return run.map(Some);
                }
            }
        }
    }

    /// Notes the metric file as it is before a run that was entered earlier: a run that a full disk spoilt may have written it
    /// since.
    fn note_metric_file(&mut self, workspace: &Workspace, store: &mut Store) -> Result<(), SessionError> {
        let stamp = metric_file_stamp(&store.contract, workspace.root());
        if stamp == self.run.metric_file {
            return Ok(());
        }
        self.run.metric_file = stamp;
        self.enter_run(store)
    }

    /// Returns whether its run is a further one beside the attempt's first, which alone is told while both are active.
    pub(crate) fn is_beside_first(&self) -> bool {
        !self.run.is_first() && !matches!(self.phase, Phase::Checking | Phase::Confirming)
    }

    /// Its run, and where that takes place. A check or a control is told that it is the best experiment, and a run of the baseline for a
    /// change that it is the baseline, each in a folder of its own: the files of both experiments stay as they are.
    fn measuring<'a>(&self, workspace: &'a Workspace, store: &'a Store) -> Result<MeasuringRun<'a>, SessionError> {
        let commit = self.made.commit.clone();
        let told = match self.run.role {
            // On slots another one may have been kept since it began.
            RunRole::Check | RunRole::Control | RunRole::Verify => store.history.kept_at(&commit),
            RunRole::Baseline => store.history.baseline().map(|baseline| baseline.id),
            _ => None,
        };
        let folder = self.run_folder(store)?;
        Ok(MeasuringRun {
            role: self.run.role,
            seed: self.run.seed,
            contract: &store.contract,
            command: &store.contract.command,
            id: told.unwrap_or(self.id()),
            commit,
            state: store.folder.state(),
            wall: workspace.wall(store, &folder, &store.contract.command, &WalledRole::Run),
            folder,
            root: workspace.root(),
            variables: &workspace.variables,
            gpu_sharers: store.gpu_sharers(),
            metric_before: self.run.metric_file.clone(),
        })
    }

    /// Starts the command on its commit.
    pub(crate) fn start_run(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        executor: &Executor,
    ) -> Result<ActiveRun, SessionError> {
        let commit = self.made.commit.clone();
        workspace.make_ready(store, self.id(), &commit)?;
        if self.run.is_first() {
            clear_run_folder(&store.folder, self.id(), store.contract.guards.len(), &mut store.notices)?;
        }
        let run = self.measuring(workspace, store)?;
        let (role, log, folder) = (run.role, run.log(), run.folder);
        let is_tracked = workspace.repo.working_tree.is_tracked(Path::new("run.log"))?;
        if !self.is_sealed(&store.contract)
            && let Some(notice) = point_run_log(workspace.root(), is_tracked, &log, &store.folder)?
        {
            store.note(notice);
        }
        crash::point("running.log_linked");
        workspace.note_settings(store, self.id(), &run_name(&self.run))?;
        workspace.note_tree(store, &commit, (!role.is_tied()).then_some(&*folder))?;
        workspace.begin_carrying(store, &commit, &folder, self.is_of_baseline())?;
        self.note_before_run(workspace, store)?;
        store.begin_detection(Actor::Run, self.id())?;
        let run = self.measuring(workspace, store)?.start(executor)?;
        if !self.is_beside_first() {
            store.note(Event::RunStarted {
                id: self.id(),
                commit,
                description: self.made.head.description.clone(),
                log,
                timeout: store.contract.timeout.as_secs_f64(),
                incumbent: store.history.to_beat(&store.contract).map(|(_, number)| number),
            });
        }
        // The run is active meanwhile, and does not need it.
        store.repo.sync_deferred()?;
        Ok(run)
    }

    /// Starts the run unless it is active, waits for it, at most until `deadline`, and measures it. Restarts a run that was lost
    /// with its machine or its shim a few times: that says nothing about the idea.
    pub(crate) async fn measured(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<Box<Measurement>>, SessionError> {
        loop {
            let ended = match self.take_run(workspace, shared).await? {
                Some(run) => self.watch_run(workspace, shared, run, deadline).await?,
                None => WaitEnd::Lost,
            };
            match ended {
                WaitEnd::Lost if shared.overtaken.borrow().contains(&self.id()) => return Ok(WaitEnd::Interrupted),
                // The caller that asked for a further run decides whether it starts again.
                WaitEnd::Lost if !self.run.is_first() => return Ok(WaitEnd::Lost),
                WaitEnd::Lost if self.may_start_again() => {
                    self.run_again(workspace, &mut shared.store())?;
                }
                WaitEnd::Done(measured) => match self.repeat_of(&measured) {
                    // The same holds of its repeats.
                    Some(why) if self.is_beside_first() => {
                        let store = &mut *shared.store();
                        self.count_repeat(store, &measured, why);
                        self.forget_run(store)?;
                        return Ok(WaitEnd::Lost);
                    }
                    Some(why) => {
                        self.repeat_run(workspace, &mut shared.store(), &measured, why)?;
                        shared.publish()?;
                    }
                    None if self.settle_carried(workspace, &mut shared.store(), &measured)? => {
                        self.repeat_run(workspace, &mut shared.store(), &measured, RepeatReason::Carried)?;
                        shared.publish()?;
                    }
                    None => {
                        if let Some(other) = measured.other_gpu {
                            return Err(self.on_other_gpu(&shared.store(), other));
                        }
                        self.note_tainted_baseline(&mut shared.store(), &measured);
                        match self.measure_hidden(workspace, shared, deadline, measured).await? {
                            WaitEnd::Lost if self.run.is_first() && self.may_start_again() => {
                                self.run_again(workspace, &mut shared.store())?;
                            }
                            ended => return Ok(ended),
                        }
                    }
                },
                ending => return Ok(ending),
            }
        }
    }

    /// Returns whether its run is one of the baseline.
    fn is_of_baseline(&self) -> bool {
        self.id().is_baseline() || self.run.role == RunRole::Baseline
    }

    /// Returns whether it is a proposal of which nothing was measured, that may wait for another slot.
    fn is_proposal(&self) -> bool {
        let Made { head, before, .. } = &self.made;
        self.run.is_first() && head.trial().is_none() && before.is_none() && head.beside.slot.is_some()
    }

    /// Returns whether its run was cancelled before it began, so that it can wait for a slot as before.
    pub(crate) fn left_the_queue(&self, store: &Store) -> Result<bool, SessionError> {
        let folder = self.run_folder(store)?;
        let never_began = Job::ticket_of(&folder, RUN).is_some() && Started::read(&folder, RUN).is_none();
        Ok(never_began && self.is_proposal())
    }

    /// Puts it back among the proposals that wait for a slot.
    pub(crate) fn wait_for_slot(&mut self, store: &mut Store) -> Result<(), SessionError> {
        self.forget_run(store)?;
        self.run.starts = 0;
        self.enter(store, Attempt::Ready)
    }

    /// Returns whether its run starts again if it is lost.
    fn may_start_again(&self) -> bool {
        self.run.tries() <= LOST_RETRIES
    }

    /// Waits for a run, at most until `deadline`, and measures it.
    pub(crate) async fn watch_run(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        mut run: ActiveRun,
        deadline: Deadline,
    ) -> Result<WaitEnd<Box<Measurement>>, SessionError> {
        let mut heartbeat = Heartbeat::new();
        let id = self.id();
        let is_beside = self.is_beside_first();
        let is_proposal = self.is_proposal();
        let is_sealed = self.is_sealed(&shared.store().contract);
        let tick = |elapsed: Option<Duration>, last: Option<&Number>| {
            if is_beside {
                return Ok(Interrupt::None);
            }
            let seconds = elapsed.map(|elapsed| elapsed.as_secs());
            if let Some(elapsed) = elapsed {
                let last = last.filter(|_| !is_sealed);
                let last = last.map(|last| shared.store().history.in_own_unit(last.clone()));
                shared.emit(Event::RunProgress { id, elapsed: elapsed.as_secs_f64(), last })?;
            }
            shared.heartbeat(&mut heartbeat, || json!({"experiment": id, "elapsed": seconds}))?;
            // A proposal that waits in the queue loses nothing by waiting for the next loop.
            let leaves = elapsed.is_none() && is_proposal && shared.interrupts.asked() == Interrupt::AfterExperiment;
            Ok(if leaves { Interrupt::Now } else { Interrupt::None })
        };
        let ended = run.wait(shared, deadline, tick).await?;
        if ended.is_over() {
            restore_after(shared, id, &run_name(&self.run)).await?;
        }
        if ended.is_over() && self.has_lost_tree(workspace, &mut shared.store())? {
            return Ok(WaitEnd::Lost);
        }
        let exit = match ended.done() {
            Ok(Err(ExecError::NoWall { detail, .. })) if self.may_start_again() || self.is_beside_first() => {
                shared.store().note(Notice::NotStarted { id, why: detail });
                return Ok(WaitEnd::Lost);
            }
            Ok(Err(error @ ExecError::Evicted { .. })) => {
                // It says nothing about the change, and is no loss that counts.
                self.run.evicted += 1;
                let store = &mut *shared.store();
                store.note(Notice::Evicted { id, why: error.to_string() });
                self.forget_run(store)?;
                return Ok(WaitEnd::Lost);
            }
            Ok(Err(machine @ (ExecError::DiskFull { .. } | ExecError::NoWall { .. }))) => {
                // Removing an open log would free no space.
                drop(run);
                return Err(self.spoilt(&mut shared.store(), machine.into()));
            }
            Ok(exit) => exit?,
            Err(ending) => return Ok(ending),
        };
        crash::point("running.over");
        let ended = self.measure(workspace, &mut shared.store(), run, exit)?;
        // Somebody may delete it at this moment.
        let is_changed = matches!(&ended, WaitEnd::Done(measured) if !measured.changed().is_empty());
        if is_changed && workspace.owner.is_disposable() && workspace.is_vanishing(&self.made.commit).await? {
            self.has_lost_tree(workspace, &mut shared.store())?;
            return Ok(WaitEnd::Lost);
        }
        Ok(ended)
    }

    /// Measures a run that is over. It is lost if a full disk spoilt it, or its log lacks output.
    fn measure(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        run: ActiveRun,
        exit: Exit,
    ) -> Result<WaitEnd<Box<Measurement>>, SessionError> {
        let (measured, exit) = run.read(&store.contract, store.history.baseline(), exit)?;
        let disk = exit.disk;
        let measured = self.complete(workspace, store, measured, exit)?;
        let (what, failed) = (format!("the run of experiment {}", self.id()), measured.failure.is_some());
        if let Err(full) = refuse_spoilt(&store.repo, &store.folder, &what, failed) {
            return Err(self.spoilt(store, full));
        }
        let was_full = disk.room.is_some_and(|disk| spoilt_by_full_disk(disk, failed));
        if was_full {
            // The disk was full then and has room now. It is made again, which is no loss that counts.
            self.run.starts = self.run.starts.saturating_sub(1);
        } else if disk.torn {
            store.note(format!("the log of {what} lacks output that could not be written; no number of it counts"));
        }
        if was_full || disk.torn {
            self.forget_run(store)?;
            return Ok(WaitEnd::Lost);
        }
        Ok(WaitEnd::Done(Box::new(measured)))
    }

    /// Returns whether the tree of its run was deleted, which makes the results unreliable. If so, removes them before it
    /// rebuilds the tree, since afterwards nothing shows that the tree was missing.
    pub(crate) fn has_lost_tree(&mut self, workspace: &mut Workspace, store: &mut Store) -> Result<bool, SessionError> {
        if !is_tree_lost(workspace) {
            return Ok(false);
        }
        self.run.count_deletion();
        self.forget_run(store)?;
        workspace.check_out_again(store, &self.made.commit)?;
        Ok(true)
    }

    /// Removes the results of its run, so that it runs again.
    pub(crate) fn forget_run(&self, store: &Store) -> Result<(), SessionError> {
        let folder = self.run_folder(store)?;
        RUN_FILES.iter().try_for_each(|name| remove_file(&folder.join(name)))
    }

    /// Schedules a rerun after a full disk, without counting it as a start. Returns `full`.
    fn spoilt(&mut self, store: &mut Store, full: SessionError) -> SessionError {
        let Ok(folder) = self.run_folder(store) else { return full };
        self.run.starts = self.run.starts.saturating_sub(1);
        let mut without = |file| remove_file(&folder.join(file)).and_then(|()| self.enter_run(store));
        // Without its log, there is space for the journal. Without its files, it was not started.
        if without("exit.json").is_err() && without("run.log").is_err() {
            let _ = self.forget_run(store);
        }
        full
    }

    /// Adds to a measurement what the working tree and the machine say of it. It has no value if files changed during the run.
    fn complete(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        mut measured: Measurement,
        exit: Exit,
    ) -> Result<Measurement, SessionError> {
        let failure = &mut measured.failure;
        measured.carried = workspace.find_carried(store, &exit)?;
        let disturbance = workspace.compare_after_run(store, self.id(), &self.made.commit, failure)?;
        let is_changed_after = is_changed(failure.as_ref());
        measured.disturbance = self.counted(store, &workspace.file_terms, disturbance)?;
        // Changes during the baseline come from its own run, so they do not count.
        let disturbed = measured.disturbance.failure().filter(|_| !self.id().is_baseline());
        let class = failure.as_ref().map(|failure| failure.class);
        if let Some(disturbed) = disturbed
            // A run that failed by itself keeps its failure: it has no value anyway.
            && (class.is_none() || is_changed_after || disturbed.class == FailureClass::Protected)
            && class != Some(FailureClass::Protected)
        {
            *failure = Some(disturbed);
        }
        measured.gpu_others = self.taint(store, exit.memory.gpu_others, failure);
        measured.outside_cause = failure
            .as_ref()
            .and_then(|it| outside_cause(it.class, exit.memory.gpu_other_bytes, full_elsewhere().as_deref()));
        if let Some(run) = &mut measured.run {
            run.tainted = self.run.tainted;
        }
        store.name_written_links(exit.started);
        if let Some(number) = measured.value.as_ref().filter(|_| store.history.baseline().is_some()) {
            store.name_unit_change(number);
        }
        if !self.is_beside_first() {
            let unranged = unranged_axes(&store.contract, &store.history, &measured.metrics);
            unranged.into_iter().for_each(|notice| store.note(notice));
        }
        measured.node = exit.node.map(|node| Environment {
            host: exit.host,
            gpu: node.gpu,
            gpus: node.gpus,
            driver: node.driver,
            ..Environment::default()
        });
        let baseline = store.history.baseline().and_then(|baseline| baseline.origin.environment.gpu.as_deref());
        let node = measured.node.as_ref().and_then(|node| node.gpu.as_deref());
        measured.other_gpu = OtherGpu::between(baseline, node);
        Ok(measured)
    }

    /// Restarts a run that was lost with its machine or its shim, or terminated by a process that was killed during its
    /// rollback.
    pub(crate) fn run_again(&mut self, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
        store.note(format!("restarted the run of experiment {}, which was lost", self.id()));
        workspace.check_out(store, &self.made)?;
        self.prepare_run(workspace, store)
    }
}

/// Returns whether the tree of a job was deleted.
pub(crate) fn is_tree_lost(workspace: &Workspace) -> bool {
    workspace.owner.is_disposable() && !workspace.is_whole()
}

/// Names axes without a range whose numbers are not within 0..1, unless an earlier experiment had such a number.
fn unranged_axes(contract: &Contract, history: &History, metrics: &Metrics) -> Vec<Notice> {
    let Some(composite) = &contract.composite else { return Vec::new() };
    let values = axis_values(composite, metrics);
    let was_so = |axis: &str, record: &Record| {
        unranged(composite, &axis_values(composite, &record.metrics)).any(|(known, ..)| known == axis)
    };
    let unranged = unranged(composite, &values);
    let new = unranged.filter(|(axis, ..)| !history.records().iter().any(|record| was_so(axis, record)));
    new.map(|(axis, number, counts)| Notice::AxisUnranged { axis: axis.to_owned(), number, counts }).collect()
}
