//! Linked working trees: making one, and removing it with all that belongs to it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};

use gix::progress::Discard;
use gix::worktree::add::Head;
use gix::worktree::remove::Force;

use super::open::Repo;
use crate::git::error::{At, During, GitError, Result};
use crate::git::path::object_id;
use crate::git::program::Program;
use crate::git::refs::{HeadTarget, full_name};
use crate::git::sync;

/// The files of a linked working tree's own git folder by which git knows it.
const OWN_FILES: [&str; 4] = ["HEAD", "commondir", "gitdir", "index"];

/// The file in a working tree that leads to its git folder.
pub(super) const DOT_GIT: &str = ".git";

impl Repo {
    /// Makes a linked working tree at `dir`, as `git worktree add` does, with `head` checked out in it; opens it. No hook
    /// runs.
    ///
    /// # Errors
    ///
    /// [`GitError::Occupied`] when something is at `dir` already that is no empty folder, [`GitError::WithinWorktree`]
    /// when `dir` is in a working tree of this repository; and what [`Repo::discover`] refuses, when that is checked out.
    /// What was begun is taken back then.
    pub fn add_worktree(&self, dir: &Path, head: &HeadTarget) -> Result<Repo> {
        self.make_worktree(&self.place_for_worktree(dir)?, head)
    }

    /// Makes one at `dir`, absolute, where there is nothing or an empty folder.
    pub(super) fn make_worktree(&self, dir: &Path, head: &HeadTarget) -> Result<Repo> {
        const WHAT: &str = "making a working tree";
        let head = match head {
            HeadTarget::Branch(name) => Head::Attached(full_name(name)?),
            HeadTarget::Detached(commit) => Head::Detached(object_id(commit)?),
        };
        let call = self.programs().call(Program::Filter);
        call.begin();
        let made = self.gix.add_worktree(dir, head, Discard, call.stopping()).during(WHAT);
        let (made, outcome) = match made {
            Ok(made) => made,
            Err(error) => return Err(call.check_failed().err().unwrap_or(error)),
        };
        let opened = match (call.check(Ok(())), outcome.collisions.first()) {
            (Err(cut), _) => Err(cut),
            (_, Some(collision)) => Err(GitError::Damaged(format!("{} cannot be written", collision.path))),
            _ => sync_made(dir, made.git_dir()).and_then(|()| Repo::discover(dir)),
        };
        if opened.is_err() {
            self.gix.remove_worktree(dir, Force::DiscardChanges, Discard).during("removing a working tree")?;
        }
        opened
    }

    /// Where a linked working tree is to be made, absolute; refused where there is something, or it would be a part of
    /// another working tree of this repository.
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
        let all = self.gix.worktrees_including_main().during("listing worktrees")?;
        let roots = all.into_iter().flatten().filter_map(|tree| tree.workdir().map(Path::to_owned));
        match roots.into_iter().find(|root| root.canonicalize().is_ok_and(|root| there.starts_with(root))) {
            Some(root) => Err(GitError::WithinWorktree { dir, root }),
            None => Ok(dir),
        }
    }

    /// The linked working trees: the git folder and the root of each.
    pub fn linked_worktrees(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let all = self.gix.worktrees().during("listing worktrees")?.into_iter();
        Ok(all.filter_map(|tree| Some((tree.git_dir().to_owned(), tree.base().ok()?))).collect())
    }

    /// Removes this linked working tree with everything in it, and what the repository knows of it. Links are removed and
    /// not followed.
    pub fn remove_linked(self) -> Result<()> {
        let dir = self.worktree().to_owned();
        let main = self.gix.main_repo().during("opening the repository")?;
        main.remove_worktree(&dir, Force::DiscardChanges, Discard).during("removing a working tree")
    }
}

/// Makes what git knows of a new working tree last.
pub(super) fn sync_made(dir: &Path, git_dir: &Path) -> Result<()> {
    for file in OWN_FILES.iter().map(|name| git_dir.join(name)).chain([dir.join(DOT_GIT)]) {
        fs::File::open(&file).and_then(|file| file.sync_all()).at("syncing", &file)?;
    }
    let above = git_dir.parent().into_iter().chain(git_dir.parent().and_then(Path::parent));
    [dir, git_dir].into_iter().chain(above).try_for_each(sync::folder)
}
