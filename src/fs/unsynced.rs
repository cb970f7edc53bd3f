//! Changes that are not on the disk yet.

use super::error::if_exists;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self};
use std::path::{Path, PathBuf};

/// Files and folders to be synced before the next step that rests on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsynced(BTreeSet<PathBuf>);

impl Unsynced {
    /// Adds a file or a folder.
    pub fn add(&mut self, path: impl Into<PathBuf>) {
        self.0.insert(path.into());
    }

    /// Adds all of `other`.
    pub fn append(&mut self, mut other: Unsynced) {
        self.0.append(&mut other.0);
    }

    /// Syncs all of them. What is gone by now is passed over.
    ///
    /// # Errors
    ///
    /// The first that cannot be synced, and why.
    pub fn sync(self) -> Result<(), (PathBuf, io::Error)> {
        self.0.into_iter().try_for_each(|path| sync_one(&path).map_err(|source| (path, source)))
    }
}

fn sync_one(path: &Path) -> io::Result<()> {
    if_exists(File::open(path).and_then(|file| file.sync_all())).map(drop)
}
