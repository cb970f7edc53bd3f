//! The content of an index: what is staged, and changing it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use gix::ObjectId;
use gix::bstr::{BStr, BString};
use gix::index::State;
use gix::index::entry::{Flags, Stage, Stat};
use gix::index::fs::Metadata;

use crate::git::objects::Version;

/// Changes to the index, by path.
#[derive(Debug, Default)]
pub(in crate::git) struct Edits {
    /// Paths that are no longer tracked.
    pub(in crate::git) remove: BTreeSet<BString>,
    /// Paths that are tracked as this, with what the file system says of them.
    pub(in crate::git) set: BTreeMap<BString, (Version, Stat)>,
}

impl Edits {
    /// Makes a path what a tree has there, of which nothing is known on the disk.
    pub(in crate::git) fn put(&mut self, path: BString, version: Option<Version>) {
        if let Some(version) = version {
            self.set.insert(path, (version, Stat::default()));
        } else {
            self.remove.insert(path);
        }
    }
}

/// An index, and the tree that it is known to be, if any.
#[derive(Clone)]
pub(in crate::git) struct Staged {
    pub(super) state: State,
    pub(super) tree: Option<ObjectId>,
}

impl Deref for Staged {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl Staged {
    /// An index as it was read. Git's cache of trees says which tree it is; it is not kept up here, and not written.
    pub(super) fn new(mut state: State) -> Staged {
        let is_whole = |count: u32| usize::try_from(count) == Ok(state.entries().len());
        let tree = state.tree().filter(|tree| tree.num_entries.is_some_and(is_whole)).map(|tree| tree.id);
        state.remove_tree();
        Staged { state, tree }
    }

    /// The tree that the index is known to be.
    pub(in crate::git) fn tree(&self) -> Option<ObjectId> {
        self.tree
    }

    /// Returns the index's version at a path; `None` if it is in conflict, only meant to be added, or missing.
    pub(in crate::git) fn version_at(&self, path: &BStr) -> Option<Version> {
        let entry = self.entry_by_path_and_stage(path, Stage::Unconflicted)?;
        (!entry.flags.contains(Flags::INTENT_TO_ADD)).then_some((entry.mode, entry.id))
    }

    /// Returns whether files are marked as left out of the working tree.
    pub(in crate::git) fn has_skipped(&self) -> bool {
        self.entries().iter().any(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
    }

    /// Carries out changes, which make the index the tree `tree`, where that is known.
    pub(in crate::git) fn apply(&mut self, edits: Edits, tree: Option<ObjectId>) {
        let Edits { mut remove, mut set } = edits;
        set.retain(|path, (version, stat)| {
            match self.state.entry_mut_by_path_and_stage(path.as_ref(), Stage::Unconflicted) {
                Some(entry) => {
                    (entry.mode, entry.id) = *version;
                    entry.stat = *stat;
                    if entry.flags.contains(Flags::INTENT_TO_ADD) {
                        entry.flags.remove(Flags::INTENT_TO_ADD | Flags::EXTENDED);
                    }
                    false
                }
                None => {
                    // Stages of a conflict go; the path is added anew.
                    remove.insert(path.clone());
                    true
                }
            }
        });
        if !remove.is_empty() {
            self.state.remove_entries(|_, path, _| remove.contains(path));
        }
        let sorted = set.is_empty();
        for (path, ((mode, id), stat)) in set {
            self.state.dangerously_push_entry(stat, id, Flags::empty(), mode, path.as_ref());
        }
        if !sorted {
            self.state.sort_entries();
        }
        self.tree = tree;
    }
}

/// Converts a file's metadata to the form that the index stores.
pub(in crate::git) fn stat_of(metadata: &Metadata) -> Stat {
    Stat::from_fs(metadata).unwrap_or_default()
}
