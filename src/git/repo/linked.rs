//! Linked working trees and their entries in git's folder: making one, and removing it with all that belongs to it.
//!
//! Those that this program keeps for itself are locked against `git worktree prune`, have a detached `HEAD`, and are made
//! again where somebody deletes them. A crash, a full disk or another process may leave odd entries. Git skips most of them,
//! and so does everything here.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};
use std::thread::sleep;
use std::time::Duration;
use std::{fs, io};

use gix::bstr::ByteSlice;
use gix::progress::Discard;
use gix::worktree::{add, remove};

use crate::domain::CommitId;
use crate::fs::{
    absent, if_exists, if_there, lock_within, make_all_writable, make_folder, make_writable, move_away,
    move_no_folder_away, read_at_most,
};
use crate::git::path::{object_id, to_path};
use crate::git::{
    At, During, GitError, Head, HeadTarget, PinnedSettings, Program, Repo, Result, full_name, sync, torn_head_at,
};

/// The most tries to keep a working tree, and the pause between two.
const TRIES: u32 = 5;

const PAUSE: Duration = Duration::from_millis(50);

/// The longest wait for another process that makes or removes a linked working tree, which may be stopped.
const ALONE: Duration = Duration::from_secs(10);

/// The files of a linked working tree's own git folder by which git knows it.
const OWN_FILES: [&str; 4] = ["HEAD", "commondir", "gitdir", "index"];

/// The file in the same folder that says that a tree was linked again, and that its files are yet to be restored.
const UNRESTORED: &str = "ar-unrestored";

/// The file in a working tree that leads to its git folder.
const DOT_GIT: &str = ".git";

/// The bytes that a file may have which leads to a git folder.
const POINTER: u64 = 64 * 1024;

/// The file in a working tree's own git folder that locks it, with the reason in it.
const LOCKED: &str = "locked";

/// The content of that while a working tree is made.
const INITIALIZING: &[u8] = b"initializing";

/// A working tree that is kept.
#[derive(Debug)]
pub struct KeptTree {
    /// The working tree, with a detached `HEAD`.
    pub repo: Repo,
    /// The state in which it was found.
    pub state: TreeState,
    /// The new place of something else that stood in its place.
    pub moved: Option<PathBuf>,
}

/// The state in which a kept working tree was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeState {
    /// It is as it was left.
    Found,
    /// Git did not know it any more. `HEAD` and index are new, at the commit; the files are as they were found.
    Relinked,
    /// It was missing, or is new: its files are those of the commit.
    Made,
}

impl Repo {
    /// Makes a linked working tree at `dir`, as `git worktree add` does, with `head` checked out in it; opens it. No hook
    /// runs.
    ///
    /// # Errors
    ///
    /// [`GitError::Occupied`] if `dir` exists and is not an empty folder. [`GitError::WithinWorktree`] if `dir` is in a
    /// working tree of this repository. Errors of [`Repo::discover`] on the new working tree. After an error, it rolls
    /// back what it began.
    pub fn add_worktree(&self, dir: &Path, head: &HeadTarget) -> Result<Repo> {
        self.make_worktree(&self.place_for_worktree(dir)?, head)
    }

    /// Makes one at `dir`, absolute, where there is nothing or an empty folder; also in a working tree of this repository, where
    /// git ignores it.
    ///
    /// # Errors
    ///
    /// Those of [`Repo::discover`] on the new working tree. After an error, it rolls back what it began.
    pub fn make_worktree(&self, dir: &Path, head: &HeadTarget) -> Result<Repo> {
        const WHAT: &str = "making a working tree";
        let head = match head {
            HeadTarget::Branch(name) => add::Head::Attached(full_name(name)?),
            HeadTarget::Detached(commit) => add::Head::Detached(object_id(commit)?),
        };
        self.clear_unreadable_places()?;
        let call = self.programs().call(Program::Filter);
        call.begin()?;
        let added = self.gix.prepare_add_worktree(dir, head, call.stopping()).and_then(add::PrepareCheckout::persist);
        let why = |error| call.check_failed().err().unwrap_or(error);
        let mut made = added.during(WHAT).map_err(why)?;
        let checked_out = PinnedSettings::of(&self.working_tree.converting).apply(&mut made).and_then(|()| {
            let missing = || GitError::NoRepository(dir.to_owned());
            made.worktree().ok_or_else(missing)?.checkout(Discard, call.stopping()).during(WHAT)
        });
        let opened = call.check(checked_out).map_err(why).and_then(|outcome| match outcome.collisions.first() {
            Some(collision) => Err(GitError::Damaged(format!("{} cannot be written", collision.path))),
            None => sync_made(dir, made.git_dir()).and_then(|()| self.find_linked(dir)),
        });
        if opened.is_err() {
            self.gix.remove_worktree(dir, remove::Force::DiscardChanges, Discard).during("removing a working tree")?;
        }
        opened
    }

