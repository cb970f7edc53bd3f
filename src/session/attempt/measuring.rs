//! One execution of the measuring command: started or picked up, awaited, and read. It knows neither store nor journal.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::domain::{
    CommitId, Contract, ExperimentId, Failure, FailureClass, MetricSource, Number, Record, Run, RunRole, ended_text,
    shell_word,
};
use crate::exec::{Executor, Exit, Job, Running, Started, Watched};
use crate::fs::{CLOCK_LAG, read_at_most};
use crate::measure::{self, Found, LogSummary, Verdict, judge, metric_file, partial};
use crate::rules::{Silence, Wall, changed_text, is_empty_baseline};
use crate::session::errors::SessionError;
use crate::session::files::{LogFollower, SEED, file_with, is_pattern, last_changed, newest_file, stamp};
use crate::session::store::{Interrupt, RUN, run_variables};
use crate::session::wait::{Deadline, Ending, Exited, Waiter};

/// The largest file that a metric is read from, in bytes: enough for a run that lists each of its steps.
const LARGEST_METRIC_FILE: u64 = 64 << 20;

/// A run of the measuring command, and its place.
pub(crate) struct MeasuringRun<'a> {
    pub(crate) role: RunRole,
    pub(crate) seed: Option<u64>,
    pub(crate) contract: &'a Contract,
    pub(crate) command: &'a str,
    /// The experiment whose number the command gets.
    pub(crate) id: ExperimentId,
    pub(crate) commit: CommitId,
    /// The folder of the session's state files.
    pub(crate) state: PathBuf,
    /// The folder of the run's own files; no other run has it.
    pub(crate) folder: PathBuf,
    /// The working tree, at the commit.
    pub(crate) root: &'a Path,
    /// Variables that the command gets in its slot.
    pub(crate) variables: &'a [(String, String)],
    /// The folder below which those runs are that may be on its GPUs beside it, if any may.
    pub(crate) shares_gpus: Option<PathBuf>,
    /// The stamp of the metric file before the run.
    pub(crate) metric_before: Option<String>,
    /// What it is kept from writing.
    pub(crate) wall: Option<Wall>,
}

/// A run that is active, or finished and not read.
pub(crate) struct ActiveRun {
    role: RunRole,
    seed: Option<u64>,
    root: PathBuf,
    folder: PathBuf,
    is_elsewhere: bool,
    metric_before: Option<String>,
    job: Running,
    log: LogFollower,
    /// Time that the run had taken when this process began to watch.
    before: Duration,
    began: Instant,
}

/// A finished run, with its value or the reason why there is none.
pub(crate) struct FinishedRun {
    role: RunRole,
    seed: Option<u64>,
    pub(crate) summary: LogSummary,
    pub(crate) verdict: Verdict,
    is_partial: bool,
    pub(crate) exit: Exit,
}

impl MeasuringRun<'_> {
    /// The file with the run's output.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("run.log")
    }

    /// Starts the command.
    ///
    /// # Errors
    ///
    /// Those of [`Executor::start`]; the metric cannot be looked for.
    pub(crate) fn start(self, executor: &Executor) -> Result<ActiveRun, SessionError> {
        let MeasuringRun { contract, command, id, commit, .. } = &self;
        let told = run_variables(command, &contract.tag, *id, commit, &self.state, &self.folder);
        let mut log = LogFollower::new(self.log(), contract)?;
        let mut job = executor.start(&Job {
            name: RUN.into(),
            command: (*command).to_owned(),
            cwd: self.root.to_owned(),
            env: told.into_iter().chain(seed_variable(self.seed)).chain(self.variables.iter().cloned()).collect(),
            log: self.log(),
            folder: self.folder.clone(),
            timeout: contract.timeout,
            silence: contract.caps.silence.map(|after| Silence { after, by_gpu: true }),
            grace: contract.grace,
            tied: self.role.is_tied(),
            // Which file of a pattern it is, only the run's end tells.
            watched: metric_file_of(contract).filter(|path| !is_pattern(path)),
            shares_gpus: self.shares_gpus.clone(),
            wall: self.wall.clone(),
            ..Job::default()
        })?;
        log.hold(job.take_log());
        Ok(self.active(job, log, Duration::ZERO))
    }

    /// Picks up the run that another process started.
    ///
    /// # Errors
    ///
    /// Those of [`Executor::attach`]; the metric cannot be looked for.
    pub(crate) fn attach(self, executor: &Executor) -> Result<ActiveRun, SessionError> {
        let job = executor.attach(&self.folder, RUN)?;
        let log = LogFollower::new(self.log(), self.contract)?;
        let before = running_for(&self.folder).unwrap_or_default();
        Ok(self.active(job, log, before))
    }

    fn active(self, job: Running, log: LogFollower, before: Duration) -> ActiveRun {
        let MeasuringRun { role, seed, root, folder, metric_before, .. } = self;
        let (is_elsewhere, root, began) = (job.is_elsewhere(), root.to_owned(), Instant::now());
        ActiveRun { role, seed, root, folder, is_elsewhere, metric_before, job, log, before, began }
    }
}

