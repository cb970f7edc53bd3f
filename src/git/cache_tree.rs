//! The index's cache of tree objects: what makes writing a tree cost what changed, not what there is.
//!
//! gix reads and writes the cache and does not keep it up; whoever changes an entry invalidates its path here first.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::index::entry::Flags;
use gix::index::extension::Tree;
use gix::index::{Entry, PathStorageRef, State};
use gix::objs::tree;

use super::{GitError, Repo, Result};

/// Forgets the trees of all folders on the way to `path`.
pub(super) fn invalidate(root: &mut Tree, path: &BStr) {
    let mut node = root;
    let mut rest: &[u8] = path;
    loop {
        node.num_entries = None;
        let Some(slash) = rest.find_byte(b'/') else { return };
        let (name, below) = (&rest[..slash], &rest[slash + 1..]);
        let Some(child) = node.children.iter_mut().find(|child| child.name.as_slice() == name) else { return };
        node = child;
        rest = below;
    }
}

/// The tree that the cache says the whole index is, when it says so.
pub(super) fn root(state: &State) -> Option<ObjectId> {
    let tree = state.tree()?;
    let count = tree.num_entries?;
    (usize::try_from(count) == Ok(state.entries().len())).then_some(tree.id)
}

impl Repo {
    /// Writes the trees of the index that are not in its cache, brings the cache up to date and returns the root.
    /// Objects that were written are added to `written`. Entries must be sorted and free of conflicts.
    pub(super) fn write_tree(&self, state: &mut State, written: &mut Vec<ObjectId>) -> Result<ObjectId> {
        if let Some(id) = root(state) {
            return Ok(id);
        }
        let mut store = |tree: &gix::objs::Tree| {
            let id = self.write_object(tree, "writing a tree")?;
            written.push(id);
            Ok(id)
        };
        let new = build(b"", state.entries(), state.path_backing(), 0, state.tree(), &mut store)?;
        let id = new.id;
        match state.tree_mut() {
            Some(cache) => *cache = new,
            None => return Err(GitError::Damaged("the index was loaded without a cache of trees".to_owned())),
        }
        Ok(id)
    }
}

type Store<'a> = dyn FnMut(&gix::objs::Tree) -> Result<ObjectId> + 'a;

/// Builds the tree of one folder from its entries, which all start with the same `skip` bytes.
fn build(
    name: &[u8],
    entries: &[Entry],
    paths: &PathStorageRef,
    skip: usize,
    cached: Option<&Tree>,
    store: &mut Store<'_>,
) -> Result<Tree> {
    if let Some(cached) = cached
        && cached.num_entries.is_some_and(|count| usize::try_from(count) == Ok(entries.len()))
    {
        return Ok(cached.clone());
    }
    let known: BTreeMap<&[u8], &Tree> = cached
        .map(|tree| tree.children.iter().map(|child| (child.name.as_slice(), child)).collect())
        .unwrap_or_default();
    let mut tree = gix::objs::Tree::empty();
    let mut children = Vec::new();
    let mut complete = true;
    let mut at = 0;
    while at < entries.len() {
        let rest = &entries[at].path_in(paths)[skip..];
        let Some(slash) = rest.find_byte(b'/') else {
            let entry = &entries[at];
            at += 1;
            if entry.flags.contains(Flags::INTENT_TO_ADD) {
                complete = false;
                continue;
            }
            let Some(mode) = entry.mode.to_tree_entry_mode() else {
                return Err(GitError::Damaged(format!("the index holds an entry of mode {:o}", entry.mode.bits())));
            };
            tree.entries.push(tree::Entry { mode, filename: rest.into(), oid: entry.id });
            continue;
        };
        let folder = &rest[..=slash];
        let below = entries[at..].partition_point(|entry| entry.path_in(paths)[skip..].starts_with(folder));
        let name: &[u8] = &folder[..slash];
        let cached = known.get(name).copied();
        let child = build(name, &entries[at..at + below], paths, skip + slash + 1, cached, store)?;
        complete &= child.num_entries.is_some();
        if !child.id.is_empty_tree() {
            tree.entries.push(tree::Entry { mode: tree::EntryKind::Tree.into(), filename: name.into(), oid: child.id });
        }
        children.push(child);
        at += below;
    }
    children.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    let count = u32::try_from(entries.len()).ok().filter(|_| complete);
    Ok(Tree { name: name.into(), id: store(&tree)?, num_entries: count, children })
}