    /// Returns the absolute place for a new linked working tree. Refuses a place where something exists, or in another
    /// working tree of this repository.
    pub fn place_for_worktree(&self, dir: &Path) -> Result<PathBuf> {
        let dir = absolute(dir).at("finding", dir)?;
        match fs::symlink_metadata(&dir) {
            Ok(meta) if !meta.is_dir() || fs::read_dir(&dir).at("reading", &dir)?.next().is_some() => {
                return Err(GitError::Occupied(dir));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).at("reading", &dir),
            _ => {}
        }
        let there = dir.ancestors().find_map(|above| above.canonicalize().ok()).unwrap_or_default();
        let main = self.gix.main_repo().during("opening the repository")?.workdir().map(Path::to_owned);
        let linked = self.linked_worktrees()?.into_iter().map(|(_, root)| root);
        match main.into_iter().chain(linked).find(|root| root.canonicalize().is_ok_and(|root| there.starts_with(root)))
        {
            Some(root) => Err(GitError::WithinWorktree { dir, root }),
            None => Ok(dir),
        }
    }

    /// The linked working trees whose place is known: the git folder and the root of each.
    pub fn linked_worktrees(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let all = self.linked_entries()?.into_iter();
        Ok(all.filter_map(|entry| Some((entry.path, entry.root?))).collect())
    }

    /// Removes this linked working tree with everything in it, and what the repository knows of it. Links are removed and
    /// not followed.
    pub fn remove_linked(self) -> Result<()> {
        let dir = self.worktree().to_owned();
        let main = self.gix.main_repo().during("opening the repository")?;
        main.remove_worktree(&dir, remove::Force::DiscardChanges, Discard).during("removing a working tree")
    }

    /// Opens the working tree that is kept at `dir`. If it is missing, makes it with `commit` checked out. If git no
    /// longer knows it, links it again and leaves its files alone. Moves anything else in its place to a free name
    /// beside it.
    ///
    /// Locks the working tree with `reason` and its place. Git's name for it is that of the folder, with a number if
    /// that is taken. It shares objects, syncs and programs with this repository. No hook runs. Detaches an attached
    /// `HEAD`, so do not call this while processes in the working tree must not be disturbed.
    ///
    /// # Errors
    ///
    /// Errors of [`Repo::discover`], of the file system and of git filters.
    pub fn keep_worktree(&self, dir: &Path, commit: &CommitId, reason: &str) -> Result<KeptTree> {
        for _ in 1..TRIES {
            match self.keep_worktree_once(dir, commit, reason) {
                // Somebody deletes it at this moment.
                Err(error) if error.is_absence() => sleep(PAUSE),
                kept => return kept,
            }
        }
        self.keep_worktree_once(dir, commit, reason)
    }

    fn keep_worktree_once(&self, dir: &Path, commit: &CommitId, reason: &str) -> Result<KeptTree> {
        let dir = absolute(dir).at("finding", dir)?;
        let above = dir.parent().unwrap_or(&dir);
        make_folder(above).at("making the folder", above)?;
        let dir = real_place(&dir);
        // By that it is found where `gitdir` is damaged.
        let reason = format!("{reason}: {}", dir.display());
        let mut moved = move_no_folder_away(&dir).at("moving", &dir)?;
        if is_repository(&dir) {
            moved = Some(move_away(&dir).at("moving", &dir)?);
        }
        // If this fails, reading the folder says why.
        let _ = make_writable(&dir);
        let (found, state) = match is_empty(&dir)? {
            true => (None, TreeState::Made),
            false => match self.open_kept(&dir) {
                Ok(repo) if repo.git_dir().join(UNRESTORED).exists() => (Some(repo), TreeState::Relinked),
                Ok(repo) => (Some(repo), TreeState::Found),
                Err(_) => (None, TreeState::Relinked),
            },
        };
        let repo = match found {
            Some(repo) => repo,
            None => {
                let all = self.linked_folder();
                fs::create_dir_all(&all).at("making the folder", &all)?;
                let _alone = self.alone_in_linked_folder();
                self.unregister(&self.registered_at(&dir)?)?;
                match state {
                    TreeState::Made => drop(self.make_worktree(&dir, &HeadTarget::Detached(commit.clone()))?),
                    _ => self.relink(&dir, commit, &reason)?,
                }
                self.open_kept(&dir)?
            }
        };
        lock(repo.git_dir(), &reason)?;
        match repo.refs.head()? {
            Head::Detached { .. } => {}
            head => repo.refs.point_head(&HeadTarget::Detached(head.commit().unwrap_or(commit).clone()))?,
        }
        Ok(KeptTree { repo, state, moved })
    }

