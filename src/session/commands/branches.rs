//! Taking code out of a session: an experiment on a branch of its own, and what was kept as a clean one. The session's own
//! branch, HEAD, index and working tree stay as they are, also while a loop is at work.

use std::path::{Path, PathBuf};

use crate::domain::{CommitId, ExperimentId, Outcome, Record, ReviewVerdict, Tag};
use crate::git::{Head, HeadTarget, Merged};
use crate::rules::{kept_message, kept_steps, squashed_message};
use crate::session::errors::{BranchError, KeepsError, SessionError};
use crate::session::plan::note_finalized;
use crate::session::store::{Interrupts, watch_programs, watch_programs_until};
use crate::session::view::SessionView;

/// The branches of sessions stand below this.
const SESSION_BRANCHES: &str = "autoresearch/";

/// The branch and working tree that now contain an experiment's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The new branch, as git shows it.
    pub branch: String,
    /// The new working tree that it is checked out in, where one was asked for.
    pub worktree: Option<PathBuf>,
}

/// A clean branch of what a session kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finalized {
    /// The new branch, as git shows it.
    pub branch: String,
    /// The commit that it begins on: the one that the session started from.
    pub start: CommitId,
    /// Its commits with their subjects, oldest first.
    pub commits: Vec<(CommitId, String)>,
    /// The last keep in it, if no run had its tree.
    pub unmeasured: Option<ExperimentId>,
    /// The session that this one follows, and how many commits of the user's are between the two.
    pub follows: Option<(Tag, usize)>,
}

/// The contents chosen for a clean branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinalizeTerms {
    /// True to squash all keeps into one commit.
    pub squash: bool,
    /// The keeps that are left out.
    pub without: Vec<ExperimentId>,
    /// True to include keeps that the reviewer judged not earned.
    pub with_not_earned: bool,
}

impl SessionView {
    /// Puts an experiment's code on the new branch `branch`, `<tag>-<number>` unless said, and where `worktree` is given
    /// checks it out there, unless `interrupts` ask to stop meanwhile.
    ///
    /// # Errors
    ///
    /// When the branch or an entry at `worktree` already exists, or the branch would look like a session's.
    pub fn restore(
        &self,
        record: &Record,
        branch: Option<String>,
        worktree: Option<&Path>,
        interrupts: &Interrupts,
    ) -> Result<Restored, SessionError> {
        SessionView::require_commit(record)?;
        let branch = branch.unwrap_or_else(|| format!("{}-{}", self.tag, record.id));
        let left = if worktree.is_some() { self.left_branch(&branch, &record.commit)? } else { None };
        let full = left.clone().map_or_else(|| self.free_branch(&branch), Ok)?;
        let place = worktree.map(|dir| self.repo.place_for_worktree(dir)).transpose()?;
        if left.is_none() {
            let why = format!("branch: created from experiment {} of {}", record.id, self.tag);
            self.repo.refs.create_branch(&full, &record.commit, &why)?;
        }
        let Some(place) = place else { return Ok(Restored { branch, worktree: None }) };
        watch_programs_until(&self.repo, interrupts)?;
        match self.repo.add_worktree(&place, &HeadTarget::Branch(full.clone())) {
            Ok(made) => Ok(Restored { branch, worktree: Some(made.worktree().to_owned()) }),
            Err(error) => {
                if left.is_none() {
                    self.repo.refs.delete_branch(&full, &record.commit)?;
                }
                Err(error.into())
            }
        }
    }

    /// Makes a new branch of what was kept, `<tag>-final` unless said: from the commit that the session started from, one
    /// commit for each kept experiment with its tree, or a single one with the last tree.
    ///
    /// # Errors
    ///
    /// When nothing was kept but the baseline, the kept experiments are no chain, or the reviewer judged one of them not
    /// earned. Also when the branch already exists or would look like a session's.
    pub fn finalize(&self, branch: Option<String>, wanted: &FinalizeTerms) -> Result<Finalized, SessionError> {
        let branch = branch.unwrap_or_else(|| format!("{}-final", self.tag));
        let full = self.free_branch(&branch)?;
        let chain = self.kept_chain()?;
        let [baseline, kept @ ..] = chain.as_slice() else {
            return Err(KeepsError::NothingKept(self.tag.to_string()).into());
        };
        if let Some(id) = wanted.without.iter().find(|id| !kept.iter().any(|record| record.id == **id)) {
            return Err(KeepsError::NotKept { tag: self.tag.clone(), id: *id }.into());
        }
        let is_left_out = |record: &Record| wanted.without.contains(&record.id);
        let is_doubted = |record: &&&Record| {
            let verdict = record.review.as_ref().map(|review| review.verdict);
            verdict == Some(ReviewVerdict::NotEarned) && !is_left_out(record)
        };
        let doubted: Vec<ExperimentId> = kept.iter().filter(is_doubted).map(|record| record.id).collect();
        if !doubted.is_empty() && !wanted.with_not_earned {
            return Err(KeepsError::NotEarned { tag: self.tag.clone(), ids: doubted }.into());
        }
        let follows = self.follows(&baseline.commit)?;
        let subject = |message: &str| message.lines().next().unwrap_or_default().to_owned();
        let Some(last) = kept.iter().rfind(|record| !is_left_out(record)) else {
            return Err(KeepsError::NothingKept(self.tag.to_string()).into());
        };
        watch_programs(&self.repo, None)?;
        let start = baseline.commit.clone();
        let mut commits = Vec::new();
        let mut tip = start.clone();
        let replaced = self.history.replaced();
        let mut missing: Vec<ExperimentId> = Vec::new();
        // The left-out keeps that come before the last one included.
        let mut lacks: Vec<ExperimentId> = Vec::new();
        for (record, before) in kept_steps(&chain) {
            if is_left_out(record) {
                missing.push(record.id);
                continue;
            }
            lacks.clone_from(&missing);
            let replaced_by = replaced.get(&record.id).copied();
            let message = kept_message(&self.tag, record, before, replaced_by, &missing);
            tip = match missing.is_empty() {
                true => self.repo.objects.commit_tree_of(&record.commit, &tip, &message)?,
                false => self.commit_without(record, &tip, &message)?,
            };
            let by = replaced_by.map(|by| format!(" (replaced by {by})")).unwrap_or_default();
            commits.push((tip.clone(), subject(&message) + &by));
        }
        if wanted.squash {
            let chain: Vec<&Record> = chain.iter().copied().filter(|record| !is_left_out(record)).collect();
            let message = squashed_message(&self.tag, &chain, &lacks);
            commits = vec![(self.repo.objects.commit_tree_of(&tip, &start, &message)?, subject(&message))];
        }
        let tip = commits.last().map_or(&start, |(commit, _)| commit);
        let why = format!("branch: what session {} kept", self.tag);
        self.repo.refs.create_branch(&full, tip, &why)?;
        // Without the note, `ar run` with slots goes on with the session.
        if let Some(incumbent) = chain.last() {
            let _ = note_finalized(&self.folder, &full, &incumbent.commit);
        }
        let unmeasured = (!lacks.is_empty()).then_some(last.id);
        Ok(Finalized { branch, start, commits, unmeasured, follows })
    }

