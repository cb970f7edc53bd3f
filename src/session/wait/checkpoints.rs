//! Work between experiments: checkpoints and the agent's summary, which people can read, and the logs of experiments that
//! are over.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use serde_json::json;

use super::SessionContext;
use crate::domain::{Event, ExperimentId, SizeLimit, bytes_text, with_causes};
use crate::fs::{create_folder, write_atomic};
use crate::report::checkpoint_text;
use crate::rules::{ExperimentLogs, History, logs_to_drop};
use crate::session::errors::SessionError;
use crate::session::files::refuse_full;
use crate::session::store::Store;
use crate::session::view::{SessionView, StatusWatcher};
use crate::state::{EventLog, IdeaFile, Level, SessionFolder, StateError};

/// Writes a checkpoint if one is due. It has its time in the journal before it is begun, so that it is written once.
pub(crate) fn keep_checkpoint(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let at = {
        let Store { journal, history, contract, .. } = &mut *shared.store();
        // A session without a baseline may be taken back.
        if history.baseline().is_none() {
            return Ok(());
        }
        journal.checkpoints.begin_due(contract.checkpoint, contract.created, this_second())
    };
    match at {
        Some(at) => write_checkpoint(shared, at),
        None => Ok(()),
    }
}

/// Writes a checkpoint now, and notes that the agent is to sum the session up.
pub(crate) fn write_down(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let begun = shared.store().journal.checkpoints.ask_summary(this_second());
    match begun {
        Some(at) => write_checkpoint(shared, at),
        None => shared.store().write_journal(),
    }
}

/// Writes the checkpoint of a moment that was begun. A failure is reported and does not stop the loop.
fn write_checkpoint(shared: &SessionContext<'_>, at: Timestamp) -> Result<(), SessionError> {
    let written = {
        let store = &mut *shared.store();
        store.write_journal()?;
        checkpoint(store, at)
    };
    match written {
        Ok(path) => shared.emit(Event::Checkpoint { at, path })?,
        Err(error) => shared.store().note_once(format!("cannot write a checkpoint: {}", with_causes(&error))),
    }
    let store = &mut *shared.store();
    store.journal.checkpoints.end();
    store.write_journal()
}

/// The time to the second, by which checkpoints are named.
fn this_second() -> Timestamp {
    let now = Timestamp::now();
    now.round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Trunc)).unwrap_or(now)
}

/// Writes the checkpoint of a moment, and gives its path.
fn checkpoint(store: &Store, at: Timestamp) -> Result<PathBuf, SessionError> {
    let view = SessionView::open(store.repo.worktree(), Some(store.contract.tag.clone()))?;
    let status = StatusWatcher::new(&view.repo, view.tag.clone(), store.clock).read()?;
    // Without them it is less, and no worse.
    let ideas = IdeaFile::new(store.repo.main_worktree()).read().unwrap_or_default().ideas;
    let name = at.strftime("%Y-%m-%dT%H-%M-%SZ.md").to_string();
    write_in_folder(store, &name, &checkpoint_text(&view.report()?, &status, &ideas, at))?;
    Ok(store.folder.checkpoints().join(name))
}

/// Writes a file of the folder of what is written down.
pub(crate) fn write_in_folder(store: &Store, name: &str, text: &str) -> Result<(), SessionError> {
    let folder = store.folder.checkpoints();
    create_folder(&folder)?;
    Ok(write_atomic(&folder.join(name), text.as_bytes())?)
}

/// Sizes of the logs of experiments, in bytes.
type LogSizes = BTreeMap<ExperimentId, u64>;

/// The result of looking after the logs.
#[derive(Default)]
struct KeptLogs {
    /// Sizes of logs that need no further check: their experiments are finished, and the logs are compressed.
    sizes: LogSizes,
    /// The experiments whose logs were dropped.
    dropped: Vec<ExperimentId>,
    /// The space that this freed, in bytes.
    freed: u64,
    /// The last failure; the next pass tries again.
    trouble: Option<StateError>,
}

