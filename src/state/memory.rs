//! What later calls of the agent are told: findings, directions, the log of iterations.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::StateError;
use super::durable::{append_line, read_json, read_tail, write_json};
use crate::domain::{FORMAT_VERSION, Outcome};

/// One line of `iteration_log.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct Iteration<'a> {
    /// When it ended.
    pub ts: Timestamp,
    /// Its number, from 1.
    pub iteration: u32,
    /// The experiment that it made; absent when the agent changed nothing.
    pub experiment: Option<u32>,
    /// What became of it.
    pub outcome: Option<Outcome>,
    /// What it tried, or what the agent said.
    pub description: &'a str,
    /// Iterations since the last keep, after it.
    pub stale_count: u32,
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
    experiments: Vec<u32>,
    #[serde(flatten)]
    more: Map<String, Value>,
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

    /// Creates the files that are not there, empty.
    pub fn create(&self) -> Result<(), StateError> {
        for name in ["findings.jsonl", "iteration_log.jsonl"] {
            let path = self.folder.join(name);
            if !path.exists() {
                super::write_atomic(&path, b"")?;
            }
        }
        let path = self.directions_path();
        if !path.exists() {
            write_json(&path, &Directions { version: FORMAT_VERSION, directions: Vec::new(), more: Map::new() })?;
        }
        Ok(())
    }

    /// Adds a line to the log of iterations, unless its last line is about the same iteration and experiment.
    pub fn log_iteration(&self, iteration: &Iteration<'_>) -> Result<(), StateError> {
        let tail = read_tail(&self.folder.join("iteration_log.jsonl"), 0)?;
        let last = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
        let last = last.and_then(|line| serde_json::from_slice::<Value>(line).ok());
        let is_same = |last: &Value| {
            last["iteration"] == iteration.iteration && last["experiment"] == json!(iteration.experiment)
        };
        if last.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        self.append("iteration_log.jsonl", &json!(iteration))
    }

    /// Adds what an experiment found, unless it is there already.
    pub fn add_findings(&self, ts: Timestamp, experiment: u32, findings: &[String]) -> Result<(), StateError> {
        let tail = read_tail(&self.folder.join("findings.jsonl"), 0)?;
        let lines = tail.split(|byte| *byte == b'\n');
        let known: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        for finding in findings {
            let is_known = |line: &Value| line["experiment"] == experiment && line["finding"] == *finding;
            if !known.iter().any(is_known) {
                self.append("findings.jsonl", &json!({"ts": ts, "experiment": experiment, "finding": finding}))?;
            }
        }
        Ok(())
    }

    /// Notes that an experiment belongs to a direction.
    pub fn add_direction(&self, direction: &str, experiment: u32) -> Result<(), StateError> {
        let path = self.directions_path();
        let mut tried = read_json::<Directions>(&path)?.unwrap_or(Directions {
            version: FORMAT_VERSION,
            directions: Vec::new(),
            more: Map::new(),
        });
        match tried.directions.iter_mut().find(|known| known.direction == direction) {
            Some(known) if known.experiments.contains(&experiment) => return Ok(()),
            Some(known) => known.experiments.push(experiment),
            None => tried.directions.push(DirectionTried {
                direction: direction.to_owned(),
                experiments: vec![experiment],
                more: Map::new(),
            }),
        }
        write_json(&path, &tried)
    }

    fn directions_path(&self) -> PathBuf {
        self.folder.join("directions_tried.json")
    }

    fn append(&self, name: &str, line: &Value) -> Result<(), StateError> {
        append_line(&self.folder.join(name), &line.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_twice_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path());
        memory.create().unwrap();
        let idle = Iteration {
            ts: Timestamp::UNIX_EPOCH,
            iteration: 1,
            experiment: None,
            outcome: None,
            description: "what now?",
            stale_count: 1,
        };
        let experiment = Iteration { experiment: Some(1), ..idle.clone() };
        for iteration in [&idle, &idle, &experiment, &experiment] {
            memory.log_iteration(iteration).unwrap();
        }
        let found = ["a", "b"].map(str::to_owned);
        memory.add_findings(Timestamp::UNIX_EPOCH, 1, &found[..1]).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 1, &found).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 2, &found[..1]).unwrap();
        memory.add_direction("warmup", 1).unwrap();
        memory.add_direction("warmup", 1).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("iteration_log.jsonl").lines().count(), 2);
        assert_eq!(text("findings.jsonl").lines().count(), 3);
        assert_eq!(text("directions_tried.json").matches('1').count(), 2, "the version and the experiment");
    }
}
