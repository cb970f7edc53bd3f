//! The memory of later agent calls: findings, directions, the log of iterations.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::json::{read_json, write_json};
use super::{StateError, lines};
use crate::domain::{ExperimentId, FORMAT_VERSION, Outcome, Record, Stall, exact_time};
use crate::fs::{read_tail, write_atomic};
use crate::rules::same_direction;

/// The findings.
pub const FINDINGS: &str = "findings.jsonl";
/// The log of iterations.
pub const ITERATIONS: &str = "iteration_log.jsonl";
/// The directions tried.
pub const DIRECTIONS: &str = "directions_tried.json";

/// One line of `iteration_log.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct Iteration<'a> {
    /// When it ended.
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    pub ts: Timestamp,
    /// Its number, from 1.
    pub iteration: u32,
    /// Its experiment; absent if the agent changed nothing.
    pub experiment: Option<ExperimentId>,
    /// Its outcome.
    pub outcome: Option<Outcome>,
    /// Its description, or the agent's report.
    pub description: &'a str,
    /// Iterations since the last keep, including this one.
    pub stale_count: u32,
    /// The kind of stall of the agent call, if it stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
}

impl<'a> Iteration<'a> {
    /// Creates the line of an iteration that made an experiment.
    pub fn of(record: &'a Record, iteration: u32, stale_count: u32) -> Self {
        Iteration {
            ts: record.finished,
            iteration,
            experiment: Some(record.id),
            outcome: Some(record.outcome),
            description: &record.description,
            stale_count,
            stall: None,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Directions {
    version: u32,
    directions: Vec<DirectionTried>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DirectionTried {
    direction: String,
    experiments: Vec<ExperimentId>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Directions {
    fn none() -> Self {
        Directions { version: FORMAT_VERSION, directions: Vec::new(), more: Map::new() }
    }

    /// Assigns an experiment to a direction; returns whether that is new.
    fn add(&mut self, direction: &str, experiment: ExperimentId) -> bool {
        match self.directions.iter_mut().find(|known| same_direction(&known.direction, direction)) {
            Some(known) if known.experiments.contains(&experiment) => return false,
            Some(known) => known.experiments.push(experiment),
            None => self.directions.push(DirectionTried {
                direction: direction.to_owned(),
                experiments: vec![experiment],
                more: Map::new(),
            }),
        }
        true
    }
}

fn finding_line(ts: Timestamp, experiment: ExperimentId, finding: &str) -> Value {
    json!({"ts": exact_time(ts), "experiment": experiment, "finding": finding})
}

/// The memory files of one session.
#[derive(Debug, Clone)]
pub struct Memory {
    folder: PathBuf,
}

impl Memory {
    /// Names the files in `folder`.
    pub fn new(folder: &Path) -> Self {
        Memory { folder: folder.to_owned() }
    }

    /// Creates missing files from the session's records. Agent calls without changes have no record, so each experiment
    /// counts as one iteration.
    pub fn create(&self, records: &[Record]) -> Result<(), StateError> {
        let lines = |path: &Path, lines: Vec<Value>| {
            let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
            write_atomic(path, text.as_bytes())
        };
        let experiments = || records.iter().filter(|record| !record.id.is_baseline());
        let path = self.folder.join(FINDINGS);
        if !path.exists() {
            let found = experiments().flat_map(|record| {
                record
                    .findings()
                    .iter()
                    .map(|finding| finding_line(record.finished, record.id, finding))
                    .collect::<Vec<_>>()
            });
            lines(&path, found.collect())?;
        }
        let path = self.folder.join(ITERATIONS);
        if !path.exists() {
            let mut stale_count = 0;
            let iterations = (1u32..).zip(experiments()).map(|(iteration, record)| {
                stale_count = if record.outcome == Outcome::Keep { 0 } else { stale_count + 1 };
                json!(Iteration::of(record, iteration, stale_count))
            });
            lines(&path, iterations.collect())?;
        }
        let path = self.directions_path();
        if !path.exists() {
            let mut tried = Directions::none();
            for record in experiments() {
                if let Some(direction) = &record.direction {
                    tried.add(direction, record.id);
                }
            }
            write_json(&path, &tried)?;
        }
        Ok(())
    }

    /// Adds a line to the log of iterations unless its last line has the same iteration and experiment.
    pub fn log_iteration(&self, iteration: &Iteration<'_>) -> Result<(), StateError> {
        let tail = read_tail(&self.folder.join(ITERATIONS), 0)?;
        let last = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
        let last = last.and_then(|line| serde_json::from_slice::<Value>(line).ok());
        let is_same = |last: &Value| {
            last["iteration"] == iteration.iteration && last["experiment"] == json!(iteration.experiment)
        };
        if last.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        lines::add(&self.folder.join(ITERATIONS), iteration)
    }

    /// Adds the findings of an experiment unless they exist.
    pub fn add_findings(&self, ts: Timestamp, experiment: ExperimentId, findings: &[String]) -> Result<(), StateError> {
        let tail = read_tail(&self.folder.join(FINDINGS), 0)?;
        let lines = tail.split(|byte| *byte == b'\n');
        let mut known: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        for finding in findings {
            let is_known = |line: &Value| line["experiment"] == experiment.number() && line["finding"] == *finding;
            if !known.iter().any(is_known) {
                let line = finding_line(ts, experiment, finding);
                lines::add(&self.folder.join(FINDINGS), &line)?;
                known.push(line);
            }
        }
        Ok(())
    }

    /// The newest findings with their experiments, oldest first.
    ///
    /// # Errors
    ///
    /// The file exists but cannot be read.
    pub fn findings(&self) -> Result<Vec<(ExperimentId, String)>, StateError> {
        let tail = read_tail(&self.folder.join(FINDINGS), 0)?;
        let lines = tail.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let finding = |line: Value| {
            let experiment = ExperimentId::deserialize(&line["experiment"]).ok()?;
            Some((experiment, line["finding"].as_str()?.to_owned()))
        };
        Ok(lines.filter_map(finding).collect())
    }

    /// Assigns an experiment to a direction.
    pub fn add_direction(&self, direction: &str, experiment: ExperimentId) -> Result<(), StateError> {
        let path = self.directions_path();
        let mut tried = read_json::<Directions>(&path)?.unwrap_or(Directions::none());
        if tried.add(direction, experiment) { write_json(&path, &tried) } else { Ok(()) }
    }

    fn directions_path(&self) -> PathBuf {
        self.folder.join(DIRECTIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_twice_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path());
        memory.create(&[]).unwrap();
        let idle = Iteration {
            ts: Timestamp::UNIX_EPOCH,
            iteration: 1,
            experiment: None,
            outcome: None,
            description: "what now?",
            stale_count: 1,
            stall: None,
        };
        let experiment = Iteration { experiment: Some(1.into()), ..idle.clone() };
        for iteration in [&idle, &idle, &experiment, &experiment] {
            memory.log_iteration(iteration).unwrap();
        }
        let found = ["a", "b", "b"].map(str::to_owned);
        memory.add_findings(Timestamp::UNIX_EPOCH, 1.into(), &found[..1]).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 1.into(), &found).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 2.into(), &found[..1]).unwrap();
        memory.add_direction("warmup", 1.into()).unwrap();
        memory.add_direction("Warm up", 1.into()).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("iteration_log.jsonl").lines().count(), 2);
        assert_eq!(text("findings.jsonl").lines().count(), 3);
        assert_eq!(text("directions_tried.json").matches('1').count(), 2, "the version and the experiment");
    }
}