    /// The session whose branch this one began on, and how many commits of the user's are from its incumbent to `start`.
    fn follows(&self, start: &CommitId) -> Result<Option<(Tag, usize)>, SessionError> {
        let Some(follows) = self.contract.as_ref().and_then(|contract| contract.follows.as_ref()) else {
            return Ok(None);
        };
        Ok(Some((follows.tag.clone(), self.repo.objects.count_between(&follows.incumbent, start)?)))
    }

    /// Commits what an experiment changed onto a tree that lacks keeps before it.
    fn commit_without(&self, record: &Record, tip: &CommitId, message: &str) -> Result<CommitId, SessionError> {
        let objects = &self.repo.objects;
        match objects.merge(&record.base, tip, &record.commit)? {
            Merged::Tree(tree) => Ok(objects.commit_merged(&tree, tip, message)?),
            Merged::Conflicts(paths) => {
                Err(KeepsError::NeedsLeftOut { tag: self.tag.clone(), id: record.id, paths }.into())
            }
        }
    }

    /// The baseline and the kept experiments, each made on the one before.
    pub(super) fn kept_chain(&self) -> Result<Vec<&Record>, SessionError> {
        let kept =
            self.history.records().iter().filter(|record| record.id.is_baseline() || record.outcome == Outcome::Keep);
        let chain: Vec<&Record> = kept.collect();
        chain.iter().try_for_each(|record| SessionView::require_commit(record))?;
        match chain.windows(2).find(|pair| pair[1].base != pair[0].commit) {
            // Another tool may have merged, or amended what it kept.
            Some(pair) if pair[1].imported.is_some() => {
                Err(KeepsError::NoChain { tag: self.tag.to_string(), id: pair[1].id, before: pair[0].id }.into())
            }
            Some(pair) => {
                Err(KeepsError::BrokenChain { tag: self.tag.to_string(), id: pair[1].id, before: pair[0].id }.into())
            }
            None => Ok(chain),
        }
    }

    /// The full ref name of a branch that is at `commit` already and checked out nowhere, as a call leaves it that was killed
    /// before it made the working tree.
    ///
    /// # Errors
    ///
    /// It is checked out in another working tree, which may be half made.
    fn left_branch(&self, branch: &str, commit: &CommitId) -> Result<Option<String>, SessionError> {
        let full = self.repo.refs.branch_ref(branch)?;
        let is_here = matches!(self.repo.refs.head()?, Head::Branch { name, .. } if name == full);
        if is_here || full.starts_with(&format!("refs/heads/{SESSION_BRANCHES}")) || !self.repo.refs.has_ref(&full)? {
            return Ok(None);
        }
        if self.repo.refs.branch(&full)?.as_ref() != Some(commit) {
            return Ok(None);
        }
        match self.repo.refs.checked_out_elsewhere(&full)? {
            Some(worktree) => Err(BranchError::RestoredAlready { branch: branch.to_owned(), worktree }.into()),
            None => Ok(Some(full)),
        }
    }

    /// Returns the full ref name of a branch that can be created and belongs to no session.
    pub(super) fn free_branch(&self, branch: &str) -> Result<String, SessionError> {
        let full = self.repo.refs.branch_ref(branch)?;
        let is_session = branch.strip_prefix(SESSION_BRANCHES).is_some_and(|tag| tag.parse::<Tag>().is_ok());
        if is_session || full == self.tag.branch_ref() {
            return Err(BranchError::SessionBranch(branch.to_owned()).into());
        }
        if self.repo.refs.has_ref(&full)? {
            return Err(BranchError::BranchTaken(branch.to_owned()).into());
        }
        match self.repo.refs.branch_in_the_way(branch)? {
            Some(blocking) => Err(BranchError::BranchInTheWay { blocking, branch: branch.to_owned() }.into()),
            None => Ok(full),
        }
    }
}
