//! Locks of git's in the folders of a repository, and what a killed process left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entries::Oddity;
use super::open::Repo;
use crate::fs::if_exists;
use crate::git::error::{At, GitError, Result};
use crate::git::index::{LeftLocks, owner, remove_left_behind};
use crate::git::lock_file::{LockOwner, age, locked};
use crate::git::refs::{Head, RefGuard};

/// A lock file of git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// Its path.
    pub path: PathBuf,
    /// Its owner.
    pub owner: LockOwner,
    /// Its age, if known.
    pub age: Option<Duration>,
}

impl Repo {
    /// Checks that a command may write here: `HEAD` has a commit, no merge, rebase, cherry-pick, revert or bisect is
    /// half done.
    pub fn ready(&self) -> Result<()> {
        if let Head::Unborn { name } = self.refs.head()? {
            return Err(GitError::Unborn(name));
        }
        if let Some(operation) = self.operation_name()? {
            return Err(GitError::InProgress(operation));
        }
        Ok(())
    }

    /// Removes the locks that git processes left behind which were killed: those that were made from `since` to `until`, are
    /// two seconds old, and of which it is said that they cannot be held.
    pub fn remove_left_locks(
        &self,
        since: SystemTime,
        until: Option<SystemTime>,
        may_be_held: impl Fn(&[PathBuf]) -> bool,
    ) -> Result<LeftLocks> {
        remove_left_behind(self.git_locks()?, since, until, may_be_held)
    }

    /// Returns the error for a lock that another process may hold and that does not disappear.
    pub fn locked(&self, lock: &Path) -> GitError {
        locked(lock)
    }

    /// The lock files of git: of the index, of `HEAD` and its like in all working trees, of the packed refs, and of refs.
    fn git_locks(&self) -> Result<Vec<PathBuf>> {
        let mut locks = Vec::new();
        for folder in self.git_dirs()? {
            collect_locks(&folder, false, &mut locks)?;
        }
        collect_locks(&self.common_dir().join("refs"), true, &mut locks)?;
        locks.sort();
        locks.dedup();
        Ok(locks)
    }

    /// The lock files that are there, with whose they are.
    pub fn locks(&self) -> Result<Vec<LockFile>> {
        let mut named = Vec::new();
        for dir in self.git_dirs()? {
            named.extend(RefGuard::named(&dir)?);
        }
        let mut found = Vec::new();
        for path in self.git_locks()? {
            let guard = named.iter().find(|(lock, _)| *lock == path).map(|(_, owner)| *owner);
            let owner = match guard {
                Some(owner) => owner,
                None => owner(&path)?,
            };
            let age = age(&path);
            found.push(LockFile { path, owner, age });
        }
        Ok(found)
    }

    /// Removes the locks that processes of this program left behind when they were killed.
    pub fn clear_own_locks(&self) -> Result<()> {
        for dir in self.git_dirs()? {
            RefGuard::clear_abandoned(&dir)?;
        }
        self.index.clear_abandoned()
    }

    /// The git folders of all working trees.
    pub fn git_dirs(&self) -> Result<Vec<PathBuf>> {
        let linked = self.linked_entries()?.into_iter();
        let linked = linked.filter(|entry| entry.oddity != Some(Oddity::NoFolder)).map(|entry| entry.path);
        Ok(std::iter::once(self.common_dir().to_owned()).chain(linked).collect())
    }
}

/// Collects the files below a folder whose names end in `.lock`.
fn collect_locks(folder: &Path, deep: bool, locks: &mut Vec<PathBuf>) -> Result<()> {
    let Some(entries) = if_exists(fs::read_dir(folder)).at("reading", folder)? else { return Ok(()) };
    for entry in entries {
        let entry = entry.at("reading", folder)?;
        let is_folder = entry.file_type().at("reading", folder)?.is_dir();
        let path = entry.path();
        if is_folder && deep {
            collect_locks(&path, deep, locks)?;
        } else if !is_folder && path.extension().is_some_and(|extension| extension == "lock") {
            locks.push(path);
        }
    }
    Ok(())
}
