//! What a session or a ledger found, as data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::chart::Series;
use crate::domain::{Direction, FORMAT_VERSION, Note, Outcome, Record};
use crate::ledger::{Ledger, RowStatus};
use crate::rules::{History, Point, Summary, summarize};

/// How many experiments ended how. `other` are rows with a verdict that is none of the three, or without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are outcomes")]
pub struct Counts {
    pub total: u32,
    pub keep: u32,
    pub discard: u32,
    pub crash: u32,
    pub other: u32,
    pub malformed: u32,
}

impl Counts {
    fn add(&mut self, outcome: Option<Outcome>) {
        self.total += 1;
        *match outcome {
            Some(Outcome::Keep) => &mut self.keep,
            Some(Outcome::Discard) => &mut self.discard,
            Some(Outcome::Crash) => &mut self.crash,
            None => &mut self.other,
        } += 1;
    }
}

/// How long a session took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Times {
    /// When the first experiment began.
    pub(super) started: Timestamp,
    /// When the last one ended.
    pub(super) finished: Timestamp,
    /// Hours from the one to the other.
    pub(super) hours: f64,
    /// Experiments per hour, the baseline not counted; absent for a session of less than a minute.
    pub(super) per_hour: Option<f64>,
    /// Hours that the measuring command ran.
    pub(super) run_hours: f64,
    /// The same times the number of GPUs; absent where none was found.
    pub(super) gpu_hours: Option<f64>,
}

/// What a session or a ledger found.
#[derive(Debug, Clone)]
pub struct Report {
    pub(super) tag: Option<String>,
    pub(super) metric: Option<String>,
    pub(super) direction: Direction,
    pub(super) counts: Counts,
    pub(super) points: Vec<Point>,
    pub(super) baseline: Option<usize>,
    pub(super) summary: Summary,
    pub(super) times: Option<Times>,
    /// The experiments after which the session was flagged for a person.
    pub(super) flagged: Vec<u32>,
    /// Why the last loop ended.
    pub(super) ended: Option<String>,
    /// Further fields of each experiment's JSON, in the order of the points.
    details: Vec<Map<String, Value>>,
    /// What was assumed and how to say otherwise, a sentence each.
    pub(super) assumed: Vec<String>,
}

impl Report {
    /// Sums up a session.
    pub fn of_session(tag: &str, metric: &str, direction: Direction, history: &History) -> Report {
        let records = history.records();
        let mut counts = Counts::default();
        let points: Vec<Point> = records
            .iter()
            .map(|record| {
                counts.add(Some(record.outcome));
                Point {
                    id: record.id,
                    commit: Some(record.commit.to_string()),
                    value: record.metric.number(),
                    outcome: Some(record.outcome),
                    description: record.description.clone(),
                    failure: record.failure.as_ref().map(|failure| failure.class),
                }
            })
            .collect();
        let baseline = points.iter().position(|point| point.id == 0);
        Report {
            tag: Some(tag.to_owned()),
            metric: Some(metric.to_owned()),
            direction,
            counts,
            summary: summarize(&points, direction, baseline, true),
            points,
            baseline,
            times: times(records),
            flagged: Vec::new(),
            ended: None,
            details: records.iter().map(details).collect(),
            assumed: Vec::new(),
        }
    }

    /// The same with the experiments after which the session was flagged for a person, and why its last loop `ended`.
    #[must_use]
    pub fn with_course(self, flagged: Vec<u32>, ended: Option<String>) -> Report {
        Report { flagged, ended, ..self }
    }

    /// The same with the notes on the experiments, which the JSON document has.
    #[must_use]
    pub fn with_notes(mut self, notes: &BTreeMap<u32, Vec<Note>>) -> Report {
        for (point, details) in self.points.iter().zip(&mut self.details) {
            if let Some(notes) = notes.get(&point.id) {
                details.insert("notes".into(), json!(notes));
            }
        }
        self
    }

