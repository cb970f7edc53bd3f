//! The event logs: `logs/work.jsonl`, `orchestrator.jsonl` and `heartbeat.jsonl`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::StateError;
use super::durable::append;

/// The files of the event logs.
pub const EVENT_LOGS: [&str; 3] = ["work.jsonl", "orchestrator.jsonl", "heartbeat.jsonl"];

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something happened.
    Info,
    /// Something happened that a person may want to look at.
    Warn,
    /// Something failed.
    Error,
    /// `ar` decided something.
    Decision,
}

/// The event logs of one session.
#[derive(Debug, Clone)]
pub struct EventLog {
    folder: PathBuf,
}

#[derive(Serialize)]
struct Line<'a> {
    ts: Timestamp,
    source: &'a str,
    level: Level,
    event: &'a str,
    detail: &'a Value,
}

impl EventLog {
    /// Names the logs in `folder`; creates nothing.
    pub fn new(folder: &Path) -> Self {
        EventLog { folder: folder.to_owned() }
    }

    /// Writes a line about the work itself.
    pub fn work(&self, ts: Timestamp, level: Level, event: &str, detail: &Value) -> Result<(), StateError> {
        self.write("work.jsonl", Line { ts, source: "session", level, event, detail })
    }

    /// Writes a line about a decision on how to go on.
    pub fn decision(&self, ts: Timestamp, event: &str, detail: &Value) -> Result<(), StateError> {
        self.write("orchestrator.jsonl", Line { ts, source: "rules", level: Level::Decision, event, detail })
    }

    /// Writes a sign of life.
    pub fn heartbeat(&self, ts: Timestamp, detail: &Value) -> Result<(), StateError> {
        self.write("heartbeat.jsonl", Line { ts, source: "session", level: Level::Info, event: "heartbeat", detail })
    }

    fn write(&self, file: &str, line: Line<'_>) -> Result<(), StateError> {
        let path = self.folder.join(file);
        let text = serde_json::to_string(&line).map_err(|source| StateError::Json { path: path.clone(), source })?;
        // Nothing rests on a line here: the system writes it to the disk when it likes.
        append(&path, &text).map(drop)
    }
}
