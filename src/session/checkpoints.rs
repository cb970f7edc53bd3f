//! Texts that people can read during a session: checkpoints, and the agent's summary.

use std::path::PathBuf;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use super::attempt::Attempt;
use super::calling::Work;
use super::error::SessionError;
use super::exploring::text_of;
use super::shared::Shared;
use super::status::look_at;
use super::store::Store;
use super::view::SessionView;
use crate::domain::{Event, Notice, with_causes};
use crate::fs::{create_folder, write_atomic};
use crate::report::checkpoint_text;
use crate::state::IdeaFile;

/// The file of the agent's summary.
const SUMMARY: &str = "summary.md";

/// Writes a checkpoint if one is due. It has its time in the journal before it is begun, so that it is written once.
pub(super) fn keep_checkpoint(shared: &Shared<'_>) -> Result<(), SessionError> {
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
pub(super) fn write_down(shared: &Shared<'_>) -> Result<(), SessionError> {
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
        Err(error) => shared.store().say_once(Notice::NoCheckpoint(with_causes(&error))),
    }
    let store = &mut *shared.store();
    store.journal.checkpoints.end();
    store.write_journal()
}

/// Keeps the summary that a call gave, or says that it gave none.
pub(super) fn keep_summary(shared: &Shared<'_>, work: &Work, attempt: &Attempt) -> Result<(), SessionError> {
    {
        let Store { journal, contract, .. } = &mut *shared.store();
        journal.checkpoints.summary_asked(contract.summary_at, contract.created, Timestamp::now());
    }
    let text = match text_of(work) {
        Ok(text) => text,
        Err(why) => return shared.emit(Notice::NoSummary(why)),
    };
    let path = shared.store().folder.checkpoints().join(SUMMARY);
    let written = write_in_folder(&shared.store(), SUMMARY, &format!("{text}\n"));
    match written {
        Ok(()) => shared.emit(Event::Summary { id: attempt.open.id, path, seconds: work.exit.seconds }),
        Err(error) => shared.emit(Notice::NoSummary(with_causes(&error))),
    }
}

/// The time to the second, by which checkpoints are named.
fn this_second() -> Timestamp {
    let now = Timestamp::now();
    now.round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Trunc)).unwrap_or(now)
}

/// Writes the checkpoint of a moment, and gives its path.
fn checkpoint(store: &Store, at: Timestamp) -> Result<PathBuf, SessionError> {
    let view = SessionView::open(store.repo.worktree(), Some(store.contract.tag.clone()))?;
    let status = look_at(&view.repo, &view.tag, store.clock)?;
    // Without them it is less, and no worse.
    let ideas = IdeaFile::new(&store.repo.main_worktree()).read().unwrap_or_default().ideas;
    let name = at.strftime("%Y-%m-%dT%H-%M-%SZ.md").to_string();
    write_in_folder(store, &name, &checkpoint_text(&view.report()?, &status, &ideas, at))?;
    Ok(store.folder.checkpoints().join(name))
}

/// Writes a file of the folder of what is written down.
fn write_in_folder(store: &Store, name: &str, text: &str) -> Result<(), SessionError> {
    let folder = store.folder.checkpoints();
    create_folder(&folder)?;
    Ok(write_atomic(&folder.join(name), text.as_bytes())?)
}
