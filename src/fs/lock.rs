//! Advisory locks that are waited for, though not for ever, and whether other hosts may have the files of a path, too.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::{if_exists, only_regular};

/// Interval between attempts to take a lock that another process holds. The system can wait for a lock, but not for a limited
/// time.
const INTERVAL: Duration = Duration::from_millis(5);

/// Time to wait for a lock that another process may only be checking. It also allows for a process that was killed while it
/// started another one: the new one holds the locks until it executes its program.
pub const GLANCE: Duration = Duration::from_secs(2);

/// Time that an append waits for another one; an append takes milliseconds.
pub const APPEND_WAIT: Duration = Duration::from_secs(10);

/// Opens a file that several processes append to or replace, creates it if it is missing, and locks it. If it was replaced
/// during the wait for its lock, locks the new file instead and returns `true`.
///
/// Refuses anything but a regular file. Returns nothing if another process held the lock for all of [`APPEND_WAIT`].
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

/// Returns whether `path` leads to the open `file`.
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

/// File systems that hosts share, by the numbers of `statfs(2)` and of their own sources: NFS, SMB and CIFS, Lustre, GPFS, BeeGFS,
/// Ceph, AFS, GFS2, OCFS2, OrangeFS, 9P, and all in user space.
#[cfg(target_os = "linux")]
const SHARED: [u32; 13] = [
    0x6969,
    0xFE53_4D42,
    0xFF53_4D42,
    0x0BD0_0BD0,
    0x4750_4653,
    0x1983_0326,
    0x00C3_6400,
    0x5346_414F,
    0x0116_1970,
    0x7461_636F,
    0x2003_0528,
    0x0102_1997,
    0x6573_5546,
];

/// Returns whether the file system of `path` may be one that other hosts have, too; in doubt it is.
pub fn is_shared(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        // The width of the number differs between architectures; the constants have 32 bits.
        rustix::fs::statfs(path).map_or(true, |found| SHARED.contains(&(found.f_type as u32)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        true
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod shared_tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_of_this_host_alone() {
        assert!(!is_shared(Path::new("/proc")));
        assert!(is_shared(Path::new("/no such path")));
    }
}
