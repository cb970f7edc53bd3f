//! Trees: what they have at a path, where two of them differ, and new ones made of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::diff::tree::recorder::Change;
use gix::diff::tree::{Recorder, State};
use gix::index::entry::Mode;
use gix::objs::TreeRefIter;
use gix::objs::tree::{Editor, EntryMode};
use gix::traverse::tree::Recorder as Files;

use super::change::{ChangeKind, ChangedPath, EntryKind, TreeChange, Version};
use super::diff::Diff;
use super::diff_text;
use super::store::Objects;
use crate::domain::CommitId;
use crate::git::error::{During, GitError, Result};
use crate::git::path::{to_git, to_path};

const WHAT: &str = "reading a tree";

/// The entry of a commit at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Nothing.
    Missing,
    /// A folder, a link or a submodule.
    NoFile,
    /// A file of so many bytes, which are more than were asked for.
    TooLarge(u64),
    /// A file.
    File(Vec<u8>),
}

impl Objects {
    /// Reads the entry of a commit at a path. Does not read a file of more than `limit` bytes.
    pub fn read_at(&self, commit: &CommitId, path: &Path, limit: u64) -> Result<Stored> {
        let Some((mode, id)) = self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())? else {
            return Ok(Stored::Missing);
        };
        if !matches!(mode, Mode::FILE | Mode::FILE_EXECUTABLE) {
            return Ok(Stored::NoFile);
        }
        let size = self.size(id)?;
        Ok(if size > limit { Stored::TooLarge(size) } else { Stored::File(self.blob(id)?) })
    }

    /// The hexadecimal name of the file or folder that a commit has at a path: what has the same name has the same content.
    pub fn name_at(&self, commit: &CommitId, path: &Path) -> Result<Option<String>> {
        Ok(self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())?.map(|(_, id)| id.to_string()))
    }

    /// The files below a folder of a commit, relative to the repository's root and sorted; links and submodules are none.
    pub fn files_below(&self, commit: &CommitId, folder: &Path) -> Result<Vec<PathBuf>> {
        let Some((Mode::DIR, tree)) = self.entry_in(self.tree_id(commit)?, to_git(folder)?.as_ref())? else {
            return Ok(Vec::new());
        };
        let mut paths = self.paths_in(tree, |mode| mode.is_blob())?;
        paths.iter_mut().for_each(|path| *path = folder.join(&path));
        Ok(paths)
    }

    /// Returns whether a commit has a file or folder at a path.
    pub fn is_in(&self, commit: &CommitId, path: &Path) -> Result<bool> {
        Ok(self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())?.is_some())
    }

    /// The files of a commit that `is_meant` names, sorted by path; submodules are none.
    pub fn files_at(&self, commit: &CommitId, is_meant: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
        let mut paths = self.paths_at(commit, |mode| !mode.is_tree() && !mode.is_commit())?;
        paths.retain(|path| is_meant(path));
        Ok(paths)
    }

    /// The submodules of a commit, sorted by path.
    pub fn submodules_at(&self, commit: &CommitId) -> Result<Vec<PathBuf>> {
        self.paths_at(commit, EntryMode::is_commit)
    }

    fn paths_at(&self, commit: &CommitId, is_meant: impl Fn(&EntryMode) -> bool) -> Result<Vec<PathBuf>> {
        self.paths_in(self.tree_id(commit)?, is_meant)
    }

    fn paths_in(&self, tree: ObjectId, is_meant: impl Fn(&EntryMode) -> bool) -> Result<Vec<PathBuf>> {
        let found = self.read(|gix| {
            let mut found = Files::default();
            gix.find_tree(tree).during(WHAT)?.traverse().breadthfirst(&mut found).during(WHAT)?;
            Ok(found)
        })?;
        let meant = found.records.into_iter().filter(|entry| is_meant(&entry.mode));
        let mut paths: Vec<PathBuf> = meant.map(|entry| to_path(entry.filepath.as_bstr())).collect();
        paths.sort();
        Ok(paths)
    }

    /// The files that differ from `a` to `b`, sorted by path; a renamed one is deleted and added.
    pub fn changed_between(&self, a: &CommitId, b: &CommitId) -> Result<Vec<ChangedPath>> {
        self.changed_paths(&self.tree_changes(self.tree_id(a)?, self.tree_id(b)?)?)
    }

    pub(in crate::git) fn changed_paths(&self, changes: &[TreeChange]) -> Result<Vec<ChangedPath>> {
        let mut paths = Vec::new();
        for &TreeChange { ref path, old, new } in changes {
            let size = match new {
                Some((mode, id)) if mode != Mode::COMMIT => self.size(id)?,
                _ => 0,
            };
            let entry = new.or(old).map_or(EntryKind::File, |(mode, _)| EntryKind::of(mode));
            paths.push(ChangedPath { path: to_path(path.as_ref()), kind: ChangeKind::of(old, new), entry, size });
        }
        Ok(paths)
    }

    /// Returns the changes from `a` to `b` as a unified diff, as `git diff` prints it: three lines of context, renames
    /// found, `Binary files … differ` for a binary file. Ignores attributes that name a way to show a file.
    pub fn diff_text(&self, a: &CommitId, b: &CommitId) -> Result<Vec<u8>> {
        Ok(diff_text::print(&self.gix, self.diff(a, b)?))
    }

    /// Returns the changes from `a` to `b`.
    pub fn diff(&self, a: &CommitId, b: &CommitId) -> Result<Diff> {
        self.diff_of_trees(self.tree_id(a)?, self.tree_id(b)?)
    }

    /// Returns the changes from one tree to another.
    pub(in crate::git) fn diff_of_trees(&self, a: ObjectId, b: ObjectId) -> Result<Diff> {
        let changes = self.tree_changes(a, b)?;
        self.read(|gix| Diff::of(gix, (a, b), &changes))
    }

    /// Returns the version of a tree at a path; `None` for a folder.
    pub(in crate::git) fn version_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<Version>> {
        Ok(self.entry_in(tree, path)?.filter(|(mode, _)| *mode != Mode::DIR))
    }

    fn entry_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<Version>> {
        self.read(|gix| {
            let tree = gix.find_tree(tree).during(WHAT)?;
            let entry = tree.lookup_entry(path.split_str("/")).during(WHAT)?;
            Ok(entry.map(|entry| (Mode::from(entry.mode()), entry.object_id())))
        })
    }

    /// The files in which two trees differ, sorted by path; a renamed one is deleted and added. gix reads the whole index to look
    /// for renames.
    pub(in crate::git) fn tree_changes(&self, old: ObjectId, new: ObjectId) -> Result<Vec<TreeChange>> {
        const WHAT: &str = "comparing trees";
        if old == new {
            return Ok(Vec::new());
        }
        let found = self.read(|gix| {
            let (before, after) = (gix.find_tree(old).during(WHAT)?, gix.find_tree(new).during(WHAT)?);
            let mut found = Recorder::default();
            gix::diff::tree(entries(&before), entries(&after), State::default(), &gix.objects, &mut found)
                .during(WHAT)?;
            Ok(found)
        })?;
        let file = |mode: EntryMode, id| (!mode.is_tree()).then(|| (Mode::from(mode), id));
        let mut sides = BTreeMap::<BString, (Option<Version>, Option<Version>)>::new();
        for change in found.records {
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
        Ok(sides.into_iter().map(|(path, (old, new))| TreeChange { path, old, new }).collect())
    }

    /// Writes a tree with some files changed or removed. Adds the objects written for it, not yet synced, to `written`.
    /// A file takes the place of a folder, and a folder that of a file.
    pub(in crate::git) fn edited_tree<'a>(
        &self,
        base: ObjectId,
        changes: impl Iterator<Item = (&'a BString, Option<Version>)>,
        written: &mut Vec<ObjectId>,
    ) -> Result<ObjectId> {
        const WHAT: &str = "writing a tree";
        let (removed, set): (Vec<_>, Vec<_>) = changes.partition(|(_, version)| version.is_none());
        let (tree, new) = self.read(|gix| {
            let root = gix.find_tree(base).during(WHAT)?;
            let mut editor = Editor::new(root.decode().during(WHAT)?.into(), &gix.objects, gix.object_hash());
            for (path, _) in &removed {
                editor.remove_if_leaf(path.split_str("/").map(ByteSlice::as_bstr)).during(WHAT)?;
            }
            for (path, version) in &set {
                let Some((mode, id)) = version else { continue };
                let Some(mode) = mode.to_tree_entry_mode() else { continue };
                editor.upsert(path.split_str("/").map(ByteSlice::as_bstr), mode.kind(), *id).during(WHAT)?;
            }
            let mut new = Vec::new();
            let tree = editor.write(|tree| {
                let id = self.write(tree, WHAT)?;
                new.push(id);
                Ok::<_, GitError>(id)
            })?;
            Ok((tree, new))
        })?;
        written.extend(new);
        Ok(tree)
    }
}

fn entries<'a>(tree: &'a gix::Tree<'_>) -> TreeRefIter<'a> {
    TreeRefIter::from_bytes(&tree.data, tree.id.kind())
}
