//! Making what was written durable: files and the folders that name them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::error::At;
use super::{Repo, Result};

/// Syncs one folder, so that the names in it last.
pub(super) fn folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).at("syncing", path)
}

/// Syncs a file or a folder; whether it is there.
fn sync_if_there(path: &Path) -> Result<bool> {
    match File::open(path) {
        Ok(file) => file.sync_all().at("syncing", path).map(|()| true),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err).at("syncing", path),
    }
}

impl Repo {
    /// Syncs those of the objects that stand in files of their own; others were in a pack before.
    pub(super) fn sync_objects(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        let root = self.gix.objects.store_ref().path().to_owned();
        let mut folders = BTreeSet::new();
        for id in ids {
            let hex = id.to_string();
            let dir = root.join(&hex[..2]);
            let path = dir.join(&hex[2..]);
            if sync_if_there(&path)? {
                folders.insert(dir);
            }
        }
        if !folders.is_empty() {
            folders.insert(root);
        }
        folders.iter().try_for_each(|dir| folder(dir))
    }

    /// Syncs a ref's file and the folders above it. `HEAD` is the working tree's own. Where somebody has packed the refs
    /// meanwhile, that is the file of packed refs, and folders may be gone.
    pub(super) fn sync_ref(&self, name: &str) -> Result<()> {
        let root = if name == "HEAD" { self.gix.git_dir() } else { self.common_dir() };
        let path: PathBuf = root.join(name);
        let above = path.ancestors().skip(1).take_while(|dir| dir.starts_with(root));
        if !sync_if_there(&path)? {
            sync_if_there(&self.common_dir().join("packed-refs"))?;
        }
        for dir in above {
            sync_if_there(dir)?;
        }
        Ok(())
    }
}
