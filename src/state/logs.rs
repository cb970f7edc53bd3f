//! The event logs: `logs/work.jsonl`, `orchestrator.jsonl` and `heartbeat.jsonl`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GuardianLine, StateError, lines};
use crate::domain::{StopReason, cut, one_line};
use crate::fs::{read_at_most, read_tail};
use crate::rules::GuardianAction;

/// The event log of the work itself.
pub const WORK_LOG: &str = "work.jsonl";

/// The event log of decisions.
const DECISION_LOG: &str = "orchestrator.jsonl";

/// The event log of heartbeats.
pub const HEARTBEAT_LOG: &str = "heartbeat.jsonl";

/// The files of the event logs.
pub const EVENT_LOGS: [&str; 3] = [WORK_LOG, DECISION_LOG, HEARTBEAT_LOG];

/// The most characters of a text in a line's detail.
const SHOWN: usize = 200;

/// The level of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Information.
    Info,
    /// Something that the user may want to look at.
    Warn,
    /// A failure.
    Error,
    /// `ar` decided something.
    Decision,
}

/// The event of the start of a loop or of `ar try`.
const STARTED: &str = "session_started";

/// The event of the end of a loop.
const STOPPED: &str = "session_stopped";

/// The longest log that is searched for the last end, in bytes.
const LARGEST: u64 = 64 << 20;

/// The last start or end of a session that its log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedEnd {
    /// It started and did not stop: by `ar try`, or killed.
    Open,
    /// It left a run behind that continues by itself.
    Detached,
    /// A SIGTERM ended it.
    Terminated,
    /// It stopped in good order.
    Stopped,
}

/// A line, as far as it tells of starts and ends.
#[derive(Deserialize)]
struct Logged {
    #[serde(with = "crate::domain::millis")]
    ts: Timestamp,
    #[serde(default)]
    event: String,
    #[serde(default)]
    data: Value,
}

/// The event logs of one session.
#[derive(Debug, Clone)]
pub struct EventLog {
    folder: PathBuf,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    ts: Timestamp,
    source: &'a str,
    level: Level,
    event: &'a str,
    /// The text for people.
    detail: String,
    /// The same for programs, with more facts.
    data: &'a Value,
}

impl EventLog {
    /// Names the logs in `folder`; creates nothing.
    pub fn new(folder: &Path) -> Self {
        EventLog { folder: folder.to_owned() }
    }

    /// Writes a line about the work itself.
    pub fn work(&self, ts: Timestamp, level: Level, event: &str, data: &Value) -> Result<(), StateError> {
        self.write(WORK_LOG, Line { ts, source: "session", level, event, detail: detail_of(data), data })
    }

    /// Writes a line about a decision of `source`, the rules or the user.
    pub fn decision(&self, ts: Timestamp, source: &str, event: &str, data: &Value) -> Result<(), StateError> {
        let detail = detail_of(data);
        self.write(DECISION_LOG, Line { ts, source, level: Level::Decision, event, detail, data })
    }

    /// Writes a heartbeat.
    pub fn heartbeat(&self, ts: Timestamp, data: &Value) -> Result<(), StateError> {
        let (level, detail) = (Level::Info, detail_of(data));
        self.write(HEARTBEAT_LOG, Line { ts, source: "session", level, event: "heartbeat", detail, data })
    }

    /// Copies what a guardian did about the session.
    pub fn guard(&self, line: &GuardianLine) -> Result<(), StateError> {
        let (ts, event, data) = (line.ts, line.action.to_string(), json!({"detail": line.detail}));
        let level = if line.action == GuardianAction::Nudge { Level::Info } else { Level::Warn };
        let (event, detail) = (event.as_str(), detail_of(&data));
        self.write(HEARTBEAT_LOG, Line { ts, source: "guard", level, event, detail, data: &data })
    }

    /// Logs that the user stopped an idle session.
    pub fn stopped_by_user(&self, ts: Timestamp, reason: &StopReason) -> Result<(), StateError> {
        self.work(ts, Level::Info, STOPPED, &json!({"reason": reason}))
    }

