//! What an interrupted git leaves in its folders: files of a half-done merge, rebase, bisect and the like, and locks.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::linked::Oddity;
use super::open::Repo;
use crate::domain::{CommitId, WordList, word_list};
use crate::fs::{absent, if_exists, read_regular, remove_all};
use crate::git::error::{At, During, GitError, Result};
use crate::git::index::{LeftLocks, owner, remove_left_behind};
use crate::git::path::{commit_id, object_id};
use crate::git::refs::{Head, RefGuard, full_name};
use crate::git::sync;
use crate::git::sync::{LockOwner, age, locked};

/// An operation of git's that is half done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The command: `am`, `bisect`, `cherry-pick`, `merge`, `rebase` or `revert`.
    pub name: &'static str,
    /// The commits that it names, and the one that a detached `HEAD` is on, as far as no ref leads to them: nothing
    /// else does once the operation is cleared.
    pub commits: Vec<CommitId>,
}

/// Files and folders that exist during an operation, with its name. The first that exists decides. For the sequencer's
/// folder, its first instruction names the operation.
const SIGNS: &[(&str, &str)] = &[
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("rebase-merge", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
    ("sequencer/todo", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
    ("BISECT_START", "bisect"),
];

/// Files that name commits.
static NAMES_COMMITS: WordList = WordList::new(|| word_list(include_str!("lists/operation_commits.txt")));

/// All that is to go. The signs go last, so that one that was cut short is found again.
static STATE: WordList = WordList::new(|| word_list(include_str!("lists/operation_state.txt")));

/// Refs of one working tree that live as long as an operation does.
const REFS: &[&str] = &["refs/bisect", "refs/rewritten"];

impl Repo {
    /// The operation that is half done in this working tree, where there is one.
    pub fn operation(&self) -> Result<Option<Operation>> {
        let Some(name) = self.operation_name()? else { return Ok(None) };
        let mut commits = BTreeSet::new();
        for file in NAMES_COMMITS.iter() {
            let path = self.git_dir().join(file);
            let content = match read_regular(&path) {
                Err(err) if absent(&err) || err.kind() == ErrorKind::InvalidInput => continue,
                content => content.at("reading", &path)?,
            };
            commits.extend(content.lines().filter_map(|line| ObjectId::from_hex(line.trim()).ok()));
        }
        for (_, id) in self.operation_refs()? {
            commits.extend(ObjectId::from_hex(id.as_bytes()).ok());
        }
        if let Head::Detached { commit } = self.refs.head()? {
            commits.insert(object_id(&commit)?);
        }
        Ok(Some(Operation { name, commits: self.unreachable(commits)? }))
    }

    /// Ends a half-done operation as git's `--quit` does: removes its state; `HEAD`, index and working tree stay.
    /// Returns the operation. To keep its commits, read them with [`Repo::operation`] before.
    pub fn clear_operation(&self) -> Result<Option<Operation>> {
        let Some(operation) = self.operation()? else { return Ok(None) };
        for (name, _) in self.operation_refs()? {
            self.refs.edit_refs([RefEdit::delete(full_name(&name)?, PreviousValue::Any)])?;
        }
        for name in STATE.iter() {
            let path = self.git_dir().join(name);
            remove_all(&path).at("removing", &path)?;
        }
        sync::folder(self.git_dir())?;
        Ok(Some(operation))
    }

    /// The command that is half done, where one is: the name of [`Repo::operation`].
    pub fn operation_name(&self) -> Result<Option<&'static str>> {
        for (sign, name) in SIGNS {
            let path = self.git_dir().join(sign);
            if !path.try_exists().at("reading", &path)? {
                continue;
            }
            if *sign == "sequencer/todo" && read_regular(&path).unwrap_or_default().trim_start().starts_with(b"revert")
            {
                return Ok(Some("revert"));
            }
            return Ok(Some(name));
        }
        Ok(None)
    }

    fn operation_refs(&self) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        for folder in REFS {
            found.extend(self.refs.refs_under(folder)?);
        }
        Ok(found)
    }

    /// Those of `commits` that no branch, tag or other ref leads to.
    fn unreachable(&self, commits: BTreeSet<ObjectId>) -> Result<Vec<CommitId>> {
        const WHAT: &str = "looking for commits that nothing names";
        let mut left: BTreeSet<ObjectId> = commits.into_iter().filter(|id| self.gix.find_commit(*id).is_ok()).collect();
        let mut tips = Vec::new();
        for reference in self.gix.references().during(WHAT)?.all().during(WHAT)? {
            let mut reference = reference.during(WHAT)?;
            let name = reference.name().as_bstr().to_owned();
            if REFS.iter().any(|folder| name.starts_with(format!("{folder}/").as_bytes())) {
                continue;
            }
            if let Ok(id) = reference.peel_to_id()
                && self.gix.find_commit(id).is_ok()
            {
                tips.push(id.detach());
            }
        }
        for commit in self.gix.rev_walk(tips).all().during(WHAT)? {
            if left.is_empty() {
                break;
            }
            left.remove(&commit.during(WHAT)?.id);
        }
        Ok(left.into_iter().map(commit_id).collect())
    }
}

