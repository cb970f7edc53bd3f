//! Whether there is room on the disk.

use super::error::SessionError;
use super::open::Session;
use super::plan::Plan;
use crate::domain::Space;
use crate::exec;
use crate::git::Repo;
use crate::rules::{spoilt_by_full_disk, too_little_room};
use crate::state::SessionFolder;

const NO_ROOM: &str = "the disk is too full for an experiment";

impl Plan {
    /// Refuses to start on a disk that is full.
    pub(super) fn check_room(&self) -> Result<(), SessionError> {
        refuse(&self.repo, &self.folder, NO_ROOM, |space| too_little_room(space, 0))
    }
}

impl Session<'_> {
    /// Refuses an experiment that there may be no room for, also when the logs of earlier ones were compressed and
    /// dropped as far as they may be.
    pub(super) fn check_room(&mut self) -> Result<(), SessionError> {
        if self.has_room().is_err() {
            // Whether that was enough is what the next look says.
            let _ = self.keep_logs();
        }
        self.has_room()
    }

    fn has_room(&self) -> Result<(), SessionError> {
        let last =
            self.store.history.records().last().and_then(|record| self.store.folder.run_log(record.id).metadata().ok());
        let last_log = last.map_or(0, |meta| meta.len());
        refuse(&self.store.repo, &self.store.folder, NO_ROOM, |space| too_little_room(space, last_log))
    }

    /// Refuses what a run or the agent left that ended on a full disk and for that reason says nothing about its idea.
    pub(super) fn refuse_spoilt(&self, what: &str, failed: bool) -> Result<(), SessionError> {
        refuse(&self.store.repo, &self.store.folder, &format!("{what} ended on a full disk"), |space| {
            spoilt_by_full_disk(space, failed)
        })
    }
}

/// An error that says `what`, if one of the disks that a session writes to is as `is_bad` says.
fn refuse(repo: &Repo, folder: &SessionFolder, what: &str, is_bad: impl Fn(Space) -> bool) -> Result<(), SessionError> {
    let main = repo.main_worktree();
    for path in [repo.worktree(), &main, folder.root()] {
        // A system that does not tell stops nobody.
        if let Some(space) = exec::disk_space(path).ok().filter(|space| is_bad(*space)) {
            return Err(SessionError::NoRoom { what: what.to_owned(), space, path: path.to_owned() });
        }
    }
    Ok(())
}
