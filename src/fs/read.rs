//! Reading what another process may have replaced by something else, or made larger than it should be: files and their stamps
//! and ages, and programs on the PATH.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use tempfile::tempfile_in;

use super::write::{FileError, failed, folder_of, if_exists};

/// Number of bytes to read at the end of a file.
pub const TAIL: u64 = 64 * 1024;

/// Opens a file for reading. A folder, a pipe or a device that somebody put in its place is refused, and not waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_sized(path).map(|(file, _)| file)
}

/// Does what [`open_regular`] does, and gives the file's size in bytes.
fn open_sized(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let size = regular_size(&file)?;
    Ok((file, size))
}

/// Refuses what is open and no regular file.
pub(super) fn only_regular(file: File) -> io::Result<File> {
    regular_size(&file).map(|_| file)
}

fn regular_size(file: &File) -> io::Result<u64> {
    match file.metadata()? {
        meta if meta.is_file() => Ok(meta.len()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Reads a file that [`open_regular`] opens.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, size) = open_sized(path)?;
    let mut bytes = with_room(size);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Room for the content of a file, so that it is read in one go.
fn with_room(size: u64) -> Vec<u8> {
    Vec::with_capacity(usize::try_from(size).map_or(0, |size| size.saturating_add(1)))
}

/// Does what [`read_regular`] does with a file of at most `limit` bytes; a larger one is refused.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open_sized(path)?;
    let mut bytes = with_room(size.min(limit));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// Returns whether `path`, or the target of a link there, exists but is not a regular file: a folder, a FIFO or a device.
pub fn is_irregular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}

/// The last bytes of a file, at most 64 KiB and none before byte `from`; nothing when there is no file.
pub fn read_tail(path: &Path, from: u64) -> Result<Vec<u8>, FileError> {
    let read = || -> io::Result<Vec<u8>> {
        let Some(mut file) = if_exists(open_regular(path))? else { return Ok(Vec::new()) };
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL))))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(failed("read", path))
}

/// Largest lag of the clock of files behind that of processes.
pub const CLOCK_LAG: Duration = Duration::from_millis(20);

/// Returns the time by the clock of a folder's file system: that of a file without a name, made there for this moment.
fn file_clock(folder: &Path) -> io::Result<SystemTime> {
    tempfile_in(folder)?.metadata()?.modified()
}

/// Waits until what is written in `folder` is newer than a time. Gives up after some 200 ms, as the clock may have been set back.
pub fn wait_until_newer(folder: &Path, than: SystemTime) {
    for _ in 0..200 {
        if file_clock(folder).map_or(true, |now| now > than) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Waits until a file that changed at this time is older than all that a process writes that starts now, even by a clock that lags.
pub fn wait_until_older(changed: SystemTime) {
    // Of a time in the future, nobody knows how long to wait.
    let age = SystemTime::now().duration_since(changed).unwrap_or(CLOCK_LAG);
    sleep(CLOCK_LAG.saturating_sub(age));
}

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

/// The time since the last change of the file at `path`, by the clock of its file system. Zero if the change lies in the
/// future. `None` if there is no file, or none can be made beside it.
pub fn age(path: &Path) -> Option<Duration> {
    let changed = fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    let now = file_clock(folder_of(path)).ok()?;
    Some(now.duration_since(changed).unwrap_or_default())
}

/// Finds a program on the PATH. Passes over the home folder and `trees`, where a job could put one of its own.
pub fn program_on_path(name: &str, trees: &[&Path]) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some());
    let is_at_home = |path: &Path| {
        home.iter().map(PathBuf::as_path).chain(trees.iter().copied()).any(|folder| path.starts_with(folder))
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).filter_map(|folder| folder.join(name).canonicalize().ok());
    found.find(|path| !is_at_home(path) && access(path, Access::EXEC_OK).is_ok() && path.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_is_written_after_the_wait_is_newer() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..10 {
            let (path, than) = (folder.path().join(n.to_string()), SystemTime::now());
            wait_until_newer(folder.path(), than);
            fs::write(&path, "x").unwrap();
            assert!(fs::metadata(path).unwrap().modified().unwrap() > than);
        }
    }

    #[test]
    fn a_file_is_older_than_the_lag_of_the_clock_after_the_wait() {
        let file = tempfile::tempfile().unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        wait_until_older(written);
        assert!(SystemTime::now() - CLOCK_LAG >= written);
        wait_until_older(SystemTime::now() + Duration::from_secs(3600));
    }

    #[test]
    fn the_age_is_that_of_the_content_and_never_below_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(age(&path), None);
        fs::write(&path, "x").unwrap();
        let change = |time| File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        change(SystemTime::now() - Duration::from_secs(600));
        let found = age(&path).unwrap().as_secs();
        assert!((599..660).contains(&found), "{found}");
        change(SystemTime::now() + Duration::from_secs(600));
        assert_eq!(age(&path), Some(Duration::ZERO));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
