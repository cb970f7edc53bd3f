//! The findings of a session or a ledger, as data.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::artifact::ArtifactData;
use super::beside::{described, with};
use super::chart::Series;
use super::cost::Cost;
use super::point::value;
use super::sources::Sources;
use super::verified::Verified;
use crate::domain::{
    AgentCall, CommitId, Composite, DiffStat, Direction, EnvironmentChange, ExperimentId, Layout, Note, Outcome,
    PartOf, Record, Review, ReviewVerdict, RunRole, Spent, Tokens, WallKind, span_text,
};
use crate::ledger::{Ledger, Row, RowStatus};
use crate::rules::{
    AxisValues, Check, Confound, Counts, Course, Ended, Evidence, History, Margin, Miss, Patterns, Point, RunOf,
    SHORTEST, Slots, Spread, Summary, TimeSplit, WallCounts, Warning, by_direction, by_file, confounds_of_keep,
    distinct_runs, environment_changes, expectations, gain_alone, gpu_hours, ignored_changes, is_concurrent,
    keep_hours, kept_uncontrolled, lanes, margin, misses, moved_in_a_row, run_seconds, slots, spread, summarize,
    time_split, warnings,
};

/// The time that a session took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Times {
    /// The start of the first experiment.
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    pub(super) started: Timestamp,
    /// The end of the last one.
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    pub(super) finished: Timestamp,
    /// Hours from the one to the other.
    pub(super) hours: f64,
    /// Hours of these in which no loop was active, between one loop and the next.
    pub(super) idle_hours: f64,
    /// Experiments per hour that was not idle, the baseline not counted; absent for less than a minute. Per hour of all where
    /// some were made by `ar try`.
    pub(super) per_hour: Option<f64>,
    /// Hours that the measuring command ran.
    pub(super) run_hours: f64,
    /// The same times the number of GPUs of each run; absent where none was found.
    pub(super) gpu_hours: Option<f64>,
}

impl Times {
    /// The time from start to end, and how much of it was idle.
    pub(super) fn span(&self) -> String {
        let (span, idle) = (span_text(self.hours * 3600.0), self.idle_hours * 3600.0);
        if idle < SHORTEST { span } else { format!("{span} ({} idle)", span_text(idle)) }
    }
}

// The points of a ledger take the place of its rows, so that there is never a million of either beside the other.
const _: () = assert!(size_of::<Row>() >= size_of::<Point>());

/// The data of an experiment that its point lacks, as in a JSON document.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Details {
    base: CommitId,
    reason: String,
    /// The strategy that it belongs to.
    direction: Option<String>,
    pub(super) memory_gb: Option<f64>,
    /// The experiment whose number counts for it: the last one of the train that it was kept with.
    #[serde(skip_serializing_if = "Option::is_none")]
    number_of: Option<ExperimentId>,
    /// The later keep that removed its change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replaced_by: Option<ExperimentId>,
    /// Its own gain, before the train that it was kept with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gain_alone: Option<f64>,
    /// The duration of its runs.
    pub(super) seconds: f64,
    /// The wall during its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<WallKind>,
    diff: DiffStat,
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    started: Timestamp,
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    finished: Timestamp,
    /// The agent's call that made it, with its cost and tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentCall>,
    /// The verdict of an independent reviewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    review: Option<Review>,
    /// What a keep cost since the keep before it, in [`Report::hour`]s; absent where the runs are not known.
    #[serde(skip)]
    pub(super) hours: Option<f64>,
    /// What changed with a keep beside the metric.
    #[serde(skip)]
    pub(super) confounds: Vec<Confound>,
    /// The user's notes on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<Note>>,
    /// The numbers of its axes, in a session that has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) axes: Option<AxisValues>,
    /// The score of a research session's artifact after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifact: Option<ArtifactData>,
}

