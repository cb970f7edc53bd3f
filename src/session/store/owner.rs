//! Notices when another process has taken over the session, before anything of it is overwritten.
//!
//! The lock prevents that on one host. On a shared file system the lock of another host may be invisible.

use super::writer::{Store, Written};
use crate::fs::{FileStamp, open_regular};
use crate::session::errors::SessionError;
use crate::state::{PROGRESS, Presence, SessionFolder, read_json};

impl Store {
    /// Fails once the journal on the disk is that of a process which opened the session later, and from then on: whatever is
    /// in this process's hands is no longer its own.
    pub(crate) fn refuse_taken_over(&mut self) -> Result<(), SessionError> {
        self.written.look(&self.folder);
        let Some(by) = &self.written.taken_over_by else { return Ok(()) };
        let process = by.process().map(|process| format!("process {process}"));
        let host = by.host().map(|host| format!(" on {host}"));
        let by = process.unwrap_or_else(|| "another process".to_owned()) + &host.unwrap_or_default();
        Err(SessionError::TakenOver { tag: self.contract.tag.clone(), by })
    }
}

impl Written {
    /// Reads who has the session by the journal on the disk, if that changed since this process wrote it or looked.
    fn look(&mut self, folder: &SessionFolder) {
        let path = folder.state().join(PROGRESS);
        // A network file system asks its server again when a file is opened.
        let stamp =
            open_regular(&path).and_then(|file| file.metadata()).ok().map(|meta| FileStamp::from_metadata(&meta));
        if self.taken_over_by.is_some() || stamp.is_none() || stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        // What is no journal is repaired.
        let found = read_json::<Presence>(&path).ok().flatten();
        self.taken_over_by = found.filter(|found| self.journal.presence.is_taken_over_by(found));
    }
}
