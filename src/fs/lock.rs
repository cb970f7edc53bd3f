//! Advisory locks that are waited for, though not for ever.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::if_exists;
use super::read::only_regular;

/// How often a lock that somebody holds is tried again. The system can wait for a lock, but not for a limited time.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long who needs a lock waits for somebody who only looks whether it is taken, and for the locks of a process that
/// was killed while it started another one: they stay locked until that one is another program.
pub const GLANCE: Duration = Duration::from_secs(2);

/// How long an append waits for another one; an append takes milliseconds.
pub const APPEND_WAIT: Duration = Duration::from_secs(10);

/// Opens a file that several processes append to or replace, makes it if it is not there, and locks it. A file that was
/// replaced by another one while its lock was waited for is let go, and the new one locked; `true` says that it was replaced.
/// What is no regular file is refused. Nothing when somebody else has held the lock for all of [`APPEND_WAIT`].
pub fn open_locked(path: &Path) -> io::Result<Option<(File, bool)>> {
    let mut was_replaced = false;
    loop {
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).custom_flags(libc::O_NONBLOCK);
        let file = only_regular(options.open(path)?)?;
        if !lock_within(&file, APPEND_WAIT)? {
            return Ok(None);
        }
        if is_at(&file, path)? {
            return Ok(Some((file, was_replaced)));
        }
        was_replaced = true;
    }
}

/// Whether an open file is the one that has this name.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    let named = if_exists(fs::metadata(path))?;
    Ok(named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())))
}

/// Locks a file for this process alone; `false` when somebody else has held it for all of `patience`.
pub fn lock_within(file: &File, patience: Duration) -> io::Result<bool> {
    within(patience, || file.try_lock())
}

/// Locks a file for readers; `false` when somebody else has had it for himself for all of `patience`.
pub fn share_within(file: &File, patience: Duration) -> io::Result<bool> {
    within(patience, || file.try_lock_shared())
}

fn within(patience: Duration, mut lock: impl FnMut() -> Result<(), TryLockError>) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(INTERVAL),
        }
    }
}