impl Details {
    fn of(record: &Record, replaced_by: Option<ExperimentId>, gain_alone: Option<f64>) -> Details {
        Details {
            base: record.base.clone(),
            reason: record.reason.clone(),
            direction: record.direction.clone(),
            memory_gb: record.memory_gb,
            number_of: record.number_of(),
            replaced_by,
            hours: None,
            confounds: Vec::new(),
            gain_alone,
            seconds: record.run_seconds(),
            sandbox: record.sandbox,
            diff: record.diff,
            started: record.started,
            finished: record.finished,
            agent: record.agent.clone(),
            review: record.review.clone(),
            notes: None,
            axes: None,
            artifact: None,
        }
    }
}

/// The runs of a slot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lane {
    /// Its runs, by time.
    pub(super) runs: Vec<LaneRun>,
}

/// A run in a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaneRun {
    /// The experiment; of a train's run, its last member.
    pub(super) id: ExperimentId,
    pub(super) ended: Ended,
    pub(super) started: Timestamp,
    /// Its duration.
    pub(super) seconds: f64,
}

impl Lane {
    fn of(runs: &[RunOf<'_>]) -> Lane {
        let run = |run: &RunOf<'_>| LaneRun {
            id: run.record.id,
            ended: Ended::of_record(run.record),
            started: run.run.started,
            seconds: run.run.seconds,
        };
        Lane { runs: runs.iter().map(run).collect() }
    }

    /// The time that it was busy, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.runs.iter().map(|run| run.seconds).sum::<f64>().abs()
    }
}

/// The findings of a session or a ledger.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What fresh runs say of its experiments.
    pub(super) verified: Verified,
    pub(super) tag: Option<String>,
    /// Its origin, as far as it is known: repository, GPU, agent.
    pub(super) origin: Vec<String>,
    pub(super) metric: Option<String>,
    pub(super) direction: Direction,
    pub(super) counts: Counts,
    pub(super) points: Vec<Point>,
    pub(super) baseline: Option<usize>,
    pub(super) summary: Summary,
    pub(super) times: Option<Times>,
    /// Its slots; absent for a ledger.
    pub(super) slots: Option<Slots>,
    /// The runs of each slot, in slot order; empty *in place*.
    pub(super) lanes: Vec<Lane>,
    /// The experiments after which the session was flagged for review.
    pub(super) flagged: Vec<ExperimentId>,
    /// The experiments with numbers of runs that did not finish.
    pub(super) partial: Vec<ExperimentId>,
    /// Those with numbers that are not of whole runs.
    pub(super) of_parts: Vec<(ExperimentId, PartOf)>,
    /// What the experiments after the last keep cost, in [`Report::hour`]s.
    pub(super) hours_since_keep: f64,
    /// The reason that the last loop ended.
    pub(super) ended: Option<String>,
    /// What recurs in its experiments; absent for a ledger.
    pub(super) patterns: Option<Patterns>,
    /// The shares of a session's time.
    pub(super) time_split: Option<TimeSplit>,
    /// The spread of repeated measurements.
    pub(super) spread: Option<Spread>,
    /// The reruns of the best experiments, in order.
    pub(super) checks: Vec<Check>,
    /// The numbers by the wall around their runs, where the records have it.
    pub(super) walls: Option<WallCounts>,
    /// The number of runs during which another process was on the GPU.
    pub(super) tainted_runs: u32,
    /// The last experiments in a row whose controls moved.
    pub(super) moved: Vec<ExperimentId>,
    /// The keeps whose controls gave no number.
    pub(super) uncontrolled: Vec<ExperimentId>,
    /// The program that the command starts, where that is known.
    pub(super) program: Option<String>,
    /// Changes of the machine that values depend on.
    pub(super) changes: Vec<EnvironmentChange>,
    /// The largest distance of a near miss from the value to beat.
    pub(super) margin: Option<Margin>,
    /// For each experiment, the place of the one that it had to beat, where that is known; empty for a ledger.
    pub(super) rivals: Vec<Option<usize>>,
    /// Experiments worth another look.
    pub(super) misses: Vec<Miss>,
    /// The keeps that a reviewer doubts, or has not reviewed.
    pub(super) reviews: Vec<(ExperimentId, ReviewVerdict)>,
    /// True if the session has a reviewer now.
    pub(super) has_reviewer: bool,
    /// Facts to know before trusting the values.
    pub(super) warnings: Vec<Warning>,
    /// The data of each experiment that its point lacks, in the order of the points; empty for a ledger.
    pub(super) details: Vec<Details>,
    /// The tokens and the cost of the agent's calls.
    pub(super) spent: Spent,
    /// The axes of its experiments, where it has some.
    pub(super) composite: Option<Composite>,
    /// The sources of a research session.
    pub(super) sources: Option<Sources>,
    /// The folder with the artifacts of the best experiment.
    pub(super) artifacts: Option<String>,
    /// The value from which on experiments are kept, whatever the best is.
    pub(super) keep_above: Option<f64>,
    /// Assumptions, and how to override them, a sentence each.
    pub(super) assumed: Vec<String>,
    /// Unreadable lines of a ledger and lines with an unreadable value, with the cause.
    pub(super) unread: Vec<(u64, String)>,
}

