//! Files that git keeps on a half-done operation: a merge, rebase, bisect and the like.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::open::Repo;
use crate::domain::{CommitId, WordList, word_list};
use crate::fs::{absent, read_regular, remove_all};
use crate::git::error::{At, During, Result};
use crate::git::path::{commit_id, object_id};
use crate::git::refs::{Head, full_name};
use crate::git::sync;

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
