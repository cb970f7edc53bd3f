//! Commits that an agent made by itself during its call: one change, whatever it did with them afterwards.

use crate::domain::{CommitId, Notice};
use crate::git::Repo;
use crate::session::errors::SessionError;
use crate::session::store::Store;
use crate::session::tree::Workspace;
use crate::state::OpenExperiment;

/// Maximum number of commits examined per call.
const MOST: usize = 100;

/// The agent's own commits during one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AgentCommits {
    /// The number of commits that it made.
    pub(crate) made: u32,
    /// True if it had reset its change, which is now back in the working tree.
    pub(crate) reset: bool,
}

impl Workspace {
    /// Looks at the commits that were `made` in a call. If the agent reset its work (some prompts tell it to), restores its last
    /// commit for measuring. Keeps other commits that it reset under saved refs.
    pub(crate) fn look_after_commits(
        &mut self,
        store: &mut Store,
        open: &OpenExperiment,
        mut made: Vec<CommitId>,
    ) -> Result<AgentCommits, SessionError> {
        let tip = self.reclaim_head(store, &open.base)?;
        self.unstage(open)?;
        let standing = commits_between(&store.repo, &open.base, tip)?;
        made.drain(..made.len().saturating_sub(MOST));
        let mut trees = vec![store.repo.objects.tree_of(&open.base)?];
        for commit in &standing {
            trees.push(store.repo.objects.tree_of(commit)?);
        }
        let mut reset = Vec::new();
        for commit in made {
            let tree = store.repo.objects.tree_of(&commit)?;
            if !trees.contains(&tree) {
                trees.push(tree);
                reset.push(commit);
            }
        }
        let made = u32::try_from(standing.len() + reset.len()).unwrap_or(u32::MAX);
        let back = if standing.is_empty() { self.bring_back(store, open, &reset)? } else { None };
        reset.retain(|commit| Some(commit) != back.as_ref());
        for commit in &reset {
            let subject = format!("reset by the agent: {}", store.repo.objects.subject(commit)?);
            store.refs().keep_as(&subject, commit)?;
        }
        if !reset.is_empty() {
            store.note(Notice::ResetCommitsSaved { count: reset.len(), prefix: store.contract.tag.ref_prefix() });
        }
        Ok(AgentCommits { made, reset: back.is_some() })
    }

    /// If the call left no other work, restores the last reset commit whose parent is the base. Returns that commit.
    fn bring_back(
        &mut self,
        store: &mut Store,
        open: &OpenExperiment,
        reset: &[CommitId],
    ) -> Result<Option<CommitId>, SessionError> {
        let mut last = None;
        for commit in reset {
            if store.repo.objects.parents(commit)? == [open.base.clone()] {
                last = Some(commit.clone());
            }
        }
        let Some(commit) = last.filter(|_| open.draft.is_none()) else { return Ok(None) };
        if self.has_worked(store, open)? {
            return Ok(None);
        }
        self.move_head(store, &commit, &[&open.base], "reset by the agent")?;
        self.restore(store, &commit, &open.base)?;
        self.unstage(open)?;
        store.note(Notice::ResetCommitRestored(commit.clone()));
        Ok(Some(commit))
    }
}

/// The commits from the base to `tip`; none where `tip` was not made on it.
fn commits_between(repo: &Repo, base: &CommitId, tip: CommitId) -> Result<Vec<CommitId>, SessionError> {
    let (mut commit, mut between) = (tip, Vec::new());
    while commit != *base && between.len() < MOST {
        let parent = repo.objects.parents(&commit)?.into_iter().next();
        between.push(std::mem::replace(
            &mut commit,
            match parent {
                Some(parent) => parent,
                None => return Ok(Vec::new()),
            },
        ));
    }
    Ok(between)
}
