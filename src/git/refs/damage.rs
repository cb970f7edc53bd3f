//! Refs that a crash left torn, locked, or leading to objects which are gone.
//!
//! The lock files of refs are git's and hold no name. Before refs are moved, a file in the git folder names the locks
//! that will be made. An advisory lock on that file lives as long as the process. A process that gets this lock and
//! finds names knows that their maker died.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::refs::FullNameRef;

use crate::fs::{free_name, if_exists, lock_within, open_regular, read_regular};
use crate::git::{At, GitError, HeadTarget, LockOwner, Refs, Result, collect_files, lock_path, replace_file};

/// A ref whose file names nothing, as a power cut leaves it, or a branch whose commit was pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRef {
    /// The ref's full name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// True if it names an object that is missing.
    pub is_lost: bool,
}

impl Refs {
    /// The files below `prefix` that stand for refs and name nothing, sorted by name.
    pub fn broken_refs(&self, prefix: &str) -> Result<Vec<BrokenRef>> {
        let mut files = Vec::new();
        collect_files(&self.gix.common_dir().join(prefix), true, may_be_ref, &mut files)?;
        let mut broken = Vec::new();
        for path in files {
            let content = read_regular(&path).at("reading", &path)?;
            let text = content.trim_ascii();
            let names = ObjectId::from_hex(text).is_ok_and(|id| !id.is_null()) || text.starts_with(b"ref: ");
            if !names && let Ok(name) = path.strip_prefix(self.gix.common_dir()) {
                broken.push(BrokenRef { name: name.to_string_lossy().into_owned(), path, is_lost: false });
            }
        }
        broken.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(broken)
    }

    /// A branch that names an object which is gone; nothing when it can be read, or is not there.
    pub fn lost_branch(&self, full: &str) -> Option<BrokenRef> {
        let found = self.gix.try_find_reference(full).ok()??;
        let id = found.target().try_id()?.to_owned();
        let path = self.gix.common_dir().join(full);
        (!self.objects.has(id)).then(|| BrokenRef { name: full.to_owned(), path, is_lost: true })
    }

