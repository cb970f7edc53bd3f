//! One execution of the measuring command: started, watched, measured.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::error::SessionError;
use super::follow::LogFollower;
use super::ignored::stamp;
use super::jobs::{RUN, RUN_FILES, guard_name, run_variables};
use super::open::Session;
use super::opened::commit_of;
use super::own_files::remove_file;
use super::room::full_elsewhere;
use super::run_log::point_run_log;
use super::supervise::{Deadline, Ending, Exited, supervise};
use crate::crash;
use crate::domain::{Actor, Event, MetricSource, Notice, Phase, Run, ended_text};
use crate::exec::{ExecError, Exit, Job, Running, Started};
use crate::fs::{read_at_most, remove_left_over};
use crate::measure::{self, Found, LogSummary, Verdict, judge, metric_file};
use crate::rules::{LOST_RETRIES, Measured, RunFound, outside_cause};
use crate::state::read_json;

/// The largest file that a metric is read from, in bytes: enough for a run that lists each of its steps.
const LARGEST_METRIC_FILE: u64 = 64 << 20;

/// How often a heartbeat is written.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(60);

/// How often the files of a job may be deleted in the moment in which it is started or picked up.
pub(super) const DELETIONS: u32 = 3;

/// An active run.
struct RunWatch {
    job: Running,
    log: LogFollower,
    /// How long it had been running when this process began to watch.
    before: Duration,
    began: Instant,
}

impl Attempt {
    /// Notes the commit in the journal, removes the files of an earlier run, and enters the run in the journal unless the
    /// experiment is refused. From here on, an `exit.json` belongs to this run.
    pub(super) fn prepare_run(&mut self, session: &mut Session<'_>) -> Result<(), SessionError> {
        if self.open.refused.is_some() {
            return self.enter(session, Phase::Committing);
        }
        let folder = session.store.clear_run_folder(self.open.id)?;
        if session.store.journal.phase == Phase::Running || !self.open.versions.is_empty() {
            // Without the files removed now, a lost run would look like one that was never started, and a version to be
            // reworked would have no log.
            self.enter(session, Phase::Committing)?;
            crash::point("running.left");
        }
        remove_left_over(&folder)?;
        if self.open.runs == 0 && !self.open.versions.is_empty() {
            session.store.folder.set_version_aside(
                self.open.id,
                self.open.versions.len(),
                session.store.contract.guards.len(),
            )?;
            crash::point("running.version_set_aside");
        }
        for name in RUN_FILES {
            remove_file(&folder.join(name))?;
        }
        for number in 1..=session.store.contract.guards.len() {
            let name = guard_name(number);
            for kind in ["log", "job.json", "started.json", "exit.json"] {
                remove_file(&folder.join(format!("{name}.{kind}")))?;
            }
        }
        crash::point("running.folder_cleared");
        self.open.metric_file = metric_file_stamp(&session.store.contract.metric.source, session.store.repo.worktree());
        self.open.runs += 1;
        self.enter(session, Phase::Running)?;
        self.is_prepared = true;
        crash::point("running.entered");
        Ok(())
    }

    /// Attaches to the run, or starts it if there is none.
    async fn take_run(&self, session: &mut Session<'_>) -> Result<RunWatch, SessionError> {
        let mut deletions = 0;
        loop {
            if !self.is_prepared {
                session.await_files(&self.open).await;
            }
            if matches!(
                session.executor.found(&session.store.folder.run(self.open.id), RUN),
                RunFound::Gone | RunFound::Unstarted
            ) {
                return self.start_run(session);
            }
            match self.attach_run(session) {
                // Its files were deleted meanwhile.
                Err(SessionError::Exec(ExecError::File { source, .. }))
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                run => {
                    session.store.begin_watch(Actor::Run, self.open.id)?;
                    return run;
                }
            }
        }
    }

