//! Advisory locks that are waited for, though not for ever.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

/// How often a lock that somebody holds is tried again. The system can wait for a lock, but not for a limited time.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long who needs a lock waits for somebody who only looks whether it is taken, and for the locks of a process that
/// was killed while it started another one: they stay locked until that one is another program.
pub const GLANCE: Duration = Duration::from_secs(2);

/// Locks a file for this process alone; `false` when somebody else has held it for all of `patience`.
pub fn lock_within(file: &File, patience: Duration) -> io::Result<bool> {
    within(patience, || file.try_lock())
}

/// Locks a file for readers; `false` when somebody else has had it for himself for all of `patience`.
pub(super) fn share_within(file: &File, patience: Duration) -> io::Result<bool> {
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
