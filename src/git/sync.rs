//! Making what was written durable, files and the folders that name them, and lock files.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use super::{At, GitError, Result};
use crate::fs::Unsynced;

/// Syncs one folder, so that the names in it last.
pub(in crate::git) fn folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).at("syncing", path)
}

/// Syncs all of it.
pub(in crate::git) fn now(unsynced: Unsynced) -> Result<()> {
    unsynced.sync().or_else(|(path, source)| Err(source).at("syncing", &path))
}

/// Replaces a file durably: readers see the old content or the new one.
pub(in crate::git) fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).at("making the folder", dir)?;
    let mut file = NamedTempFile::new_in(dir).at("writing", path)?;
    file.write_all(content).at("writing", path)?;
    // A new file: read and write for the user, read for all others.
    let permissions = fs::metadata(path).map_or_else(|_| Permissions::from_mode(0o644), |meta| meta.permissions());
    file.as_file().set_permissions(permissions).at("writing", path)?;
    file.as_file().sync_all().at("syncing", path)?;
    file.persist(path).map_err(|err| err.error).at("writing", path)?;
    folder(dir)
}

/// A repository's knowledge of what is synced to the disk.
#[derive(Debug, Default)]
pub(in crate::git) struct Syncs {
    /// The folders whose names in those above them are on the disk, by device and inode.
    folders: RefCell<HashMap<PathBuf, (u64, u64)>>,
    /// Set once branches and the index may wait for [`Syncs::take`].
    pub(in crate::git) is_deferred: Cell<bool>,
    deferred: RefCell<Unsynced>,
}

impl Syncs {
    /// Takes what was noted since the last call and is not synced.
    pub(in crate::git) fn take(&self) -> Unsynced {
        self.deferred.take()
    }

    /// Syncs what nothing relies on until something else is synced: now, or later where that was asked for.
    pub(in crate::git) fn soon(&self, unsynced: Unsynced) -> Result<()> {
        match self.is_deferred.get() {
            true => self.deferred.borrow_mut().append(unsynced),
            false => now(unsynced)?,
        }
        Ok(())
    }

    /// Adds a folder in which a name was changed, and those above it, up to `root`, that may be new.
    pub(in crate::git) fn add_folder(&self, unsynced: &mut Unsynced, dir: PathBuf, root: &Path) {
        let mut dir = dir;
        while dir.starts_with(root) {
            let is_known = self.knows(&dir);
            let above = dir.parent().map(Path::to_owned);
            unsynced.add(dir);
            match above {
                Some(above) if !is_known => dir = above,
                _ => break,
            }
        }
    }

    /// Returns whether this very folder was seen before, and notes it.
    fn knows(&self, dir: &Path) -> bool {
        let Ok(there) = fs::metadata(dir) else { return false };
        let now = (there.dev(), there.ino());
        self.folders.borrow_mut().insert(dir.to_owned(), now) == Some(now)
    }
}

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
