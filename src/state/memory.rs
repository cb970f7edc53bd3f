//! The memory of later agent calls: findings, directions, the log of iterations.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::json::write_json;
use super::{StateError, lines};
use crate::domain::{ExperimentId, FORMAT_VERSION, Outcome, Record, Stall};
use crate::rules::same_direction;

/// The findings.
pub const FINDINGS: &str = "findings.jsonl";
/// The log of iterations.
pub const ITERATIONS: &str = "iteration_log.jsonl";
/// The directions tried.
const DIRECTIONS: &str = "directions_tried.json";
/// The files that [`Memory::create`] makes of the records.
pub const MEMORY_FILES: [&str; 3] = [FINDINGS, ITERATIONS, DIRECTIONS];

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

/// One line of `findings.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct FindingLine {
    #[serde(with = "crate::domain::millis")]
    ts: Timestamp,
    experiment: ExperimentId,
    finding: String,
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
        let experiments = || records.iter().filter(|record| !record.id.is_baseline());
        let missing = |name: &str| Some(self.folder.join(name)).filter(|path| !path.exists());
        if let Some(path) = missing(FINDINGS) {
            let line = |record: &Record, finding| FindingLine { ts: record.finished, experiment: record.id, finding };
            let of = |record| Record::findings(record).into_iter().map(move |finding| line(record, finding));
            lines::replace(&path, &experiments().flat_map(of).collect::<Vec<_>>())?;
        }
        if let Some(path) = missing(ITERATIONS) {
            let mut stale_count = 0;
            let iterations = (1u32..).zip(experiments()).map(|(iteration, record)| {
                stale_count = if record.outcome == Outcome::Keep { 0 } else { stale_count + 1 };
                Iteration::of(record, iteration, stale_count)
            });
            lines::replace(&path, &iterations.collect::<Vec<_>>())?;
        }
        if missing(DIRECTIONS).is_some() { self.write_directions(records) } else { Ok(()) }
    }

    /// Adds a line to the log of iterations unless its last line has the same iteration and experiment.
    pub fn log_iteration(&self, iteration: &Iteration<'_>) -> Result<(), StateError> {
        let path = self.folder.join(ITERATIONS);
        let last = lines::newest::<Value>(&path)?.pop().unwrap_or_default();
        if last["iteration"] == iteration.iteration && last["experiment"] == json!(iteration.experiment) {
            return Ok(());
        }
        lines::add(&path, iteration)
    }

    /// Adds the findings of an experiment unless they exist.
    pub fn add_findings(&self, ts: Timestamp, experiment: ExperimentId, findings: &[String]) -> Result<(), StateError> {
        let mut known = self.findings()?;
        for finding in findings.iter().map(|finding| (experiment, finding.clone())) {
            if !known.contains(&finding) {
                let line = FindingLine { ts, experiment, finding: finding.1.clone() };
                lines::add(&self.folder.join(FINDINGS), &line)?;
                known.push(finding);
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
        let lines = lines::newest::<FindingLine>(&self.folder.join(FINDINGS))?;
        Ok(lines.into_iter().map(|line| (line.experiment, line.finding)).collect())
    }

    /// Writes the directions that the experiments of these records named, each with its experiments.
    pub fn write_directions(&self, records: &[Record]) -> Result<(), StateError> {
        let mut tried: Vec<(&str, Vec<ExperimentId>)> = Vec::new();
        for record in records.iter().filter(|record| !record.id.is_baseline()) {
            let Some(direction) = record.direction.as_deref() else { continue };
            match tried.iter_mut().find(|(known, _)| same_direction(known, direction)) {
                Some((_, experiments)) => experiments.push(record.id),
                None => tried.push((direction, vec![record.id])),
            }
        }
        let json = |(direction, experiments)| json!({"direction": direction, "experiments": experiments});
        let directions: Vec<Value> = tried.into_iter().map(json).collect();
        write_json(&self.folder.join(DIRECTIONS), &json!({"version": FORMAT_VERSION, "directions": directions}))
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
        let record = |id: u32, direction: &str| crate::rules::sample::record(json!({"id": id, "direction": direction}));
        memory.write_directions(&[record(1, "warmup"), record(2, "Warm up")]).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("iteration_log.jsonl").lines().count(), 2);
        assert_eq!(text("findings.jsonl").lines().count(), 3);
        let tried: Value = serde_json::from_str(&text("directions_tried.json")).unwrap();
        assert_eq!(tried["directions"], json!([{"direction": "warmup", "experiments": [1, 2]}]));
    }
}
