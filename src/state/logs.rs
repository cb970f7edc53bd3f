//! Event logs (`logs/work.jsonl`, `orchestrator.jsonl`, `heartbeat.jsonl`), and the logs of finished experiments:
//! compressed, dropped, and read however they are stored.

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read};
use std::path::{Path, PathBuf};
use std::{fs, io, iter};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GuardianLine, SessionFolder, StateError, lines};
use crate::domain::{ExperimentId, RunRole, StopReason, cut, one_line};
use crate::fs::{
    TAIL, failed, if_exists, is_disk_full, move_irregular_away, open_regular, read_at_most, read_tail, write_atomic,
};
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
struct LogLine<'a> {
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
        self.write(WORK_LOG, LogLine { ts, source: "session", level, event, detail: detail_of(data), data })
    }

    /// Writes a line about a decision of `source`, the rules or the user.
    pub fn decision(&self, ts: Timestamp, source: &str, event: &str, data: &Value) -> Result<(), StateError> {
        let detail = detail_of(data);
        self.write(DECISION_LOG, LogLine { ts, source, level: Level::Decision, event, detail, data })
    }

    /// Writes a heartbeat.
    pub fn heartbeat(&self, ts: Timestamp, data: &Value) -> Result<(), StateError> {
        let (level, detail) = (Level::Info, detail_of(data));
        self.write(HEARTBEAT_LOG, LogLine { ts, source: "session", level, event: "heartbeat", detail, data })
    }

    /// Copies what a guardian did about the session.
    pub fn guard(&self, line: &GuardianLine) -> Result<(), StateError> {
        let (ts, event, data) = (line.ts, line.action.to_string(), json!({"detail": line.detail}));
        let level = if line.action == GuardianAction::Nudge { Level::Info } else { Level::Warn };
        let (event, detail) = (event.as_str(), detail_of(&data));
        self.write(HEARTBEAT_LOG, LogLine { ts, source: "guard", level, event, detail, data: &data })
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

    fn write(&self, file: &str, line: LogLine<'_>) -> Result<(), StateError> {
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

/// A log larger than this is compressed, in bytes.
const COMPRESSED_OVER: u64 = 1024 * 1024;

/// The ends of log names: as written, compressed, and left by a killed compression.
const LOG: [&str; 3] = [".log", ".log.gz", ".log.gz.part"];

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

impl SessionFolder {
    /// Compresses the large ones of an experiment's logs: `run.log` becomes `run.log.gz`. The experiment must be over.
    pub fn compress_logs(&self, id: ExperimentId) -> Result<(), StateError> {
        for log in self.all_logs(id) {
            let is_plain = log.extension().is_some_and(|extension| extension == "log");
            if is_plain && fs::metadata(&log).is_ok_and(|meta| meta.len() > COMPRESSED_OVER) {
                compress(&log).map_err(failed("compress", &log))?;
            }
        }
        Ok(())
    }

    /// The size of an experiment's logs, in bytes.
    pub fn log_bytes(&self, id: ExperimentId) -> u64 {
        self.all_logs(id).iter().filter_map(|log| fs::metadata(log).ok()).map(|meta| meta.len()).sum()
    }

    /// The folders of an experiment's runs, that of the first one first.
    pub fn all_runs(&self, id: ExperimentId) -> impl Iterator<Item = PathBuf> + use<> {
        iter::once(self.run(id)).chain(further_runs(&self.run(id)))
    }

    /// The files in an experiment's folders that may become large: logs of runs, guards and the agent, compressed or
    /// not, and its prompt.
    fn all_logs(&self, id: ExperimentId) -> Vec<PathBuf> {
        let entries = self.all_runs(id).flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        let is_log = |name: &str| name == "prompt.md" || LOG.iter().any(|end| name.ends_with(end));
        let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_log) && is_file(entry))
            .map(|entry| entry.path())
            .collect()
    }

    /// Gives the log and the exit of a version's run, and the logs of as many guards, names of their own, before another
    /// version runs: `run.1.log`. Called again it does what is left of it.
    pub fn set_version_aside(&self, id: ExperimentId, version: usize, guards: usize) -> Result<(), StateError> {
        let folder = self.run(id);
        let guard_logs = (1..=guards).map(|number| (format!("guard-{number}"), "log"));
        for (name, kind) in [("run".to_owned(), "log"), ("exit".to_owned(), "json")].into_iter().chain(guard_logs) {
            let (from, to) = (folder.join(format!("{name}.{kind}")), folder.join(format!("{name}.{version}.{kind}")));
            // If the new name exists, it belongs to that version, and the old name to the next one.
            if from.exists() && !to.exists() {
                fs::rename(&from, &to).map_err(failed("rename", &from))?;
            }
        }
        Ok(())
    }

    /// Removes an experiment's logs, and leaves a note that says why.
    pub fn drop_logs(&self, id: ExperimentId, why: &str) -> Result<(), StateError> {
        let path = self.dropped(id);
        move_irregular_away(&path).map_err(failed("move", &path))?;
        let note = || write_atomic(&path, format!("{why}\n").as_bytes());
        let noted = match note() {
            // The logs make the room that it needs.
            Err(error) if is_disk_full(&error) => false,
            noted => noted.map(|()| true)?,
        };
        for log in self.all_logs(id) {
            if_exists(fs::remove_file(&log)).map_err(failed("remove", &log))?;
        }
        if noted { Ok(()) } else { Ok(note()?) }
    }

    /// The reason why an experiment's logs were deleted; `None` if they were not.
    pub fn why_dropped(&self, id: ExperimentId) -> Option<String> {
        let note = read_tail(&self.dropped(id), 0).ok().filter(|note| !note.is_empty())?;
        Some(String::from_utf8_lossy(&note).trim_end().to_owned())
    }

    fn dropped(&self, id: ExperimentId) -> PathBuf {
        self.run(id).join("logs.dropped")
    }

    /// The path of the log of an experiment's newest run, compressed or not.
    pub fn run_log(&self, id: ExperimentId) -> PathBuf {
        self.log(id, "run.log")
    }

    /// The path of a log in an experiment's folder, compressed or not.
    pub fn log(&self, id: ExperimentId, name: &str) -> PathBuf {
        let log = self.run(id).join(name);
        let compressed = with_gz(&log);
        // While a log is compressed there are both, and the plain one is complete.
        if !log.exists() && compressed.exists() { compressed } else { log }
    }
}