impl ActiveRun {
    /// Waits for the end of the run, at most until `deadline`. Each `tick` gets how long it has been running, if it does not wait in a
    /// queue, and its newest value; what it returns is heeded as if the user had asked for it.
    ///
    /// # Errors
    ///
    /// Those of the waiter and of `tick`; the log cannot be read.
    pub(crate) async fn wait(
        &mut self,
        waiter: &impl Waiter,
        deadline: Deadline,
        mut tick: impl FnMut(Option<Duration>, Option<&Number>) -> Result<Interrupt, SessionError>,
    ) -> Result<Ending<Exited>, SessionError> {
        let ActiveRun { job, log, before, began, folder, is_elsewhere, .. } = self;
        let tick = || {
            log.look()?;
            let elapsed = if *is_elsewhere { running_for(folder) } else { Some(*before + began.elapsed()) };
            tick(elapsed, log.scanner.last())
        };
        waiter.wait(job, deadline, tick).await
    }

    /// Waits for the run and reads it.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait) and [`read`](Self::read); it never started, or the disk is full.
    pub(crate) async fn measured(
        mut self,
        waiter: &impl Waiter,
        contract: &Contract,
        baseline: Option<&Record>,
    ) -> Result<Ending<FinishedRun>, SessionError> {
        match self.wait(waiter, None, |_, _| Ok(Interrupt::None)).await?.done() {
            Ok(exit) => Ok(Ending::Done(self.read(contract, baseline, exit?)?)),
            Err(ending) => Ok(ending),
        }
    }

    /// Reads the value of the finished run, or the reason why there is none, from its log and from how it ended. Ignores a
    /// metric file that the run did not write, and counts none that changed after the run. Numbers are in the units of the
    /// baseline, once there is one.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub(crate) fn read(
        mut self,
        contract: &Contract,
        baseline: Option<&Record>,
        exit: Exit,
    ) -> Result<FinishedRun, SessionError> {
        self.log.follow_name();
        while !self.log.look()? {}
        // If that fails, at least the number was read.
        let _ = self.log.restore();
        let (root, before, metric) = (&self.root, self.metric_before.as_deref(), &contract.metric);
        let is_cut = exit.exit != Some(0);
        let mut summary = if is_cut { self.log.scanner.finish_cut() } else { self.log.scanner.finish() };
        let file = metric_file_of(contract).map(|path| newest_file(root, &path, before));
        let in_file = |path: &Path, pointer: &str, name: &str| match &file {
            Some(file) => Ok(read_metric_file(file, path, pointer, name, before, is_cut)?.named(name, baseline)),
            None => Err(String::new()),
        };
        let seen = file.as_deref().map(Watched::look);
        if let (None, MetricSource::File { path, pointer }) = (contract.deciding_composite(), &metric.source) {
            match in_file(path, pointer, &metric.name) {
                Ok(found) => summary.found = Some(found),
                Err(instead) => summary.instead = Some(instead),
            }
        }
        let refused = baseline.and_then(|baseline| summary.in_units_of(baseline));
        match (contract.deciding_composite(), &metric.source) {
            (Some(axes), MetricSource::File { path, pointer }) => summary.put_composite(axes, |_, name| {
                // As a part of a JSON pointer (RFC 6901).
                let part = name.replace('~', "~0").replace('/', "~1");
                in_file(path, &format!("{pointer}/{part}"), name).ok()
            }),
            (Some(axes), MetricSource::Log | MetricSource::Regex(_)) => summary.put_composite(axes, LogSummary::named),
            (None, _) => {}
        }
        let ending = measure::Ending {
            exit: exit.exit,
            signal: exit.signal,
            timed_out: exit.timed_out,
            oom_killed: exit.oom_killed,
            lost: false,
        };
        let mut verdict = judge(&summary, &ending);
        let last = verdict.failure.as_ref().and_then(|failure| partial(&summary, &ending, failure.class));
        let is_partial = contract.count_partial && last.is_some();
        if is_partial {
            verdict = Verdict { value: last.cloned(), failure: None };
        } else if let (Some(last), Some(failure)) = (last, &mut verdict.failure) {
            let end = if ending.timed_out { "the deadline" } else { "it failed" };
            failure.detail = Some(format!("printed {} before {end} (`--count-partial` would count it)", last.text()));
        }
        if let Some(failure) = verdict.failure.as_mut().filter(|it| it.class == FailureClass::NoMetric) {
            if refused.is_some() {
                failure.detail = refused;
            } else if metric.source == MetricSource::Log
                && let Some((file, place)) = file_with(root, &metric.name, SystemTime::from(exit.started) - CLOCK_LAG)
            {
                failure.detail = Some(named_file(&metric.name, &file, &place));
            }
        }
        let is_changed =
            file.as_deref().map(Watched::look) != seen || exit.watched.is_some_and(|then| seen != Some(then));
        let is_of_file = |class| matches!(class, FailureClass::Nan | FailureClass::NoMetric | FailureClass::NoOutput);
        if is_changed && verdict.failure.as_ref().is_none_or(|failure| is_of_file(failure.class)) {
            let file: Vec<PathBuf> = metric_file_of(contract).into_iter().collect();
            verdict.failure = Some(Failure::new(FailureClass::Changed, changed_text(&file)));
        }
        if self.role == RunRole::Baseline {
            verdict.failure.take_if(|failure| is_empty_baseline(contract, failure.class, exit.exit));
        }
        Ok(FinishedRun { role: self.role, seed: self.seed, summary, verdict, is_partial, exit })
    }
}

