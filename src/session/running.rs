//! One execution of the measuring command: started, watched, measured.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::error::SessionError;
use super::follow::LogFollower;
use super::ignored::stamp;
use super::interrupts::Interrupt;
use super::jobs::{RUN, RUN_FILES, guard_name, job_found, run_variables};
use super::open::Session;
use super::opened::commit_of;
use super::own_files::remove_file;
use super::run_log::point_run_log;
use crate::crash;
use crate::domain::{Event, Failure, FailureClass, MetricSource, Metrics, Number, Phase, Run, ended_text};
use crate::exec::{self, ExecError, Exit, Job, Running, Started};
use crate::fs::{read_at_most, remove_left_over};
use crate::measure::{Ending, Found, LogSummary, Verdict, judge, metric_file};
use crate::rules::{RunFound, outside_cause};
use crate::state::{OpenExperiment, read_json};

/// How often the log of a run is looked at, each second: often enough for the live line, seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(1024);

/// How large the file may be that a metric is read from, in bytes: that of a run which lists each of its steps.
const LARGEST_METRIC_FILE: u64 = 64 << 20;

/// Until when a run is waited for; for ever when absent.
pub(super) type Deadline = Option<Instant>;

/// How often a sign of life is written.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(60);

/// How the waiting for a run ended.
pub(super) enum Ended {
    /// The run is over and measured.
    Over(Box<Measured>),
    /// The run was ended because a person asked for it.
    Interrupted,
    /// The run goes on.
    StillRunning,
    /// The machine, or the shim, died under it.
    Lost,
}

/// What a run that is over gave.
pub(super) struct Measured {
    /// The metric's number, where there is one.
    pub(super) value: Option<Number>,
    /// Why there is no number that counts.
    pub(super) failure: Option<Failure>,
    /// Every number that the log's summary gives.
    pub(super) metrics: Metrics,
    /// Peak memory in GiB.
    pub(super) memory_gb: Option<f64>,
    /// The run itself, where there was one; its value is not filled in.
    pub(super) run: Option<Run>,
    /// How it ended, in words.
    pub(super) ended: String,
    /// The tracked files that were changed while it went on, by whomever.
    pub(super) changed: Vec<PathBuf>,
    /// What outside of the change may have made it fail.
    pub(super) outside_cause: Option<String>,
}

impl Measured {
    /// An experiment that was refused before it ran.
    pub(super) fn refused(failure: Failure) -> Measured {
        let ended = failure.excerpt.replace('\n', ", ");
        Measured::without_run(failure, ended)
    }

    /// A run that was lost more often than it is started again.
    pub(super) fn lost(times: u32) -> Measured {
        Measured::without_run(Failure { class: FailureClass::Lost, excerpt: String::new() }, format!("{times} times"))
    }

    fn without_run(failure: Failure, ended: String) -> Measured {
        Measured {
            value: None,
            failure: Some(failure),
            metrics: Metrics::default(),
            memory_gb: None,
            run: None,
            ended,
            changed: Vec::new(),
            outside_cause: None,
        }
    }
}

/// How often the files of a job may be deleted in the moment in which it is started or picked up.
pub(super) const DELETIONS: u32 = 3;

/// A run that is going on.
pub(super) struct RunWatch {
    job: Running,
    log: LogFollower,
    /// How long it had been going on when this process began to watch.
    before: Duration,
    began: Instant,
}

