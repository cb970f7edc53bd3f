//! What was changed and is not on the disk yet: synced together, which costs a disk hardly more than one file does.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many files are synced at the same time: more than a disk's queue merges is no gain.
const AT_ONCE: usize = 16;

/// How many files are worth a thread of their own: to start one takes as long as to sync one.
const WORTH_A_THREAD: usize = 3;

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
        let next = AtomicUsize::new(0);
        let sync_some = || -> Result<(), (PathBuf, io::Error)> {
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                sync_one(path).map_err(|source| (path.clone(), source))?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let count = paths.len().div_ceil(WORTH_A_THREAD).min(AT_ONCE);
            // Where there is no thread to be had the others do its part.
            let others: Vec<_> =
                (1..count).filter_map(|_| thread::Builder::new().spawn_scoped(scope, sync_some).ok()).collect();
            let own = sync_some();
            let join = |other: thread::ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            others.into_iter().map(join).fold(own, Result::and)
        })
    }
}

fn sync_one(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}
