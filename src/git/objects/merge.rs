//! Merging what one commit changed into another, file by file and line by line, as `git merge` does with renames off. Changes
//! that adjoin without sharing a line merge too, where git wants a line between them: what is merged is measured.
//!
//! The merge that gix has is not used: it reads attributes from the index of a working tree and settings from the user's
//! configuration, and starts merge drivers, which nothing terminates. Here no program is started, and the result depends on
//! nothing but the commits, the attributes in the repository, and the names of the drivers that are configured.
//!
//! Lines are aligned by the histogram algorithm, over the whole file, without the heuristic for indentation. gix's own text
//! merge aligns them in another way: in 20,000 random merges, it merged four conflicts of git's, once with the same lines
//! twice, and gave another file 26 times, mostly in unions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::{Peekable, empty};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice::Iter;

use gix::ObjectId;
use gix::attrs::search::{MetadataCollection, Outcome};
use gix::attrs::{Search, StateRef};
use gix::bstr::{BStr, BString, ByteSlice};
use gix::diff::blob::sources::byte_lines;
use gix::diff::blob::{Algorithm, Diff, Hunk, InternedInput, Interner, NoSliderHeuristic, Token};
use gix::glob::pattern::Case;
use gix::index::State;
use gix::index::entry::Mode;
use gix::worktree::stack::state::Attributes;
use gix::worktree::stack::state::attributes::Source;
use gix::worktree::{Stack, stack};

use super::is_binary;
use crate::git::{During, Objects, Result, Version, to_path};

const WHAT: &str = "merging";

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
        Ok(Some(content).filter(|content| !is_binary(content)))
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

/// The most lines between two conflicts that count as one, as in git.
const GAP: u32 = 3;

/// A stretch of lines in which a side differs from the base, or both do.
#[derive(Debug)]
struct Region {
    ours: Range<u32>,
    theirs: Range<u32>,
    changed: Changed,
}

/// By whom a stretch of lines was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Ours,
    Theirs,
    /// By both, and not alike: a conflict.
    Both,
}

/// The lines of three versions, as numbers.
struct Lines<'a> {
    interner: Interner<&'a [u8]>,
    base: Vec<Token>,
    ours: Vec<Token>,
    theirs: Vec<Token>,
}

/// Merges what changed from `base` to `ours` and to `theirs`; nothing if that is a conflict. With `is_union`, the result has
/// the lines of both sides where they are in conflict, ours first.
fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8], is_union: bool) -> Option<Vec<u8>> {
    let lines = Lines::of(base, ours, theirs);
    let apart = regions(&lines, false);
    if is_union {
        return lines.merged(&joined(apart.into_iter().flat_map(|region| lines.split(region)).collect()), true);
    }
    lines.merged(&apart, false).or_else(|| lines.merged(&regions(&lines, true), false))
}

