//! `HEAD`: where it is, moving it, and its log, which shows what was committed meanwhile, also where it was reset again.

use std::fs;
use std::path::{Path, PathBuf};

use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{FullName, Target};

use crate::crash;
use crate::domain::CommitId;
use crate::fs::read_at_most;
use crate::git::{During, Refs, Result, commit_id, full_name, object_id};

/// Size limit of the log of `HEAD`, in bytes. A larger one is not read.
const LARGEST_LOG: u64 = 64 << 20;

/// Prefix of the refs of branches.
const BRANCHES: &str = "refs/heads/";

/// The position of `HEAD`.
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

    /// The branch or commit that it points to.
    pub fn target(self) -> HeadTarget {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => HeadTarget::Branch(name),
            Head::Detached { commit } => HeadTarget::Detached(commit),
        }
    }
}

/// A target for `HEAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadTarget {
    /// A branch, as a full ref name.
    Branch(String),
    /// A commit.
    Detached(CommitId),
}

impl std::fmt::Display for HeadTarget {
    /// Writes the branch by its short name, or the commit.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeadTarget::Branch(name) => f.write_str(name.strip_prefix(BRANCHES).unwrap_or(name)),
            HeadTarget::Detached(commit) => write!(f, "{commit}"),
        }
    }
}

impl Refs {
    /// Returns the current position of `HEAD`.
    pub fn head(&self) -> Result<Head> {
        self.objects.read_in(&self.gix, |gix| {
            let head = gix.head().during("reading HEAD")?;
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
        })
    }

    /// Returns the current position of `HEAD`; `None` while its file is missing or names nothing, until it is restored.
    pub fn head_if_sound(&self) -> Result<Option<Head>> {
        match self.head() {
            Err(_) if self.torn_head().is_some() => Ok(None),
            head => head.map(Some),
        }
    }

    /// The branch that `HEAD` is on, as a full ref name, with a commit or without; none while `HEAD` names nothing.
    pub(super) fn head_branch(&self) -> Result<Option<String>> {
        let head = match self.gix.find_reference("HEAD").during("reading HEAD") {
            Err(_) if self.torn_head().is_some() => return Ok(None),
            head => head?,
        };
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
        let from = self.head()?.target();
        let why = format!("checkout: moving from {from} to {target}");
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

    /// Returns the size of the log of `HEAD`, in bytes.
    pub fn head_log_size(&self) -> u64 {
        fs::metadata(self.head_log()).map_or(0, |meta| meta.len())
    }

    /// The commits that were made since the log had `from` bytes and that exist, the oldest first: by `git commit`, and not by
    /// a merge or a rebase. None where there is no log, or it was rewritten.
    pub fn commits_logged(&self, from: u64) -> Vec<CommitId> {
        let Ok(log) = read_at_most(&self.head_log(), LARGEST_LOG) else { return Vec::new() };
        let new = usize::try_from(from).ok().and_then(|from| log.get(from..)).unwrap_or_default();
        let mut commits = committed_in(new);
        commits.retain(|commit| self.objects.has_commit(commit));
        commits
    }

    /// Returns the position of `HEAD` according to its log, for use if its own file is damaged.
    pub fn logged_head(&self) -> Result<Option<HeadTarget>> {
        self.logged_head_at(self.gix.git_dir())
    }

    /// Returns the position of `HEAD` according to the log of the working tree with this git folder. Returns `None` if
    /// that is uncertain: the branch is elsewhere, or a rebase is half done.
    pub fn logged_head_at(&self, git_dir: &Path) -> Result<Option<HeadTarget>> {
        if ["rebase-merge", "rebase-apply"].iter().any(|name| git_dir.join(name).exists()) {
            return Ok(None);
        }
        let Ok(log) = read_at_most(&git_dir.join("logs/HEAD"), LARGEST_LOG) else { return Ok(None) };
        let text = String::from_utf8_lossy(&log);
        let last = text.lines().last().and_then(|line| line.split(' ').nth(1)).filter(|id| is_id(id));
        let Some(at) = last.map(CommitId::new).filter(|at| self.objects.has_commit(at)) else { return Ok(None) };
        let actions = || text.lines().map(|line| line.split_once('\t').map_or("", |(_, action)| action));
        if let Some(name) = actions().rev().find_map(switched_to) {
            let branch = self.branch_ref(name).ok();
            return Ok(match branch.as_deref().map(|branch| self.branch(branch)).transpose()?.flatten() {
                Some(tip) if tip == at => branch.map(HeadTarget::Branch),
                Some(_) => None,
                None => is_id(name).then_some(HeadTarget::Detached(at)),
            });
        }
        // Since the first commit, or the clone, it was on one branch.
        let began = actions().next().unwrap_or_default();
        if !began.starts_with("commit (initial): ") && !began.starts_with("clone: ") {
            return Ok(None);
        }
        let mut branches = self.refs_under("refs/heads")?;
        branches.retain(|(_, tip)| tip == at.as_str());
        Ok(match &mut branches[..] {
            [(name, _)] => Some(HeadTarget::Branch(std::mem::take(name))),
            _ => None,
        })
    }

    fn head_log(&self) -> PathBuf {
        self.gix.git_dir().join("logs/HEAD")
    }
}

/// The commits that a part of a log of `HEAD` says were made by `git commit`, the oldest first.
pub(in crate::git) fn committed_in(log: &[u8]) -> Vec<CommitId> {
    let text = String::from_utf8_lossy(log);
    let commits = text.lines().filter_map(|line| {
        // OLD NEW NAME <EMAIL> TIME ZONE, a tab, and what was done.
        let (change, action) = line.split_once('\t')?;
        let is_commit = action.starts_with("commit: ") || action.starts_with("commit (amend): ");
        let new = change.split(' ').nth(1).filter(|_| is_commit)?;
        is_id(new).then(|| CommitId::new(new))
    });
    commits.collect()
}

/// Returns whether a text is the full name of an object.
fn is_id(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The branch or commit that a line of the log says `HEAD` was switched to.
fn switched_to(action: &str) -> Option<&str> {
    if let Some(branch) = action.strip_prefix("rebase (finish): returning to ") {
        return branch.strip_prefix(BRANCHES);
    }
    if let Some(names) = action.strip_prefix("Branch: renamed ") {
        return names.split_once(" to ")?.1.strip_prefix(BRANCHES);
    }
    Some(action.strip_prefix("checkout: moving from ")?.split_once(" to ")?.1)
}
