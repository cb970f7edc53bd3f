//! One execution of the measuring command: started, watched, measured.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::disturbed::{changed_text, is_changed};
use super::error::SessionError;
use super::follow::LogFollower;
use super::ignored::stamp;
use super::jobs::{RUN, RUN_FILES, check_folder, guard_name, run_variables};
use super::opened::commit_of;
use super::own_files::remove_file;
use super::room::full_elsewhere;
use super::run_log::point_run_log;
use super::shared::{Heartbeat, Shared};
use super::store::Store;
use super::supervise::{Deadline, Ending};
use super::workspace::Workspace;
use crate::crash;
use crate::domain::{
    Actor, Contract, Event, Failure, FailureClass, MetricSource, Metrics, Notice, Phase, Record, Run, ended_text,
};
use crate::exec::{ExecError, Executor, Exit, Job, Running, Started, Watched};
use crate::fs::{read_at_most, remove_left_over};
use crate::measure::{self, Found, LogSummary, Verdict, judge, metric_file};
use crate::rules::{
    LOST_RETRIES, Measured, RunFound, Silence, axis_values, is_empty_baseline, outside_cause, unranged,
};

/// The largest file that a metric is read from, in bytes: enough for a run that lists each of its steps.
const LARGEST_METRIC_FILE: u64 = 64 << 20;

/// How often the files of a job may be deleted in the moment in which it is started or picked up.
pub(super) const DELETIONS: u32 = 3;

/// An active run.
pub(super) struct RunWatch {
    job: Running,
    log: LogFollower,
    /// How long it had been running when this process began to watch.
    before: Duration,
    began: Instant,
}

