//! Files that survive a power cut, written also while another process deletes their folder, with syncs that may be put off.
//!
//! Advisory locks that are waited for, though not for ever, and whether other hosts may have the files of a path, too.
//!
//! Reading what another process may have replaced by something else, or made larger than it should be: files and their stamps
//! and ages, and programs on the PATH.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::iter::successors;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::panic::resume_unwind;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use tempfile::tempfile_in;

use crate::crash;

/// The start of the names of temporary files.
const TEMPORARY: &str = ".ar-";

/// Replaces a file: temporary file beside it, fsync, rename, fsync of the folder. Who may read it stays as it is; for a
/// new file the umask says it.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), FileError> {
    write_after(Unsynced::default(), path, content)
}

/// Does what [`write_atomic`] does, with all that is in `unsynced` on the disk before the file is replaced.
pub fn write_after(unsynced: Unsynced, path: &Path, content: &[u8]) -> Result<(), FileError> {
    replace(folder_of(path), path, content, Some(unsynced))
}

/// Replaces a file at once for whoever reads it, and leaves it to the system when that is on the disk: for what nothing
/// rests on after a power cut.
pub fn write_unsynced(path: &Path, content: &[u8]) -> Result<(), FileError> {
    replace(folder_of(path), path, content, None)
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Does what [`write_atomic`] does with the temporary file in another `folder` of the same file system: whoever looks at
/// the folder of `path` sees no half of it, also when this process is killed. Where `path` leads to another file system the
/// temporary file is beside it after all.
pub fn replace_through(folder: &Path, path: &Path, content: &[u8]) -> Result<(), FileError> {
    match replace(folder, path, content, Some(Unsynced::default())) {
        Err(FileError { source, .. }) if source.kind() == ErrorKind::CrossesDevices => write_atomic(path, content),
        replaced => replaced,
    }
}

fn replace(folder: &Path, path: &Path, content: &[u8], durably: Option<Unsynced>) -> Result<(), FileError> {
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        if let Ok(replaced) = fs::metadata(path) {
            file.as_file().set_permissions(replaced.permissions())?;
        }
        file.write_all(content)?;
        if let Some(unsynced) = &durably {
            let mut unsynced = unsynced.clone();
            unsynced.add(file.path());
            unsynced.sync().map_err(|(_, source)| source)?;
        }
        crash::point("state.file_prepared");
        file.persist(path)?;
        crash::point("state.file_replaced");
        if durably.is_some() { File::open(folder_of(path))?.sync_all() } else { Ok(()) }
    };
    // The temporary file is in `folder`, which may be deleted as well.
    retry_if_removed(path, || retry_if_removed(&folder.join(TEMPORARY), write)).map_err(failed("write", path))
}

/// Creates a folder with those above it that are not there, and syncs each folder that got a new one.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    let create = || -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        make_folder(path)?;
        missing.iter().rev().filter_map(|folder| folder.parent()).try_for_each(|parent| File::open(parent)?.sync_all())
    };
    retry_if_removed(path, create).map_err(failed("create", path))
}

/// Removes what a killed process left of the files that it was about to replace. What has such a name and is no file is not
/// of this program.
pub fn remove_left_over(folder: &Path) -> Result<(), FileError> {
    for entry in if_exists(fs::read_dir(folder)).map_err(failed("read", folder))?.into_iter().flatten() {
        let entry = entry.map_err(failed("read", folder))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            if_exists(fs::remove_file(&path)).map_err(failed("remove", &path))?;
        }
    }
    Ok(())
}

/// Appends one line to a file and fsyncs it; a torn last line is ended first. What a failed write left is taken back.
pub fn append_line(path: &Path, line: &str) -> Result<(), FileError> {
    append(path, line).and_then(|file| file.sync_data().map_err(failed("append to", path)))
}

/// Does the same and leaves it to the system, or to the caller, when the line is on the disk. Gives the file.
pub fn append(path: &Path, line: &str) -> Result<File, FileError> {
    let append = || -> io::Result<File> {
        let opened =
            OpenOptions::new().read(true).append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let mut file = only_regular(opened)?;
        let mut bytes = Vec::with_capacity(line.len() + 2);
        let before = file.seek(SeekFrom::End(0))?;
        if before > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0u8];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                bytes.push(b'\n');
            }
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        file.write_all(&bytes).inspect_err(|_| {
            // The first error is the one that counts.
            let _ = file.set_len(before);
        })?;
        crash::point("state.line_appended");
        Ok(file)
    };
    retry_if_removed(path, append).map_err(failed("append to", path))
}

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

    /// Syncs all of them, side by side: a file system writes its journal once for all that wait for it. What is gone by now is
    /// passed over.
    ///
    /// # Errors
    ///
    /// One that cannot be synced, and why.
    pub fn sync(self) -> Result<(), (PathBuf, io::Error)> {
        let threads = self.0.len().min(SYNCED_AT_ONCE);
        let left = Mutex::new(self.0.into_iter());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let take_part = || {
            while let Some(path) = next() {
                sync_one(&path).map_err(|source| (path, source))?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| thread::Builder::new().spawn_scoped(scope, take_part)).collect();
            let own = take_part();
            // Where no thread can be started, the others do its part.
            let others = others.into_iter().flatten();
            others.map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))).fold(own, Result::and)
        })
    }
}

/// The most files that are synced at the same time.
const SYNCED_AT_ONCE: usize = 16;

fn sync_one(path: &Path) -> io::Result<()> {
    if_exists(File::open(path).and_then(|file| file.sync_all())).map(drop)
}