impl Report {
    /// Sums up a session.
    pub fn of_session(tag: &str, metric: &str, direction: Direction, history: &History) -> Report {
        let records = history.records();
        let counts = Counts::of(records);
        let replaced = history.replaced();
        let points: Vec<Point> = records
            .iter()
            .map(|record| Point {
                id: record.id,
                commit: record.commit.is_known().then(|| record.commit.as_str().into()),
                value: history.number_to_beat(record),
                outcome: record.verdict(),
                description: record.description.as_str().into(),
                failure: record.failure.as_ref().map(|failure| failure.class),
                reason: record.reason.as_str().into(),
                excerpt: record.failure.as_ref().map(|failure| failure.excerpt.as_str().into()).unwrap_or_default(),
                is_confirmed: record.deciding_runs().iter().any(|run| run.role == Some(RunRole::Confirm)),
                is_barred: false,
            })
            .collect();
        let baseline = points.iter().position(|point| point.id.is_baseline());
        let has_verdict = points.is_empty() || points.iter().any(|point| point.outcome.is_some());
        let mut summary = summarize(&points, direction, baseline, has_verdict);
        summary.share_out(&points, direction, |id| replaced.contains_key(&id));
        Report {
            tag: Some(tag.to_owned()),
            metric: Some(metric.to_owned()),
            times: times(records),
            slots: Some(slots(records, None)),
            spent: history.spent(),
            details: records
                .iter()
                .map(|record| Details::of(record, replaced.get(&record.id).copied(), gain_alone(records, record)))
                .collect(),
            moved: moved_in_a_row(records),
            uncontrolled: kept_uncontrolled(records),
            direction,
            counts,
            points,
            baseline,
            summary,
            ..Report::default()
        }
    }

