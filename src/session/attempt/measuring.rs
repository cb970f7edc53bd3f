//! One execution of the measuring command: started or picked up, awaited, and read, and repeated if another process that
//! counts was on its GPU. It knows neither store nor journal.

use std::mem::take;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::time::Instant;

use super::RunningChange;
use crate::domain::{
    CommitId, Contract, ExperimentId, Failure, FailureClass, GpuOther, MetricSource, Notice, Number, PartOf, Record,
    Run, RunRole, Unit, ended_text, experiment_name, list, shell_word,
};
use crate::exec::{Executor, Exit, Job, Running, Started, WatchedFile};
use crate::fs::{CLOCK_LAG, read_at_most};
use crate::machine::AttemptEntry;
use crate::measure;
use crate::measure::{LogSummary, MetricMention, judge, metric_file, partial};
use crate::rules::{
    CARRIED_REPEATS, CarriedFate, Measurement, OtherGpu, Silence, TAINT_REPEATS, Wall, carried_clause, changed_text,
    is_empty_baseline, taint, tainting,
};
use crate::session::errors::{NeedsPerson, SessionError, refuse};
use crate::session::files::{LogFollower, SEED, file_with, is_pattern, last_changed, newest_file, stamp};
use crate::session::handlers::Workspace;
use crate::session::store::{Interrupt, RUN, Store, run_variables};
use crate::session::wait::{Deadline, Exited, WaitEnd, Waiter};

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
    /// The folder of the runs that may share its GPUs.
    pub(crate) gpu_sharers: Option<PathBuf>,
    /// The stamp of the metric file before the run.
    pub(crate) metric_before: Option<String>,
    /// The wall around it.
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
            gpu_sharers: self.gpu_sharers.clone(),
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
    ) -> Result<WaitEnd<Exited>, SessionError> {
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
    ) -> Result<WaitEnd<(Measurement, Exit)>, SessionError> {
        match self.wait(waiter, None, |_, _| Ok(Interrupt::None)).await?.done() {
            Ok(exit) => Ok(WaitEnd::Done(self.read(contract, baseline, exit?)?)),
            Err(ending) => Ok(ending),
        }
    }

    /// Reads what the finished run measured, or the reason why that is nothing, from its log and from how it ended. Ignores a
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
    ) -> Result<(Measurement, Exit), SessionError> {
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
        let seen = file.as_deref().map(WatchedFile::look);
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
        let (judged, is_partial) = judged(contract, &summary, &exit, (root, refused));
        let (value, mut failure) = match judged {
            Ok(value) => (Some(value), None),
            Err(failure) => (None, Some(failure)),
        };
        let is_changed =
            file.as_deref().map(WatchedFile::look) != seen || exit.watched.is_some_and(|then| seen != Some(then));
        let is_of_file = |class| matches!(class, FailureClass::Nan | FailureClass::NoMetric | FailureClass::NoOutput);
        if is_changed && failure.as_ref().is_none_or(|failure| is_of_file(failure.class)) {
            let file: Vec<PathBuf> = metric_file_of(contract).into_iter().collect();
            failure = Some(Failure::new(FailureClass::Changed, changed_text(&file)));
        }
        if self.role == RunRole::Baseline {
            failure.take_if(|failure| is_empty_baseline(contract, failure.class, exit.exit));
        }
        let run = run_of(contract, (self.role, self.seed), &exit, is_partial, summary.part);
        Ok((measurement(summary, (value, failure), run, &exit), exit))
    }
}

/// The number that counts, or why there is none, and whether it is that of a run that was cut. `refused` says why the baseline's
/// unit refuses a number.
fn judged(
    contract: &Contract,
    summary: &LogSummary,
    exit: &Exit,
    (root, refused): (&Path, Option<String>),
) -> (Result<Number, Failure>, bool) {
    let ending = measure::RunEnd {
        exit: exit.exit,
        signal: exit.signal,
        timed_out: exit.timed_out,
        oom_killed: exit.oom_killed,
        // Its last number may be in what the log lacks.
        lost: exit.disk.torn,
    };
    let mut judged = judge(summary, &ending);
    let last = judged.as_ref().err().and_then(|failure| partial(summary, &ending, failure.class));
    let is_partial = contract.count_partial && last.is_some();
    if let (Some(last), Err(failure)) = (last, &mut judged) {
        let end = if ending.timed_out { "the deadline" } else { "it failed" };
        failure.detail = Some(format!("printed {} before {end} (`--count-partial` would count it)", last.text()));
    }
    if is_partial && let Some(last) = last {
        judged = Ok(last.clone());
    }
    if let Some(failure) = judged.as_mut().err().filter(|it| it.class == FailureClass::NoMetric) {
        if refused.is_some() {
            failure.detail = refused;
        } else if contract.metric.source == MetricSource::Log
            && let Some((file, place)) =
                file_with(root, &contract.metric.name, SystemTime::from(exit.started) - CLOCK_LAG)
        {
            failure.detail = Some(named_file(&contract.metric.name, &file, &place));
        }
    }
    (judged, is_partial)
}