/// A lock file of git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// Its path.
    pub path: PathBuf,
    /// Its owner.
    pub owner: LockOwner,
    /// Its age, if known.
    pub age: Option<Duration>,
}

impl Repo {
    /// Checks that a command may write here: `HEAD` has a commit, no merge, rebase, cherry-pick, revert or bisect is
    /// half done.
    pub fn ready(&self) -> Result<()> {
        if let Head::Unborn { name } = self.refs.head()? {
            return Err(GitError::Unborn(name));
        }
        if let Some(operation) = self.operation_name()? {
            return Err(GitError::InProgress(operation));
        }
        Ok(())
    }

    /// Removes the locks that git processes left behind which were killed: those that were made from `since` to `until`, are
    /// two seconds old, and of which it is said that they cannot be held.
    pub fn remove_left_locks(
        &self,
        since: SystemTime,
        until: Option<SystemTime>,
        may_be_held: impl Fn(&[PathBuf]) -> bool,
    ) -> Result<LeftLocks> {
        remove_left_behind(self.git_locks()?, since, until, may_be_held)
    }

    /// Returns the error for a lock that another process may hold and that does not disappear.
    pub fn locked(&self, lock: &Path) -> GitError {
        locked(lock)
    }

    /// The lock files of git: of the index, of `HEAD` and its like in all working trees, of the packed refs, and of refs.
    fn git_locks(&self) -> Result<Vec<PathBuf>> {
        let mut locks = Vec::new();
        for folder in self.git_dirs()? {
            collect_locks(&folder, false, &mut locks)?;
        }
        collect_locks(&self.common_dir().join("refs"), true, &mut locks)?;
        locks.sort();
        locks.dedup();
        Ok(locks)
    }

    /// The lock files that are there, with whose they are.
    pub fn locks(&self) -> Result<Vec<LockFile>> {
        let mut named = Vec::new();
        for dir in self.git_dirs()? {
            named.extend(RefGuard::named(&dir)?);
        }
        let mut found = Vec::new();
        for path in self.git_locks()? {
            let guard = named.iter().find(|(lock, _)| *lock == path).map(|(_, owner)| *owner);
            let owner = match guard {
                Some(owner) => owner,
                None => owner(&path)?,
            };
            let age = age(&path);
            found.push(LockFile { path, owner, age });
        }
        Ok(found)
    }

    /// Removes the locks that processes of this program left behind when they were killed.
    pub fn clear_own_locks(&self) -> Result<()> {
        for dir in self.git_dirs()? {
            RefGuard::clear_abandoned(&dir)?;
        }
        self.index.clear_abandoned()
    }

    /// The git folders of all working trees.
    pub fn git_dirs(&self) -> Result<Vec<PathBuf>> {
        let linked = self.linked_entries()?.into_iter();
        let linked = linked.filter(|entry| entry.oddity != Some(Oddity::NoFolder)).map(|entry| entry.path);
        Ok(std::iter::once(self.common_dir().to_owned()).chain(linked).collect())
    }
}

/// Collects the files below a folder whose names end in `.lock`.
fn collect_locks(folder: &Path, deep: bool, locks: &mut Vec<PathBuf>) -> Result<()> {
    let Some(entries) = if_exists(fs::read_dir(folder)).at("reading", folder)? else { return Ok(()) };
    for entry in entries {
        let entry = entry.at("reading", folder)?;
        let is_folder = entry.file_type().at("reading", folder)?.is_dir();
        let path = entry.path();
        if is_folder && deep {
            collect_locks(&path, deep, locks)?;
        } else if !is_folder && path.extension().is_some_and(|extension| extension == "lock") {
            locks.push(path);
        }
    }
    Ok(())
}
