//! Data that a report takes from outside the session's records. Omits unreadable data, because the report is about the
//! records.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::domain::Record;
use crate::fs::read_regular;
use crate::rules::Waits;
use crate::state::{HEARTBEAT_LOG, WORK_LOG};

/// The command that measured an experiment.
pub(crate) fn command(record: &Record) -> Option<&str> {
    record.runs.last().map(|run| run.command.as_str())
}

/// The events that tell where time went that no record tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    AgentFinished,
    Outage,
    OutageOver,
    SessionStopped,
    SessionStarted,
    /// An event that tells of no such time.
    #[serde(other)]
    Other,
}

/// The part of a line that names its event. Most lines are of other events, and to parse them whole takes longer than to
/// read the session.
#[derive(Debug, Deserialize)]
struct Head {
    event: Told,
}

/// The part of its time limit from which a call comes near it. Own judgement.
const NEAR: f64 = 0.8;

/// Sums up what the event logs in a folder tell of the time from the start of the first record to the end of the last. `limit`
/// is the time limit of a call.
pub(crate) fn waits(logs: &Path, records: &[Record], limit: Option<Duration>) -> Waits {
    let mut waits = Waits::default();
    let Some((first, last)) = records.first().zip(records.last()) else { return waits };
    let bytes = read_regular(&logs.join(WORK_LOG)).unwrap_or_default();
    let mut outage = OutageTime::default();
    let mut is_active = false;
    let mut stopped: Option<Timestamp> = None;
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for (place, line) in lines.iter().enumerate() {
        let event = serde_json::from_slice::<Head>(line).map_or(Told::Other, |head| head.event);
        if event == Told::Other {
            continue;
        }
        let Ok(parsed) = serde_json::from_slice::<Value>(line) else { continue };
        // Earlier versions had the data in the place of the text.
        let data = if parsed["data"].is_object() { &parsed["data"] } else { &parsed["detail"] };
        let at = time_of(&parsed);
        // Events after the last record belong to an experiment without one.
        let Some(at) = at.filter(|at| (first.started..=last.finished).contains(at)) else { continue };
        let seconds = data["seconds"].as_f64().unwrap_or(0.0);
        if event == Told::AgentFinished && limit.is_some_and(|limit| seconds >= NEAR * limit.as_secs_f64()) {
            waits.limit_met = limit;
        }
        match event {
            Told::AgentFinished if data["changed"] == false => waits.idle_calls += seconds,
            Told::Outage => {
                let again = data["again"].as_str().and_then(|again| again.parse().ok()).unwrap_or(at);
                outage.wait(seconds, data["waits"] == 0, at, again);
            }
            Told::OutageOver => outage.end(seconds),
            Told::SessionStopped => {
                outage.stop(at);
                (stopped, is_active) = (Some(at), false);
            }
            Told::SessionStarted => {
                if is_active {
                    // A killed loop writes no event of its end.
                    stopped = last_sign(logs, &lines[..place], at);
                    outage.stop(stopped.unwrap_or(Timestamp::MIN));
                }
                waits.nobody += stopped.take().map_or(0.0, |from| seconds_between(from, at));
                is_active = true;
            }
            Told::AgentFinished | Told::Other => {}
        }
    }
    waits.outages = outage.total;
    waits
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// Returns the last sign of life of the loop before the one that started at `started`. It reads the heartbeats, and the event
/// log up to that start.
fn last_sign(logs: &Path, lines: &[&[u8]], started: Timestamp) -> Option<Timestamp> {
    let bytes = read_regular(&logs.join(HEARTBEAT_LOG)).ok()?;
    let written = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let own = written
        .filter(|line| line["source"] == "session")
        .filter_map(|line| Some((time_of(&line)?, line["data"]["process"].is_number())));
    let beats: Vec<(Timestamp, bool)> = own.take_while(|(at, _)| *at <= started).collect();
    // The first heartbeat of a process names it.
    let opened = beats.iter().rposition(|(_, names_process)| *names_process)?;
    let (beat, _) = beats[..opened].last()?;
    let mut events = lines.iter().rev().filter_map(|line| time_of(&serde_json::from_slice(line).ok()?));
    let event = events.find(|at| *at < beats[opened].0);
    Some(event.map_or(*beat, |at| at.max(*beat)))
}

/// Returns the time at which a line of an event log was written.
fn time_of(line: &Value) -> Option<Timestamp> {
    line["ts"].as_str()?.parse().ok()
}

/// The time of all outages. The end of an outage tells how long it was in all, also before a loop that stopped in it.
#[derive(Debug, Default)]
struct OutageTime {
    /// In seconds.
    total: f64,
    /// The seconds of the open outage that are in the total.
    counted: f64,
    /// The wait that goes on: the seconds of the outage before it, its start and its end.
    open: Option<(f64, Timestamp, Timestamp)>,
}

impl OutageTime {
    /// Begins a wait, in a new outage or in the same one.
    fn wait(&mut self, before: f64, is_new: bool, at: Timestamp, again: Timestamp) {
        if is_new {
            self.stop(at);
            self.counted = 0.0;
        }
        self.open = Some((before, at, again));
    }

    /// Ends an outage that took so many seconds.
    fn end(&mut self, seconds: f64) {
        self.count_to(seconds);
        (self.open, self.counted) = (None, 0.0);
    }

    /// Ends the wait when a loop ended, which noted how long the outage was so far.
    fn stop(&mut self, at: Timestamp) {
        if let Some((before, from, again)) = self.open.take() {
            self.count_to(before + seconds_between(from, at.min(again)));
        }
    }

    fn count_to(&mut self, seconds: f64) {
        self.total += (seconds - self.counted).max(0.0);
        self.counted = seconds;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn the_event_log_tells_of_time_that_no_record_has() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(WORK_LOG);
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
        assert_eq!(
            whole(folder.path(), "23:40:00"),
            Waits { idle_calls: 30.0, outages: 1200.5, nobody: 1800.0, limit_met }
        );
        // The loop that began after the last record has recorded nothing.
        assert_eq!(
            whole(folder.path(), "23:10:00"),
            Waits { idle_calls: 30.0, outages: 1200.5, nobody: 0.0, limit_met }
        );
        assert_eq!(whole(folder.path(), "22:30:00"), Waits { idle_calls: 30.0, outages: 0.0, nobody: 0.0, limit_met });
        assert_eq!(whole(&folder.path().join("none"), "23:40:00"), Waits::default());
        assert_eq!(waits(folder.path(), &[], None), Waits::default());
    }

    /// A line of an event log, of 20 November 2026.
    fn line(at: &str, event: &str, data: &str) -> String {
        format!("{{\"ts\":\"2026-11-20T{at}Z\",\"source\":\"session\",\"event\":\"{event}\",\"data\":{data}}}\n")
    }

    fn outage(at: &str, again: &str, waits: u32, seconds: f64) -> String {
        line(at, "outage", &format!(r#"{{"again":"2026-11-20T{again}Z","waits":{waits},"seconds":{seconds}}}"#))
    }

    fn of_logs(work: &[String], heartbeats: &[String]) -> (f64, f64) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(WORK_LOG), work.concat()).unwrap();
        std::fs::write(folder.path().join(HEARTBEAT_LOG), heartbeats.concat()).unwrap();
        let record = record(json!({"started": "2026-11-20T20:00:00Z", "finished": "2026-11-20T23:59:00Z"}));
        let found = waits(folder.path(), &[record], None);
        (found.outages, found.nobody)
    }

    #[test]
    fn an_outage_that_a_stop_ended_is_outage() {
        let begins = [line("20:00:00", "session_started", "{}"), outage("20:10:00", "20:11:00", 0, 10.0)];
        let again = outage("20:11:05", "20:21:05", 1, 75.0);
        let stops = line("20:16:05", "session_stopped", "{}");
        let resumes = line("20:26:05", "session_started", "{}");
        // 75 s until the second wait, and 300 s of it.
        let stopped = [&begins[..], &[again.clone(), stops.clone(), resumes.clone()]].concat();
        assert_eq!(of_logs(&stopped, &[]), (375.0, 600.0));
        // The agent worked when the wait was over, and the loop stopped an hour later.
        let worked = [&begins[..], &[line("21:10:00", "session_stopped", "{}")]].concat();
        assert_eq!(of_logs(&worked, &[]), (70.0, 0.0));
        // The session goes on waiting, and the end of the outage tells how long all of it was.
        let over = line("20:30:00", "outage_over", r#"{"seconds":605.0}"#);
        let resumed = [&stopped[..], &[outage("20:26:06", "20:30:00", 2, 375.0), over]].concat();
        assert_eq!(of_logs(&resumed, &[]), (605.0, 600.0));
        // The outage after that is another one.
        let another =
            [&stopped[..], &[outage("20:40:00", "20:41:00", 0, 5.0), line("20:40:30", "session_stopped", "{}")]];
        assert_eq!(of_logs(&another.concat(), &[]), (410.0, 600.0));
    }

    #[test]
    fn a_killed_loop_was_there_until_its_last_event() {
        let opened = |at: &str| line(at, "heartbeat", r#"{"process":7}"#);
        let killed = [
            line("20:00:00", "session_started", "{}"),
            line("20:00:50", "run_finished", "{}"),
            line("20:10:00", "healed", "{}"),
            line("20:10:01", "session_started", "{}"),
        ];
        assert_eq!(of_logs(&killed, &[opened("20:00:00"), opened("20:10:00")]), (0.0, 551.0));
    }

    #[test]
    fn an_outage_that_a_kill_ended_is_outage_until_the_last_heartbeat() {
        let work = [
            line("20:00:00", "session_started", "{}"),
            outage("20:10:00", "20:40:00", 0, 10.0),
            line("21:00:00", "session_started", "{}"),
            line("21:05:00", "outage_over", r#"{"seconds":430.0}"#),
        ];
        let opened = |at: &str| line(at, "heartbeat", r#"{"process":7}"#);
        let beat = |at: &str| line(at, "heartbeat", "{}");
        let beats = [opened("20:00:00"), beat("20:11:00"), beat("20:15:00"), opened("21:00:00"), beat("21:02:00")];
        // 310 s until the last heartbeat, and 120 s after the resume.
        assert_eq!(of_logs(&work, &beats), (430.0, 2700.0));
        assert_eq!(of_logs(&work[..3], &beats), (310.0, 2700.0));
        assert_eq!(of_logs(&work[..3], &[]), (10.0, 0.0));
    }
}
