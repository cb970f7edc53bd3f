//! Free names, and moving to them what stands in the way.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::write::{FileError, absent, folder_of, write_atomic};
use crate::domain::shell_word;

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
pub fn move_irregular_away(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() || there.nlink() > 1 => {}
        _ => return Ok(None),
    }
    move_away(path).map(Some)
}

/// Moves what stands in the place of a folder and is none, a link among them, as [`move_irregular_away`] does.
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
pub fn copy_beside(path: &Path, content: &[u8], suffix: &str) -> Result<PathBuf, FileError> {
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

/// Gives the owner all rights to a folder and to those in it.
pub fn make_all_writable(folder: &Path) -> io::Result<()> {
    make_writable(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_all_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file, or a folder with all that is in it, also from read-only folders. Links are removed and not followed. Does
/// nothing if there is nothing.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => in_writable_folder(path, || match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                make_all_writable(path)?;
                fs::remove_dir_all(path)
            }
            removed => removed,
        }),
        Ok(_) => in_writable_folder(path, || fs::remove_file(path)),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if absent(&error) => Ok(()),
        removed => removed,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
