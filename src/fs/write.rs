//! Files that survive a power cut, written also while another process deletes their folder, with syncs that may be put off.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::iter::successors;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use std::{fs, io};

use super::read::only_regular;
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

    /// Syncs all of them. What is gone by now is passed over.
    ///
    /// # Errors
    ///
    /// The first that cannot be synced, and why.
    pub fn sync(self) -> Result<(), (PathBuf, io::Error)> {
        self.0.into_iter().try_for_each(|path| sync_one(&path).map_err(|source| (path, source)))
    }
}

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