/// The run for a record, without its value.
fn run_of(
    contract: &Contract,
    (role, seed): (RunRole, Option<u64>),
    exit: &Exit,
    partial: bool,
    part: Option<PartOf>,
) -> Run {
    let &Exit { started, seconds, exit, signal, silent, queued, .. } = exit;
    Run {
        command: contract.command.clone(),
        role: Some(role),
        seed,
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
        partial,
        part,
    }
}

/// What the log and the end of a run say that has this number, or none for this reason.
fn measurement(
    summary: LogSummary,
    (value, failure): (Option<Number>, Option<Failure>),
    run: Run,
    exit: &Exit,
) -> Measurement {
    let own_unit = |(name, number): &(String, Number)| {
        let unit = number.unit.clone().filter(|unit| Unit::of_name(name).as_ref() != Some(unit))?;
        Some((name.clone(), unit))
    };
    let measured_bytes = exit.memory.gpu_peak_bytes.unwrap_or(exit.memory.peak_rss_bytes);
    Measurement {
        value,
        failure,
        units: summary.metrics.iter().filter_map(own_unit).collect(),
        metrics: summary.metrics.into_iter().collect(),
        memory_gb: summary.memory_gb.or_else(|| gibibytes(measured_bytes)),
        run: Some(run),
        sandbox: exit.sandbox,
        ended: ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds),
        ..Measurement::default()
    }
}

/// Bytes as GiB, rounded to the MiB; `None` for none.
fn gibibytes(bytes: u64) -> Option<f64> {
    const MIB: f64 = 1024.0 * 1024.0;
    (bytes > 0).then(|| ((bytes as f64 / MIB).round() / 1024.0 * 1e6).round() / 1e6)
}

/// The duration so far of the run in `folder`.
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
pub(crate) fn read_metric_file(
    file: &Path,
    path: &Path,
    pointer: &str,
    name: &str,
    before: Option<&str>,
    is_cut: bool,
) -> Result<MetricMention, String> {
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

/// Maximum repetitions of a run in the user's tree because files changed during it.
const CHANGED_REPEATS: u32 = 2;

/// The reason for a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatReason {
    /// Files changed during it.
    Changed,
    /// Another process was on its GPU.
    Tainted,
    /// It ran on another model of GPU than the baseline.
    OtherGpu,
    /// It went on from what was there before it, or may have; or it had no number without what the user had there.
    Carried,
}

impl RunningChange {
    /// Takes the number from a run during which others were on its GPUs, and gives those others. The baseline keeps its number,
    /// as the session needs one.
    pub(crate) fn taint(&self, store: &Store, seen: Vec<GpuOther>, failure: &mut Option<Failure>) -> Vec<GpuOther> {
        let class = failure.as_ref().map(|failure| failure.class);
        let others = tainting(seen, &self.known_on_gpus(store), class);
        if !others.is_empty() && !self.id().is_baseline() {
            *failure = Some(taint(&others));
        }
        others
    }

    /// The processes that were on the GPUs when the baseline was measured.
    fn known_on_gpus(&self, store: &Store) -> Vec<GpuOther> {
        if let Some(baseline) = store.history.baseline() {
            return baseline.conditions.gpu_others.clone();
        }
        // While the baseline is being measured, those beside its first run, once that is repeated no more.
        let first = store.journal.find(self.id()).and_then(AttemptEntry::first_run);
        match first.filter(|first| !self.run.is_first() && first.tainted == TAINT_REPEATS) {
            Some(_) => Exit::read(&store.folder.run(self.id()), RUN).unwrap_or_default().memory.gpu_others,
            None => Vec::new(),
        }
    }