/// The folders of an experiment's further runs, in the `folder` of the first one.
pub fn further_runs(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_further = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(RunRole::is_folder) && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.filter(is_further).map(|entry| entry.path())
}

/// `run.log.gz` for `run.log`.
fn with_gz(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Replaces a file by its compressed form. Killed at any point, the plain file is there until the compressed one is
/// complete and on the disk; calling it again finishes what was begun.
fn compress(log: &Path) -> io::Result<()> {
    let compressed = with_gz(log);
    let part = compressed.with_extension("gz.part");
    let write = || {
        let mut input = open_regular(log)?;
        // Overwrites the part that a killed process left.
        let mut encoder = GzEncoder::new(BufWriter::new(File::create(&part)?), Compression::fast());
        io::copy(&mut input, &mut encoder)?;
        let file = encoder.finish()?.into_inner()?;
        file.sync_all()
    };
    if let Err(error) = write() {
        // On a full disk this is what makes room again.
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    fs::rename(&part, &compressed)?;
    File::open(log.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    fs::remove_file(log)
}

/// Reads a log that may be compressed as the plain text that it was, in bounded memory.
pub fn plain_log<R: Read + 'static>(mut log: R) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::new();
    log.by_ref().take(GZIP.len() as u64).read_to_end(&mut head)?;
    let is_compressed = head == GZIP;
    let whole = BufReader::new(Cursor::new(head).chain(log));
    Ok(if is_compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// The last bytes of a log, compressed or not, at most 64 KiB; nothing when there is no file.
pub fn read_log_tail(path: &Path) -> Result<Vec<u8>, StateError> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(read_tail(path, 0)?);
    }
    let tail = TAIL as usize;
    let read = || -> io::Result<Vec<u8>> {
        let mut log = plain_log(open_regular(path)?)?;
        let mut last = Vec::new();
        while log.by_ref().take(TAIL).read_to_end(&mut last)? > 0 {
            last.drain(..last.len().saturating_sub(tail));
        }
        Ok(last)
    };
    Ok(read().map_err(failed("read", path))?)
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
            fs::read_to_string(folder.path().join("heartbeat.jsonl")).unwrap(),
            "{\"ts\":\"2026-11-20T22:00:00.000Z\",\"source\":\"session\",\"level\":\"info\",\"event\":\"heartbeat\",\
             \"detail\":\"process: 7\",\"data\":{\"process\":7}}\n"
        );
    }

    fn folder_with_log(content: &[u8]) -> (tempfile::TempDir, SessionFolder, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let folder = SessionFolder::new(dir.path(), &"t".parse().unwrap());
        let log = folder.create_run(ID).unwrap().join("run.log");
        fs::write(&log, content).unwrap();
        (dir, folder, log)
    }

    const ID: ExperimentId = ExperimentId::BASELINE;

    fn large_log() -> Vec<u8> {
        (0..200_000).flat_map(|n| format!("step {n}\n").into_bytes()).collect()
    }

    #[test]
    fn a_large_log_is_compressed_and_read_as_before() {
        let content = large_log();
        let (_dir, folder, log) = folder_with_log(&content);
        let tail = read_log_tail(&folder.run_log(ID)).unwrap();
        folder.compress_logs(ID).unwrap();
        assert!(!log.exists());
        assert_eq!(folder.run_log(ID), with_gz(&log));
        assert!(folder.log_bytes(ID) < content.len() as u64 / 2);
        assert_eq!(read_log_tail(&folder.run_log(ID)).unwrap(), tail);
        let mut whole = Vec::new();
        plain_log(File::open(with_gz(&log)).unwrap()).unwrap().read_to_end(&mut whole).unwrap();
        assert_eq!(whole, content);
        assert_eq!(fs::read_dir(folder.run(ID)).unwrap().count(), 1);
    }

    #[test]
    fn a_small_log_stays_plain() {
        let (_dir, folder, log) = folder_with_log(b"val_bpb: 1\n");
        folder.compress_logs(ID).unwrap();
        assert_eq!(fs::read(log).unwrap(), b"val_bpb: 1\n");
    }

    #[test]
    fn logs_of_further_runs_are_compressed_and_dropped_with_the_first() {
        let (_dir, folder, log) = folder_with_log(&large_log());
        for name in ["baseline-2", "slot-1", "check", "search-1"] {
            let further = log.with_file_name(name);
            fs::create_dir(&further).unwrap();
            fs::copy(&log, further.join("run.log")).unwrap();
        }
        folder.compress_logs(ID).unwrap();
        let is_compressed = |name: &str| log.with_file_name(name).join("run.log.gz").exists();
        assert_eq!(["baseline-2", "slot-1", "check", "search-1"].map(is_compressed), [true, true, true, false]);
        folder.drop_logs(ID, "there were too many").unwrap();
        assert!(!is_compressed("baseline-2") && folder.log_bytes(ID) == 0);
    }

    #[test]
    fn a_compression_that_was_killed_is_done_again() {
        let content = large_log();
        let (_dir, folder, log) = folder_with_log(&content);
        let part = with_gz(&log).with_extension("gz.part");
        // Killed while it was written, and killed before the plain log was removed.
        for left in [&part, &with_gz(&log)] {
            fs::write(left, b"\x1f\x8b torn").unwrap();
            fs::write(&log, &content).unwrap();
            assert_eq!(folder.run_log(ID), log);
            folder.compress_logs(ID).unwrap();
            assert!(!part.exists() && !log.exists());
            assert!(read_log_tail(&folder.run_log(ID)).unwrap().ends_with(b"step 199999\n"));
        }
    }

    #[test]
    fn what_is_dropped_leaves_a_note() {
        let (_dir, folder, log) = folder_with_log(b"val_bpb: 1\n");
        fs::write(folder.run(ID).join("exit.json"), "{}").unwrap();
        let part = with_gz(&log).with_extension("gz.part");
        fs::write(&part, "torn").unwrap();
        assert_eq!((folder.log_bytes(ID), folder.why_dropped(ID)), (15, None));
        folder.drop_logs(ID, "there were too many").unwrap();
        assert!(!log.exists() && !part.exists() && folder.run(ID).join("exit.json").exists());
        assert_eq!(folder.log_bytes(ID), 0);
        assert_eq!(folder.why_dropped(ID).as_deref(), Some("there were too many"));
    }
}
