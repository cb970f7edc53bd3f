//! Making what was written durable: files and the folders that name them.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::error::{At, Result};
use crate::fs::write_atomic;

/// Syncs one folder, so that the names in it last.
pub(in crate::git) fn folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).at("syncing", path)
}

/// Syncs files with the folders above them, up to `root`: those may be new. What is gone by now is passed over.
pub(in crate::git) fn with_folders(files: impl IntoIterator<Item = PathBuf>, root: &Path) -> Result<()> {
    let mut all = BTreeSet::new();
    for file in files {
        all.extend(file.ancestors().take_while(|path| path.starts_with(root)).map(Path::to_owned));
    }
    all.iter().try_for_each(|path| crate::fs::sync(path).at("syncing", path))
}

/// Replaces a file durably: readers see the old content or the new one.
pub(in crate::git) fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    write_atomic(path, content).or_else(|error| Err(error.source).at("writing", path))
}
