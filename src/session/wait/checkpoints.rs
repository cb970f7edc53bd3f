//! Texts that people can read during a session: checkpoints, and the agent's summary.

use std::path::PathBuf;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use super::shared::Shared;
use crate::domain::{Event, Notice, with_causes};
use crate::fs::{create_folder, write_atomic};
use crate::report::checkpoint_text;
use crate::session::errors::SessionError;
use crate::session::store::Store;
use crate::session::view::{SessionView, StatusReader};
use crate::state::IdeaFile;

/// Writes a checkpoint if one is due. It has its time in the journal before it is begun, so that it is written once.
pub(crate) fn keep_checkpoint(shared: &Shared<'_>) -> Result<(), SessionError> {
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
pub(crate) fn write_down(shared: &Shared<'_>) -> Result<(), SessionError> {
    let begun = shared.store().journal.checkpoints.ask_summary(this_second());
    match begun {
        Some(at) => write_checkpoint(shared, at),
        None => shared.store().write_journal(),
    }
}

/// Writes the checkpoint of a moment that was begun. A failure is reported and does not stop the loop.
fn write_checkpoint(shared: &Shared<'_>, at: Timestamp) -> Result<(), SessionError> {
    let written = {
        let store = &mut *shared.store();
        store.write_journal()?;
        checkpoint(store, at)
    };
    match written {
        Ok(path) => shared.emit(Event::Checkpoint { at, path })?,
        Err(error) => shared.store().note_once(Notice::NoCheckpoint(with_causes(&error))),
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
    let status = StatusReader::new(&view.repo, view.tag.clone(), store.clock).read()?;
    // Without them it is less, and no worse.
    let ideas = IdeaFile::new(&store.repo.main_worktree()).read().unwrap_or_default().ideas;
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
