//! Entries of linked working trees in git's folder, including odd ones that a crash, a full disk or another process
//! left. Git skips most odd ones, and so does everything here.

use std::fs;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;

use super::linked::LOCKED;
use super::open::Repo;
use crate::fs::{absent, move_away, read_at_most};
use crate::git::error::{At, Result};
use crate::git::path::to_path;
use crate::git::refs::torn_head_at;
use crate::git::sync;

/// The bytes that a file of an entry may have: what git can take for a path.
const LARGEST: u64 = 4096;

/// The bytes that a name in a path may have.
const LONGEST_NAME: usize = 255;

/// The file of an entry that names its working tree.
pub(super) const GITDIR: &str = "gitdir";

/// The file of an entry that names git's folder.
const COMMONDIR: &str = "commondir";

/// Content of `commondir`: git's folder is two above.
const UP: &str = "../..\n";

/// An entry of the folder `worktrees` in git's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedEntry {
    /// The working tree's own git folder, or what stands in its place.
    pub path: PathBuf,
    /// The root of the working tree, where the entry tells it: by its `gitdir`, else by the lock of a tree that is kept.
    pub root: Option<PathBuf>,
    /// Its oddity, if it has one.
    pub oddity: Option<Oddity>,
    /// True if it is locked.
    pub is_locked: bool,
}

/// An oddity of an entry; the first of these that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// It is not a folder.
    NoFolder,
    /// Its `gitdir` names no working tree.
    NoPlace,
    /// Its `commondir` does not lead to git's folder.
    NoCommonDir,
    /// Its `HEAD` names nothing.
    NoHead,
}

impl LinkedEntry {
    fn read(path: PathBuf, common_dir: &Path) -> LinkedEntry {
        if !path.is_dir() {
            return LinkedEntry { path, root: None, oddity: Some(Oddity::NoFolder), is_locked: false };
        }
        let place = named_in(&path.join(GITDIR)).map(|place| path.join(place));
        let leads_here = || {
            let common = named_in(&path.join(COMMONDIR)).and_then(|common| path.join(common).canonicalize().ok());
            common.is_some() && common == common_dir.canonicalize().ok()
        };
        let oddity = match &place {
            None => Some(Oddity::NoPlace),
            Some(_) if !leads_here() => Some(Oddity::NoCommonDir),
            Some(_) => torn_head_at(&path).map(|_| Oddity::NoHead),
        };
        let root = place.map(|place| match place.ends_with(".git") {
            true => place.parent().map(Path::to_owned).unwrap_or_default(),
            false => place,
        });
        let root = root.or_else(|| named_by_lock(&path));
        let is_locked = path.join(LOCKED).symlink_metadata().is_ok();
        LinkedEntry { path, root, oddity, is_locked }
    }
}

impl Repo {
    /// Lists the entries of linked working trees in git's folder, sorted by path.
    pub fn linked_entries(&self) -> Result<Vec<LinkedEntry>> {
        let all = self.linked_folder();
        let found = match fs::read_dir(&all) {
            Err(error) if absent(&error) => return Ok(Vec::new()),
            found => found.at("reading", &all)?,
        };
        let read = |path| LinkedEntry::read(path, self.common_dir());
        let mut entries: Vec<LinkedEntry> = found.flatten().map(|entry| read(entry.path())).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// The folder of these entries.
    pub(super) fn linked_folder(&self) -> PathBuf {
        self.common_dir().join("worktrees")
    }

    /// Moves files away that name no working tree, and that are read when one is made. Git takes them for missing ones.
    pub(super) fn clear_unreadable_places(&self) -> Result<()> {
        let all = self.linked_folder();
        if !all.is_dir() && all.symlink_metadata().is_ok() {
            move_away(&all).at("moving", &all)?;
        }
        for entry in self.linked_entries()?.iter().filter(|entry| entry.oddity == Some(Oddity::NoPlace)) {
            let file = entry.path.join(GITDIR);
            if file.is_file() {
                move_away(&file).at("moving", &file)?;
            }
        }
        Ok(())
    }

    /// Mends what git's folder holds of this linked working tree, but for `HEAD`.
    pub fn repair_own_entry(&self) -> Result<()> {
        loop {
            let entry = LinkedEntry::read(self.git_dir().to_owned(), self.common_dir());
            match entry.oddity {
                Some(Oddity::NoPlace) => {
                    let place = format!("{}\n", self.worktree().join(".git").display());
                    write_again(&entry.path.join(GITDIR), &place)?;
                }
                Some(Oddity::NoCommonDir) => write_again(&entry.path.join(COMMONDIR), UP)?,
                _ => return Ok(()),
            }
        }
    }
}

/// Rewrites a file that names nothing. Moves the old one to a free name beside it.
fn write_again(file: &Path, content: &str) -> Result<()> {
    if file.symlink_metadata().is_ok() {
        move_away(file).at("moving", file)?;
    }
    sync::replace_file(file, content.as_bytes())
}

/// The path in a file; nothing where no path is in it.
fn named_in(file: &Path) -> Option<PathBuf> {
    let content = read_at_most(file, LARGEST).ok()?;
    let text = content.trim_ascii_end();
    let path = to_path(text.as_bstr());
    let is_path = !text.is_empty() && !text.contains(&0);
    (is_path && path.iter().all(|name| name.len() <= LONGEST_NAME)).then(|| path.to_path_buf())
}

/// The working tree that the lock of a kept one names, after its reason.
fn named_by_lock(entry: &Path) -> Option<PathBuf> {
    let lock = read_at_most(&entry.join(LOCKED), 2 * LARGEST).ok()?;
    let (_, root) = lock.trim_ascii_end().split_once_str(": ")?;
    let root = to_path(root.as_bstr());
    root.is_absolute().then(|| root.to_path_buf())
}