    fn start_run(&self, session: &mut Session<'_>) -> Result<RunWatch, SessionError> {
        session.check_room()?;
        let commit = commit_of(&self.open)?;
        session.workspace.put_protected_back(&mut session.store, self.open.id, &commit)?;
        let folder = session.store.clear_run_folder(self.open.id)?;
        let log = folder.join("run.log");
        let root = session.store.repo.worktree().to_owned();
        if let Some(notice) = point_run_log(
            &root,
            session.store.repo.working_tree.is_tracked(Path::new("run.log"))?,
            &log,
            &session.store.folder,
        )? {
            session.emit(notice)?;
        }
        crash::point("running.log_linked");
        let mut follower = LogFollower::new(log.clone(), &session.store.contract.metric)?;
        session.store.begin_watch(Actor::Run, self.open.id)?;
        let contract = &session.store.contract;
        let mut job = session.executor.start(&Job {
            name: RUN.into(),
            command: contract.command.clone(),
            cwd: root,
            env: run_variables(&contract.tag, self.open.id, &session.store.folder.state(), &folder),
            folder,
            log: log.clone(),
            stdin: None,
            timeout: contract.timeout,
            grace: contract.grace,
            log_limit: None,
            tied: false,
        })?;
        follower.hold(job.take_log());
        let timeout = contract.timeout.as_secs_f64();
        session.emit(Event::RunStarted {
            id: self.open.id,
            commit,
            description: self.open.description.clone(),
            log,
            timeout,
            incumbent: session.store.history.best().map(|(_, number)| number),
        })?;
        // The run is active meanwhile, and does not need it.
        session.store.repo.sync_deferred()?;
        Ok(RunWatch { job, log: follower, before: Duration::ZERO, began: Instant::now() })
    }

    /// Attaches to a run that another process started.
    fn attach_run(&self, session: &Session<'_>) -> Result<RunWatch, SessionError> {
        let folder = session.store.folder.run(self.open.id);
        let job = session.executor.attach(&folder, RUN)?;
        let log = LogFollower::new(folder.join("run.log"), &session.store.contract.metric)?;
        let started: Option<Started> = read_json(&folder.join("started.json")).unwrap_or_default();
        let before = started.and_then(|started| Timestamp::now().duration_since(started.started).try_into().ok());
        Ok(RunWatch { job, log, before: before.unwrap_or_default(), began: Instant::now() })
    }

    /// Starts the run unless it is active, waits for it, at most until `deadline`, and measures it. Restarts a run that was lost
    /// with its machine or its shim a few times: that says nothing about the idea.
    pub(super) async fn measured(
        &mut self,
        session: &mut Session<'_>,
        deadline: Deadline,
    ) -> Result<Ending<Box<Measured>>, SessionError> {
        loop {
            let run = self.take_run(session).await?;
            match self.watch_run(session, run, deadline).await? {
                Ending::Lost if self.open.runs <= LOST_RETRIES => self.run_again(session)?,
                ending => return Ok(ending),
            }
        }
    }