/// The folder of this program in the root of a working tree.
pub const OWN_FOLDER: &str = ".autoresearch";

/// Pauses before each retry. A loaded machine needs more than a second for one `rm -rf`.
const PAUSES: [u64; 12] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 800, 1600];

/// Runs `write`, which writes to `path`. If the folder of `path` was deleted, recreates it and retries. Does this only below
/// `.autoresearch`: elsewhere a missing folder is the caller's mistake.
pub fn retry_if_removed<T>(path: &Path, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause in PAUSES {
        match write() {
            Err(error) if was_deleted(path, &error) && is_below_sessions(path) => {}
            written => return written,
        }
        sleep(Duration::from_millis(pause));
        if let Some(folder) = path.parent() {
            // If this fails, the next attempt reports why.
            let _ = fs::create_dir_all(folder);
        }
    }
    write()
}

/// Creates a folder with those above it that are not there.
pub fn make_folder(path: &Path) -> io::Result<()> {
    retry_if_removed(path, || fs::create_dir_all(path))
}

/// Returns whether a file or folder was deleted during an attempt. A folder deleted while it is created can look like
/// something else at its path.
fn was_deleted(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound => true,
        ErrorKind::AlreadyExists => path.is_dir() || !path.exists(),
        _ => false,
    }
}

fn is_below_sessions(path: &Path) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components);
    folders.filter(|part| matches!(part, Component::Normal(_))).any(|part| part.as_os_str() == OWN_FOLDER)
}

/// A file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    /// The action that failed.
    pub action: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

/// Attaches the action and the file to an error of the system.
pub fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError { action, path: path.to_owned(), source }
}

/// Returns whether an error means that there is no such file.
pub fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Turns the error that there is no such file into `None`.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Turns the error that there is no such file, nor a folder in which it could be, into `None`.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if absent(&error) => Ok(None),
        result => result.map(Some),
    }
}

/// Returns whether a full disk or an exceeded quota caused an error.
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause(error, &[libc::ENOSPC, libc::EDQUOT])
}

/// Returns whether a file or folder caused an error because it is missing or is being changed by another process.
pub fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause(error, &[libc::ENOENT, libc::ENOTDIR, libc::ENOTEMPTY])
}

/// Returns whether an error was caused by one of these system errors. It compares texts, because some libraries hide the type
/// of a cause.
fn has_cause(error: &(dyn std::error::Error + 'static), codes: &[i32]) -> bool {
    let texts: Vec<String> = codes.iter().map(|code| io::Error::from_raw_os_error(*code).to_string()).collect();
    successors(Some(error), |error| error.source())
        .any(|error| texts.iter().any(|text| error.to_string().starts_with(text)))
}

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
            Err(TryLockError::WouldBlock) => sleep(INTERVAL),
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
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Reads a file that [`open_regular`] opens.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, u64::MAX)
}

/// Does what [`read_regular`] does with a file of at most `limit` bytes; a larger one is refused.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open_sized(path)?;
    // With room for all of it, so that it is read in one go.
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit)).map_or(0, |size| size.saturating_add(1)));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes"))),
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
        let age = if keeps_parts { Duration::from_millis(100) } else { Duration::from_secs(3) };
        let since = moment(self.changed).and_then(|then| SystemTime::now().duration_since(then).ok());
        since.is_some_and(|since| since >= age)
    }

    /// When the content was changed last; absent for a time that no program can set.
    pub fn modified(&self) -> Option<SystemTime> {
        moment(self.modified)
    }

    /// When a process wrote to the file, renamed it or changed its rights last; no program can set that time.
    pub fn changed(&self) -> SystemTime {
        moment(self.changed).unwrap_or(UNIX_EPOCH)
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

/// A moment that a stamp has in seconds and nanoseconds; `None` for one before 1970.
fn moment((seconds, nanoseconds): (i64, i64)) -> Option<SystemTime> {
    let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
    UNIX_EPOCH.checked_add(since)
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

/// The executable file that a word names which the shell does not expand, by its path or in a folder of `PATH`.
pub fn find_program(word: &str, root: &Path) -> Option<PathBuf> {
    let may_run = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0);
    if word.contains('/') {
        return Some(root.join(word)).filter(may_run);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| root.join(folder).join(word)).find(may_run)
}

#[cfg(test)]
mod tests {
    use std::fs::remove_dir_all;

    use super::super::{append_line, write_atomic};
    use super::*;

    #[test]
    fn a_torn_last_line_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
        append_line(&path, "{\"c\":3}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\":\n{\"c\":3}\n");
    }

    #[test]
    fn a_folder_that_goes_while_it_is_written_to_is_made_again_below_the_sessions_only() {
        let root = tempfile::tempdir().unwrap();
        let sessions = root.path().join(OWN_FOLDER);
        let path = sessions.join("t/logs/work.jsonl");
        let mut deletions = 3;
        let written = retry_if_removed(&path, || {
            if deletions > 0 {
                deletions -= 1;
                let _ = remove_dir_all(&sessions);
            }
            fs::write(&path, "line")
        });
        written.unwrap();
        remove_dir_all(&sessions).unwrap();
        append_line(&path, "line").unwrap();
        remove_dir_all(&sessions).unwrap();
        write_atomic(&path, b"line").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "line");
        remove_dir_all(&sessions).unwrap();
        make_folder(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(make_folder(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let elsewhere = root.path().join("elsewhere/file");
        assert!(append_line(&elsewhere, "line").is_err() && write_atomic(&elsewhere, b"line").is_err());
        assert!(!root.path().join("elsewhere").exists());
    }
}

#[cfg(test)]
mod read_tests {
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