/// Finds the regions in which the sides differ from the base, in order. Joins changes that share a line or insert at the same
/// place, and those that touch, unless they `may_adjoin`. Omits changes that both sides made alike.
fn regions(lines: &Lines<'_>, may_adjoin: bool) -> Vec<Region> {
    let [ours, theirs] = [&lines.ours, &lines.theirs].map(|side| lines.hunks(&lines.base, side));
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    let mut regions: Vec<Region> = Vec::new();
    let touching = u32::from(!may_adjoin);
    loop {
        // Maps a line of the base between changes to its place on a side.
        let base = number_of(&lines.base);
        let place = |next: &mut Peekable<Iter<'_, Hunk>>, side: &[Token], line: u32| match next.peek() {
            Some(hunk) => (line + hunk.after.start).saturating_sub(hunk.before.start),
            None => (line + number_of(side)).saturating_sub(base),
        };
        let is_before = |a: &Hunk, b: &Hunk| match a.before.end.cmp(&b.before.start) {
            Ordering::Equal => may_adjoin && a.before != b.before,
            order => order.is_lt(),
        };
        let (a, b) = match (ours.peek().copied(), theirs.peek().copied()) {
            (Some(a), Some(b)) if is_before(a, b) => (Some(a), None),
            (Some(a), Some(b)) if is_before(b, a) => (None, Some(b)),
            both => both,
        };
        let region = match (a, b) {
            (Some(a), None) => {
                ours.next();
                let at = |line| place(&mut theirs, &lines.theirs, line);
                let there = [a.before.start, a.before.end].map(at);
                Region { ours: a.after.clone(), theirs: there[0]..there[1], changed: Changed::Ours }
            }
            (None, Some(b)) => {
                theirs.next();
                let at = |line| place(&mut ours, &lines.ours, line);
                let there = [b.before.start, b.before.end].map(at);
                Region { ours: there[0]..there[1], theirs: b.after.clone(), changed: Changed::Theirs }
            }
            (Some(a), Some(b)) => {
                if a.before.end >= b.before.end {
                    theirs.next();
                }
                if b.before.end >= a.before.end {
                    ours.next();
                }
                if a.before == b.before && part(&lines.ours, &a.after) == part(&lines.theirs, &b.after) {
                    continue;
                }
                let start = a.before.start.min(b.before.start);
                let end = a.before.end.max(b.before.end);
                let whole = |hunk: &Hunk| {
                    // A start before the last region is that of the region.
                    (hunk.after.start + start).saturating_sub(hunk.before.start)
                        ..hunk.after.end + (end - hunk.before.end)
                };
                Region { ours: whole(a), theirs: whole(b), changed: Changed::Both }
            }
            (None, None) => return regions,
        };
        add_region(&mut regions, region, touching);
    }
}

/// Adds the next region; one that begins less than `touching` lines behind the last one becomes part of that.
fn add_region(regions: &mut Vec<Region>, region: Region, touching: u32) {
    match regions.last_mut() {
        Some(last)
            if region.ours.start < last.ours.end + touching || region.theirs.start < last.theirs.end + touching =>
        {
            if last.changed != region.changed {
                last.changed = Changed::Both;
            }
            (last.ours.end, last.theirs.end) = (region.ours.end, region.theirs.end);
        }
        _ => regions.push(region),
    }
}

/// Conflicts with few lines between them as one.
fn joined(regions: Vec<Region>) -> Vec<Region> {
    let mut joined: Vec<Region> = Vec::new();
    for region in regions {
        match joined.last_mut() {
            Some(last)
                if last.changed == Changed::Both
                    && region.changed == Changed::Both
                    && region.ours.start - last.ours.end <= GAP =>
            {
                (last.ours.end, last.theirs.end) = (region.ours.end, region.theirs.end);
            }
            _ => joined.push(region),
        }
    }
    joined
}

