//! Making what was written durable: files and the folders that name them.

use std::fs::File;
use std::path::Path;

use super::error::{At, Result};
use crate::fs::{Unsynced, write_atomic};

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
    write_atomic(path, content).or_else(|error| Err(error.source).at("writing", path))
}

/// Adds a folder in which a name was changed, and those above it up to `root`, which may be new.
pub(in crate::git) fn add_folders(unsynced: &mut Unsynced, dir: &Path, root: &Path) {
    dir.ancestors().take_while(|dir| dir.starts_with(root)).for_each(|dir| unsynced.add(dir));
}
