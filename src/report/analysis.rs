//! The analysis of a session's records, or of a ledger's rows: what every report, status, page and chart reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::{ArtifactData, Cost, Series, Sources, VerifiedSection, described, value, with};
use crate::domain::{
    AgentCall, CommitId, Composite, Contract, DiffStat, Direction, ExperimentId, Note, Outcome, Record, Review,
    RunRole, Spent, Tokens, WallKind, span_text,
};
use crate::ledger::{Ledger, Row, RowStatus};
use crate::rules::{
    AxisValues, Confound, CountedOutcome, Counts, Evidence, HiddenTally, History, KeepHours, KeptStep, Margin, Miss,
    Patterns, Point, RunOf, SHORTEST, SessionFacts, Slots, Spread, Summary, TimeSplit, Warning, axis_values,
    by_direction, by_file, confounds_of_keep, distinct_runs, expectations, gain_alone, gpu_hours, is_concurrent,
    keep_hours, lanes, margin, misses, of_second_looks, run_seconds, slots, spread, summarize, time_split, warnings,
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
    /// The cost of the experiments after the last keep, in [`Report::hour`]s.
    #[serde(skip)]
    pub(super) since_keep: f64,
    /// The shares of the time.
    #[serde(skip)]
    pub(super) split: Option<TimeSplit>,
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
    /// The cost of a keep since the previous one, in [`Report::hour`]s; absent where the runs are unknown.
    #[serde(skip)]
    pub(super) hours: Option<f64>,
    /// Other changes that came with a keep.
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

/// The analysis of a session or a ledger.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub(super) tag: Option<String>,
    pub(super) metric: Option<String>,
    pub(super) direction: Direction,
    /// The session's records; empty for a ledger.
    pub(super) history: Arc<History>,
    /// Further facts of the session.
    pub(super) facts: SessionFacts,
    /// Its origin, as far as it is known: repository, GPU, agent.
    pub(super) origin: Vec<String>,
    pub(super) counts: Counts,
    pub(super) points: Vec<Point>,
    pub(super) summary: Summary,
    pub(super) times: Option<Times>,
    /// Its slots; absent for a ledger.
    pub(super) slots: Option<Slots>,
    /// Patterns in its experiments; absent for a ledger.
    pub(super) patterns: Option<Patterns>,
    /// The spread of repeated measurements.
    pub(super) spread: Option<Spread>,
    /// The largest distance of a near miss from the value to beat.
    pub(super) margin: Option<Margin>,
    /// Experiments worth another look.
    pub(super) misses: Vec<Miss>,
    /// Facts to know before trusting the values.
    pub(super) warnings: Vec<Warning>,
    /// The data of each experiment that its point lacks, in the order of the points; empty for a ledger.
    pub(super) details: Vec<Details>,
    /// The tokens and the cost of the agent's calls.
    pub(super) spent: Spent,
    /// The axes of its experiments, where it has some.
    pub(super) composite: Option<Composite>,
    /// The value from which on experiments are kept, whatever the best is.
    pub(super) keep_above: Option<f64>,
    /// The results of fresh runs.
    pub(super) verified: VerifiedSection,
    /// The folder with the artifacts of the best experiment.
    pub(super) artifacts: Option<String>,
    /// Assumptions, and how to override them, a sentence each.
    pub(super) assumed: Vec<String>,
    /// Unreadable lines of a ledger and lines with an unreadable value, with the cause.
    pub(super) unread: Vec<(u64, String)>,
}