impl<'a> Lines<'a> {
    fn of(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Lines<'a> {
        let mut input = InternedInput::default();
        let mut lines = |content: &'a [u8]| {
            input.update_after(byte_lines(content));
            std::mem::take(&mut input.after)
        };
        let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
        Lines { interner: input.interner, base, ours, theirs }
    }

    /// Finds the hunks in which the lines of `after` differ from those of `before`.
    fn hunks(&self, before: &[Token], after: &[Token]) -> Vec<Hunk> {
        // Git aligns whole files, gix what remains without the lines that are the same at both ends: unless those differ.
        let known = self.interner.num_tokens();
        let framed = |lines: &[Token], first| [&[Token(first)], lines, &[Token(first + 1)]].concat();
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Histogram, &framed(before, known), &framed(after, known + 2), known + 4);
        // The same alignment without the frame: each line has a number of its own, or that of the line that it stays.
        let lines = number_of(before) + number_of(after);
        let numbered = |side: &[Token], is_changed: &dyn Fn(u32) -> bool, changed: u32| -> Vec<Token> {
            let mut kept = 0..;
            let number = |line| if is_changed(line + 1) { Some(changed + line) } else { kept.next() };
            (0..number_of(side)).filter_map(number).map(Token).collect()
        };
        let from = numbered(before, &|line| diff.is_removed(line), lines);
        let to = numbered(after, &|line| diff.is_added(line), 2 * lines);
        diff.compute_with(Algorithm::Histogram, &from, &to, 3 * lines);
        diff.postprocess_with(before, after, NoSliderHeuristic);
        diff.hunks().collect()
    }

    /// A conflict without the lines that both sides have in it; anything else as it is.
    fn split(&self, region: Region) -> Vec<Region> {
        if region.changed != Changed::Both || region.ours.is_empty() || region.theirs.is_empty() {
            return vec![region];
        }
        let hunks = self.hunks(part(&self.ours, &region.ours), part(&self.theirs, &region.theirs));
        if hunks.is_empty() {
            return vec![Region { changed: Changed::Ours, ..region }];
        }
        let shifted = |range: &Range<u32>, start: u32| range.start + start..range.end + start;
        let part = |hunk: &Hunk| Region {
            ours: shifted(&hunk.before, region.ours.start),
            theirs: shifted(&hunk.after, region.theirs.start),
            changed: Changed::Both,
        };
        hunks.iter().map(part).collect()
    }

    /// The lines of all regions and those between them; nothing if there is a conflict.
    fn merged(&self, regions: &[Region], is_union: bool) -> Option<Vec<u8>> {
        let (mut merged, mut done, mut is_glued) = (Vec::new(), 0, false);
        let mut add = |merged: &mut Vec<u8>, lines: &[Token]| {
            is_glued |= !lines.is_empty() && merged.last().is_some_and(|last| *last != b'\n');
            lines.iter().for_each(|line| merged.extend_from_slice(self.interner[*line]));
        };
        for region in regions {
            add(&mut merged, part(&self.ours, &(done..region.ours.start)));
            done = region.ours.end;
            let (ours, theirs) = (part(&self.ours, &region.ours), part(&self.theirs, &region.theirs));
            match region.changed {
                Changed::Ours => add(&mut merged, ours),
                Changed::Theirs => add(&mut merged, theirs),
                Changed::Both if ours == theirs && !ours.is_empty() => add(&mut merged, ours),
                Changed::Both if is_union => {
                    add(&mut merged, ours);
                    if ours.last().is_some_and(|last| !self.interner[*last].ends_with(b"\n")) {
                        merged.extend_from_slice(self.line_end(region));
                    }
                    add(&mut merged, theirs);
                }
                Changed::Both => return None,
            }
        }
        add(&mut merged, part(&self.ours, &(done..number_of(&self.ours))));
        // A last line without its end, and a line that the other side added after it.
        (is_union || !is_glued).then_some(merged)
    }

    /// The line end to add to an unterminated last line of ours in a union. As in git, CRLF if the base's first line has it,
    /// unless the line before, on either side, ends in LF.
    fn line_end(&self, region: &Region) -> &'static [u8] {
        let before = |start: u32| start.saturating_sub(1) as usize;
        let sides = [(&self.ours, before(region.ours.start)), (&self.theirs, before(region.theirs.start))];
        let is_crlf = sides.iter().all(|(side, line)| self.ends_in_crlf(side, *line) != Some(false))
            && self.ends_in_crlf(&self.base, 0) == Some(true);
        if is_crlf { b"\r\n" } else { b"\n" }
    }

    /// Returns whether a line ends in CRLF. If it has no line end, the line before decides.
    fn ends_in_crlf(&self, side: &[Token], line: usize) -> Option<bool> {
        let content = |line: usize| side.get(line).map(|token| self.interner[*token]);
        let ended = content(line).filter(|line| line.ends_with(b"\n")).or_else(|| content(line.checked_sub(1)?))?;
        Some(ended.ends_with(b"\r\n"))
    }
}

