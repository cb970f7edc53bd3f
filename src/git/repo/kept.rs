//! Linked working trees that this program keeps for itself: locked against `git worktree prune`, with a detached `HEAD`, and
//! made again where somebody deletes them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};

use gix::progress::Discard;
use gix::worktree::remove;

use super::linked::{DOT_GIT, sync_made};
use super::open::Repo;
use crate::domain::CommitId;
use crate::fs::{absent, make_folder, make_writable, move_away, move_no_folder_away, read_at_most};
use crate::git::error::{At, During, GitError, Result};
use crate::git::refs::{Head, HeadTarget};
use crate::git::sync;

/// The file in a working tree's own git folder that locks it, with the reason in it.
const LOCKED: &str = "locked";

/// A working tree that is kept.
#[derive(Debug)]
pub struct KeptTree {
    /// The working tree, with a detached `HEAD`.
    pub repo: Repo,
    /// How it was found.
    pub state: TreeState,
    /// Where something else was moved to that stood in its place.
    pub moved: Option<PathBuf>,
}

/// How a working tree was found that is kept.
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
    /// Opens the working tree that is kept at `dir`. Where it is missing, makes it with `commit` checked out; where git does
    /// not know it any more, links it again and leaves its files alone. Something else in its place is moved to a free
    /// name beside it. The working tree is locked with `reason`; git's name for it is made of that of the folder, with
    /// a number where another one has that name. It shares objects, syncs and programs with this repository. No
    /// hook runs. Processes that are active in it should not be disturbed: `HEAD` is detached where it is not.
    ///
    /// # Errors
    ///
    /// What [`Repo::discover`] refuses, and failures of the file system and of git filters.
    pub fn keep_worktree(&self, dir: &Path, commit: &CommitId, reason: &str) -> Result<KeptTree> {
        let dir = absolute(dir).at("finding", dir)?;
        let above = dir.parent().unwrap_or(&dir);
        make_folder(above).at("making the folder", above)?;
        let dir = real_place(&dir);
        let mut moved = move_no_folder_away(&dir).at("moving", &dir)?;
        if is_repository(&dir) {
            moved = Some(move_away(&dir).at("moving", &dir)?);
        }
        // If this fails, reading the folder says why.
        let _ = make_writable(&dir);
        let (found, state) = match is_empty(&dir)? {
            true => (None, TreeState::Made),
            false => match self.open_kept(&dir) {
                Ok(repo) => (Some(repo), TreeState::Found),
                Err(_) => (None, TreeState::Relinked),
            },
        };
        let repo = match found {
            Some(repo) => repo,
            None => {
                self.unregister(&dir)?;
                match state {
                    TreeState::Made => drop(self.make_worktree(&dir, &HeadTarget::Detached(commit.clone()))?),
                    _ => self.relink(&dir, commit, reason)?,
                }
                self.open_kept(&dir)?
            }
        };
        lock(repo.git_dir(), reason)?;
        match repo.refs.head()? {
            Head::Detached { .. } => {}
            head => repo.refs.point_head(&HeadTarget::Detached(head.commit().unwrap_or(commit).clone()))?,
        }
        Ok(KeptTree { repo, state, moved })
    }

    /// Removes the working tree that is kept at `dir`, with everything in it, its lock, and what the repository knows of it;
    /// one that is gone is well. Links are removed and not followed. A file, a link or a repository of its own in its place
    /// stays.
    pub fn remove_kept(&self, dir: &Path) -> Result<()> {
        const WHAT: &str = "removing a working tree";
        let dir = real_place(&absolute(dir).at("finding", dir)?);
        if dir.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && !is_repository(&dir) {
            // With no folder of its own in git, which goes last, since by that it is found.
            let none = self.common_dir().join("worktrees").join("none").join("none");
            let remove = || remove(&dir, &none, Discard, remove::Options::default());
            if remove().is_err() {
                make_all_writable(&dir).at("removing", &dir)?;
                remove().during(WHAT)?;
            }
        }
        self.unregister(&dir)?;
        dir.parent().filter(|above| above.is_dir()).map_or(Ok(()), sync::folder)
    }

    /// Opens a working tree that is linked to this repository, and checks that it can be worked with.
    fn open_kept(&self, dir: &Path) -> Result<Repo> {
        let repo = self.find_linked(dir)?;
        repo.refs.head()?;
        let is_known = self.registered_at(dir)?.iter().any(|known| is_same(known, repo.git_dir()));
        // It is written last when a working tree is made.
        let is_whole = repo.index.path().is_file();
        match is_known && is_whole && is_same(repo.worktree(), dir) && is_same(repo.common_dir(), self.common_dir()) {
            true => Ok(repo),
            false => Err(GitError::Damaged(format!("{} is not linked to this repository", dir.display()))),
        }
    }

    /// The git folders of working trees at `dir`.
    fn registered_at(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let all = self.linked_worktrees()?.into_iter();
        Ok(all.filter(|(_, root)| real_place(root) == dir).map(|(git_dir, _)| git_dir).collect())
    }

    /// Removes what the repository knows of a working tree at `dir`, its lock included.
    fn unregister(&self, dir: &Path) -> Result<()> {
        let known = self.registered_at(dir)?;
        for git_dir in &known {
            fs::remove_dir_all(git_dir).at("removing", git_dir)?;
        }
        let above = self.common_dir().join("worktrees");
        match known.is_empty() {
            true => Ok(()),
            false => sync::folder(&above),
        }
    }

    /// Makes a folder with files in it a working tree of this repository, with `HEAD` and index at `commit`.
    fn relink(&self, dir: &Path, commit: &CommitId, reason: &str) -> Result<()> {
        const WHAT: &str = "linking a working tree again";
        let git_dir = self.reserve_git_dir(dir)?;
        let write = |path: &Path, content: String| fs::write(path, content).at("writing", path);
        // The lock first: without `gitdir`, it would be pruned at once.
        lock(&git_dir, reason)?;
        write(&git_dir.join("commondir"), "../..\n".to_owned())?;
        write(&git_dir.join("HEAD"), format!("{commit}\n"))?;
        let mut index = self.gix.index_from_tree(&self.objects.tree_id(commit)?).during(WHAT)?;
        index.set_path(git_dir.join("index"));
        index.write(gix::index::write::Options::default()).during(WHAT)?;
        write(&git_dir.join("gitdir"), format!("{}\n", dir.join(DOT_GIT).display()))?;
        sync::replace_file(&dir.join(DOT_GIT), format!("gitdir: {}\n", git_dir.display()).as_bytes())?;
        sync_made(dir, &git_dir)
    }

    /// A new git folder for a working tree, with the name of its folder, and a number where that is taken.
    fn reserve_git_dir(&self, dir: &Path) -> Result<PathBuf> {
        let all = self.common_dir().join("worktrees");
        fs::create_dir_all(&all).at("making the folder", &all)?;
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

/// Locks a working tree as `git worktree lock` does, unless it is locked for that reason.
fn lock(git_dir: &Path, reason: &str) -> Result<()> {
    let (file, content) = (git_dir.join(LOCKED), format!("{reason}\n"));
    match read_at_most(&file, content.len() as u64) {
        Ok(there) if there == content.as_bytes() => Ok(()),
        _ => sync::replace_file(&file, content.as_bytes()),
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

/// Whether a folder is a repository of its own, which somebody put there.
fn is_repository(dir: &Path) -> bool {
    dir.join(DOT_GIT).symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// Whether there is nothing at `dir`, or an empty folder.
fn is_empty(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if absent(&error) => Ok(true),
        Err(error) => Err(error).at("reading", dir),
    }
}

/// Gives the owner all rights to a folder and to those in it.
fn make_all_writable(dir: &Path) -> std::io::Result<()> {
    make_writable(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_all_writable(&entry.path())?;
        }
    }
    Ok(())
}
