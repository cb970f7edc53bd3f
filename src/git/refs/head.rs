//! `HEAD`: where it is, moving it, and its log, which shows what was committed meanwhile, also where it was reset again.

use std::fs;
use std::path::{Path, PathBuf};

use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{FullName, Target};

use super::store::{Refs, full_name};
use crate::crash;
use crate::domain::CommitId;
use crate::fs::read_at_most;
use crate::git::error::{During, Result};
use crate::git::path::{commit_id, object_id};

/// How large the log of `HEAD` may be, in bytes; of a larger one nothing is read.
const LARGEST_LOG: u64 = 64 << 20;

/// Where `HEAD` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// On a branch.
    Branch {
        /// The branch, as a full ref name.
        name: String,
        /// Its tip.
        commit: CommitId,
    },
    /// On a commit.
    Detached {
        /// The commit.
        commit: CommitId,
    },
    /// On a branch without a commit.
    Unborn {
        /// The branch, as a full ref name.
        name: String,
    },
}

impl Head {
    /// The commit, where there is one.
    pub fn commit(&self) -> Option<&CommitId> {
        match self {
            Head::Branch { commit, .. } | Head::Detached { commit } => Some(commit),
            Head::Unborn { .. } => None,
        }
    }

    /// The branch as a full ref name, where it is on one.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name),
            Head::Detached { .. } => None,
        }
    }
}

/// Where `HEAD` can be pointed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadTarget {
    /// A branch, as a full ref name.
    Branch(String),
    /// A commit.
    Detached(CommitId),
}

impl Refs {
    /// Where `HEAD` is now.
    pub fn head(&self) -> Result<Head> {
        let head = self.gix.head().during("reading HEAD")?;
        if head.is_unborn() {
            let name = head.referent_name().map(|name| name.as_bstr().to_string()).unwrap_or_default();
            return Ok(Head::Unborn { name });
        }
        let name = head.referent_name().map(|name| name.as_bstr().to_string());
        let commit = commit_id(head.into_peeled_id().during("reading HEAD")?);
        Ok(match name {
            Some(name) => Head::Branch { name, commit },
            None => Head::Detached { commit },
        })
    }

    /// The branch that `HEAD` is on, as a full ref name, with a commit or without.
    pub(super) fn head_branch(&self) -> Result<Option<String>> {
        let head = self.gix.find_reference("HEAD").during("reading HEAD")?;
        Ok(head.target().try_name().map(|name| name.as_bstr().to_string()))
    }

    /// The other working tree of the repository whose `HEAD` is on a branch; two of them on one branch would move it
    /// under each other.
    pub fn checked_out_elsewhere(&self, branch: &str) -> Result<Option<PathBuf>> {
        // The same folder can be reached by names that differ.
        let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let here = real(self.gix.git_dir());
        for other in self.gix.worktrees_including_main().during("listing worktrees")? {
            let Ok(other) = other else { continue };
            let elsewhere = real(other.git_dir()) != here;
            let on_it = other.head_name().is_ok_and(|name| name.is_some_and(|name| name.as_bstr() == branch));
            if let Some(path) = other.workdir().filter(|path| elsewhere && on_it && path.exists()) {
                return Ok(Some(path.to_owned()));
            }
        }
        Ok(None)
    }

    /// Points `HEAD` somewhere else; index and working tree stay as they are. The line in its reflog is that of a
    /// checkout, by which `git switch -` finds the way back.
    pub fn point_head(&self, target: &HeadTarget) -> Result<()> {
        let short = |name: &str| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
        let from = match self.head()? {
            Head::Branch { name, .. } | Head::Unborn { name } => short(&name),
            Head::Detached { commit } => commit.to_string(),
        };
        let to = match target {
            HeadTarget::Branch(name) => short(name),
            HeadTarget::Detached(commit) => commit.to_string(),
        };
        let why = format!("checkout: moving from {from} to {to}");
        let head: FullName = full_name("HEAD")?;
        let log = |mode| LogChange { mode, force_create_reflog: false, message: why.as_str().into() };
        let update = |new, mode| RefEdit {
            change: Change::Update { log: log(mode), expected: PreviousValue::Any, new },
            name: head.clone(),
            deref: false,
        };
        match target {
            HeadTarget::Detached(commit) => {
                self.edit_refs([update(Target::Object(object_id(commit)?), RefLog::AndReference)])?;
            }
            HeadTarget::Branch(name) => {
                // The switch of a symbolic ref writes no reflog of its own, so the line is written first.
                if let Some(commit) = self.branch(name)? {
                    self.edit_refs([update(Target::Object(object_id(&commit)?), RefLog::Only)])?;
                    crash::point("git.head_logged");
                }
                self.edit_refs([update(Target::Symbolic(full_name(name)?), RefLog::AndReference)])?;
            }
        }
        self.sync_ref("HEAD")
    }

    /// How many bytes the log of HEAD has.
    pub fn head_log_size(&self) -> u64 {
        fs::metadata(self.head_log()).map_or(0, |meta| meta.len())
    }

    /// The commits that were made since the log had `from` bytes and that exist, the oldest first: by `git commit`, and not by
    /// a merge or a rebase. None where there is no log, or it was rewritten.
    pub fn commits_logged(&self, from: u64) -> Vec<CommitId> {
        let Ok(log) = read_at_most(&self.head_log(), LARGEST_LOG) else { return Vec::new() };
        let new = usize::try_from(from).ok().and_then(|from| log.get(from..)).unwrap_or_default();
        let text = String::from_utf8_lossy(new);
        let commits = text.lines().filter_map(|line| {
            // OLD NEW NAME <EMAIL> TIME ZONE, a tab, and what was done.
            let (change, action) = line.split_once('\t')?;
            let is_commit = action.starts_with("commit: ") || action.starts_with("commit (amend): ");
            let new = change.split(' ').nth(1).filter(|_| is_commit)?;
            (new.len() >= 40 && new.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| CommitId::new(new))
        });
        commits.filter(|commit| self.objects.has_commit(commit)).collect()
    }

    fn head_log(&self) -> PathBuf {
        self.gix.git_dir().join("logs/HEAD")
    }
}
