//! The lock on the index: git's own `index.lock`, recognisable as this program's when it was left behind.
//!
//! The lock file holds a marker and an advisory lock of the living process. A lock file with the marker that nobody
//! holds was left behind by a process that was killed; it is taken over. Any other lock file is somebody else's.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::crash;
use crate::fs::{if_exists, open_regular};
use crate::git::error::{At, Result};
use crate::git::lock_file::{LockOwner, lock_path, locked};
use crate::git::path::TEMPORARY;

/// Content of `ar`'s lock file.
const MARKER: &[u8] = b"ar holds the index\n";

/// Longest wait for another process's lock: a `git status` in an editor holds it for moments.
const PATIENCE: Duration = Duration::from_secs(2);

/// The index, locked until this is dropped.
#[derive(Debug)]
pub(in crate::git) struct IndexLock {
    lock: PathBuf,
    index: PathBuf,
    _held: File,
}

impl IndexLock {
    /// Locks the index at `index`; waits for two seconds when another process has it.
    pub(in crate::git) fn acquire(index: &Path) -> Result<IndexLock> {
        let lock = lock_path(index);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(held) = try_create(&lock)? {
                return Ok(IndexLock { lock, index: index.to_owned(), _held: held });
            }
            if remove_abandoned(&lock)? {
                continue;
            }
            if Instant::now() >= deadline {
                return Err(locked(&lock));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The index that is locked.
    pub(in crate::git) fn index(&self) -> &Path {
        &self.index
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        // The next process that locks the index recognises a leftover lock as abandoned.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Checks that nobody has the index locked.
pub(in crate::git) fn check(index: &Path) -> Result<()> {
    let lock = lock_path(index);
    match open_marked(&lock)? {
        Found::Nothing => Ok(()),
        Found::Marked(file) if file.try_lock_shared().is_ok() => Ok(()),
        Found::Marked(_) | Found::Foreign => Err(locked(&lock)),
    }
}

/// Whose a lock file is, by its mark.
pub(in crate::git) fn owner(lock: &Path) -> Result<LockOwner> {
    Ok(match open_marked(lock)? {
        Found::Marked(file) if file.try_lock_shared().is_ok() => LockOwner::Dead,
        Found::Marked(_) => LockOwner::Alive,
        Found::Nothing | Found::Foreign => LockOwner::Other,
    })
}

/// Locks that were found after the program had ended that made them.
#[derive(Debug, Default)]
pub struct LeftLocks {
    /// Those that are removed now.
    pub removed: Vec<PathBuf>,
    /// Those that are too young to tell, or that somebody may hold.
    pub held: Vec<PathBuf>,
}

/// Removes those of `locks` that were made from `since` to `until`, are two seconds old and that nobody can hold.
pub(in crate::git) fn remove_left_behind(
    locks: Vec<PathBuf>,
    since: SystemTime,
    until: Option<SystemTime>,
    may_be_held: impl Fn(&[PathBuf]) -> bool,
) -> Result<LeftLocks> {
    let mut left = LeftLocks::default();
    for lock in locks {
        let made = fs::symlink_metadata(&lock).and_then(|meta| meta.modified());
        let Some(made) = if_exists(made).at("reading", &lock)? else { continue };
        if made < since || until.is_some_and(|until| made > until) {
            continue;
        }
        let is_old = SystemTime::now().duration_since(made).is_ok_and(|age| age >= PATIENCE);
        if !is_old || owner(&lock)? == LockOwner::Alive || may_be_held(std::slice::from_ref(&lock)) {
            left.held.push(lock);
            continue;
        }
        if_exists(fs::remove_file(&lock)).at("removing", &lock)?;
        left.removed.push(lock);
    }
    Ok(left)
}

/// Creates the lock file, held from the moment it has its name; nothing when there is one.
fn try_create(lock: &Path) -> Result<Option<File>> {
    let dir = lock.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir).at("writing", lock)?;
    file.as_file().lock().at("locking", lock)?;
    file.write_all(MARKER).at("writing", lock)?;
    crash::point("git.index_lock_prepared");
    match file.persist_noclobber(lock) {
        Ok(file) => Ok(Some(file)),
        Err(err) if err.error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(err) => Err(err.error).at("writing", lock),
    }
}

enum Found {
    Nothing,
    Foreign,
    Marked(File),
}

fn open_marked(lock: &Path) -> Result<Found> {
    let Some(mut file) = if_exists(open_regular(lock)).at("reading", lock)? else { return Ok(Found::Nothing) };
    let mut content = Vec::new();
    (&mut file).take(MARKER.len() as u64 + 1).read_to_end(&mut content).at("reading", lock)?;
    Ok(if content == MARKER { Found::Marked(file) } else { Found::Foreign })
}

/// Removes a lock file that a killed process of this program left behind; true when the way is free now.
pub(in crate::git) fn remove_abandoned(lock: &Path) -> Result<bool> {
    let file = match open_marked(lock)? {
        Found::Nothing => return Ok(true),
        Found::Foreign => return Ok(false),
        Found::Marked(file) => file,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(err)) => return Err(err).at("locking", lock),
    }
    // Another process may have removed this one meanwhile and made its own: only the file that is held may go.
    let held = file.metadata().at("reading", lock)?;
    let Some(named) = if_exists(fs::symlink_metadata(lock)).at("reading", lock)? else { return Ok(true) };
    let is_held = named.ino() == held.ino() && named.dev() == held.dev();
    if is_held {
        fs::remove_file(lock).at("removing", lock)?;
    }
    Ok(is_held)
}
