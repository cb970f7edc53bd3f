//! The file system's stamp of a file, which shows changes without reading the file.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// How far the clock of files may be behind that of processes.
pub const CLOCK_LAG: Duration = Duration::from_millis(20);

/// The file system's data on a file, which change whenever a process writes to it or replaces it. The owner of the file
/// cannot set the time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns whether any further change of the file would change this stamp. File systems stamp files with a coarse clock:
    /// at 100 Hz or more on Linux, or in whole seconds, on some only even ones.
    pub fn is_settled(&self) -> bool {
        let keeps_parts = self.changed.1 != 0;
        self.is_older_than(if keeps_parts { Duration::from_millis(100) } else { Duration::from_secs(3) })
    }

    fn is_older_than(&self, age: Duration) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanoseconds) = self.changed;
        let then = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        let since = then.and_then(|(seconds, nanoseconds)| now.checked_sub(Duration::new(seconds, nanoseconds)));
        since.is_some_and(|since| since >= age)
    }

    /// When the content was changed last; absent for a time that no program can set.
    pub fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.modified;
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        UNIX_EPOCH.checked_add(since)
    }

    /// When a process wrote to the file, renamed it or changed its rights last; no program can set that time.
    pub fn changed(&self) -> SystemTime {
        let (seconds, nanoseconds) = self.changed;
        let since = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        UNIX_EPOCH + since.map_or(Duration::ZERO, |(seconds, nanoseconds)| Duration::new(seconds, nanoseconds))
    }

    /// Returns whether this is the stamp of the same file.
    pub fn is_same_file(&self, other: &FileStamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns whether nothing was written into the file since `before`, the same file's stamp, as far as stamps tell.
    pub fn has_content_of(&self, before: &FileStamp) -> bool {
        (self.size, self.modified) == (before.size, before.modified)
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Looks at what stands at `path`, a link itself and not what it leads to; absent when nothing does.
    pub fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(FileStamp::from_metadata)
    }

    /// The stamp of a file of which that was said.
    pub fn from_metadata(meta: &Metadata) -> Self {
        FileStamp {
            device: meta.dev(),
            inode: meta.ino(),
            mode: meta.mode(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}
