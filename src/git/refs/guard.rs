//! Notes which refs are being moved, so that `ar` recognises lock files that a killed process left behind.
//!
//! The lock files of refs are git's and hold no name. Before refs are moved, a file in the git folder names the locks
//! that will be made. An advisory lock on that file lives as long as the process. A process that gets this lock and
//! finds names knows that their maker died.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fs::{if_exists, lock_within, open_regular};
use crate::git::error::{At, GitError, Result};
use crate::git::lock_file::LockOwner;

/// The file that names the locks, in the git folder of the working tree.
pub(in crate::git) const NAME: &str = "autoresearch-refs";

/// Longest wait for another process that moves refs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refs are being moved until this is dropped.
#[derive(Debug)]
pub(in crate::git) struct RefGuard {
    file: File,
}

impl RefGuard {
    /// Removes locks that a killed process left behind, and names those that are going to be made.
    pub(in crate::git) fn begin(git_dir: &Path, locks: &[PathBuf]) -> Result<RefGuard> {
        let path = git_dir.join(NAME);
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).at("opening", &path)?;
        if !lock_within(&file, PATIENCE).at("locking", &path)? {
            return Err(ErrorKind::WouldBlock.into()).at("locking", &path);
        }
        remove_named(&mut file, &path)?;
        // A lock that is there belongs to somebody else.
        let names: Vec<&[u8]> =
            locks.iter().filter(|lock| !lock.exists()).map(|lock| lock.as_os_str().as_bytes()).collect();
        file.rewind().and_then(|()| file.write_all(&names.join(&0))).at("writing", &path)?;
        Ok(RefGuard { file })
    }

    /// Removes locks that a killed process left behind.
    pub(in crate::git) fn clear_abandoned(git_dir: &Path) -> Result<()> {
        if git_dir.join(NAME).exists() {
            RefGuard::begin(git_dir, &[])?;
        }
        Ok(())
    }

    /// The locks that are named, with whether their maker is alive. Changes nothing.
    pub(in crate::git) fn named(git_dir: &Path) -> Result<Vec<(PathBuf, LockOwner)>> {
        let path = git_dir.join(NAME);
        let Some(mut file) = if_exists(open_regular(&path)).at("reading", &path)? else { return Ok(Vec::new()) };
        let owner = if file.try_lock_shared().is_ok() { LockOwner::Dead } else { LockOwner::Alive };
        Ok(read_names(&mut file).at("reading", &path)?.into_iter().map(|lock| (lock, owner)).collect())
    }
}

impl Drop for RefGuard {
    fn drop(&mut self) {
        // Names that stay behind are those of locks that are gone; removing them again does nothing.
        let _ = self.file.set_len(0);
    }
}

/// Most bytes of names that are read: those of over 50,000 locks. `ar` did not write a longer file.
const LARGEST: u64 = 16 << 20;

fn remove_named(file: &mut File, path: &Path) -> Result<(), GitError> {
    for lock in read_names(file).at("reading", path)? {
        if_exists(fs::remove_file(&lock)).at("removing", &lock)?;
    }
    file.set_len(0).at("writing", path)
}

fn read_names(file: &mut File) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    file.take(LARGEST).read_to_end(&mut names)?;
    // On a full disk names are cut off, and what is left of one may be that of the ref itself.
    let names = names.split(|byte| *byte == 0).filter(|name| name.ends_with(b".lock"));
    Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_locks_in_a_file_of_a_terabyte_are_read_in_bounded_memory() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("left.lock");
        fs::write(&lock, "").unwrap();
        fs::write(dir.path().join(NAME), [lock.as_os_str().as_bytes(), b"\0"].concat()).unwrap();
        if let Err(error) = File::options().write(true).open(dir.path().join(NAME)).unwrap().set_len(1 << 40) {
            eprintln!("skipped: no sparse file of a terabyte: {error}");
            return;
        }
        drop(RefGuard::begin(dir.path(), &[]).unwrap());
        assert!(!lock.exists());
        assert_eq!(fs::metadata(dir.path().join(NAME)).unwrap().len(), 0);
    }
}