    /// Finds the last start or end of the session in its log. `None` if the log is lost, or has neither.
    pub fn last_end(&self) -> Option<LoggedEnd> {
        let text = read_at_most(&self.folder.join(WORK_LOG), LARGEST).ok()?;
        let lines = text.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Logged>(line).ok());
        let mut ends = lines.filter(|line| [STARTED, STOPPED].contains(&line.event.as_str()));
        let Logged { event, data, .. } = ends.next()?;
        Some(match data["reason"]["kind"].as_str() {
            _ if event == STARTED => LoggedEnd::Open,
            Some("detached") => LoggedEnd::Detached,
            Some("terminated") => LoggedEnd::Terminated,
            _ => LoggedEnd::Stopped,
        })
    }

    /// The time of the last sign of life in the logs, if they have one.
    pub fn last_seen(&self) -> Option<Timestamp> {
        let last = |name: &&str| {
            let text = read_tail(&self.folder.join(name), 0).ok()?;
            text.rsplit(|byte| *byte == b'\n').find_map(|line| Some(serde_json::from_slice::<Logged>(line).ok()?.ts))
        };
        [WORK_LOG, HEARTBEAT_LOG].iter().filter_map(last).max()
    }

    fn write(&self, file: &str, line: Line<'_>) -> Result<(), StateError> {
        // No step relies on these lines, so the system may write them to disk at any time.
        lines::add(&self.folder.join(file), &line)
    }
}

/// Formats data as a line of text: its sentence, else its plain fields. Nested fields are only in the data.
fn detail_of(data: &Value) -> String {
    let Some(fields) = data.as_object() else { return String::new() };
    if let Some(Value::String(sentence)) = fields.get("detail") {
        return one_line(sentence);
    }
    let text = |value: &Value| match value {
        Value::String(text) => Some(cut(&one_line(text), SHOWN)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let told = fields.iter().filter_map(|(name, value)| Some(format!("{}: {}", name.replace('_', " "), text(value)?)));
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::append;

    #[test]
    fn the_last_start_or_end_is_found_in_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let (log, ts) = (EventLog::new(folder.path()), "2026-11-20T22:00:00Z".parse().unwrap());
        assert_eq!((log.last_end(), log.last_seen()), (None, None));
        log.work(ts, Level::Info, "note", &json!({"detail": "session_stopped"})).unwrap();
        assert_eq!((log.last_end(), log.last_seen()), (None, Some(ts)));
        log.work(ts, Level::Info, STARTED, &json!({})).unwrap();
        log.work(ts, Level::Info, "note", &json!({})).unwrap();
        assert_eq!(log.last_end(), Some(LoggedEnd::Open));
        let stops = [
            (StopReason::Detached, LoggedEnd::Detached),
            (StopReason::Terminated, LoggedEnd::Terminated),
            (StopReason::NoAgent, LoggedEnd::Stopped),
        ];
        for (reason, end) in stops {
            log.stopped_by_user(ts, &reason).unwrap();
            log.work(ts, Level::Info, "note", &json!({})).unwrap();
            append(&folder.path().join(WORK_LOG), "torn").unwrap();
            assert_eq!(log.last_end(), Some(end));
        }
    }

    #[test]
    fn a_line_has_its_detail_as_text_and_its_data_beside_it() {
        assert_eq!(detail_of(&json!({"detail": "one\ntwo", "of": "stop"})), "one two");
        let data =
            json!({"id": 3, "seconds": 1.5, "said": "a\tb", "run": {"exit": 0}, "value": null, "timed_out": false});
        assert_eq!(detail_of(&data), "id: 3, seconds: 1.5, said: a b, timed out: false");
        assert_eq!(detail_of(&json!({})), "");
        let folder = tempfile::tempdir().unwrap();
        EventLog::new(folder.path())
            .heartbeat("2026-11-20T22:00:00Z".parse().unwrap(), &json!({"process": 7}))
            .unwrap();
        assert_eq!(
            std::fs::read_to_string(folder.path().join("heartbeat.jsonl")).unwrap(),
            "{\"ts\":\"2026-11-20T22:00:00.000Z\",\"source\":\"session\",\"level\":\"info\",\"event\":\"heartbeat\",\
             \"detail\":\"process: 7\",\"data\":{\"process\":7}}\n"
        );
    }
}
