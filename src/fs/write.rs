//! Files that survive a power cut.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::error::{FileError, failed, if_exists};
use super::read::only_regular;
use super::{Unsynced, make_folder, standing};
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
        Err(FileError { source, .. }) if source.kind() == io::ErrorKind::CrossesDevices => write_atomic(path, content),
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
    standing(path, || standing(&folder.join(TEMPORARY), write)).map_err(failed("write", path))
}

/// Creates a folder with those above it that are not there, and syncs each folder that got a new one.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    let create = || -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        make_folder(path)?;
        missing.iter().rev().filter_map(|folder| folder.parent()).try_for_each(|parent| File::open(parent)?.sync_all())
    };
    standing(path, create).map_err(failed("create", path))
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
    standing(path, append).map_err(failed("append to", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
        append_line(&path, "{\"c\":3}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\":\n{\"c\":3}\n");
    }
}