impl Report {
    /// Analyses the records of a session. With its `contract` it has its axes, its artifact and its threshold, too.
    pub fn of_session(
        tag: &str,
        (metric, direction): (&str, Direction),
        contract: Option<&Contract>,
        history: Arc<History>,
        facts: SessionFacts,
    ) -> Report {
        let (records, layout) = (history.records(), facts.layout.as_ref());
        let points: Vec<Point> = records.iter().map(|record| point(&history, record)).collect();
        let baseline = points.iter().position(|point| point.id.is_baseline());
        let has_verdict = points.is_empty() || points.iter().any(|point| point.outcome.is_some());
        let replaced = history.replaced();
        let mut summary = summarize(&points, direction, baseline, has_verdict);
        summary.share_out(&points, direction, |id| replaced.contains_key(&id));
        let start = baseline.and_then(|index| points[index].value.as_ref());
        let keep_above = contract.and_then(|contract| Some(contract.keep_above.as_ref()?.value(start)));
        if keep_above.is_some() {
            // None of them had to be better than another.
            summary.kept.iter_mut().for_each(KeptStep::forget_gain);
        }
        let composite = contract.and_then(|contract| contract.composite.as_ref());
        let mut artifacts = ArtifactData::by_experiment(contract, &history);
        // The runs of imported experiments are unknown.
        let (times, hours) = times(records, &facts).map(|(times, hours)| (Some(times), hours)).unwrap_or_default();
        let rivals = history.rivals();
        let details = records.iter().zip(&rivals).map(|(record, rival)| Details {
            base: record.base.clone(),
            reason: record.reason.clone(),
            direction: record.direction.clone(),
            memory_gb: record.memory_gb,
            number_of: record.number_of(),
            replaced_by: replaced.get(&record.id).copied(),
            gain_alone: gain_alone(records, record),
            seconds: record.run_seconds(),
            sandbox: record.proof.sandbox,
            diff: record.change.diff,
            started: record.origin.started,
            finished: record.origin.finished,
            agent: record.origin.agent.clone(),
            review: record.proof.review.clone(),
            hours: hours.of.get(&record.id).copied(),
            confounds: confounds_of_keep(record, rival.map(|place| &records[place])),
            notes: None,
            axes: composite.map(|composite| axis_values(composite, &record.metrics)),
            artifact: artifacts.remove(&record.id),
        });
        let report = Report {
            tag: Some(tag.to_owned()),
            metric: Some(metric.to_owned()),
            direction,
            origin: origin(facts.repository.clone(), records),
            counts: Counts::of(records),
            times,
            slots: Some(slots(records, layout)),
            patterns: Some(Patterns {
                files: by_file(records, &facts.changed, &summary.kept, layout),
                directions: by_direction(records, &summary.kept, layout),
                hypotheses: expectations(records, &rivals, direction),
                second_looks: of_second_looks(records, &summary.kept, layout),
                hidden: HiddenTally::of(&facts.hidden, records, contract.is_some_and(|it| it.holdout_unsealed)),
            }),
            spread: spread(records, &facts.elsewhere),
            details: details.collect(),
            spent: spent(history.spent(), facts.spent),
            composite: composite.cloned(),
            keep_above,
            points,
            summary,
            ..Report::default()
        };
        Report { history: Arc::clone(&history), facts, ..report }.judged(&rivals, None)
    }

    /// The same with the folder in which the artifacts of the best experiment are, as `find` says.
    #[must_use]
    pub fn with_artifacts(mut self, find: impl FnOnce(ExperimentId) -> Option<String>) -> Report {
        self.artifacts = self.best().map(|best| best.id).and_then(find);
        self
    }

    /// The runs of each slot, in slot order; empty *in place*.
    pub(super) fn lanes(&self) -> Vec<Vec<RunOf<'_>>> {
        let (records, slots) = (self.history.records(), self.slots.filter(|_| self.is_concurrent()));
        slots.map(|slots| lanes(records, slots.count)).unwrap_or_default()
    }

    /// The sources of a research session.
    pub(super) fn sources(&self) -> Option<Sources> {
        Sources::of(self.history.records())
    }

    /// Returns whether its experiments were made side by side.
    pub(super) fn is_concurrent(&self) -> bool {
        is_concurrent(self.history.records(), self.facts.layout.as_ref())
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

    /// The same with near misses, and what to warn of. `rivals` are the places of the experiments that each had to beat.
    fn judged(mut self, rivals: &[Option<usize>], ledger: Option<&Path>) -> Report {
        self.margin = margin(&self.summary.kept, self.spread.as_ref());
        self.misses = misses(&self.points, rivals, self.direction, self.summary.baseline, self.margin);
        self.warnings = warnings(Evidence {
            tag: self.tag.as_deref(),
            ledger,
            records: self.history.records(),
            facts: &self.facts,
            points: &self.points,
            metric: self.metric.as_deref().unwrap_or_default(),
            direction: self.direction,
            has_threshold: self.keep_above.is_some(),
            summary: &self.summary,
            spread: self.spread.as_ref(),
            time: self.times.as_ref().and_then(|times| times.split.as_ref()),
            malformed: self.counts.malformed,
            without_number: (self.unread.len() as u32).saturating_sub(self.counts.malformed),
        });
        self
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
                counts.add(CountedOutcome::of(outcome, row.failure));
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
        let report = Report {
            metric: ledger.metric,
            assumed: ledger.assumed,
            unread,
            direction: ledger.direction,
            counts,
            points,
            summary,
            ..Report::default()
        };
        report.judged(&[], ledger.file.as_deref())
    }

    /// Returns whether it is of the same records, as they were read once.
    pub fn is_of(&self, history: &Arc<History>) -> bool {
        Arc::ptr_eq(&self.history, history)
    }

    /// The number of experiments with each outcome.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The first experiment.
    pub fn baseline(&self) -> Option<&Point> {
        self.summary.baseline.map(|index| &self.points[index])
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
        let mut series =
            Series::new(self.metric_name(), self.direction, &self.points).with_hidden(&self.hidden_gains());
        if self.composite.is_some() {
            series = series.with_threshold(self.keep_above);
            series.panels = self.panels(&series.marks);
        }
        series
    }

    /// The gains of kept changes on the hidden split, with the places of their experiments.
    fn hidden_gains(&self) -> Vec<(u32, f64)> {
        let kept = self.facts.hidden.of_kept(self.history.records());
        kept.into_iter().filter_map(|(place, verdict)| Some((place as u32, verdict.hidden?))).collect()
    }
}

