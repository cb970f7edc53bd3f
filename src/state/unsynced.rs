//! What was changed and is not on the disk yet: synced together, which costs a disk hardly more than one file does.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;

/// How many files are synced at the same time: more than a disk's queue merges is no gain.
const AT_ONCE: usize = 16;

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

    /// Syncs all of them at once. What is gone by now is passed over.
    ///
    /// # Errors
    ///
    /// The first that cannot be synced, and why.
    pub fn sync(self) -> Result<(), (PathBuf, io::Error)> {
        let paths: Vec<PathBuf> = self.0.into_iter().collect();
        for some in paths.chunks(AT_ONCE) {
            let Some((own, others)) = some.split_first() else { break };
            thread::scope(|scope| {
                let threads: Vec<_> = others
                    .iter()
                    .map(|path| (path, thread::Builder::new().spawn_scoped(scope, move || sync_one(path))))
                    .collect();
                let mut synced = named(own, sync_one(own));
                for (path, thread) in threads {
                    // Where there is no thread to be had it is done here.
                    let one = thread
                        .map_or_else(|_| sync_one(path), |thread| thread.join().unwrap_or_else(|_| sync_one(path)));
                    synced = synced.and(named(path, one));
                }
                synced
            })?;
        }
        Ok(())
    }
}

fn named(path: &Path, synced: io::Result<()>) -> Result<(), (PathBuf, io::Error)> {
    synced.map_err(|source| (path.to_owned(), source))
}

fn sync_one(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}