    /// The same with what is known beside the records, which are those of `history`, and what follows from all of it.
    #[must_use]
    pub fn with_timeline(mut self, history: &History, course: Course) -> Report {
        let records = history.records();
        self = self.with_spent(course.spent);
        self.origin = origin(course.repository, records);
        self.flagged = course.flagged;
        self.partial = records.iter().filter(|record| record.is_partial()).map(|record| record.id).collect();
        self.of_parts = records.iter().filter_map(|record| Some((record.id, record.part()?))).collect();
        self.ended = course.ended;
        self.checks = course.checks;
        self.program = course.program;
        self.spread = spread(records, &course.elsewhere);
        let seconds = self.times.map_or(0.0, |times| times.hours * 3600.0);
        let waits = history.waits();
        let layout = course.layout.as_ref();
        let slots = slots(records, layout);
        self.slots = Some(slots);
        if is_concurrent(records, layout) {
            self.lanes = lanes(records, slots.count).iter().map(|runs| Lane::of(runs)).collect();
        } else {
            // If runs and calls overlap, they are not shares of the same time.
            self.time_split = time_split(records, waits, course.agent_timeout, seconds);
        }
        if let Some(times) = &mut self.times {
            times.gpu_hours = gpu_hours(&distinct_runs(records), layout);
            times.idle_hours = self.time_split.map_or(waits.nobody.min(seconds), |split| split.nobody) / 3600.0;
            // With `ar try`, the user works between experiments, so idle time counts.
            if records.iter().all(|record| record.agent.is_some() || record.id.is_baseline()) {
                times.per_hour = per_hour(records, times.hours - times.idle_hours);
            }
        }
        let kept = records.iter().filter(|record| record.outcome == Outcome::Keep);
        let changed: Vec<ExperimentId> =
            kept.filter(|record| !record.changed_while_running.is_empty()).map(|record| record.id).collect();
        let tip = course.tip.as_ref().map(CommitId::as_str);
        self.changes = environment_changes(records);
        self.tainted_runs = records.iter().map(Record::tainted_runs).sum();
        self.walls = WallCounts::of(records);
        let of_record = |record: &Record| Some((record.id, record.open_review()?.verdict));
        self.reviews = records.iter().filter_map(of_record).collect();
        self.has_reviewer = course.has_reviewer;
        self.rivals = history.rivals();
        self.weigh_keeps(records, layout);
        self.patterns = Some(Patterns {
            files: by_file(records, &course.changed, &self.summary.kept, layout),
            directions: by_direction(records, &self.summary.kept, layout),
            hypotheses: expectations(records, &self.rivals, self.direction),
        });
        self.judge(None, (&changed, &ignored_changes(records)), tip, course.saved);
        self
    }

    /// Notes what each keep cost, and what changed with it.
    fn weigh_keeps(&mut self, records: &[Record], layout: Option<&Layout>) {
        // The runs of imported experiments are unknown.
        let hours = self.times.map(|_| keep_hours(records, layout)).unwrap_or_default();
        self.hours_since_keep = hours.since;
        for ((record, details), rival) in records.iter().zip(&mut self.details).zip(&self.rivals) {
            details.hours = hours.of.get(&record.id).copied();
            details.confounds = confounds_of_keep(record, rival.map(|place| &records[place]));
        }
    }

    /// The same with the folder in which the artifacts of the best experiment are, as `find` says.
    #[must_use]
    pub fn with_artifacts(mut self, find: impl FnOnce(ExperimentId) -> Option<String>) -> Report {
        self.artifacts = self.best().map(|best| best.id).and_then(find);
        self
    }

    /// The same with what all calls of the agent used, also those that led to no experiment, where the session knows that.
    #[must_use]
    pub fn with_spent(mut self, spent: Spent) -> Report {
        let known = |spent: &Spent| (spent.cost.unwrap_or(0.0), spent.tokens.map_or(0, Tokens::total));
        let (of_records, of_all) = (known(&self.spent), known(&spent));
        // A journal that is older than what an agent reports knows less than the records.
        if of_all.0 >= of_records.0 && of_all.1 >= of_records.1 {
            self.spent = spent;
        }
        self
    }