    /// Lists all readable refs below `prefix` with the objects that they name, sorted by name. If a ref's file names
    /// nothing, its packed object counts, if there is one.
    pub fn readable_refs_under(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let broken = self.broken_refs(prefix)?;
        if broken.is_empty() {
            return self.refs_under(prefix);
        }
        let below = format!("{prefix}/");
        let packed =
            self.packed_lines()?.into_iter().map(|(name, (object, _))| (name.to_str_lossy().into_owned(), object));
        let mut found: BTreeMap<String, String> = packed.filter(|(name, _)| name.starts_with(&below)).collect();
        let mut files = Vec::new();
        collect_files(&self.gix.common_dir().join(prefix), true, may_be_ref, &mut files)?;
        for path in files {
            let Ok(name) = path.strip_prefix(self.gix.common_dir()) else { continue };
            let name = name.to_string_lossy().into_owned();
            if broken.iter().all(|broken| broken.name != name) {
                let content = fs::read_to_string(&path).at("reading", &path)?;
                found.insert(name, content.trim().to_owned());
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The first line of the packed refs that names no ref, from 1; git does not go beyond it, and so loses refs.
    pub fn broken_packed_line(&self) -> Result<Option<usize>> {
        let path = self.gix.common_dir().join("packed-refs");
        let Some(content) = if_exists(read_regular(&path)).at("reading", &path)? else { return Ok(None) };
        let is_id = |hex: &[u8]| ObjectId::from_hex(hex).is_ok();
        let is_whole = |line: &[u8]| match line {
            [b'#', ..] => true,
            [b'^', peeled @ ..] => is_id(peeled),
            line => line.split_once_str(" refs/").is_some_and(|(id, name)| is_id(id) && !name.is_empty()),
        };
        let ended = content.is_empty() || content.ends_with(b"\n");
        let broken = content.lines().position(|line| !is_whole(line)).map(|line| line + 1);
        Ok(broken.or_else(|| (!ended).then(|| content.lines().count())))
    }

    /// This working tree's `HEAD`, where its file is missing or names nothing.
    pub fn torn_head(&self) -> Option<BrokenRef> {
        torn_head_at(self.gix.git_dir())
    }

    /// Writes the file of a `HEAD` that names nothing anew, as [`Refs::repair_ref`] does.
    pub fn repair_head(&self, torn: &BrokenRef, at: &HeadTarget) -> Result<PathBuf> {
        match at {
            HeadTarget::Branch(name) => self.repair_ref(torn, &format!("ref: {name}")),
            HeadTarget::Detached(commit) => self.repair_ref(torn, commit.as_str()),
        }
    }

    /// Rewrites the file of a ref that names nothing, as git does: by its lock. Copies the old content to a file in the
    /// git folder, whose path this returns.
    pub fn repair_ref(&self, broken: &BrokenRef, object: &str) -> Result<PathBuf> {
        let copy = format!("autoresearch-damaged-{}", broken.name.replace('/', "-"));
        let copy = free_name(&self.gix.common_dir().join(copy));
        match fs::read(&broken.path) {
            // It is packed.
            Err(err) if err.kind() == ErrorKind::NotFound => replace_file(&copy, b"")?,
            // A folder.
            Err(_) if broken.path.is_dir() => fs::rename(&broken.path, &copy).at("moving", &broken.path)?,
            content => replace_file(&copy, &content.at("reading", &broken.path)?)?,
        }
        if let Some(folder) = broken.path.parent() {
            fs::create_dir_all(folder).at("making the folder", folder)?;
        }
        let lock = lock_path(&broken.path);
        let _guard = RefGuard::begin(self.gix.git_dir(), std::slice::from_ref(&lock))?;
        let mut file = File::options().write(true).create_new(true).open(&lock).at("writing", &lock)?;
        writeln!(file, "{object}").and_then(|()| file.sync_all()).at("writing", &lock)?;
        fs::rename(&lock, &broken.path).at("writing", &broken.path)?;
        self.sync_ref(&broken.name)?;
        Ok(copy)
    }
}

/// `HEAD` of a working tree's own git folder, where its file is missing or names nothing.
pub(in crate::git) fn torn_head_at(git_dir: &Path) -> Option<BrokenRef> {
    let path = git_dir.join("HEAD");
    // As old versions of git made it.
    if path.is_symlink() {
        return None;
    }
    let is_torn = match read_regular(&path) {
        Err(error) => error.kind() == ErrorKind::NotFound || path.is_dir(),
        Ok(content) => {
            let text = content.trim_ascii();
            let branch = text.strip_prefix(b"ref: ").map(|name| name.trim_ascii().as_bstr());
            let is_branch = |name: &BStr| name.starts_with(b"refs/") && <&FullNameRef>::try_from(name).is_ok();
            !branch.is_some_and(is_branch) && ObjectId::from_hex(text).is_err()
        }
    };
    is_torn.then(|| BrokenRef { name: "HEAD".to_owned(), path, is_lost: false })
}

/// Returns whether a file can be a ref: it is no lock, and its name does not start with a dot.
fn may_be_ref(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    !name.as_encoded_bytes().starts_with(b".") && path.extension() != Some("lock".as_ref())
}

/// The file that names the locks, in the git folder of the working tree.
pub(in crate::git) const REF_LOCKS: &str = "autoresearch-refs";

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
        let path = git_dir.join(REF_LOCKS);
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
        if git_dir.join(REF_LOCKS).exists() {
            RefGuard::begin(git_dir, &[])?;
        }
        Ok(())
    }

    /// The locks that are named, with whether their maker is alive. Changes nothing.
    pub(in crate::git) fn named(git_dir: &Path) -> Result<Vec<(PathBuf, LockOwner)>> {
        let path = git_dir.join(REF_LOCKS);
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
        fs::write(dir.path().join(REF_LOCKS), [lock.as_os_str().as_bytes(), b"\0"].concat()).unwrap();
        if let Err(error) = File::options().write(true).open(dir.path().join(REF_LOCKS)).unwrap().set_len(1 << 40) {
            eprintln!("skipped: no sparse file of a terabyte: {error}");
            return;
        }
        drop(RefGuard::begin(dir.path(), &[]).unwrap());
        assert!(!lock.exists());
        assert_eq!(fs::metadata(dir.path().join(REF_LOCKS)).unwrap().len(), 0);
    }
}