    /// Waits for a run, at most until `deadline`, and measures it.
    async fn watch_run(
        &mut self,
        session: &mut Session<'_>,
        run: RunWatch,
        deadline: Deadline,
    ) -> Result<Ending<Box<Measured>>, SessionError> {
        let RunWatch { mut job, mut log, before, began } = run;
        let mut last_beat = Instant::now();
        let id = self.open.id;
        let tick = |session: &mut Session<'_>| {
            log.look()?;
            let elapsed = before + began.elapsed();
            session.emit(Event::RunProgress {
                id,
                elapsed: elapsed.as_secs_f64(),
                last: log.scanner.last().cloned(),
            })?;
            if last_beat.elapsed() >= HEARTBEAT {
                last_beat = Instant::now();
                let detail = json!({"experiment": id, "elapsed": elapsed.as_secs()});
                session.store.heal()?;
                session.events.log.heartbeat(session.store.now(), &detail)?;
                session.store.watch_again(&session.store.folder.logs());
                session.store.write_journal()?;
            }
            Ok(())
        };
        let ended = self.wait_for(session, &mut job, deadline, tick).await?;
        if ended.is_over() {
            self.put_right_after(session, RUN).await?;
        }
        let exit = match ended.done() {
            Ok(Err(full @ ExecError::DiskFull { .. })) => {
                // Removing an open log would free no space.
                drop(log);
                return Err(self.spoilt(session, full.into()));
            }
            Ok(exit) => exit?,
            Err(ending) => return Ok(ending),
        };
        crash::point("running.over");
        log.follow_name();
        while !log.look()? {}
        // If that fails, at least the number was read.
        let _ = log.put_back();
        let measured = self.measure(session, log, &exit)?;
        let what = format!("the run of experiment {}", self.open.id);
        if let Err(full) = session.store.refuse_spoilt(&what, measured.failure.is_some()) {
            return Err(self.spoilt(session, full));
        }
        Ok(Ending::Done(Box::new(measured)))
    }

    /// Waits for a job, at most until `deadline`, and calls `tick` meanwhile.
    pub(super) async fn wait_for(
        &self,
        session: &mut Session<'_>,
        job: &mut Running,
        deadline: Deadline,
        mut tick: impl FnMut(&mut Session<'_>) -> Result<(), SessionError>,
    ) -> Result<Ending<Exited>, SessionError> {
        let interrupts = session.interrupts.clone();
        let ended = supervise(job, &interrupts, deadline, || {
            let asked = session.asked()?;
            tick(session)?;
            Ok(asked)
        });
        match ended.await {
            Err(SessionError::Exec(error @ ExecError::OtherMachine { .. })) => {
                session.emit(Notice::StillRuns(error.to_string()))?;
                Ok(Ending::Detached)
            }
            ended => ended,
        }
    }

    /// Removes the locks that a finished job left behind, and undoes forbidden changes. Returns how many rows it removed from
    /// results.tsv.
    pub(super) async fn put_right_after(&self, session: &mut Session<'_>, job: &str) -> Result<u32, SessionError> {
        session.remove_left_locks(self.open.id, job).await?;
        session.store.end_watch()
    }

    /// Has a run that failed for lack of space done again without counting it among the starts, as far as that can be
    /// written. Returns `full`.
    fn spoilt(&mut self, session: &mut Session<'_>, full: SessionError) -> SessionError {
        let folder = session.store.folder.run(self.open.id);
        self.open.runs = self.open.runs.saturating_sub(1);
        let mut without = |file| remove_file(&folder.join(file)).and_then(|()| self.enter(session, Phase::Running));
        if without("exit.json").is_err() {
            // Without its log, there is space for the journal.
            let _ = without("run.log");
        }
        full
    }

    /// Reads the number of a finished run, or the reason why there is none.
    fn measure(&self, session: &mut Session<'_>, log: LogFollower, exit: &Exit) -> Result<Measured, SessionError> {
        let (source, before) = (&session.store.contract.metric.source, self.open.metric_file.as_deref());
        let (summary, mut verdict) = judge_run(log, source, session.store.repo.worktree(), before, exit);
        let touched = session.workspace.protected_touched(&session.store);
        if let Some(failure) = session.workspace.protected_changed(
            &mut session.store,
            self.open.id,
            &commit_of(&self.open)?,
            Actor::Run,
        )? {
            verdict.failure = Some(failure);
        }
        let mut changed = session.workspace.changed_meanwhile(&mut session.store, &commit_of(&self.open)?)?;
        changed.extend(touched);
        changed.sort();
        changed.dedup();
        let metrics = summary.metrics.iter().map(|(name, number)| (name.clone(), number.value)).collect();
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
            run: Some(Run {
                command: session.store.contract.command.clone(),
                seed: None,
                started: exit.started,
                seconds: exit.seconds,
                exit: exit.exit,
                signal: exit.signal,
                value: None,
            }),
            ended: ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds),
            changed,
        })
    }

    /// Restarts a run that was lost with its machine or its shim, or terminated by a process that was killed during its
    /// rollback.
    fn run_again(&mut self, session: &mut Session<'_>) -> Result<(), SessionError> {
        session.emit(Notice::RunRestarted(self.open.id))?;
        session.workspace.check_out(&mut session.store, &self.open)?;
        self.prepare_run(session)
    }
}

/// Reads the number, or the reason why there is none, from the log of a run in `root` and from how it ended. Ignores a metric
/// file with the same stamp as `before` the run.
pub(super) fn judge_run(
    log: LogFollower,
    source: &MetricSource,
    root: &Path,
    before: Option<&str>,
    exit: &Exit,
) -> (LogSummary, Verdict) {
    let mut summary = log.scanner.finish();
    if let MetricSource::File { path, pointer } = source {
        summary.found = read_metric_file(&root.join(path), pointer, before);
    }
    let ending = measure::Ending {
        exit: exit.exit,
        signal: exit.signal,
        timed_out: exit.timed_out,
        oom_killed: exit.oom_killed,
        lost: false,
    };
    let verdict = judge(&summary, &ending);
    (summary, verdict)
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
