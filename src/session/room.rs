//! Whether there is room on the disk.

use std::path::Path;

use super::error::SessionError;
use super::open::Session;
use super::plan::Plan;
use crate::domain::Failure;
use crate::exec;
use crate::git::Repo;
use crate::rules::Space;
use crate::state::SessionFolder;

impl Plan {
    /// Refuses to start on a disk that is full.
    pub(super) fn check_room(&self) -> Result<(), SessionError> {
        check_room(&self.repo, &self.folder, 0)
    }
}

impl Session<'_> {
    /// Refuses an experiment that there may be no room for.
    pub(super) fn check_room(&self) -> Result<(), SessionError> {
        let last = self.history.records().last().and_then(|record| self.folder.run_log(record.id).metadata().ok());
        check_room(&self.repo, &self.folder, last.map_or(0, |meta| meta.len()))
    }

    /// Refuses a run that ended on a full disk and for that reason says nothing about its idea.
    pub(super) fn refuse_spoilt_run(&self, id: u32, failure: Option<&Failure>) -> Result<(), SessionError> {
        let spoilt = |space: Space| space.spoils(failure);
        refuse(&self.repo, &self.folder, spoilt, &format!("the run of experiment {id} ended on a full disk"))
    }
}

fn check_room(repo: &Repo, folder: &SessionFolder, last_log: u64) -> Result<(), SessionError> {
    refuse(repo, folder, |space| space.is_short(last_log), "the disk has no room for an experiment")
}

/// An error that says `what`, if one of the disks that a session writes to is as `is_bad` says.
fn refuse(repo: &Repo, folder: &SessionFolder, is_bad: impl Fn(Space) -> bool, what: &str) -> Result<(), SessionError> {
    let main = repo.main_worktree();
    for path in [repo.worktree(), main.as_path(), folder.root()] {
        if let Some(space) = space_at(path).filter(|space| is_bad(*space)) {
            return Err(SessionError::NoRoom { what: what.to_owned(), free: space.free, path: path.to_owned() });
        }
    }
    Ok(())
}

/// The room at a folder; `None` where the system does not tell.
fn space_at(path: &Path) -> Option<Space> {
    let (free, total) = exec::disk_space(path).ok()?;
    Some(Space { free, total })
}