    /// The unit of what runs cost: a GPU-hour, or an hour of a run where the session has no GPU.
    pub(super) fn hour(&self) -> &'static str {
        if self.times.is_some_and(|times| times.gpu_hours.is_some()) { "GPU-hour" } else { "run hour" }
    }

    /// The hours of all runs, unless they are too few for a rate.
    pub(super) fn hours(&self) -> Option<f64> {
        let times = self.times.filter(|times| times.run_hours * 3600.0 >= SHORTEST)?;
        Some(times.gpu_hours.unwrap_or(times.run_hours))
    }

    /// The gain of the best over the baseline for each experiment, the baseline not counted.
    pub(super) fn gain_per_experiment(&self) -> Option<f64> {
        Some(self.summary.gain? / f64::from(self.experiments())).filter(|_| self.experiments() > 0)
    }

    /// The gain of the best over the baseline for each GPU-hour, or hour of runs where there is no GPU.
    pub(super) fn gain_per_gpu_hour(&self) -> Option<f64> {
        let times = self.times.as_ref()?;
        let hours = times.gpu_hours.unwrap_or(times.run_hours);
        Some(self.summary.gain? / hours).filter(|_| hours > 0.0)
    }

    /// The cost of the agent's calls.
    pub(super) fn cost(&self) -> Option<Cost> {
        let after_baseline = |point: &&Point| !point.id.is_baseline();
        let experiments = self.points.iter().filter(after_baseline).count();
        let keeps =
            self.points.iter().filter(after_baseline).filter(|point| point.outcome == Some(Outcome::Keep)).count();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Cost::of(&self.spent, count(experiments), count(keeps))
    }

    /// Looks for near misses and for what to warn of.
    fn judge(
        &mut self,
        ledger: Option<&Path>,
        (changed, ignored_changed): (&[ExperimentId], &[(ExperimentId, Vec<String>)]),
        tip: Option<&str>,
        saved: usize,
    ) {
        self.margin = margin(&self.summary.kept, self.spread.as_ref());
        self.misses = misses(&self.points, &self.rivals, self.direction, self.baseline, self.margin);
        self.warnings = warnings(Evidence {
            tag: self.tag.as_deref(),
            ledger,
            points: &self.points,
            metric: self.metric.as_deref().unwrap_or_default(),
            direction: self.direction,
            has_threshold: self.keep_above.is_some(),
            summary: &self.summary,
            spread: self.spread.as_ref(),
            time: self.time_split.as_ref(),
            checks: &self.checks,
            moved: &self.moved,
            uncontrolled: &self.uncontrolled,
            program: self.program.as_deref(),
            changes: &self.changes,
            changed_while_running: changed,
            tainted_runs: self.tainted_runs,
            walls: self.walls,
            ignored_changed,
            reviews: &self.reviews,
            has_reviewer: self.has_reviewer,
            partial: &self.partial,
            of_parts: &self.of_parts,
            flagged: &self.flagged,
            tip,
            saved,
            malformed: self.counts.malformed,
            without_number: (self.unread.len() as u32).saturating_sub(self.counts.malformed),
        });
    }

    /// The same with the notes on the experiments, which the JSON document has.
    #[must_use]
    pub fn with_notes(mut self, notes: &BTreeMap<ExperimentId, Vec<Note>>) -> Report {
        for (point, details) in self.points.iter().zip(&mut self.details) {
            if let Some(notes) = notes.get(&point.id) {
                details.notes = Some(notes.clone());
            }
        }
        self
    }

    /// Sums up a ledger that was read from a file.
    pub fn of_ledger(ledger: Ledger) -> Report {
        let unread = ledger.problems().map(|(line, problem)| (line, problem.to_owned())).collect();
        let is_read = |row: &Row| row.status != RowStatus::Malformed;
        // The first row, unless it has no number and a later one says that it is the baseline.
        let mut rows = ledger.rows.iter().filter(|row| is_read(row));
        let says_baseline = |row: &Row| row.status == RowStatus::Baseline && row.value.is_some();
        let baseline = match rows.clone().next() {
            Some(first) if first.value.is_none() => Some(rows.position(says_baseline).unwrap_or(0)),
            first => first.map(|_| 0),
        };
        let (mut counts, total) = (Counts::default(), ledger.rows.len() as u32);
        let points = (0..).map(ExperimentId::from).zip(ledger.rows.into_iter().filter(is_read));
        let points: Vec<Point> = points
            .map(|(id, row)| {
                let outcome = row.status.outcome();
                counts.add(Ended::of(outcome, row.failure));
                Point {
                    id,
                    commit: row.commit,
                    value: row.value,
                    outcome,
                    description: row.description,
                    failure: row.failure,
                    reason: Box::default(),
                    excerpt: Box::default(),
                    is_confirmed: false,
                    is_barred: row.is_barred,
                }
            })
            .collect();
        (counts.total, counts.malformed) = (total, total - counts.total);
        counts.elsewhere = ledger.elsewhere;
        let summary = summarize(&points, ledger.direction, baseline, ledger.has_verdict);
        let mut report = Report {
            metric: ledger.metric,
            assumed: ledger.assumed,
            unread,
            direction: ledger.direction,
            counts,
            points,
            baseline,
            summary,
            ..Report::default()
        };
        report.judge(ledger.file.as_deref(), (&[], &[]), None, 0);
        report
    }

    /// The number of experiments with each outcome.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The first experiment.
    pub fn baseline(&self) -> Option<&Point> {
        self.baseline.map(|index| &self.points[index])
    }

    /// The best experiment that was kept; in a ledger that says of no row what became of it, the best of all.
    pub fn best(&self) -> Option<&Point> {
        self.summary.best.map(|index| &self.points[index])
    }

    /// The number of the experiment at this place, as people see it; for a keep without one of its own the experiment that
    /// has it.
    pub(super) fn number_at(&self, place: usize) -> String {
        let last = self.details.get(place).and_then(|details| details.number_of);
        last.map_or_else(|| value(&self.points[place]), with)
    }

    /// Describes the experiment at this place, and names the later keep that removed its change, if any.
    pub(super) fn described_at(&self, place: usize) -> String {
        let replaced_by = self.details.get(place).and_then(|details| details.replaced_by);
        described(replaced_by, &self.points[place].description)
    }

    /// The name of the metric.
    pub(super) fn metric_name(&self) -> &str {
        self.metric.as_deref().unwrap_or("value")
    }

    /// The course of the experiments, as a chart shows it.
    pub fn series(&self) -> Series {
        let mut series = Series::new(self.metric_name(), self.direction, &self.points);
        if self.composite.is_some() {
            series = series.with_threshold(self.keep_above);
            series.panels = self.panels(&series.marks);
        }
        series
    }
}

