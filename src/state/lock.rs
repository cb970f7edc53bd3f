//! Advisory locks that are waited for, though not for ever.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

/// How often a lock that somebody holds is tried again. The system can wait for a lock, but not for a limited time.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long who needs a lock waits for somebody who only looks whether it is taken, and for what a killed process was
/// about to start, which has the lock until it begins.
pub const GLANCE: Duration = Duration::from_secs(2);

/// Locks a file for this process alone; `false` when somebody else has held it for all of `patience`.
pub fn lock_within(file: &File, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(INTERVAL),
        }
    }
}
