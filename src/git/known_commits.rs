//! What was read of commits, which never change.

use std::cell::RefCell;
use std::collections::HashMap;

use gix::ObjectId;

/// How many commits are known at a time: an experiment has two that are asked for again and again.
const MOST: usize = 64;

/// Objects that are known to be commits, with their trees.
#[derive(Debug, Default)]
pub(super) struct KnownCommits(RefCell<HashMap<ObjectId, ObjectId>>);

impl KnownCommits {
    /// The tree of a commit, where it was read before.
    pub(super) fn tree(&self, commit: ObjectId) -> Option<ObjectId> {
        self.0.borrow().get(&commit).copied()
    }

    /// Notes the tree of a commit.
    pub(super) fn note(&self, commit: ObjectId, tree: ObjectId) {
        let mut known = self.0.borrow_mut();
        if known.len() == MOST {
            known.clear();
        }
        known.insert(commit, tree);
    }
}