/// An experiment of a session as the summary takes it.
fn point(history: &History, record: &Record) -> Point {
    Point {
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
    }
}

/// What all calls of the agent used, also those that led to no experiment. A journal that is older than what an agent reports
/// knows less than the records.
fn spent(of_records: Spent, of_all: Spent) -> Spent {
    let known = |spent: &Spent| (spent.cost.unwrap_or(0.0), spent.tokens.map_or(0, Tokens::total));
    let (recorded, all) = (known(&of_records), known(&of_all));
    if all.0 >= recorded.0 && all.1 >= recorded.1 { of_all } else { of_records }
}

/// The time that a session took, and the cost of its keeps.
fn times(records: &[Record], facts: &SessionFacts) -> Option<(Times, KeepHours)> {
    // The times of imported experiments are unknown.
    if records.iter().any(|record| record.origin.imported.is_some()) {
        return None;
    }
    let started = records.iter().map(|record| record.origin.started).min()?;
    let finished = records.iter().map(|record| record.origin.finished).max()?;
    let seconds = (finished.as_second() - started.as_second()).max(0) as f64;
    let (runs, waits, layout) = (distinct_runs(records), records.last()?.conditions.waits, facts.layout.as_ref());
    // If runs and calls overlap, they are not shares of the same time.
    let split =
        if is_concurrent(records, layout) { None } else { time_split(records, waits, facts.agent_timeout, seconds) };
    let idle = split.map_or(waits.nobody.min(seconds), |split| split.nobody);
    // With `ar try`, the user works between experiments, so idle time counts.
    let is_by_agent = records.iter().all(|record| !record.is_by_hand());
    let (hours, idle_hours) = (seconds / 3600.0, idle / 3600.0);
    let rated = if is_by_agent { hours - idle_hours } else { hours };
    let experiments = records.iter().filter(|record| !record.id.is_baseline()).count();
    let keep_hours = keep_hours(records, layout);
    let times = Times {
        started,
        finished,
        hours,
        idle_hours,
        per_hour: (rated * 3600.0 >= SHORTEST).then(|| experiments as f64 / rated),
        run_hours: run_seconds(&runs) / 3600.0,
        gpu_hours: gpu_hours(&runs, layout),
        since_keep: keep_hours.since,
        split,
    };
    Some((times, keep_hours))
}

/// The origin of records: the repository, then GPUs and agent of the newest record that has them; blank where unknown.
fn origin(repository: Option<String>, records: &[Record]) -> Vec<String> {
    let gpu = records.iter().rev().find_map(|record| {
        let (name, count) = (record.origin.environment.gpu.as_ref()?, record.origin.environment.gpus);
        Some(if count > 1 { format!("{count} x {name}") } else { name.clone() })
    });
    let agent = records.iter().rev().find_map(|record| record.origin.agent.as_ref()).map(|call| {
        let program = call.command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or(program);
        call.model.as_ref().map_or_else(|| program.to_owned(), |model| format!("{program} {model}"))
    });
    [repository, gpu, agent].map(Option::unwrap_or_default).into()
}
