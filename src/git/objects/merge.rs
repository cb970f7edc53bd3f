//! Merging what one commit changed into another, file by file, as `git merge` does with renames off.
//!
//! The merge that gix has is not used: it reads attributes from the index of a working tree and settings from the user's
//! configuration, and starts merge drivers, which nothing terminates. Here no program is started, and the result depends on
//! nothing but the commits, the attributes in the repository, and the names of the drivers that are configured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::index::entry::Mode;

use super::change::Version;
use super::merge_lines::merge_lines;
use super::merge_rules::{Driver, MergeRules};
use super::store::Objects;
use crate::git::error::Result;
use crate::git::path::to_path;

const WHAT: &str = "merging";

/// Number of a file's first bytes that decide whether it is binary, as in git.
const BINARY_WITHIN: usize = 8000;

/// The size in bytes up to which files are merged by lines: no code is larger, and numbers for its lines take several times
/// the memory. Git gives up at 1 GiB.
const LARGEST: u64 = 16 << 20;

/// The outcome of a merge.
#[derive(Debug, Clone)]
pub enum Merged {
    /// Both changes fit together.
    Tree(MergedTree),
    /// They do not, at these paths: relative to the root, sorted. Nothing refers to what was written.
    Conflicts(Vec<PathBuf>),
}

/// A tree with the changes of both sides; written, held against `git gc`, and not yet synced.
#[derive(Debug, Clone)]
pub struct MergedTree {
    pub(super) tree: ObjectId,
    ours: ObjectId,
    pub(super) written: Vec<ObjectId>,
}

impl MergedTree {
    /// The tree, as its full hexadecimal name.
    pub fn tree(&self) -> String {
        self.tree.to_string()
    }

    /// Returns whether it is the tree of our side, so that theirs adds nothing.
    pub fn is_empty(&self) -> bool {
        self.tree == self.ours
    }
}

/// A merge, as far as it has come.
struct Merging<'a> {
    objects: &'a Objects,
    ours: ObjectId,
    /// Read once a file was changed on both sides.
    rules: Option<MergeRules>,
    written: Vec<ObjectId>,
}

/// Does the same as [`Objects::merge`], with trees.
pub(super) fn merge(objects: &Objects, base: ObjectId, ours: ObjectId, theirs: ObjectId) -> Result<Merged> {
    let mut merging = Merging { objects, ours, rules: None, written: Vec::new() };
    let mut merged: BTreeMap<BString, Option<Version>> =
        objects.tree_changes(base, ours)?.into_iter().map(|change| (change.path, change.new)).collect();
    let (mut edits, mut conflicts) = (Vec::new(), BTreeSet::new());
    for change in objects.tree_changes(base, theirs)? {
        let version = match (merged.get(&change.path), change.new) {
            (None, theirs) => theirs,
            (Some(ours), theirs) if *ours == theirs => continue,
            (Some(Some(ours)), Some(theirs)) => match merging.file(change.path.as_ref(), change.old, *ours, theirs)? {
                Some(version) => Some(version),
                None => {
                    conflicts.insert(change.path);
                    continue;
                }
            },
            // One side deleted what the other one changed.
            _ => {
                conflicts.insert(change.path);
                continue;
            }
        };
        edits.push(change.path.clone());
        merged.insert(change.path, version);
    }
    conflicts.extend(files_above_files(&merged, &conflicts));
    if !conflicts.is_empty() {
        return Ok(Merged::Conflicts(conflicts.iter().map(|path| to_path(path.as_ref())).collect()));
    }
    let edits = edits.iter().filter_map(|path| merged.get_key_value(path)).map(|(path, version)| (path, *version));
    let tree = objects.edited_tree(ours, edits, &mut merging.written)?;
    Ok(Merged::Tree(MergedTree { tree, ours, written: merging.written }))
}

impl Merging<'_> {
    /// Merges a path that both sides have and changed differently; returns `None` on a conflict.
    fn file(&mut self, path: &BStr, base: Option<Version>, ours: Version, theirs: Version) -> Result<Option<Version>> {
        if !is_file(ours) || !is_file(theirs) {
            return Ok(None);
        }
        let Some(mode) = changed_one(base.map(|(mode, _)| mode), ours.0, theirs.0) else { return Ok(None) };
        let id = match changed_one(base.map(|(_, id)| id), ours.1, theirs.1) {
            Some(id) => Some(id),
            None => self.content(path, base.filter(|base| is_file(*base)).map(|(_, id)| id), ours.1, theirs.1)?,
        };
        Ok(id.map(|id| (mode, id)))
    }

    /// Merges the lines of a file; nothing if that is a conflict.
    fn content(
        &mut self,
        path: &BStr,
        base: Option<ObjectId>,
        ours: ObjectId,
        theirs: ObjectId,
    ) -> Result<Option<ObjectId>> {
        let rules = match &mut self.rules {
            Some(rules) => rules,
            unread => unread.insert(self.objects.read(|gix| MergeRules::read(gix, self.ours))?),
        };
        let is_union = match rules.driver(&self.objects.gix, path)? {
            Driver::Text => false,
            Driver::Union => true,
            Driver::None => return Ok(None),
        };
        let base = base.map_or_else(|| Ok(Some(Vec::new())), |base| self.text(base))?;
        let (Some(base), Some(ours), Some(theirs)) = (base, self.text(ours)?, self.text(theirs)?) else {
            return Ok(None);
        };
        let Some(lines) = merge_lines(&base, &ours, &theirs, is_union) else { return Ok(None) };
        let id = self.objects.write_blob(&lines, WHAT)?;
        self.written.push(id);
        Ok(Some(id))
    }

    /// The content of a file that can be merged by lines.
    fn text(&self, id: ObjectId) -> Result<Option<Vec<u8>>> {
        if self.objects.size(id)? > LARGEST {
            return Ok(None);
        }
        let content = self.objects.blob(id)?;
        let is_binary = content.iter().take(BINARY_WITHIN).any(|byte| *byte == 0);
        Ok(Some(content).filter(|_| !is_binary))
    }
}

/// Returns the value that both sides have, or that only one side changed; else `None`.
fn changed_one<T: PartialEq>(base: Option<T>, ours: T, theirs: T) -> Option<T> {
    if ours == theirs || Some(&ours) == base.as_ref() {
        Some(theirs)
    } else {
        (Some(&theirs) == base.as_ref()).then_some(ours)
    }
}

fn is_file((mode, _): Version) -> bool {
    matches!(mode, Mode::FILE | Mode::FILE_EXECUTABLE)
}

/// The files in whose place there would have to be a folder for other files, those in conflict among them.
fn files_above_files(merged: &BTreeMap<BString, Option<Version>>, conflicts: &BTreeSet<BString>) -> Vec<BString> {
    let is_there = |path: &BStr| merged.get(path).is_some_and(Option::is_some);
    let files = merged.iter().filter(|(_, version)| version.is_some()).map(|(path, _)| path);
    let folders = files.chain(conflicts).flat_map(|path| path.find_iter("/").map(|end| path[..end].as_bstr()));
    folders.filter(|folder| is_there(folder)).map(ToOwned::to_owned).collect()
}