fn part<'t>(lines: &'t [Token], range: &Range<u32>) -> &'t [Token] {
    &lines[range.start as usize..range.end as usize]
}

/// Returns the number of lines, which fits: a file that is merged has fewer than 2^32 bytes.
fn number_of(lines: &[Token]) -> u32 {
    u32::try_from(lines.len()).unwrap_or(u32::MAX)
}

const RULES: &str = "reading attributes";

/// The way to merge the lines of a file that both sides changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    /// Reports a conflict if both sides changed the same lines.
    Text,
    /// Takes the lines of both sides if they changed the same ones.
    Union,
    /// Does not merge: the file is taken for binary, or a program would have to merge it.
    None,
}

/// The attributes and drivers that decide how files are merged.
pub(super) struct MergeRules {
    /// The attributes of the repository's `info/attributes`, which go first, and those of a tree.
    attributes: [(Stack, Outcome); 2],
    /// The names of drivers that are programs.
    programs: Vec<BString>,
}

impl MergeRules {
    /// The rules that hold for a merge into `tree`. The user's own attributes are left out.
    pub(super) fn read(gix: &gix::Repository, tree: ObjectId) -> Result<MergeRules> {
        let index = gix.index_from_tree(&tree).during(RULES)?;
        let attributes = [attributes(gix, &State::new(gix.object_hash()))?, attributes(gix, &index)?];
        let config = gix.config_snapshot();
        let sections = config.plumbing().sections_by_name("merge").into_iter().flatten();
        let programs = sections.filter_map(|section| section.header().subsection_name().map(ToOwned::to_owned));
        Ok(MergeRules { attributes, programs: programs.collect() })
    }

    /// Returns the driver that merges the file at `path`.
    pub(super) fn driver(&mut self, gix: &gix::Repository, path: &BStr) -> Result<Driver> {
        for (stack, found) in &mut self.attributes {
            stack.at_path(path, None, &gix.objects).during(RULES)?.matching_attributes(found);
            let Some(matched) = found.iter_selected().next() else { continue };
            return Ok(match matched.assignment.state {
                StateRef::Unspecified => continue,
                StateRef::Set => Driver::Text,
                StateRef::Unset => Driver::None,
                StateRef::Value(name) if self.programs.iter().any(|program| name.as_bstr() == program) => Driver::None,
                StateRef::Value(name) if name.as_bstr() == "binary" => Driver::None,
                StateRef::Value(name) if name.as_bstr() == "union" => Driver::Union,
                StateRef::Value(_) => Driver::Text,
            });
        }
        Ok(Driver::Text)
    }
}

/// The attributes that the attribute files in `index` and `info` give to what is below `root`, with git's own macros alone, such
/// as `binary`.
pub(in crate::git) fn attributes_in(root: &Path, index: &State, info: Option<PathBuf>, case: Case) -> Result<Stack> {
    let (mut buffer, mut collection) = (Vec::new(), MetadataCollection::default());
    let globals = Search::new_globals(empty::<PathBuf>(), &mut buffer, &mut collection).during(RULES)?;
    let attributes = Attributes::new(globals, info, Source::IdMapping, collection);
    let state = stack::State::AttributesStack(attributes);
    let files = state.id_mappings_from_index(index, index.path_backing(), case);
    Ok(Stack::new(root, state, case, buffer, files))
}

/// The attribute `merge` as `info/attributes` and the attribute files in `index` set it.
fn attributes(gix: &gix::Repository, index: &State) -> Result<(Stack, Outcome)> {
    let info = gix.common_dir().join("info").join("attributes");
    let root = gix.workdir().unwrap_or_else(|| gix.git_dir());
    let stack = attributes_in(root, index, Some(info), Case::Sensitive)?;
    let found = stack.selected_attribute_matches(["merge"]);
    Ok((stack, found))
}
