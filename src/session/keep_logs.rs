//! Looking after the logs of experiments that are over, while nothing trains.

use std::thread::{self, JoinHandle};

use serde_json::json;

use super::error::SessionError;
use super::open::Session;
use crate::domain::{KeepLogs, bytes_text, with_causes};
use crate::rules::{ExperimentLogs, History, logs_to_drop};
use crate::state::{Level, SessionFolder, StateError};

/// The logs being looked after, beside the loop.
pub(super) type Keeper = Option<JoinHandle<Kept>>;

/// What was done about the logs.
#[derive(Default)]
pub(super) struct Kept {
    /// The experiments whose logs were dropped.
    dropped: Vec<u32>,
    /// How much room that made, in bytes.
    freed: u64,
    /// What could not be done; it is tried again the next time.
    trouble: Option<StateError>,
}

impl Session<'_> {
    /// Compresses the large logs of the experiments that are over and drops those that are too much, before it returns.
    ///
    /// # Errors
    ///
    /// What was done cannot be written to the event log.
    pub fn keep_logs(&mut self) -> Result<(), SessionError> {
        let keeper = self.start_keeping_logs();
        self.end_keeping_logs(keeper)
    }

    /// Starts with that in a thread of its own.
    pub(super) fn start_keeping_logs(&self) -> Keeper {
        let (folder, quota) = (self.folder.clone(), self.contract.keep_logs);
        let logs = logs_of(&self.history);
        // Where there is no thread to be had, the next experiment will do.
        thread::Builder::new().spawn(move || keep(&folder, logs, quota)).ok()
    }

    /// Waits for its end and notes what was done.
    pub(super) fn end_keeping_logs(&mut self, keeper: Keeper) -> Result<(), SessionError> {
        let kept = keeper.and_then(|keeper| keeper.join().ok()).unwrap_or_default();
        let now = self.now();
        if let Some(trouble) = kept.trouble {
            let detail = with_causes(&trouble);
            self.log.work(now, Level::Warn, "logs_not_kept_in_order", &json!({"detail": detail}))?;
        }
        if !kept.dropped.is_empty() {
            let quota = self.contract.keep_logs.to_string();
            let detail = json!({"experiments": kept.dropped, "bytes": kept.freed, "keep_logs": quota});
            self.log.work(now, Level::Info, "logs_dropped", &detail)?;
        }
        Ok(())
    }
}

fn logs_of(history: &History) -> Vec<ExperimentLogs> {
    let best = history.incumbent().map(|record| record.id);
    let logs = history.records().iter();
    logs.map(|record| ExperimentLogs {
        id: record.id,
        bytes: 0,
        outcome: record.outcome,
        is_best: best == Some(record.id),
    })
    .collect()
}

fn keep(folder: &SessionFolder, mut logs: Vec<ExperimentLogs>, quota: KeepLogs) -> Kept {
    let mut kept = Kept::default();
    // The link in the root leads to the newest log; it is that of an experiment to come where a run was taken back.
    let newest = logs.iter().map(|log| log.id + 1).max().unwrap_or(0);
    let newest = (0..=newest).rev().find(|id| folder.run(*id).join("run.log").exists());
    for log in &mut logs {
        if Some(log.id) != newest
            && let Err(error) = folder.compress_logs(log.id)
        {
            kept.trouble = Some(error);
        }
        log.bytes = folder.log_bytes(log.id);
    }
    for id in logs_to_drop(&logs, quota) {
        let bytes = folder.log_bytes(id);
        let why = format!(
            "the logs of experiment {id}, {}, were dropped to keep within --keep-logs {quota}",
            bytes_text(bytes)
        );
        match folder.drop_logs(id, &why) {
            Ok(()) => {
                kept.dropped.push(id);
                kept.freed += bytes;
            }
            Err(error) => kept.trouble = Some(error),
        }
    }
    kept
}
