//! What a report is told of a session beside its records. What cannot be read is left out: the report is of the records.

use std::path::Path;

use jiff::Timestamp;
use memchr::memmem;
use serde_json::Value;

use super::reading::{SessionView, parse_record, session_tags};
use crate::domain::{Outcome, Record};
use crate::rules::{Course, Elsewhere, Waits};
use crate::state::{EVENT_LOGS, read_regular};

impl SessionView {
    /// What is known of the session beside its records.
    pub fn course(&self) -> Course {
        let journal = self.journal();
        let is_idle = journal.as_ref().is_some_and(|journal| journal.open.is_none());
        let tip = || self.repo.branch(&self.tag.branch_ref()).ok().flatten();
        Course {
            repository: self.repo.main_worktree().file_name().map(|name| name.to_string_lossy().into_owned()),
            flagged: self.flagged(),
            ended: self.ended(),
            waits: waits(&self.folder.logs().join(EVENT_LOGS[0]), self.history.records()),
            elsewhere: self.elsewhere(),
            tip: if is_idle { tip() } else { None },
            spent: journal.map(|journal| journal.spent).unwrap_or_default(),
            saved: self.saved().unwrap_or_default(),
        }
    }

    /// What other sessions measured of the commits of this one, by the same command.
    pub(super) fn elsewhere(&self) -> Vec<Elsewhere> {
        let others = session_tags(&self.repo).unwrap_or_default();
        let baselines = others.iter().filter(|tag| **tag != self.tag).filter_map(|tag| {
            let object = self.repo.record(&tag.record_ref(0)).ok()??;
            parse_record(&object.name, &object.message).ok()
        });
        let kept = |record: &&Record| record.outcome == Outcome::Keep;
        let is_same = |one: &Record, other: &Record| {
            one.commit == other.commit && one.metric.name == other.metric.name && command(one) == command(other)
        };
        baselines
            .filter(|baseline| self.history.records().iter().filter(kept).any(|record| is_same(record, baseline)))
            .filter_map(|baseline| {
                Some(Elsewhere {
                    number: baseline.metric.number()?,
                    tag: baseline.tag.to_string(),
                    commit: baseline.commit,
                    environment: baseline.environment,
                })
            })
            .collect()
    }

    /// How often work was put away. Versions of an experiment that was worked on again are in its record.
    fn saved(&self) -> Option<usize> {
        let saved = self.repo.refs_under(&format!("{}/saved", self.tag.ref_prefix())).ok()?;
        let versions = self.history.records().iter().map(|record| record.versions.len()).sum();
        Some(saved.len().saturating_sub(versions))
    }
}

/// The command that measured an experiment.
fn command(record: &Record) -> Option<&str> {
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

/// Sums up what an event log tells of the time from the start of the first record to the end of the last.
fn waits(log: &Path, records: &[Record]) -> Waits {
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
        let whole = |path: &Path, end: &str| {
            let end = format!("2026-11-20T{end}Z");
            let record = record(json!({"started": "2026-11-20T22:00:00Z", "finished": end}));
            waits(path, &[record])
        };
        assert_eq!(whole(&log, "23:40:00"), Waits { idle_calls: 30.0, outages: 1200.5, nobody: 1800.0 });
        // The loop that began after the last record has recorded nothing.
        assert_eq!(whole(&log, "23:10:00"), Waits { idle_calls: 30.0, outages: 1200.5, nobody: 0.0 });
        assert_eq!(whole(&log, "22:30:00"), Waits { idle_calls: 30.0, outages: 0.0, nobody: 0.0 });
        assert_eq!(whole(&folder.path().join("none"), "23:40:00"), Waits::default());
        assert_eq!(waits(&log, &[]), Waits::default());
    }
}