impl Attempt {
    /// Notes the commit in the journal, removes the files of an earlier run, and enters the run in the journal unless the
    /// experiment is refused. From here on, an `exit.json` belongs to this run.
    pub(super) fn prepare_run(&mut self, workspace: &Workspace, store: &mut Store) -> Result<(), SessionError> {
        if self.open.refused.is_some() {
            return self.enter(store, Phase::Committing);
        }
        let folder = store.clear_run_folder(self.open.id)?;
        if self.phase == Phase::Running || !self.open.versions.is_empty() {
            // Without the files removed now, a lost run would look like one that was never started, and a version to be
            // reworked would have no log.
            self.enter(store, Phase::Committing)?;
            crash::point("running.left");
        }
        remove_left_over(&folder)?;
        if self.open.runs == 0 && !self.open.versions.is_empty() {
            store.folder.set_version_aside(self.open.id, self.open.versions.len(), store.contract.guards.len())?;
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
        store.folder.forget_artifacts(self.open.id)?;
        crash::point("running.folder_cleared");
        self.open.metric_file = metric_file_stamp(&store.contract.metric.source, workspace.root());
        self.open.runs += 1;
        self.enter(store, Phase::Running)?;
        self.is_prepared = true;
        crash::point("running.entered");
        Ok(())
    }

    /// Attaches to the run, or starts it if there is none. `None` for one that was lost since it was looked for.
    async fn take_run(&self, workspace: &mut Workspace, shared: &Shared<'_>) -> Result<Option<RunWatch>, SessionError> {
        let mut deletions = 0;
        loop {
            if !self.is_prepared {
                shared.await_files(self).await;
            }
            let folder = shared.store().folder.run(self.open.id);
            match shared.runs.found(&folder, RUN) {
                RunFound::Gone if !self.is_prepared => return Ok(None),
                RunFound::Gone | RunFound::Unstarted => {
                    shared.gate_of_run(&commit_of(&self.open)?, !workspace.is_linked).await?;
                    return self.start_run(workspace, &mut shared.store(), &shared.runs).map(Some);
                }
                RunFound::Going | RunFound::Over => {}
            }
            let attached = self.attach_run(&shared.store(), &shared.runs);
            match attached {
                // Its files were deleted meanwhile.
                Err(SessionError::Exec(ExecError::File { source, .. }))
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                run => {
                    workspace.recall_tree(&folder);
                    shared.store().begin_watch(Actor::Run, self.open.id)?;
                    return run.map(Some);
                }
            }
        }
    }

    /// Starts the command on its commit. A check ends with this process and is told that it is the best experiment, in a
    /// folder of its own: the files of both experiments stay as they are.
    pub(super) fn start_run(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        executor: &Executor,
    ) -> Result<RunWatch, SessionError> {
        let commit = commit_of(&self.open)?;
        workspace.make_ready(store, self.open.id, &commit)?;
        let folder = store.clear_run_folder(self.open.id)?;
        let checked = store.history.incumbent().filter(|_| self.phase == Phase::Checking).map(|best| best.id);
        let own = if checked.is_some() { check_folder(&folder) } else { folder.clone() };
        let log = own.join("run.log");
        let root = workspace.root().to_owned();
        if let Some(notice) =
            point_run_log(&root, workspace.repo.working_tree.is_tracked(Path::new("run.log"))?, &log, &store.folder)?
        {
            store.say(notice);
        }
        crash::point("running.log_linked");
        workspace.note_settings(store, self.open.id, &self.job())?;
        workspace.note_tree(&commit, checked.is_none().then_some(&*folder))?;
        self.note_before_run(workspace, store)?;
        let mut follower = LogFollower::new(log.clone(), &store.contract)?;
        store.begin_watch(Actor::Run, self.open.id)?;
        let contract = &store.contract;
        let mut job = executor.start(&Job {
            name: self.job(),
            command: contract.command.clone(),
            cwd: root,
            env: workspace.with_variables(run_variables(
                &contract.command,
                &contract.tag,
                checked.unwrap_or(self.open.id),
                &commit,
                &store.folder.state(),
                &own,
            )),
            folder,
            log: log.clone(),
            stdin: None,
            timeout: contract.timeout,
            silence: silence_of_runs(contract),
            grace: contract.grace,
            log_limit: None,
            tied: checked.is_some(),
            watched: metric_file_of(contract),
        })?;
        follower.hold(job.take_log());
        let timeout = contract.timeout.as_secs_f64();
        store.say(Event::RunStarted {
            id: self.open.id,
            commit,
            description: self.open.description.clone(),
            log,
            timeout,
            incumbent: store.to_beat().map(|(_, number)| number),
        });
        // The run is active meanwhile, and does not need it.
        store.repo.sync_deferred()?;
        Ok(RunWatch { job, log: follower, before: Duration::ZERO, began: Instant::now() })
    }

    /// Attaches to a run that another process started.
    fn attach_run(&self, store: &Store, executor: &Executor) -> Result<RunWatch, SessionError> {
        let folder = store.folder.run(self.open.id);
        let job = executor.attach(&folder, RUN)?;
        let log = LogFollower::new(folder.join("run.log"), &store.contract)?;
        let before = Started::read(&folder, RUN)
            .and_then(|started| Timestamp::now().duration_since(started.started).try_into().ok());
        Ok(RunWatch { job, log, before: before.unwrap_or_default(), began: Instant::now() })
    }

    /// Starts the run unless it is active, waits for it, at most until `deadline`, and measures it. Restarts a run that was lost
    /// with its machine or its shim a few times: that says nothing about the idea.
    pub(super) async fn measured(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        deadline: Deadline,
    ) -> Result<Ending<Box<Measured>>, SessionError> {
        loop {
            let ended = match self.take_run(workspace, shared).await? {
                Some(run) => self.watch_run(workspace, shared, run, deadline).await?,
                None => Ending::Lost,
            };
            match ended {
                Ending::Lost if shared.overtaken.borrow().contains(&self.open.id) => return Ok(Ending::Interrupted),
                Ending::Lost if self.open.runs <= LOST_RETRIES + u32::from(self.open.repeated) => {
                    self.run_again(workspace, &mut shared.store())?;
                }
                Ending::Done(measured) if self.is_to_repeat(&measured) => {
                    self.repeat_run(workspace, &mut shared.store(), &measured)?;
                    shared.tell()?;
                }
                ending => return Ok(ending),
            }
        }
    }

    /// Waits for a run, at most until `deadline`, and measures it.
    pub(super) async fn watch_run(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        run: RunWatch,
        deadline: Deadline,
    ) -> Result<Ending<Box<Measured>>, SessionError> {
        let RunWatch { mut job, mut log, before, began } = run;
        let mut heartbeat = Heartbeat::new();
        let id = self.open.id;
        let tick = || {
            log.look()?;
            let elapsed = before + began.elapsed();
            let last = log.scanner.last().cloned();
            shared.emit(Event::RunProgress { id, elapsed: elapsed.as_secs_f64(), last })?;
            shared.beat(&mut heartbeat, || json!({"experiment": id, "elapsed": elapsed.as_secs()}))
        };
        let ended = shared.wait_for(&mut job, deadline, tick).await?;
        if ended.is_over() {
            shared.put_right_after(id, &self.job()).await?;
        }
        if ended.is_over() && self.has_lost_tree(workspace, &mut shared.store())? {
            return Ok(Ending::Lost);
        }
        let exit = match ended.done() {
            Ok(Err(full @ ExecError::DiskFull { .. })) => {
                // Removing an open log would free no space.
                drop(log);
                return Err(self.spoilt(&mut shared.store(), full.into()));
            }
            Ok(exit) => exit?,
            Err(ending) => return Ok(ending),
        };
        crash::point("running.over");
        log.follow_name();
        while !log.look()? {}
        // If that fails, at least the number was read.
        let _ = log.put_back();
        let store = &mut *shared.store();
        let measured = self.measure(workspace, store, log, &exit)?;
        let what = format!("the run of experiment {}", self.open.id);
        if let Err(full) = store.refuse_spoilt(&what, measured.failure.is_some()) {
            return Err(self.spoilt(store, full));
        }
        // Somebody may delete it at this moment.
        if !measured.changed.is_empty() && self.has_lost_tree(workspace, store)? {
            return Ok(Ending::Lost);
        }
        Ok(Ending::Done(Box::new(measured)))
    }

    /// Whether the tree was deleted in which a run or a guard was executed: nobody knows what that saw. Its results are
    /// removed before the tree is made again, since afterwards nothing tells that it was missing.
    pub(super) fn has_lost_tree(&self, workspace: &mut Workspace, store: &mut Store) -> Result<bool, SessionError> {
        if !workspace.is_linked || workspace.is_standing() {
            return Ok(false);
        }
        self.forget_run(store)?;
        workspace.stand(store, &commit_of(&self.open)?)?;
        Ok(true)
    }

    /// Schedules a rerun after a full disk, without counting it as a start, as far as that can be written. Returns `full`.
    fn spoilt(&mut self, store: &mut Store, full: SessionError) -> SessionError {
        let folder = store.folder.run(self.open.id);
        self.open.runs = self.open.runs.saturating_sub(1);
        let mut without = |file| remove_file(&folder.join(file)).and_then(|()| self.enter(store, self.phase));
        if without("exit.json").is_err() {
            // Without its log, there is space for the journal.
            let _ = without("run.log");
        }
        full
    }

    /// Reads the number of a finished run, or the reason why there is none.
    fn measure(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        log: LogFollower,
        exit: &Exit,
    ) -> Result<Measured, SessionError> {
        let before = self.open.metric_file.as_deref();
        let (summary, mut verdict) = judge_run(log, &store.contract, workspace.root(), before, exit);
        if self.open.id.is_baseline() {
            verdict.failure.take_if(|failure| is_empty_baseline(&store.contract, failure.class, exit.exit));
        }
        let disturbance = workspace.compare_after_run(store, self.open.id, &commit_of(&self.open)?, &mut verdict)?;
        let is_changed_after = is_changed(&verdict);
        let (changed, disturbed) = self.disturbed_by(store, disturbance);
        let class = verdict.failure.as_ref().map(|failure| failure.class);
        if let Some(disturbed) = disturbed
            // What failed by itself has no number either.
            && (class.is_none() || is_changed_after || disturbed.class == FailureClass::Protected)
            && class != Some(FailureClass::Protected)
        {
            verdict.failure = Some(disturbed);
        }
        store.name_written_links(exit.started);
        let metrics: Metrics = summary.metrics.iter().map(|(name, number)| (name.clone(), number.value)).collect();
        store.tell_unranged(&metrics);
        let measured_bytes = exit.gpu_peak_bytes.unwrap_or(exit.peak_rss_bytes);
        Ok(Measured {
            outside_cause: verdict
                .failure
                .as_ref()
                .and_then(|it| outside_cause(it.class, exit.gpu_other_bytes, full_elsewhere().as_deref())),
            value: verdict.value,
            failure: verdict.failure,
            metrics,
            memory_gb: summary.memory_gb.or_else(|| gibibytes(measured_bytes)),
            run: Some(run_of(&store.contract.command, exit)),
            ended: ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds),
            changed,
        })
    }