    /// Notes that the files of this linked working tree were restored, after it was linked again.
    pub fn note_restored(&self) -> Result<()> {
        let path = self.git_dir().join(UNRESTORED);
        if_exists(fs::remove_file(&path)).at("removing", &path).map(drop)
    }

    /// Returns whether the working tree that is kept at `dir` exists and git knows it.
    pub fn has_kept(&self, dir: &Path) -> bool {
        self.open_kept(&real_place(dir)).is_ok()
    }

    /// Removes the working tree that is kept at `dir`, with everything in it, its lock, and what the repository knows of it;
    /// one that is gone is well. Links are removed and not followed. A file, a link or a repository of its own in its place
    /// stays.
    pub fn remove_kept(&self, dir: &Path) -> Result<()> {
        const WHAT: &str = "removing a working tree";
        let dir = real_place(&absolute(dir).at("finding", dir)?);
        let _alone = self.alone_in_linked_folder();
        let known = self.registered_at(&dir)?;
        if dir.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && !is_repository(&dir) {
            // With no folder of its own in git, which goes last, since by that it is found.
            let none = self.linked_folder().join("none").join("none");
            let remove = || remove(&dir, &none, Discard, remove::Options::default());
            if remove().is_err() {
                make_all_writable(&dir).at("removing", &dir)?;
                remove().during(WHAT)?;
            }
        }
        self.unregister(&known)?;
        dir.parent().filter(|above| above.is_dir()).map_or(Ok(()), sync::folder)
    }

    /// Opens a working tree that is linked to this repository, and checks that it can be worked with.
    fn open_kept(&self, dir: &Path) -> Result<Repo> {
        let repo = self.find_linked(dir)?;
        repo.refs.head()?;
        let is_it = |entry: &LinkedEntry| entry.oddity.is_none() && is_same(&entry.path, repo.git_dir());
        let is_known = self.registered_at(dir)?.iter().any(is_it);
        // It is written last when a working tree is made.
        let is_whole = repo.index.path().is_file();
        match is_known && is_whole && is_same(repo.worktree(), dir) && is_same(repo.common_dir(), self.common_dir()) {
            true => Ok(repo),
            false => Err(GitError::Damaged(format!("{} is not linked to this repository", dir.display()))),
        }
    }

    /// Finds the entries in git's folder for a working tree at `dir`: those that name it, an odd one that it leads to itself, and
    /// those that a process left which was killed as it began to make it.
    fn registered_at(&self, dir: &Path) -> Result<Vec<LinkedEntry>> {
        let led_to = read_at_most(&dir.join(DOT_GIT), POINTER).unwrap_or_default();
        let led_to = led_to.strip_prefix(b"gitdir: ").map(|path| dir.join(to_path(path.trim_ascii_end().as_bstr())));
        let is_it = |entry: &LinkedEntry| match &entry.root {
            Some(root) => real_place(root) == dir,
            None => {
                is_half_made(&entry.path, dir)
                    || led_to.as_ref().is_some_and(|path| real_place(path) == real_place(&entry.path))
            }
        };
        Ok(self.linked_entries()?.into_iter().filter(is_it).collect())
    }

    /// Keeps other sessions from making and removing linked working trees until the file is dropped: an entry that one has begun
    /// looks like one that a killed process left. Nothing where the folder is not there or has no locks, or one is held too long.
    fn alone_in_linked_folder(&self) -> Option<fs::File> {
        let folder = fs::File::open(self.linked_folder()).ok()?;
        lock_within(&folder, ALONE).ok()?.then_some(folder)
    }

    /// Removes entries of git's folder, their locks included.
    fn unregister(&self, known: &[LinkedEntry]) -> Result<()> {
        for LinkedEntry { path, .. } in known {
            let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            let removed = if is_folder { remove_entry(path) } else { fs::remove_file(path) };
            removed.at("removing", path)?;
        }
        match known.is_empty() {
            true => Ok(()),
            false => sync::folder(&self.linked_folder()),
        }
    }

