//! Making what was written durable: files and the folders that name them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::error::At;
use super::{Repo, Result};
use crate::fs::Unsynced;

/// Syncs one folder, so that the names in it last.
pub(super) fn folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).at("syncing", path)
}

/// What a repository knows of the disk.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// The folders whose names in those above them are on the disk, by device and inode.
    folders: RefCell<HashMap<PathBuf, (u64, u64)>>,
    /// Whether branches and the index may wait for [`Repo::unsynced`].
    is_deferred: Cell<bool>,
    deferred: RefCell<Unsynced>,
}

impl Synced {
    /// Whether a folder was seen before, the same one; from now on it was.
    fn knows(&self, dir: &Path) -> bool {
        let Ok(there) = fs::metadata(dir) else { return false };
        let now = (there.dev(), there.ino());
        self.folders.borrow_mut().insert(dir.to_owned(), now) == Some(now)
    }
}

impl Repo {
    /// From here on a branch that is moved and an index that is replaced may be on the disk later: whoever does the next
    /// step that rests on them sees to what [`Repo::unsynced`] gives first. Objects and records are on the disk at once
    /// as before.
    pub fn defer_syncs(&self) {
        self.synced.is_deferred.set(true);
    }

    /// What was changed since it was last asked for, and is not synced.
    pub fn unsynced(&self) -> Unsynced {
        self.synced.deferred.take()
    }

    /// Syncs what [`Repo::unsynced`] gives.
    pub fn sync_deferred(&self) -> Result<()> {
        now(self.unsynced())
    }

    /// Syncs those of the objects that stand in files of their own; others were in a pack before.
    pub(super) fn sync_objects(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        now(self.unsynced_objects(ids))
    }

    /// The files and folders of the same.
    pub(super) fn unsynced_objects(&self, ids: impl IntoIterator<Item = ObjectId>) -> Unsynced {
        let root = self.gix.objects.store_ref().path().to_owned();
        let mut unsynced = Unsynced::default();
        let ids: Vec<ObjectId> = ids.into_iter().collect();
        self.hold_all(&ids);
        for id in ids {
            let hex = id.to_string();
            let dir = root.join(&hex[..2]);
            let path = dir.join(&hex[2..]);
            if path.exists() {
                unsynced.add(path);
                self.add_folder(&mut unsynced, dir, &root);
            }
        }
        unsynced
    }

    /// Syncs a ref's file and the folders above it, a branch perhaps later. `HEAD` is the working tree's own. Where somebody
    /// has packed the refs meanwhile, that is the file of packed refs, and folders may be gone.
    pub(super) fn sync_ref(&self, name: &str) -> Result<()> {
        let root = if name == "HEAD" { self.gix.git_dir() } else { self.common_dir() };
        let path: PathBuf = root.join(name);
        let mut unsynced = Unsynced::default();
        if !path.exists() {
            unsynced.add(self.common_dir().join("packed-refs"));
            unsynced.add(self.common_dir());
        }
        if let Some(dir) = path.parent() {
            self.add_folder(&mut unsynced, dir.to_owned(), root);
        }
        unsynced.add(path);
        if name.starts_with("refs/heads/") { self.sync_soon(unsynced) } else { now(unsynced) }
    }

    /// Syncs what nothing rests on until something else is synced: now, or later where that was asked for.
    pub(super) fn sync_soon(&self, unsynced: Unsynced) -> Result<()> {
        match self.synced.is_deferred.get() {
            true => self.synced.deferred.borrow_mut().append(unsynced),
            false => now(unsynced)?,
        }
        Ok(())
    }

    /// Adds a folder in which a name was changed, and those above it, up to `root`, that may be new.
    fn add_folder(&self, unsynced: &mut Unsynced, dir: PathBuf, root: &Path) {
        let mut dir = dir;
        while dir.starts_with(root) {
            let is_known = self.synced.knows(&dir);
            let above = dir.parent().map(Path::to_owned);
            unsynced.add(dir);
            match above {
                Some(above) if !is_known => dir = above,
                _ => break,
            }
        }
    }
}

/// Syncs all of it.
pub(super) fn now(unsynced: Unsynced) -> Result<()> {
    unsynced.sync().or_else(|(path, source)| Err(source).at("syncing", &path))
}
