//! Changes between two commits: the files with their contents, and line counts.

use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::BString;
use gix::diff::blob::{Algorithm, Diff as LineDiff, InternedInput, diff_with_slider_heuristics};
use gix::diff::tree_with_rewrites::Change;
use gix::index::entry::Mode;
use gix::objs::tree::EntryMode;

use super::change::{TreeChange, Version};
use crate::domain::DiffStat;
use crate::git::error::{During, Result};
use crate::git::path::to_path;

/// In how many bytes at its start a file must hold a NUL to be binary; git's buffer_is_binary().
const BINARY_PROBE: usize = 8000;

/// One file of a diff.
pub(super) struct FileChange {
    pub(super) old: Option<Side>,
    pub(super) new: Option<Side>,
    /// The similarity of the two in percent, for a renamed file.
    pub(super) renamed: Option<u32>,
}

/// One file before or after.
pub(super) struct Side {
    pub(super) path: BString,
    pub(super) version: Version,
    pub(super) data: Vec<u8>,
}

impl Side {
    pub(super) fn is_binary(&self) -> bool {
        self.data.iter().take(BINARY_PROBE).any(|byte| *byte == 0)
    }
}

impl FileChange {
    /// The two contents when they can be compared line by line.
    pub(super) fn text(&self) -> Option<(&[u8], &[u8])> {
        if self.old.iter().chain(&self.new).any(Side::is_binary) {
            return None;
        }
        Some((data(&self.old), data(&self.new)))
    }

    fn stat(&self) -> DiffStat {
        match self.text() {
            Some((old, new)) => {
                let (_, diff) = lines(old, new);
                DiffStat { files: 1, added: diff.count_additions(), deleted: diff.count_removals() }
            }
            None => DiffStat { files: 1, added: 0, deleted: 0 },
        }
    }

    /// The path that the file has, or had.
    pub(super) fn path(&self) -> Option<&BString> {
        self.new.as_ref().or(self.old.as_ref()).map(|side| &side.path)
    }
}

fn data(side: &Option<Side>) -> &[u8] {
    side.as_ref().map_or(&[], |side| &side.data)
}

/// Compares two texts line by line, as git does by default.
pub(super) fn lines<'a>(old: &'a [u8], new: &'a [u8]) -> (InternedInput<&'a [u8]>, LineDiff) {
    let input = InternedInput::new(old, new);
    let diff = diff_with_slider_heuristics(Algorithm::Myers, &input);
    (input, diff)
}

/// The changes from one commit to another, file by file. Finds renames as git does by default.
pub struct Diff {
    /// Sorted by path.
    pub(super) files: Vec<FileChange>,
}

impl Diff {
    /// Returns whether it has a file that did not exist before under any name.
    pub fn adds_files(&self) -> bool {
        self.files.iter().any(|file| file.old.is_none())
    }

    /// Reads the two versions of each file in which two trees differ.
    pub(super) fn of(gix: &gix::Repository, trees: (ObjectId, ObjectId), changes: &[TreeChange]) -> Result<Diff> {
        let is_any = |side: fn(&TreeChange) -> bool| changes.iter().any(side);
        if is_any(|one| one.old.is_none()) && is_any(|one| one.new.is_none()) {
            return Ok(Diff { files: with_renames(gix, trees)? });
        }
        let read = |path: &BString, version: Option<Version>| version.map(|it| side(gix, path.clone(), it)).transpose();
        let changes = changes.iter().map(|TreeChange { path, old, new }| {
            Ok(FileChange { old: read(path, *old)?, new: read(path, *new)?, renamed: None })
        });
        Ok(Diff { files: changes.collect::<Result<_>>()? })
    }

    /// Counts the changes like `git diff --numstat`: a renamed file is one file, a binary file has no lines.
    pub fn stat(&self) -> DiffStat {
        self.files.iter().map(FileChange::stat).fold(DiffStat::default(), |all, one| DiffStat {
            files: all.files.saturating_add(one.files),
            added: all.added.saturating_add(one.added),
            deleted: all.deleted.saturating_add(one.deleted),
        })
    }