    /// Returns why to repeat a finished run, if it is to be repeated. What makes its number worthless says nothing about
    /// the experiment. In a tree of `ar`'s own, files that change are the run's own doing if they change again, so that one
    /// repeat tells. *In place* the user may edit any file meanwhile, a protected one too.
    pub(crate) fn repeat_of(&self, measured: &Measurement) -> Option<RepeatReason> {
        let class = measured.failure.as_ref().map(|failure| failure.class);
        let repeats = self.run.without.as_ref().map_or(0, |without| without.repeats);
        if !measured.carried.is_empty() && class != Some(FailureClass::Protected) && repeats < CARRIED_REPEATS {
            return Some(RepeatReason::Carried);
        }
        if measured.other_gpu.is_some() {
            return (self.run.moved < TAINT_REPEATS).then_some(RepeatReason::OtherGpu);
        }
        if !measured.gpu_others.is_empty() && self.run.tainted < TAINT_REPEATS {
            // Nobody reads the number of a check of the baseline.
            let has_number = !self.is_beside_first() || self.run.role != RunRole::Check;
            return has_number.then_some(RepeatReason::Tainted);
        }
        let is_disturbed = !self.id().is_baseline() && !measured.changed().is_empty();
        let (is_in_place, is_protected) =
            (self.made.head.beside.slot.is_none(), class == Some(FailureClass::Protected));
        let is_changed = class == Some(FailureClass::Changed)
            || is_disturbed && !is_protected
            // Its own change was checked before, so that the run or the user did this.
            || is_protected && is_in_place && measured.run.is_some();
        let most = if is_in_place { CHANGED_REPEATS } else { 1 };
        (is_changed && self.run.repeated < most && !self.is_beside_first()).then_some(RepeatReason::Changed)
    }

    /// Puts the tree back, which saves what somebody edited there, and makes the run ready once more.
    pub(crate) fn repeat_run(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        measured: &Measurement,
        why: RepeatReason,
    ) -> Result<(), SessionError> {
        self.count_repeat(store, measured, why);
        self.enter_run(store)?;
        workspace.check_out(store, &self.made)?;
        self.prepare_run(workspace, store)
    }

    /// Counts a repeat of its run and tells of it. The journal is written when the run is made ready.
    pub(crate) fn count_repeat(&mut self, store: &mut Store, measured: &Measurement, why: RepeatReason) {
        let said = match why {
            RepeatReason::Changed => match (&measured.failure, measured.changed()) {
                (Some(failure), changed) if changed.is_empty() => failure.excerpt.replace('\n', ", "),
                (_, changed) => changed_text(&changed),
            },
            RepeatReason::Tainted => GpuOther::clause(&measured.gpu_others),
            RepeatReason::OtherGpu => measured.other_gpu.as_ref().map(OtherGpu::clause).unwrap_or_default(),
            RepeatReason::Carried => carried_clause(&measured.carried),
        };
        store.note(Notice::RunRepeated { id: self.id(), why: said });
        match why {
            RepeatReason::Changed => self.run.repeated += 1,
            RepeatReason::Tainted => self.run.tainted += 1,
            RepeatReason::OtherGpu => self.run.moved += 1,
            RepeatReason::Carried => self.run.without.get_or_insert_default().count(measured),
        }
    }

    /// Decides what becomes of that without which its run was repeated, and tells of it. Returns whether the run is to be
    /// repeated with it.
    pub(crate) fn settle_carried(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        measured: &Measurement,
    ) -> Result<bool, SessionError> {
        let id = self.id();
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
        let (with, value) = (without.value, measured.counted_value());
        let is_missed = with.is_some() && value.is_none() && !(back.is_empty() && needed.is_empty());
        if !aside.is_empty() {
            let text = |value: Option<f64>| value.map_or("no value".to_owned(), |value| Number::of(value).raw);
            let (metric, with, without) = (store.contract.metric.name.clone(), text(with), text(value));
            store.note(format!(
                "{} had {metric} {with} with {}, {without} without; from now on it is set aside before each run. \
                 For a cache keyed by code: carry = \"all\"",
                experiment_name(id),
                list(&aside)
            ));
        }
        if !needed.is_empty() {
            store.note(format!(
                "put back {} before each run, as it was before the first one: the command fails without it. It \
                 returns at the end",
                list(&needed)
            ));
        }
        if !back.is_empty() {
            let why = if is_missed { "the command fails without it" } else { "the value is the same without it" };
            store.note(format!("put back {} for later runs: {why}", list(&back)));
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
            Ok(()) => refuse(
                NeedsPerson,
                format!("the session was measured on {measured}, and the cluster ran this on {given} three times"),
            )
            .hint(
                "ask for the same GPUs, as in `ar resume --sbatch \"--gres gpu:1 --constraint h100\"`, or start a new \
                 session",
            )
            .into(),
            Err(error) => error,
        }
    }

    /// Tells that the baseline keeps the number of a tainted run, if it does.
    pub(crate) fn note_tainted_baseline(&self, store: &mut Store, measured: &Measurement) {
        let keeps = self.id().is_baseline() && self.run.role == RunRole::Baseline && measured.failure.is_none();
        if keeps && !measured.gpu_others.is_empty() {
            let (runs, who) = (TAINT_REPEATS + 1, GpuOther::clause(&measured.gpu_others));
            store.note(Notice::BaselineTainted { runs, who });
        }
    }
}