    /// Restarts a run that was lost with its machine or its shim, or terminated by a process that was killed during its
    /// rollback.
    fn run_again(&mut self, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
        store.say(Notice::RunRestarted(self.open.id));
        workspace.check_out(store, &self.open)?;
        self.prepare_run(workspace, store)
    }
}

impl Store {
    /// Tells of axes without a range whose numbers are not within 0..1, of each once in a session.
    fn tell_unranged(&mut self, metrics: &Metrics) {
        let Some(composite) = &self.contract.composite else { return };
        let values = axis_values(composite, metrics);
        let mut notices = Vec::new();
        for (axis, number, counts) in unranged(composite, &values) {
            let was_so = |record: &Record| {
                unranged(composite, &axis_values(composite, &record.metrics)).any(|(known, ..)| known == axis)
            };
            if !self.history.records().iter().any(was_so) {
                notices.push(Notice::AxisUnranged { axis: axis.to_owned(), number, counts });
            }
        }
        notices.into_iter().for_each(|notice| self.say(notice));
    }
}

/// Reads the number, or the reason why there is none, from the log of a run in `root` and from how it ended. Ignores a metric
/// file with the same stamp as `before` the run, and counts none that changed after it.
pub(super) fn judge_run(
    log: LogFollower,
    contract: &Contract,
    root: &Path,
    before: Option<&str>,
    exit: &Exit,
) -> (LogSummary, Verdict) {
    let mut summary = log.scanner.finish();
    let in_file = |path: &Path, pointer: &str| read_metric_file(&root.join(path), pointer, before);
    let file = metric_file_of(contract).map(|path| root.join(path));
    let seen = file.as_deref().map(Watched::look);
    match (contract.deciding_composite(), &contract.metric.source) {
        (None, MetricSource::File { path, pointer }) => summary.found = in_file(path, pointer),
        (Some(axes), MetricSource::File { path, pointer }) => summary.put_composite(axes, |_, name| {
            // As a part of a JSON pointer (RFC 6901).
            let name = name.replace('~', "~0").replace('/', "~1");
            in_file(path, &format!("{pointer}/{name}"))
        }),
        (Some(axes), MetricSource::Log | MetricSource::Regex(_)) => summary.put_composite(axes, LogSummary::named),
        (None, MetricSource::Log | MetricSource::Regex(_)) => {}
    }
    let ending = measure::Ending {
        exit: exit.exit,
        signal: exit.signal,
        timed_out: exit.timed_out,
        oom_killed: exit.oom_killed,
        lost: false,
    };
    let mut verdict = judge(&summary, &ending);
    let is_changed = file.as_deref().map(Watched::look) != seen || exit.watched.is_some_and(|then| seen != Some(then));
    let is_of_file = |class| matches!(class, FailureClass::Nan | FailureClass::NoMetric | FailureClass::NoOutput);
    if is_changed && verdict.failure.as_ref().is_none_or(|failure| is_of_file(failure.class)) {
        let file: Vec<PathBuf> = metric_file_of(contract).into_iter().collect();
        verdict.failure = Some(Failure { class: FailureClass::Changed, excerpt: changed_text(&file) });
    }
    (summary, verdict)
}

