//! The files in which two trees differ.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::BString;
use gix::diff::tree::recorder::Change;
use gix::diff::tree::{Recorder, State};
use gix::index::entry::Mode;
use gix::objs::TreeRefIter;
use gix::objs::tree::EntryMode;

use super::error::During;
use super::index::Version;
use super::{Repo, Result};
use crate::domain::DiffStat;

/// One file in which two trees differ, with what each has.
#[derive(Debug, Clone)]
pub(super) struct TreeChange {
    pub(super) path: BString,
    pub(super) old: Option<Version>,
    pub(super) new: Option<Version>,
}

/// The last comparison: the steps of an experiment ask for the same two trees again and again, and trees do not change.
#[derive(Default)]
pub(super) struct LastTreeDiff(RefCell<Option<Compared>>);

struct Compared {
    old: ObjectId,
    new: ObjectId,
    changes: Arc<[TreeChange]>,
    /// What of the new tree's files and folders the old one has not.
    objects: Vec<ObjectId>,
    /// How much changed, once somebody has asked.
    stat: Option<DiffStat>,
}

impl Repo {
    /// The files in which two trees differ, sorted by path; a renamed one is deleted and added.
    pub(super) fn tree_changes(&self, old: ObjectId, new: ObjectId) -> Result<Arc<[TreeChange]>> {
        if old == new {
            return Ok(Arc::default());
        }
        if let Some(last) = &*self.last_tree_diff.0.borrow() {
            if (last.old, last.new) == (old, new) {
                return Ok(Arc::clone(&last.changes));
            }
            if (last.new, last.old) == (old, new) {
                let turned = last.changes.iter().cloned();
                return Ok(turned
                    .map(|TreeChange { path, old, new }| TreeChange { path, old: new, new: old })
                    .collect());
            }
        }
        let compared = self.compare_trees(old, new)?;
        let changes = Arc::clone(&compared.changes);
        self.last_tree_diff.0.replace(Some(compared));
        Ok(changes)
    }

    /// The objects of a tree that another one has not, itself among them.
    pub(super) fn new_objects(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>> {
        let mut objects = match &*self.last_tree_diff.0.borrow() {
            Some(last) if (last.old, last.new) == (old, new) => last.objects.clone(),
            _ => self.compare_trees(old, new)?.objects,
        };
        objects.push(new);
        Ok(objects)
    }

    /// How much changed from one tree to another, counted as in [`Repo::diff_stat`].
    pub(super) fn tree_stat(&self, old: ObjectId, new: ObjectId) -> Result<DiffStat> {
        if let Some(last) = &*self.last_tree_diff.0.borrow()
            && (last.old, last.new) == (old, new)
            && let Some(stat) = last.stat
        {
            return Ok(stat);
        }
        let stat = self.count_changes(old, new)?;
        if let Some(last) = &mut *self.last_tree_diff.0.borrow_mut()
            && (last.old, last.new) == (old, new)
        {
            last.stat = Some(stat);
        }
        Ok(stat)
    }

    /// Compares two trees without looking for renames, for which gix reads the whole index.
    fn compare_trees(&self, old: ObjectId, new: ObjectId) -> Result<Compared> {
        const WHAT: &str = "comparing trees";
        let (before, after) = (self.gix.find_tree(old).during(WHAT)?, self.gix.find_tree(new).during(WHAT)?);
        let mut found = Recorder::default();
        gix::diff::tree(entries(&before), entries(&after), State::default(), &self.gix.objects, &mut found)
            .during(WHAT)?;
        let file = |mode: EntryMode, id| (!mode.is_tree()).then(|| (Mode::from(mode), id));
        let mut objects = Vec::new();
        let mut sides = BTreeMap::<BString, (Option<Version>, Option<Version>)>::new();
        for change in found.records {
            if let Change::Addition { oid, .. } | Change::Modification { oid, .. } = &change {
                objects.push(*oid);
            }
            // A file that becomes a folder comes as one change here and one addition for each file in it.
            let (path, old, new) = match change {
                Change::Addition { path, entry_mode, oid, .. } => (path, None, file(entry_mode, oid)),
                Change::Deletion { path, entry_mode, oid, .. } => (path, file(entry_mode, oid), None),
                Change::Modification { path, previous_entry_mode, previous_oid, entry_mode, oid } => {
                    (path, file(previous_entry_mode, previous_oid), file(entry_mode, oid))
                }
            };
            if old.is_some() || new.is_some() {
                let both = sides.entry(path).or_default();
                (both.0, both.1) = (old.or(both.0), new.or(both.1));
            }
        }
        let changes = sides.into_iter().map(|(path, (old, new))| TreeChange { path, old, new }).collect();
        Ok(Compared { old, new, changes, objects, stat: None })
    }
}

fn entries<'a>(tree: &'a gix::Tree<'_>) -> TreeRefIter<'a> {
    TreeRefIter::from_bytes(&tree.data, tree.id.kind())
}
