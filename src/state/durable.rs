//! Files that survive a power cut.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{StateError, Unsynced, standing};
use crate::crash;
use crate::domain::{FORMAT_VERSION, shell_word};

/// How much of a file's end is read, in bytes.
pub(super) const TAIL: u64 = 64 * 1024;

/// How large a JSON file may be, in bytes: the untracked files of a working tree that has a million of them.
const LARGEST: u64 = 256 << 20;

/// How the names of temporary files start.
const TEMPORARY: &str = ".ar-";

/// Attaches what was tried, and on what, to an error of the system.
pub(super) fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StateError + 'a {
    move |source| StateError::Io { action, path: path.to_owned(), source }
}

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

/// Whether what stands at `path`, or what a link there leads to, is no regular file: a folder, a pipe or a device.
pub fn is_odd(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}

/// Replaces a file: temporary file beside it, fsync, rename, fsync of the folder. Who may read it stays as it is; for a
/// new file the umask says it.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), StateError> {
    write_after(Unsynced::default(), path, content)
}

/// Does what [`write_atomic`] does, with all that is in `unsynced` on the disk before the file is replaced.
fn write_after(unsynced: Unsynced, path: &Path, content: &[u8]) -> Result<(), StateError> {
    replace(folder_of(path), path, content, Some(unsynced))
}

/// Replaces a file at once for whoever reads it, and leaves it to the system when that is on the disk: for what nothing
/// rests on after a power cut.
pub fn write_unsynced(path: &Path, content: &[u8]) -> Result<(), StateError> {
    replace(folder_of(path), path, content, None)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Does what [`write_atomic`] does with the temporary file in another `folder` of the same file system: whoever looks at
/// the folder of `path` sees no half of it, also when this process is killed. Where `path` leads to another file system the
/// temporary file is beside it after all.
pub fn replace_through(folder: &Path, path: &Path, content: &[u8]) -> Result<(), StateError> {
    match replace(folder, path, content, Some(Unsynced::default())) {
        Err(StateError::Io { source, .. }) if source.kind() == io::ErrorKind::CrossesDevices => {
            write_atomic(path, content)
        }
        replaced => replaced,
    }
}

fn replace(folder: &Path, path: &Path, content: &[u8], durably: Option<Unsynced>) -> Result<(), StateError> {
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
    standing(path, || standing(&folder.join(TEMPORARY), write)).map_err(failed("write", path))
}

/// The first of `path`, `path-2`, `path-3` … at which nothing stands.
pub fn free_name(path: &Path) -> PathBuf {
    let mut free = path.to_owned();
    for n in 2.. {
        if fs::symlink_metadata(&free).is_err() {
            break;
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-{n}"));
        free = name.into();
    }
    free
}

/// A free name beside `path`: its own with `suffix`, and a number where that is taken.
pub fn free_beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    free_name(Path::new(&name))
}

/// The shell command that moves `path` to a free name beside it, and so overwrites nothing.
pub fn move_command(path: &Path, suffix: &str) -> String {
    format!("mv {} {}", shell_word(path), shell_word(&free_beside(path, suffix)))
}

/// Moves what stands at `path` and is no regular file, or has a second name by which it is written through, to a free name
/// beside it, which it gives; nothing when there is nothing of that kind.
pub fn move_odd_away(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() || there.nlink() > 1 => {}
        _ => return Ok(None),
    }
    move_away(path).map(Some)
}

/// Moves what stands in the place of a folder and is none, a link among them, as [`move_odd_away`] does.
pub fn move_no_folder_away(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_dir() => move_away(path).map(Some),
        _ => Ok(None),
    }
}

/// Moves whatever stands at `path` to a free name beside it, which it gives.
pub fn move_away(path: &Path) -> io::Result<PathBuf> {
    let free = free_beside(path, ".replaced");
    fs::rename(path, &free)?;
    Ok(free)
}

/// Moves a file, a link or a folder to `to`, where nothing stands; to another file system by copying it.
pub fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        moved => return moved,
    }
    let meta = fs::symlink_metadata(from)?;
    if meta.is_dir() {
        fs::create_dir(to)?;
        make_writable(from)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            move_to(&entry.path(), &to.join(entry.file_name()))?;
        }
        return fs::remove_dir(from);
    }
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if meta.is_file() {
        fs::copy(from, to)?;
    }
    // There is nothing in a pipe or a socket that could be kept.
    fs::remove_file(from)
}

/// Writes `content`, which is that of `path`, durably into a file of its own beside it whose name ends in `suffix`, and
/// gives the name. No file is overwritten.
pub fn copy_beside(path: &Path, content: &[u8], suffix: &str) -> Result<PathBuf, StateError> {
    let copy = free_beside(path, suffix);
    write_atomic(&copy, content)?;
    Ok(copy)
}

