//! The state of the user's working tree, in the journal.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{CommitId, ExperimentId};

/// A change that was taken out of the working tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aside {
    /// Its commit.
    pub commit: CommitId,
    /// Its description.
    pub description: String,
    /// The strategy that it belongs to.
    #[serde(default)]
    pub direction: Option<String>,
    /// Its proposal, without description and direction.
    #[serde(default)]
    pub proposal: Map<String, Value>,
    /// The ref that keeps it meanwhile.
    pub reference: String,
}

/// The state of the user's working tree, apart from experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeState {
    /// The working tree that the session is at work in.
    #[serde(default)]
    worktree: PathBuf,
    /// The user's branch to which their working tree is being switched back, as a full ref name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    homeward: Option<String>,
    /// The keep that is reviewed after it was recorded: what its reviewer does to branch and working tree is to be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_review: Option<ExperimentId>,
    /// A change that was taken out of the working tree until the baseline is measured.
    #[serde(default)]
    aside: Option<Aside>,
}

impl TreeState {
    /// Creates the state of a working tree in which nothing is under way.
    pub fn of(worktree: &Path) -> Self {
        TreeState { worktree: worktree.to_owned(), ..TreeState::default() }
    }

    /// The working tree that the session is at work in.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Notes that the session continues in this working tree.
    pub fn move_to(&mut self, worktree: &Path) {
        self.worktree = worktree.to_owned();
    }

    /// Notes to which branch of the user's the working tree is being switched back; `None` once it is, or is not to be.
    pub fn go_home(&mut self, branch: Option<String>) {
        self.homeward = branch;
    }

    /// Returns whether the working tree is being switched back to the user's branch.
    pub fn is_homeward(&self) -> bool {
        self.homeward.is_some()
    }

    /// Notes which keep is being reviewed; `None` once what its reviewer did is undone.
    pub fn review(&mut self, id: Option<ExperimentId>) {
        self.late_review = id;
    }

    /// The keep that is being reviewed.
    pub fn reviewed(&self) -> Option<ExperimentId> {
        self.late_review
    }

    /// Notes that a change was taken out.
    pub fn set_aside(&mut self, aside: Aside) {
        self.aside = Some(aside);
    }

    /// The change that was taken out.
    pub fn aside(&self) -> Option<&Aside> {
        self.aside.as_ref()
    }

    /// Gives the change that was taken out and forgets it, as it becomes an experiment.
    pub fn take_aside(&mut self) -> Option<Aside> {
        self.aside.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_known_until_it_is_undone() {
        let mut tree = TreeState::of(Path::new("/a"));
        tree.move_to(Path::new("/b"));
        tree.go_home(Some("refs/heads/main".into()));
        tree.review(Some(3.into()));
        assert_eq!((tree.worktree(), tree.is_homeward(), tree.reviewed()), (Path::new("/b"), true, Some(3.into())));
        tree.go_home(None);
        tree.review(None);
        assert_eq!(tree, TreeState::of(Path::new("/b")));
    }
}
