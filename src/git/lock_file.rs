//! Lock files, git's and this program's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::GitError;

/// Whose a lock file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOwner {
    /// A process of this program made it, and died over it.
    Dead,
    /// A process of this program is active.
    Alive,
    /// Another program's.
    Other,
}

/// The lock file of a file of git's.
pub(in crate::git) fn lock_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".lock");
    PathBuf::from(path)
}

/// Returns the error for a lock that does not disappear.
pub(in crate::git) fn locked(lock: &Path) -> GitError {
    GitError::IndexLocked { lock: lock.to_owned(), age: age(lock) }
}

/// Returns the time since a file was changed, if known.
pub(in crate::git) fn age(file: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(file).and_then(|meta| meta.modified()).ok()?;
    SystemTime::now().duration_since(modified).ok()
}