/// Gives the owner of a folder all rights to it; does nothing to what is no folder.
pub fn make_writable(folder: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(folder)?;
    let mode = meta.mode() & 0o7777;
    if meta.is_dir() && mode & 0o700 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(mode | 0o700))?;
    }
    Ok(())
}

/// Does something to `path`, and once more where the folder that it is in was read-only, with all rights to that folder.
pub fn in_writable_folder<T>(path: &Path, change: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match change() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(folder_of(path))?;
            change()
        }
        changed => changed,
    }
}

/// Creates a folder with those above it that are not there, and syncs each folder that got a new one.
pub(super) fn create_folder(path: &Path) -> Result<(), StateError> {
    let create = || -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        fs::create_dir_all(path)?;
        missing.iter().rev().filter_map(|folder| folder.parent()).try_for_each(|parent| File::open(parent)?.sync_all())
    };
    standing(path, create).map_err(failed("create", path))
}

/// Removes what a killed process left of the files that it was about to replace. What has such a name and is no file is not
/// of this program.
pub fn remove_left_over(folder: &Path) -> Result<(), StateError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed("read", folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(failed("read", folder))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path)(error)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Replaces a JSON file, indented, unless a newer program wrote the one that is there.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    write_json_after(Unsynced::default(), path, value)
}

/// Does what [`write_json`] does with a file that nothing rests on after a power cut.
pub fn write_json_unsynced(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    write_unsynced(path, &json_text(path, value)?)
}

/// Does what [`write_json`] does, with all that is in `unsynced` on the disk before the file is replaced.
pub fn write_json_after(unsynced: Unsynced, path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    write_after(unsynced, path, &json_text(path, value)?)
}

/// What the JSON file at `path` is to hold, unless a newer program wrote the one that is there.
pub fn json_text(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, StateError> {
    refuse_newer(path)?;
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|source| StateError::Json { path: path.to_owned(), source })?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a JSON file; `None` when there is none.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let Some(value) = read_value(path)? else { return Ok(None) };
    check_version(path, &value)?;
    serde_json::from_value(value).map(Some).map_err(|source| StateError::Json { path: path.to_owned(), source })
}

/// Appends one line to a file and fsyncs it; a torn last line is ended first. What a failed write left is taken back.
pub fn append_line(path: &Path, line: &str) -> Result<(), StateError> {
    append(path, line).and_then(|file| file.sync_data().map_err(failed("append to", path)))
}

/// Does the same and leaves it to the system, or to the caller, when the line is on the disk. Gives the file.
pub(super) fn append(path: &Path, line: &str) -> Result<File, StateError> {
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
    standing(path, append).map_err(failed("append to", path))
}

/// The last bytes of a file, at most 64 KiB and none before byte `from`; nothing when there is no file.
pub fn read_tail(path: &Path, from: u64) -> Result<Vec<u8>, StateError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = match open_regular(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL))))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(failed("read", path))
}

/// Refuses to go on when a newer program wrote the file.
fn refuse_newer(path: &Path) -> Result<(), StateError> {
    match read_value(path) {
        Ok(Some(value)) => check_version(path, &value),
        // A torn or foreign file is replaced, and so is what is no file.
        Ok(None) | Err(StateError::Json { .. }) => Ok(()),
        Err(StateError::Io { source, .. })
            if matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn check_version(path: &Path, value: &Value) -> Result<(), StateError> {
    match value.get("version").and_then(Value::as_u64) {
        Some(found) if found > u64::from(FORMAT_VERSION) => Err(StateError::Newer { path: path.to_owned(), found }),
        _ => Ok(()),
    }
}

fn read_value(path: &Path) -> Result<Option<Value>, StateError> {
    let bytes = match read_at_most(path, LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|source| StateError::Json { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_that_moves_a_file_names_a_free_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.tsv");
        let target = || move_command(&path, ".old").rsplit('/').next().unwrap().to_owned();
        assert_eq!(target(), "results.tsv.old");
        fs::write(folder.path().join("results.tsv.old"), "rows").unwrap();
        assert_eq!(target(), "results.tsv.old-2");
        fs::write(folder.path().join("results.tsv.old-2"), "rows").unwrap();
        assert_eq!(target(), "results.tsv.old-3");
    }

    #[test]
    fn a_newer_format_is_read_by_nobody_and_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contract.json");
        fs::write(&path, r#"{"version": 2, "tag": "x"}"#).unwrap();
        let error = write_json(&path, &json!({"version": 1})).unwrap_err();
        assert!(matches!(error, StateError::Newer { found: 2, .. }), "{error}");
        assert!(read_json::<Value>(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"version": 2, "tag": "x"}"#);
    }

    #[test]
    fn a_torn_last_line_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
        append_line(&path, "{\"c\":3}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\":\n{\"c\":3}\n");
    }
}