    /// Makes a folder with files in it a working tree of this repository, with `HEAD` and index at `commit`.
    fn relink(&self, dir: &Path, commit: &CommitId, reason: &str) -> Result<()> {
        const WHAT: &str = "linking a working tree again";
        let git_dir = self.reserve_git_dir(dir)?;
        let write = |path: &Path, content: String| fs::write(path, content).at("writing", path);
        // The lock first: without `gitdir`, it would be pruned at once.
        lock(&git_dir, reason)?;
        // A process that is killed before the files are restored leaves that to the next one.
        write(&git_dir.join(UNRESTORED), String::new())?;
        write(&git_dir.join("commondir"), "../..\n".to_owned())?;
        write(&git_dir.join("HEAD"), format!("{commit}\n"))?;
        let tree = self.objects.tree_id(commit)?;
        let mut index = self.objects.read(|gix| gix.index_from_tree(&tree).during(WHAT))?;
        index.set_path(git_dir.join("index"));
        index.write(gix::index::write::Options::default()).during(WHAT)?;
        write(&git_dir.join("gitdir"), format!("{}\n", dir.join(DOT_GIT).display()))?;
        sync::replace_file(&dir.join(DOT_GIT), format!("gitdir: {}\n", git_dir.display()).as_bytes())?;
        sync_made(dir, &git_dir)
    }

    /// A new git folder for a working tree, with the name of its folder, and a number where that is taken.
    fn reserve_git_dir(&self, dir: &Path) -> Result<PathBuf> {
        let all = self.linked_folder();
        let name = dir.file_name().unwrap_or_default();
        let mut number = 0_u32;
        loop {
            let mut name = name.to_owned();
            if number > 0 {
                name.push(number.to_string());
            }
            let git_dir = all.join(name);
            match fs::create_dir(&git_dir) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                made => return made.map(|()| git_dir.clone()).at("making the folder", &git_dir),
            }
        }
    }
}

/// Makes what git knows of a new working tree last.
fn sync_made(dir: &Path, git_dir: &Path) -> Result<()> {
    for file in OWN_FILES.iter().map(|name| git_dir.join(name)).chain([dir.join(DOT_GIT)]) {
        fs::File::open(&file).and_then(|file| file.sync_all()).at("syncing", &file)?;
    }
    let above = git_dir.parent().into_iter().chain(git_dir.parent().and_then(Path::parent));
    [dir, git_dir].into_iter().chain(above).try_for_each(sync::folder)
}

/// Locks a working tree as `git worktree lock` does, unless it is locked for that reason.
fn lock(git_dir: &Path, reason: &str) -> Result<()> {
    let (file, content) = (git_dir.join(LOCKED), format!("{reason}\n"));
    match read_at_most(&file, content.len() as u64) {
        Ok(there) if there == content.as_bytes() => Ok(()),
        _ => sync::replace_file(&file, content.as_bytes()),
    }
}

/// Removes an entry of git's folder. The file that names its tree goes last, so that a partly removed entry is found
/// again.
fn remove_entry(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        match entry.file_name() == GITDIR {
            true => {}
            false if is_folder => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir_all(path)
}

/// Returns whether an entry that names no working tree has just been begun for one at `dir`: it has the name of that, maybe with a
/// number, and at most the lock that a tree has while it is made.
fn is_half_made(entry: &Path, dir: &Path) -> bool {
    let names = entry.file_name().and_then(OsStr::to_str).zip(dir.file_name().and_then(OsStr::to_str));
    let number = names.and_then(|(entry, dir)| entry.strip_prefix(dir));
    let is_of_it = number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
    is_of_it
        && match read_at_most(&entry.join(LOCKED), LARGEST) {
            Ok(lock) => INITIALIZING.starts_with(lock.trim_ascii_end()),
            Err(error) => absent(&error) && is_empty(entry).unwrap_or(false),
        }
}

/// The path without links on the way there; also where the last part is missing, or a link.
fn real_place(path: &Path) -> PathBuf {
    let above = path.parent().and_then(|above| above.canonicalize().ok());
    match (above, path.file_name()) {
        (Some(above), Some(name)) => above.join(name),
        _ => path.to_owned(),
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// Returns whether a folder is a repository of its own, put there by another process.
fn is_repository(dir: &Path) -> bool {
    dir.join(DOT_GIT).symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// Returns whether `dir` is missing or an empty folder.
fn is_empty(dir: &Path) -> Result<bool> {
    let entries = if_there(fs::read_dir(dir)).at("reading", dir)?;
    Ok(entries.is_none_or(|mut entries| entries.next().is_none()))
}

/// The bytes that a file of an entry may have: what git can take for a path.
const LARGEST: u64 = 4096;

/// The bytes that a name in a path may have.
const LONGEST_NAME: usize = 255;

/// The file of an entry that names its working tree.
const GITDIR: &str = "gitdir";

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
        let found = if_there(fs::read_dir(&all)).at("reading", &all)?.into_iter().flatten();
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