fn times(records: &[Record]) -> Option<Times> {
    // The times of imported experiments are unknown.
    if records.iter().any(|record| record.imported.is_some()) {
        return None;
    }
    let started = records.iter().map(|record| record.started).min()?;
    let finished = records.iter().map(|record| record.finished).max()?;
    let hours = (finished.as_second() - started.as_second()).max(0) as f64 / 3600.0;
    let runs = distinct_runs(records);
    Some(Times {
        started,
        finished,
        hours,
        idle_hours: 0.0,
        per_hour: per_hour(records, hours),
        run_hours: run_seconds(&runs) / 3600.0,
        gpu_hours: gpu_hours(&runs, None),
    })
}

/// The rate of experiments in so many hours, the baseline not counted; absent for less than a minute.
fn per_hour(records: &[Record], hours: f64) -> Option<f64> {
    let experiments = records.iter().filter(|record| !record.id.is_baseline()).count();
    (hours * 3600.0 >= SHORTEST).then(|| experiments as f64 / hours)
}

/// The origin of records: the repository, then GPUs and agent of the newest record that has them; blank where unknown.
fn origin(repository: Option<String>, records: &[Record]) -> Vec<String> {
    let gpu = records.iter().rev().find_map(|record| {
        let (name, count) = (record.environment.gpu.as_ref()?, record.environment.gpus);
        Some(if count > 1 { format!("{count} x {name}") } else { name.clone() })
    });
    let agent = records.iter().rev().find_map(|record| record.agent.as_ref()).map(|call| {
        let program = call.command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or(program);
        call.model.as_ref().map_or_else(|| program.to_owned(), |model| format!("{program} {model}"))
    });
    [repository, gpu, agent].map(Option::unwrap_or_default).into()
}
