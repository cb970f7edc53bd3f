//! Checks for free disk space.

use std::env;
use std::path::{Path, PathBuf};

use crate::domain::Space;
use crate::exec;
use crate::git::Repo;
use crate::rules::{History, spoilt_by_full_disk, too_little_space};
use crate::session::errors::SessionError;
use crate::state::{SessionFolder, user_folder};

/// Refuses an experiment that there may be no room for after those of `history`.
pub(crate) fn refuse_full(repo: &Repo, folder: &SessionFolder, history: &History) -> Result<(), SessionError> {
    let last = history.records().last().and_then(|record| folder.run_log(record.id).metadata().ok());
    let last_log = last.map_or(0, |meta| meta.len());
    refuse(repo, folder, "the disk is too full for an experiment", |space| too_little_space(space, last_log))
}

/// Refuses what a run or the agent left that ended on a full disk and for that reason says nothing about its idea.
pub(crate) fn refuse_spoilt(repo: &Repo, folder: &SessionFolder, what: &str, failed: bool) -> Result<(), SessionError> {
    refuse(repo, folder, &format!("{what} ended on a full disk"), |space| spoilt_by_full_disk(space, failed))
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

/// A folder outside the session for what must be written while its own disk is full; none where all are.
pub(crate) fn folder_with_space() -> Option<PathBuf> {
    let folders = [Some(env::temp_dir()), Some("/dev/shm".into()), user_folder()];
    folders.into_iter().flatten().find(|path| has_space(path))
}

/// Returns whether a folder exists and its disk has enough free space.
pub(crate) fn has_space(path: &Path) -> bool {
    path.is_dir() && exec::disk_space(path).is_ok_and(|space| !too_little_space(space, 0))
}

/// A folder outside the repository that programs write to and whose disk is too full for them. A full disk of the session's
/// own stops the loop instead.
pub(crate) fn full_elsewhere() -> Option<PathBuf> {
    let folders = [Some(env::temp_dir()), Some("/dev/shm".into()), env::home_dir()];
    let is_full = |path: &PathBuf| exec::disk_space(path).is_ok_and(|space| spoilt_by_full_disk(space, true));
    folders.into_iter().flatten().find(is_full)
}