impl FinishedRun {
    /// The run for a record, without its value.
    pub(crate) fn run(&self, command: &str) -> Run {
        let Exit { started, seconds, exit, signal, silent, queued, .. } = self.exit;
        Run {
            command: command.to_owned(),
            role: Some(self.role),
            seed: self.seed,
            started,
            seconds,
            exit,
            signal,
            silent,
            value: None,
            digits: None,
            commit: None,
            void: false,
            tainted: 0,
            queued,
            partial: self.is_partial,
            part: self.summary.part,
        }
    }

    /// Describes how the run ended.
    pub(crate) fn ended(&self) -> String {
        ended_text(self.exit.exit, self.exit.signal, self.exit.timed_out, self.exit.seconds)
    }
}

/// How long the run in `folder` has been running.
fn running_for(folder: &Path) -> Option<Duration> {
    let started = Started::read(folder, RUN)?.started;
    Timestamp::now().duration_since(started).try_into().ok()
}

/// The variable with the seed of a run.
fn seed_variable(seed: Option<u64>) -> Option<(String, String)> {
    seed.map(|seed| (SEED.to_owned(), seed.to_string()))
}

/// The file that the metric is read from, relative to the working tree, if it is read from one.
pub(crate) fn metric_file_of(contract: &Contract) -> Option<PathBuf> {
    match &contract.metric.source {
        MetricSource::File { path, .. } => Some(path.into()),
        MetricSource::Log | MetricSource::Regex(_) => None,
    }
}

/// The stamp of the file that the metric is read from, if it is read from one; of a pattern, of the file that changed last.
pub(crate) fn metric_file_stamp(contract: &Contract, root: &Path) -> Option<String> {
    stamp(&last_changed(root, &metric_file_of(contract)?))
}

/// The number in a file, if this run wrote the file: with the stamp from before the run, it belongs to an earlier one. Else a
/// clause that says what is wrong with the file, which the user named by `path`. If the run was cut off, so may be the last line.
fn read_metric_file(
    file: &Path,
    path: &Path,
    pointer: &str,
    name: &str,
    before: Option<&str>,
    is_cut: bool,
) -> Result<Found, String> {
    let is_one_of_many = is_pattern(path);
    let path = path.display();
    match stamp(file) {
        None if is_one_of_many => return Err(format!("the run wrote no metric file {path}")),
        None => return Err(format!("the metric file {path} does not exist after the run")),
        now if now.as_deref() == before => return Err(format!("the run did not write the metric file {path}")),
        Some(_) => {}
    }
    let mut text = read_at_most(file, LARGEST_METRIC_FILE)
        .map_err(|error| format!("the metric file {path} cannot be read: {error}"))?;
    // Half an object is no JSON, but half a number is one.
    if is_cut && !text.trim_ascii_start().starts_with(b"{") {
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    }
    metric_file(file, &text, pointer, name).map_err(|error| format!("the metric file {path} {error}"))
}

/// Says that a file has the number that the log lacks, and how to read it from there.
fn named_file(name: &str, file: &Path, place: &str) -> String {
    let source = MetricSource::File { path: file.to_owned(), pointer: place.to_owned() };
    let spec = shell_word(Path::new(&source.to_string()));
    let has = if place.is_empty() { "has a column or field of that name" } else { "has a number of that name" };
    format!("the run printed no {name}, but {} {has}: `--metric-file {spec}`", file.display())
}