    /// Sums up a ledger that was read from a file.
    pub fn of_ledger(ledger: &Ledger) -> Report {
        let mut counts = Counts::default();
        let mut points = Vec::new();
        for row in &ledger.rows {
            let outcome = match &row.status {
                RowStatus::Keep => Some(Outcome::Keep),
                RowStatus::Discard => Some(Outcome::Discard),
                RowStatus::Crash => Some(Outcome::Crash),
                RowStatus::Other => None,
                RowStatus::Malformed => {
                    counts.total += 1;
                    counts.malformed += 1;
                    continue;
                }
            };
            counts.add(outcome);
            points.push(Point {
                id: points.len() as u32,
                commit: row.commit.clone(),
                value: row.value.clone(),
                outcome,
                description: row.description.clone(),
                failure: None,
            });
        }
        let baseline = (!points.is_empty()).then_some(0);
        Report {
            tag: None,
            metric: ledger.metric.clone(),
            direction: ledger.direction,
            counts,
            summary: summarize(&points, ledger.direction, baseline, ledger.has_verdict),
            details: vec![Map::new(); points.len()],
            points,
            baseline,
            times: None,
            flagged: Vec::new(),
            ended: None,
            assumed: ledger.assumed.clone(),
        }
    }

    /// How many experiments ended how.
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

    /// The course of the experiments, as a chart shows it.
    pub fn series(&self) -> Series {
        Series::new(self.metric.as_deref().unwrap_or("value"), self.direction, &self.points)
    }

    /// The report as a JSON document.
    pub fn to_json(&self) -> Value {
        let experiments: Vec<Value> = self
            .points
            .iter()
            .zip(&self.details)
            .map(|(point, details)| {
                let mut value = point_json(point);
                if let Some(fields) = value.as_object_mut() {
                    fields.extend(details.clone());
                }
                value
            })
            .collect();
        let kept: Vec<Value> = self
            .summary
            .kept
            .iter()
            .map(|step| {
                let point = &self.points[step.index];
                json!({
                    "id": point.id,
                    "commit": point.commit,
                    "value": point.value.as_ref().map(|number| number.value),
                    "gain": step.gain,
                    "description": point.description,
                })
            })
            .collect();
        json!({
            "version": FORMAT_VERSION,
            "tag": self.tag,
            "metric": self.metric,
            "direction": self.direction,
            "counts": self.counts,
            "baseline": self.baseline().map(point_json),
            "best": self.best().map(point_json),
            "gain": self.summary.gain,
            "relative_gain": self.summary.relative_gain,
            "keep_rate": self.summary.keep_rate,
            "failures": self.summary.failures,
            "longest_streak": self.summary.longest_streak,
            "times": self.times,
            "flagged": self.flagged,
            "ended": self.ended,
            "kept": kept,
            "experiments": experiments,
            "assumed": self.assumed,
        })
    }
}

pub(super) fn point_json(point: &Point) -> Value {
    json!({
        "id": point.id,
        "commit": point.commit,
        "value": point.value.as_ref().map(|number| number.value),
        "raw": point.value.as_ref().map(|number| &number.raw),
        "outcome": point.outcome,
        "failure": point.failure,
        "description": point.description,
    })
}

fn details(record: &Record) -> Map<String, Value> {
    let fields = json!({
        "base": record.base,
        "reason": record.reason,
        "direction": record.direction,
        "memory_gb": record.memory_gb,
        "seconds": record.run_seconds(),
        "diff": record.diff,
        "started": record.started,
        "finished": record.finished,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The shortest session, in hours, that a rate per hour says something about: a minute.
const SHORTEST_RATED: f64 = 1.0 / 60.0;

fn times(records: &[Record]) -> Option<Times> {
    let started = records.iter().map(|record| record.started).min()?;
    let finished = records.iter().map(|record| record.finished).max()?;
    let hours = (finished.as_second() - started.as_second()).max(0) as f64 / 3600.0;
    let experiments = records.iter().filter(|record| record.id != 0).count();
    let on_gpus: Vec<f64> = records
        .iter()
        .filter(|record| record.environment.gpus > 0)
        .map(|record| record.run_seconds() * f64::from(record.environment.gpus))
        .collect();
    Some(Times {
        started,
        finished,
        hours,
        per_hour: (hours >= SHORTEST_RATED).then(|| experiments as f64 / hours),
        run_hours: records.iter().map(Record::run_seconds).sum::<f64>() / 3600.0,
        gpu_hours: (!on_gpus.is_empty()).then(|| on_gpus.iter().sum::<f64>() / 3600.0),
    })
}