    /// Counts the changes in each file like [`Diff::stat`]; a renamed file has its new path.
    pub fn file_stats(&self) -> Vec<(PathBuf, DiffStat)> {
        let files = self.files.iter().filter_map(|change| Some((to_path(change.path()?.as_ref()), change.stat())));
        files.collect()
    }

    /// Counts the lines of each file after the change. A deleted or binary file, a link and a submodule have 0.
    pub fn file_totals(&self) -> Vec<(PathBuf, u32)> {
        let total = |change: &FileChange| change.new.as_ref().map_or(0, line_count);
        let files = self.files.iter().filter_map(|change| Some((to_path(change.path()?.as_ref()), total(change))));
        files.collect()
    }
}

/// Counts the lines of a file as an editor does, including a last one without a line break; 0 for a binary file.
fn line_count(side: &Side) -> u32 {
    if side.is_binary() || side.version.0 == Mode::COMMIT || side.version.0 == Mode::SYMLINK {
        return 0;
    }
    // A lone carriage return ends a line, too: in Python a program has as many.
    let ends: [&[u8]; 3] = [b"\r\n", b"\n", b"\r"];
    let text = ends.iter().find_map(|end| side.data.strip_suffix(*end)).unwrap_or(&side.data);
    let is_end = |at: &usize| text[*at] == b'\n' || text.get(at + 1) != Some(&b'\n');
    let breaks = memchr::memchr2_iter(b'\n', b'\r', text).filter(is_end).count();
    u32::try_from(breaks + usize::from(!side.data.is_empty())).unwrap_or(u32::MAX)
}

/// The same where files may have been renamed.
fn with_renames(gix: &gix::Repository, (a, b): (ObjectId, ObjectId)) -> Result<Vec<FileChange>> {
    const WHAT: &str = "comparing commits";
    let (old, new) = (gix.find_tree(a).during(WHAT)?, gix.find_tree(b).during(WHAT)?);
    let renames = gix::diff::Rewrites { track_empty: true, ..Default::default() };
    let options = gix::diff::Options::default().with_rewrites(Some(renames));
    let found = gix.diff_tree_to_tree(Some(&old), Some(&new), options).during(WHAT)?;
    let file =
        |path, mode: EntryMode, id| (!mode.is_tree()).then(|| side(gix, path, (Mode::from(mode), id))).transpose();
    let mut changes = Vec::new();
    for change in found {
        if change.entry_mode().is_tree() && !matches!(change, Change::Modification { .. }) {
            continue;
        }
        let (old, new, renamed) = match change {
            Change::Addition { location, entry_mode, id, .. } => (None, file(location, entry_mode, id)?, None),
            Change::Deletion { location, entry_mode, id, .. } => (file(location, entry_mode, id)?, None, None),
            Change::Modification { location, previous_entry_mode, previous_id, entry_mode, id } => {
                (file(location.clone(), previous_entry_mode, previous_id)?, file(location, entry_mode, id)?, None)
            }
            Change::Rewrite {
                source_location, source_entry_mode, source_id, diff, entry_mode, id, location, ..
            } => {
                let percent = diff.map_or(100, |diff| percent(diff.similarity));
                (file(source_location, source_entry_mode, source_id)?, file(location, entry_mode, id)?, Some(percent))
            }
        };
        if old.is_some() || new.is_some() {
            changes.push(FileChange { old, new, renamed });
        }
    }
    changes.sort_by(|a, b| a.path().cmp(&b.path()));
    Ok(changes)
}

fn side(gix: &gix::Repository, path: BString, (mode, id): Version) -> Result<Side> {
    let data = match mode == Mode::COMMIT {
        true => format!("Subproject commit {id}\n").into_bytes(),
        false => gix.find_blob(id).during("reading a file from the repository")?.take_data(),
    };
    Ok(Side { path, version: (mode, id), data })
}

/// A share as a whole percentage, rounded down as git does.
fn percent(share: f32) -> u32 {
    (0..=100).rev().find(|percent| *percent as f32 <= share * 100.0).unwrap_or(0)
}