/// Looks after the logs of experiments.
#[derive(Default)]
pub(crate) struct LogKeeper {
    /// Sizes of the logs that it has looked after.
    sizes: LogSizes,
}

impl LogKeeper {
    /// Compresses the large logs of the experiments that are over and drops those that are too much.
    pub(crate) fn keep(&mut self, store: &Store, log: &EventLog) -> Result<(), SessionError> {
        let (logs, sizes) = (logs_of(&store.history), std::mem::take(&mut self.sizes));
        self.note(keep(&store.folder, logs, store.contract.keep_logs, sizes), store, log)
    }

    /// Refuses an experiment that there may be no room for, also when the logs of earlier ones were compressed and
    /// dropped as far as they may be.
    pub(crate) fn free_disk_space(&mut self, store: &Store, log: &EventLog) -> Result<(), SessionError> {
        if refuse_full(&store.repo, &store.folder, &store.history).is_err() {
            // The next check decides whether this freed enough.
            let _ = self.keep(store, log);
        }
        refuse_full(&store.repo, &store.folder, &store.history)
    }

    fn note(&mut self, kept: KeptLogs, store: &Store, log: &EventLog) -> Result<(), SessionError> {
        self.sizes = kept.sizes;
        let now = store.now();
        if let Some(trouble) = kept.trouble {
            let detail = with_causes(&trouble);
            log.work(now, Level::Warn, "logs_not_kept_in_order", &json!({"detail": detail}))?;
        }
        if !kept.dropped.is_empty() {
            let quota = store.contract.keep_logs.to_string();
            let detail = json!({"experiments": kept.dropped, "bytes": kept.freed, "keep_logs": quota});
            log.work(now, Level::Info, "logs_dropped", &detail)?;
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

/// Looks after the logs of all experiments but those whose `sizes` are known; after all of them before any are dropped, since
/// a person may have removed some.
fn keep(folder: &SessionFolder, mut logs: Vec<ExperimentLogs>, quota: SizeLimit, sizes: LogSizes) -> KeptLogs {
    let mut kept = KeptLogs { sizes, ..KeptLogs::default() };
    // The link in the root leads to the newest log; it is that of an experiment to come where a run was taken back.
    let next = logs.iter().map(|log| log.id.next()).max().unwrap_or(ExperimentId::BASELINE);
    let newest = (0..=next.number()).rev().map(ExperimentId::from).find(|id| folder.run(*id).join("run.log").exists());
    for log in &mut logs {
        if let Some(bytes) = kept.sizes.get(&log.id) {
            log.bytes = *bytes;
            continue;
        }
        let compressed = if Some(log.id) == newest { Ok(()) } else { folder.compress_logs(log.id) };
        log.bytes = folder.log_bytes(log.id);
        match compressed {
            Ok(()) if Some(log.id) != newest => _ = kept.sizes.insert(log.id, log.bytes),
            Ok(()) => {}
            Err(error) => kept.trouble = Some(error),
        }
    }
    if !logs_to_drop(&logs, quota).is_empty() {
        for log in logs.iter_mut().filter(|log| log.bytes > 0) {
            log.bytes = folder.log_bytes(log.id);
            kept.sizes.entry(log.id).and_modify(|bytes| *bytes = log.bytes);
        }
    }
    for id in logs_to_drop(&logs, quota) {
        let bytes = folder.log_bytes(id);
        let why =
            format!("deleted the logs of experiment {id} ({}) to stay within --keep-logs {quota}", bytes_text(bytes));
        match folder.drop_logs(id, &why) {
            Ok(()) => {
                kept.dropped.push(id);
                kept.sizes.insert(id, 0);
                kept.freed += bytes;
            }
            Err(error) => kept.trouble = Some(error),
        }
    }
    kept
}
