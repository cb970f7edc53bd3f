//! The untracked files that are no part of the next change.

use std::path::PathBuf;

use super::error::SessionError;
use super::open::Session;
use crate::domain::CommitId;
use crate::git::Look;
use crate::state::{FileStamp, SessionFolder, write_json};

impl Session<'_> {
    /// Notes the untracked files of now as no part of the next change.
    pub(super) fn remember_untracked(&mut self) -> Result<(), SessionError> {
        self.remember_untracked_of(None)
    }

    /// Does the same after a look at the working tree.
    pub(super) fn remember_untracked_of(&mut self, look: Option<Look>) -> Result<(), SessionError> {
        self.heal()?;
        self.remember_beside_protected()?;
        let before = self.workspace.untracked.known.take().unwrap_or_default();
        let now = match look {
            Some(look) => self.store.repo.untracked_seen(&before, &look)?,
            None => self.store.repo.untracked(&before)?,
        };
        let is_written = now == before
            && self.workspace.untracked.written.is_some()
            && FileStamp::of(&untracked_path(&self.store.folder)) == self.workspace.untracked.written;
        self.workspace.untracked.known = Some(now);
        if is_written { Ok(()) } else { self.write_untracked() }
    }

    /// Notes the untracked files of now as no part of what the agent makes of a change that is in the working tree: `commit`
    /// on `base`. Those that were untracked before that change and are a part of it stay noted as they were.
    pub(super) fn remember_untracked_beside(&mut self, base: &CommitId, commit: &CommitId) -> Result<(), SessionError> {
        self.heal()?;
        self.remember_beside_protected()?;
        let before = self.workspace.untracked.known.take().unwrap_or_default();
        let mut now = self.store.repo.untracked(&before)?;
        now.keep(&before, self.store.repo.changed_between(base, commit)?.into_iter().map(|changed| changed.path));
        self.workspace.untracked.known = Some(now);
        self.write_untracked()
    }

    /// Writes down which untracked files are no part of the next change.
    pub(super) fn write_untracked(&mut self) -> Result<(), SessionError> {
        let Some(untracked) = &self.workspace.untracked.known else { return Ok(()) };
        let path = untracked_path(&self.store.folder);
        write_json(&path, untracked)?;
        self.workspace.untracked.written = FileStamp::of(&path);
        Ok(())
    }
}

/// The file that says which they are.
pub(super) fn untracked_path(folder: &SessionFolder) -> PathBuf {
    folder.state().join("untracked.json")
}