impl Session<'_> {
    /// Notes the commit of the open experiment in the journal, and enters its run there, unless it is refused, once what is
    /// left of an earlier one is cleared away: from here on an `exit.json` is that of this run.
    pub(super) fn prepare_run(&mut self, open: OpenExperiment) -> Result<OpenExperiment, SessionError> {
        if open.refused.is_some() {
            self.store.enter(Phase::Committing, open.clone())?;
            return Ok(open);
        }
        let folder = self.store.clear_run_folder(open.id)?;
        if self.store.journal.phase == Phase::Running || !open.versions.is_empty() {
            // Without what is cleared away now, a run that was lost would look like one that was never started, and a version
            // that is worked on again would have no log.
            self.store.enter(Phase::Committing, open.clone())?;
            crash::point("running.left");
        }
        remove_left_over(&folder)?;
        if open.runs == 0 && !open.versions.is_empty() {
            self.store.folder.set_version_aside(open.id, open.versions.len(), self.store.contract.guards.len())?;
            crash::point("running.version_set_aside");
        }
        for name in RUN_FILES {
            remove_file(&folder.join(name))?;
        }
        for number in 1..=self.store.contract.guards.len() {
            let name = guard_name(number);
            for kind in ["log", "job.json", "started.json", "exit.json"] {
                remove_file(&folder.join(format!("{name}.{kind}")))?;
            }
        }
        crash::point("running.folder_cleared");
        let metric_file = metric_file_stamp(&self.store.contract.metric.source, self.store.repo.worktree());
        let open = OpenExperiment { runs: open.runs + 1, metric_file, ..open };
        self.store.enter(Phase::Running, open.clone())?;
        self.prepared_run = Some((open.id, open.runs));
        crash::point("running.entered");
        Ok(open)
    }

    /// Picks up the run of the open experiment, or starts it if there is none.
    pub(super) async fn take_run(&mut self, open: &OpenExperiment) -> Result<RunWatch, SessionError> {
        let mut deletions = 0;
        loop {
            if self.prepared_run != Some((open.id, open.runs)) {
                self.await_files(open).await;
            }
            if matches!(job_found(&self.store.folder.run(open.id), RUN), RunFound::Gone | RunFound::Unstarted) {
                return self.start_run(open);
            }
            match self.attach_run(open) {
                // Its files were deleted since that look.
                Err(SessionError::Exec(ExecError::File { source, .. }))
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                run => {
                    self.store.begin_watch("the run", open.id)?;
                    return run;
                }
            }
        }
    }

    fn start_run(&mut self, open: &OpenExperiment) -> Result<RunWatch, SessionError> {
        self.check_room()?;
        let commit = commit_of(open)?;
        self.workspace.put_protected_back(&mut self.store, open.id, &commit)?;
        let folder = self.store.clear_run_folder(open.id)?;
        let log = folder.join("run.log");
        let root = self.store.repo.worktree().to_owned();
        if let Some(detail) =
            point_run_log(&root, self.store.repo.is_tracked(Path::new("run.log"))?, &log, &self.store.folder)?
        {
            self.emit(Event::Notice { detail })?;
        }
        crash::point("running.log_linked");
        let mut follower = LogFollower::new(log.clone(), &self.store.contract.metric)?;
        self.store.begin_watch("the run", open.id)?;
        let contract = &self.store.contract;
        let mut job = exec::start(&Job {
            name: RUN.into(),
            command: contract.command.clone(),
            cwd: root,
            env: run_variables(&contract.tag, open.id, &self.store.folder.state(), &folder),
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
        self.emit(Event::RunStarted {
            id: open.id,
            commit,
            description: open.description.clone(),
            log,
            timeout,
            incumbent: self.store.history.best().map(|(_, number)| number),
        })?;
        // The run goes on meanwhile, and does not rest on it.
        self.store.repo.sync_deferred()?;
        Ok(RunWatch { job, log: follower, before: Duration::ZERO, began: Instant::now() })
    }

    /// Picks up a run that another process started.
    fn attach_run(&self, open: &OpenExperiment) -> Result<RunWatch, SessionError> {
        let folder = self.store.folder.run(open.id);
        let job = exec::attach(&folder, RUN)?;
        let log = LogFollower::new(folder.join("run.log"), &self.store.contract.metric)?;
        let started: Option<Started> = read_json(&folder.join("started.json")).unwrap_or_default();
        let before = started.and_then(|started| Timestamp::now().duration_since(started.started).try_into().ok());
        Ok(RunWatch { job, log, before: before.unwrap_or_default(), began: Instant::now() })
    }

    /// Waits for a run, at most until `deadline`, and measures it.
    pub(super) async fn watch_run(
        &mut self,
        mut run: RunWatch,
        open: &OpenExperiment,
        deadline: Deadline,
    ) -> Result<Ended, SessionError> {
        let mut tick = Instant::now();
        let mut last_beat = Instant::now();
        let mut listener = self.interrupts.listen();
        let mut stopping = false;
        let exit = loop {
            match self.asked()? {
                Interrupt::Now if !stopping => match run.job.stop() {
                    Err(error @ ExecError::OtherMachine { .. }) => {
                        self.emit(Event::Notice { detail: error.to_string() })?;
                        return Ok(Ended::StillRunning);
                    }
                    stopped => {
                        stopped?;
                        stopping = true;
                    }
                },
                Interrupt::Detach => return Ok(Ended::StillRunning),
                _ => {}
            }
            tokio::select! {
                exit = run.job.wait() => break exit,
                () = sleep_until(tick) => {
                    tick = exec::beat(TICK);
                    run.log.look()?;
                    let elapsed = run.before + run.began.elapsed();
                    self.emit(Event::RunProgress {
                        id: open.id,
                        elapsed: elapsed.as_secs_f64(),
                        last: run.log.scanner.last().cloned(),
                    })?;
                    if last_beat.elapsed() >= HEARTBEAT {
                        last_beat = Instant::now();
                        let detail = json!({"experiment": open.id, "elapsed": elapsed.as_secs()});
                        self.store.heal()?;
                        self.events.log.heartbeat(self.store.now(), &detail)?;
                        self.store.watch_again(&self.store.folder.logs());
                        self.store.write_journal()?;
                    }
                }
                () = listener.signal() => {}
                () = async { sleep_until(deadline.unwrap_or_else(Instant::now)).await },
                    if deadline.is_some() && !stopping => return Ok(Ended::StillRunning),
            }
        };
        if !matches!(exit, Err(ExecError::DiskFull { .. })) {
            self.remove_left_locks(open.id, RUN).await?;
            self.store.end_watch()?;
        }
        let exit = match exit {
            Err(ExecError::Lost { .. }) => return Ok(Ended::Lost),
            Err(full @ ExecError::DiskFull { .. }) => {
                // As long as the log is open, its removal makes no room.
                drop(run);
                return Err(self.spoilt(open, full.into()));
            }
            exit => exit?,
        };
        if exit.stopped {
            return Ok(if stopping { Ended::Interrupted } else { Ended::Lost });
        }
        crash::point("running.over");
        run.log.follow_name();
        while !run.log.look()? {}
        // Where that fails, the number is read at least.
        let _ = run.log.put_back();
        let measured = self.measure(run, open, &exit)?;
        let what = format!("the run of experiment {}", open.id);
        if let Err(full) = self.store.refuse_spoilt(&what, measured.failure.is_some()) {
            return Err(self.spoilt(open, full));
        }
        Ok(Ended::Over(Box::new(measured)))
    }

    /// Sees to it that a run which ended for want of room is done again and not counted among the starts, as far as that
    /// can be written; gives `full` back.
    fn spoilt(&mut self, open: &OpenExperiment, full: SessionError) -> SessionError {
        let folder = self.store.folder.run(open.id);
        let open = OpenExperiment { runs: open.runs.saturating_sub(1), ..open.clone() };
        let done = remove_file(&folder.join("exit.json")).and_then(|()| self.store.enter(Phase::Running, open.clone()));
        if done.is_err() {
            // Its log makes the room that the journal needs.
            let _ = remove_file(&folder.join("run.log")).and_then(|()| self.store.enter(Phase::Running, open));
        }
        full
    }

    /// Makes a number, or the reason why there is none, of a run that is over.
    fn measure(&mut self, run: RunWatch, open: &OpenExperiment, exit: &Exit) -> Result<Measured, SessionError> {
        let (source, before) = (&self.store.contract.metric.source, open.metric_file.as_deref());
        let (summary, mut verdict) = judge_run(run.log, source, self.store.repo.worktree(), before, exit);
        let touched = self.workspace.protected_touched(&mut self.store);
        if let Some(failure) =
            self.workspace.protected_changed(&mut self.store, open.id, &commit_of(open)?, "the run")?
        {
            verdict.failure = Some(failure);
        }
        let mut changed = self.workspace.changed_meanwhile(&mut self.store, &commit_of(open)?)?;
        changed.extend(touched);
        changed.sort();
        changed.dedup();
        let metrics = summary.metrics.iter().map(|(name, number)| (name.clone(), number.value)).collect();
        let measured_bytes = exit.gpu_peak_bytes.unwrap_or(exit.peak_rss_bytes);
        Ok(Measured {
            outside_cause: verdict.failure.as_ref().and_then(|it| outside_cause(it.class, exit.gpu_other_bytes)),
            value: verdict.value,
            failure: verdict.failure,
            metrics,
            memory_gb: summary.memory_gb.or_else(|| gibibytes(measured_bytes)),
            run: Some(Run {
                command: self.store.contract.command.clone(),
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
}

/// Makes a number, or the reason why there is none, of the log of a run in `root` and of how it ended. A metric's file
/// that looks as it did `before` the run says nothing.
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
    let ending = Ending {
        exit: exit.exit,
        signal: exit.signal,
        timed_out: exit.timed_out,
        oom_killed: exit.oom_killed,
        lost: false,
    };
    let verdict = judge(&summary, &ending);
    (summary, verdict)
}

/// What the file system says of the file that the metric is read from, where it is read from one.
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

/// The number in a JSON file, if this run wrote the file: one that looks as it did before the run is of an earlier one.
fn read_metric_file(path: &Path, pointer: &str, before: Option<&str>) -> Option<Found> {
    if stamp(path).as_deref() == before {
        return None;
    }
    metric_file(&read_at_most(path, LARGEST_METRIC_FILE).ok()?, pointer).ok()
}
