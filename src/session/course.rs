//! What a report is told of a session beside its records. What cannot be read is left out: the report is of the records.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use memchr::memmem;
use serde_json::Value;

use crate::domain::Record;
use crate::fs::read_regular;
use crate::rules::Waits;

/// The command that measured an experiment.
pub(super) fn command(record: &Record) -> Option<&str> {
    record.runs.last().map(|run| run.command.as_str())
}

/// The events that tell where time went that no record tells of, as they stand in a line of the log. Most lines are of
/// other events, and to parse them all takes longer than to read the session.
const EVENTS: [&str; 4] = [
    r#""event":"agent_finished""#,
    r#""event":"outage_over""#,
    r#""event":"session_stopped""#,
    r#""event":"session_started""#,
];

/// The part of its time limit from which a call comes near it. Own judgement.
const NEAR: f64 = 0.8;

/// Sums up what an event log tells of the time from the start of the first record to the end of the last. `limit` is the time
/// limit of a call.
pub(super) fn waits(log: &Path, records: &[Record], limit: Option<Duration>) -> Waits {
    let mut waits = Waits::default();
    let Some((first, last)) = records.first().zip(records.last()) else { return waits };
    let bytes = read_regular(log).unwrap_or_default();
    let mut stopped: Option<Timestamp> = None;
    for line in bytes.split(|byte| *byte == b'\n') {
        if !EVENTS.iter().any(|event| memmem::find(line, event.as_bytes()).is_some()) {
            continue;
        }
        let Ok(parsed) = serde_json::from_slice::<Value>(line) else { continue };
        // Earlier versions had the data in the place of the text.
        let data = if parsed["data"].is_object() { &parsed["data"] } else { &parsed["detail"] };
        let at = parsed["ts"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        // What came after the last record belongs to an experiment that has none.
        if at.is_none_or(|at| at < first.started || at > last.finished) {
            continue;
        }
        let seconds = data["seconds"].as_f64().unwrap_or(0.0);
        if parsed["event"] == "agent_finished" && limit.is_some_and(|limit| seconds >= NEAR * limit.as_secs_f64()) {
            waits.limit_met = limit;
        }
        match parsed["event"].as_str().unwrap_or_default() {
            "agent_finished" if data["changed"] == false => waits.idle_calls += seconds,
            "outage_over" => waits.outages += seconds,
            "session_stopped" => stopped = at,
            "session_started" => {
                let gap = stopped.take().zip(at).map(|(from, to)| to.duration_since(from).as_secs_f64());
                waits.nobody += gap.unwrap_or(0.0).max(0.0);
            }
            _ => {}
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn the_event_log_tells_of_time_that_no_record_has() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("work.jsonl");
        let line = |at: &str, event: &str, detail: &str| {
            format!(
                "{{\"ts\":\"2026-11-20T{at}Z\",\"source\":\"session\",\"level\":\"info\",\"event\":\"{event}\",\"detail\":\"\",\"data\":{detail}}}\n"
            )
        };
        let text = [
            line("22:00:00", "session_started", "{}"),
            line("22:10:00", "agent_finished", r#"{"changed":true,"seconds":60.0}"#)
                .replace("\"detail\":\"\",\"data\"", "\"detail\""),
            line("22:20:00", "agent_finished", r#"{"changed":false,"seconds":30.0}"#),
            line("22:50:00", "outage_over", r#"{"seconds":1200.5}"#),
            line("23:00:00", "session_stopped", "{}"),
            line("23:30:00", "session_started", "{}"),
            "{\"event\":\"session_stopped\", torn\n".to_owned(),
        ];
        std::fs::write(&log, text.concat()).unwrap();
        let limit_met = Some(Duration::from_secs(60));
        let whole = |path: &Path, end: &str| {
            let end = format!("2026-11-20T{end}Z");
            let record = record(json!({"started": "2026-11-20T22:00:00Z", "finished": end}));
            waits(path, &[record], Some(Duration::from_secs(60)))
        };
        assert_eq!(whole(&log, "23:40:00"), Waits { idle_calls: 30.0, outages: 1200.5, nobody: 1800.0, limit_met });
        // The loop that began after the last record has recorded nothing.
        assert_eq!(whole(&log, "23:10:00"), Waits { idle_calls: 30.0, outages: 1200.5, nobody: 0.0, limit_met });
        assert_eq!(whole(&log, "22:30:00"), Waits { idle_calls: 30.0, outages: 0.0, nobody: 0.0, limit_met });
        assert_eq!(whole(&folder.path().join("none"), "23:40:00"), Waits::default());
        assert_eq!(waits(&log, &[], None), Waits::default());
    }
}
