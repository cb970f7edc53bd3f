//! The end of the log that shows why an experiment failed.

use super::jobs::guard_name;
use crate::agent::LOG_LINES;
use crate::domain::{FailureClass, Record};
use crate::measure::last_lines;
use crate::rules::History;
use crate::state::{SessionFolder, read_log_tail};

/// The last lines of the log that shows why an experiment failed; empty if it did not, or the log is missing.
pub(crate) fn end_of_log(folder: &SessionFolder, record: &Record) -> String {
    let name = match record.failure.as_ref().map(|failure| failure.class) {
        Some(FailureClass::GuardFailed) => format!("{}.log", guard_name(record.guards.len())),
        Some(_) if !record.runs.is_empty() => "run.log".into(),
        _ => return String::new(),
    };
    // The caller then shows the record's own excerpt.
    read_log_tail(&folder.log(record.id, &name)).map(|log| last_lines(&log, LOG_LINES)).unwrap_or_default()
}

/// The same for the last experiment of a session.
pub(crate) fn last_failed_log(folder: &SessionFolder, history: &History) -> String {
    history.records().last().map(|record| end_of_log(folder, record)).unwrap_or_default()
}