/// The silence at which a run ends, where its contract has one.
pub(super) fn silence_of_runs(contract: &Contract) -> Option<Silence> {
    contract.caps.silence.map(|after| Silence { after, by_gpu: true })
}

/// A run as it ended, without its value.
pub(super) fn run_of(command: &str, exit: &Exit) -> Run {
    Run {
        command: command.to_owned(),
        seed: None,
        started: exit.started,
        seconds: exit.seconds,
        exit: exit.exit,
        signal: exit.signal,
        silent: exit.silent,
        value: None,
        commit: None,
    }
}

/// The file that the metric is read from, relative to the working tree, if it is read from one.
pub(super) fn metric_file_of(contract: &Contract) -> Option<PathBuf> {
    match &contract.metric.source {
        MetricSource::File { path, .. } => Some(path.into()),
        MetricSource::Log | MetricSource::Regex(_) => None,
    }
}

/// The stamp of the file that the metric is read from, if it is read from one.
pub(super) fn metric_file_stamp(source: &MetricSource, root: &Path) -> Option<String> {
    match source {
        MetricSource::File { path, .. } => stamp(&root.join(path)),
        _ => None,
    }
}

/// Bytes as GiB, rounded to the MiB; `None` for none.
fn gibibytes(bytes: u64) -> Option<f64> {
    const MIB: f64 = 1024.0 * 1024.0;
    (bytes > 0).then(|| ((bytes as f64 / MIB).round() / 1024.0 * 1e6).round() / 1e6)
}

/// The number in a JSON file, if this run wrote the file: with the stamp from before the run, it belongs to an earlier one.
fn read_metric_file(path: &Path, pointer: &str, before: Option<&str>) -> Option<Found> {
    if stamp(path).as_deref() == before {
        return None;
    }
    metric_file(&read_at_most(path, LARGEST_METRIC_FILE).ok()?, pointer).ok()
}
