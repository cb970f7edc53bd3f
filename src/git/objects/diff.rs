//! Changes between two commits: the files with their contents, line counts, and the text that `git diff` prints.

use std::io;
use std::io::Write;
use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::diff::blob::unified_diff::{ConsumeHunk, ContextSize, DiffLineKind, HunkHeader};
use gix::diff::blob::{Algorithm, Diff as LineDiff, InternedInput, UnifiedDiff, diff_with_slider_heuristics};
use gix::diff::tree_with_rewrites::Change;
use gix::index::entry::Mode;
use gix::objs::tree::EntryMode;

use crate::domain::DiffStat;
use crate::git::{During, Result, quote, to_path};

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

/// Returns whether a content is binary, as git tells it.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.iter().take(BINARY_PROBE).any(|byte| *byte == 0)
}

impl Side {
    pub(super) fn is_binary(&self) -> bool {
        is_binary(&self.data)
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

/// Most bytes of a function's line that follow `@@`; git's limit.
const FUNCTION_WIDTH: usize = 80;

/// Prints a diff.
pub(super) fn print(gix: &gix::Repository, diff: Diff) -> Vec<u8> {
    let quote_high = gix.config_snapshot().boolean("core.quotePath").unwrap_or(true);
    let printer = DiffPrinter { gix, quote_high };
    let mut text = Vec::new();
    for change in diff.files {
        let version = |side: &Option<Side>| side.as_ref().map(|side| side.version);
        let kind = ChangeKind::of(version(&change.old), version(&change.new));
        match change {
            FileChange { old: Some(old), new: Some(new), .. } if kind == ChangeKind::TypeChanged => {
                printer.file(&FileChange { old: Some(old), new: None, renamed: None }, &mut text);
                printer.file(&FileChange { old: None, new: Some(new), renamed: None }, &mut text);
            }
            change => printer.file(&change, &mut text),
        }
    }
    text
}

struct DiffPrinter<'repo> {
    gix: &'repo gix::Repository,
    quote_high: bool,
}

impl DiffPrinter<'_> {
    fn file(&self, change: &FileChange, out: &mut Vec<u8>) {
        let FileChange { old, new, renamed } = change;
        let Some(path) = change.path() else { return };
        let name = |prefix: &str, side: &Option<Side>| self.name(prefix, side.as_ref().map_or(path, |side| &side.path));
        let (old_name, new_name) = (name("a/", old), name("b/", new));
        line(out, &[b"diff --git ", &old_name, b" ", &new_name]);
        match (old, new) {
            (None, Some(new)) => line(out, &[format!("new file mode {}", octal(new)).as_bytes()]),
            (Some(old), None) => line(out, &[format!("deleted file mode {}", octal(old)).as_bytes()]),
            (Some(old), Some(new)) => {
                if old.version.0 != new.version.0 {
                    line(out, &[format!("old mode {}", octal(old)).as_bytes()]);
                    line(out, &[format!("new mode {}", octal(new)).as_bytes()]);
                }
                if let Some(percent) = renamed {
                    line(out, &[format!("similarity index {percent}%").as_bytes()]);
                    line(out, &[b"rename from ", &self.name("", &old.path)]);
                    line(out, &[b"rename to ", &self.name("", &new.path)]);
                }
            }
            (None, None) => {}
        }
        let id = |side: &Option<Side>| side.as_ref().map(|side| side.version.1);
        if id(old) == id(new) {
            return;
        }
        let (from, to) = (self.short(id(old), id(new)), self.short(id(new), id(old)));
        let mode = match (old, new) {
            (Some(old), Some(new)) if old.version.0 == new.version.0 => format!(" {}", octal(new)),
            _ => String::new(),
        };
        line(out, &[format!("index {from}..{to}{mode}").as_bytes()]);
        let header = |side: &Option<Side>, name: BString| if side.is_some() { name } else { "/dev/null".into() };
        let (old_name, new_name) = (header(old, old_name), header(new, new_name));
        let Some((before, after)) = change.text() else {
            line(out, &[b"Binary files ", &old_name, b" and ", &new_name, b" differ"]);
            return;
        };
        if before != after {
            line(out, &[b"--- ", &old_name, ending(&old_name)]);
            line(out, &[b"+++ ", &new_name, ending(&new_name)]);
            let (input, diff) = lines(before, after);
            // A buffer takes everything.
            let _ = UnifiedDiff::new(&diff, &input, Hunks { input: &input, out }, ContextSize::default()).consume();
        }
    }

    fn name(&self, prefix: &str, path: &BString) -> BString {
        let mut name = BString::from(prefix);
        name.extend_from_slice(path);
        quote(name.as_bstr(), self.quote_high)
    }

    /// The shortest unique form of a name; zeros, as many as `other` has digits, for a file that is not there.
    fn short(&self, id: Option<ObjectId>, other: Option<ObjectId>) -> String {
        use gix::prelude::ObjectIdExt;
        let shorten = |id: ObjectId| id.attach(self.gix).shorten_or_id().to_string();
        match (id, other) {
            (Some(id), _) => shorten(id),
            (None, other) => "0".repeat(other.map_or(7, |other| shorten(other).len())),
        }
    }
}

/// Returns what git puts after a name: a tab if it contains a space, so that `patch` sees its end.
fn ending(name: &BString) -> &'static [u8] {
    if name.contains(&b' ') { b"\t" } else { b"" }
}

fn octal(side: &Side) -> String {
    let mode: Mode = side.version.0;
    format!("{:06o}", mode.bits())
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.push(b'\n');
}

/// Writes hunks as git does.
struct Hunks<'a> {
    input: &'a InternedInput<&'a [u8]>,
    out: &'a mut Vec<u8>,
}

impl ConsumeHunk for Hunks<'_> {
    type Out = ();

    fn consume_hunk(&mut self, header: HunkHeader, lines: &[(DiffLineKind, &[u8])]) -> io::Result<()> {
        let HunkHeader { before_hunk_start, before_hunk_len, after_hunk_start, after_hunk_len } = header;
        let (old, new) = (range(before_hunk_start, before_hunk_len), range(after_hunk_start, after_hunk_len));
        write!(self.out, "@@ -{old} +{new} @@")?;
        if let Some(function) = function_above(self.input, before_hunk_start - 1) {
            self.out.push(b' ');
            self.out.extend_from_slice(function);
        }
        self.out.push(b'\n');
        lines.iter().for_each(|(kind, line)| body(self.out, kind.to_prefix() as u8, line));
        Ok(())
    }

    fn finish(self) {}
}

fn body(out: &mut Vec<u8>, sign: u8, line: &[u8]) {
    out.push(sign);
    out.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        out.extend_from_slice(b"\n\\ No newline at end of file\n");
    }
}

/// A range of lines as in a hunk's header: counted from 1, the count left out when it is 1, and the line before when
/// there is none.
fn range(start: u32, count: u32) -> String {
    match count {
        0 => format!("{},0", start - 1),
        1 => start.to_string(),
        count => format!("{start},{count}"),
    }
}

/// The nearest line above `start` that begins with a letter, `_` or `$`, as git shows it behind `@@`.
fn function_above<'a>(input: &InternedInput<&'a [u8]>, start: u32) -> Option<&'a [u8]> {
    let names =
        |line: &&[u8]| line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'));
    let mut above = input.before.iter().take(start as usize).rev().map(|token| input.interner[*token]);
    let line = above.find(names)?;
    Some(line[..line.len().min(FUNCTION_WIDTH)].trim_end())
}

/// One file as the index or a tree has it.
pub(in crate::git) type Version = (Mode, ObjectId);

/// One file in which two trees differ, with what each has.
#[derive(Debug, Clone)]
pub(in crate::git) struct TreeChange {
    pub(in crate::git) path: BString,
    pub(in crate::git) old: Option<Version>,
    pub(in crate::git) new: Option<Version>,
}

/// The kind of difference between two versions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or its executable bit changed.
    Modified,
    /// It was a file and is a symbolic link, or the like.
    TypeChanged,
}

impl ChangeKind {
    /// Returns the kind of difference. Both sides are missing only for a file in conflict, or one only meant to be
    /// added.
    pub(in crate::git) fn of(old: Option<Version>, new: Option<Version>) -> ChangeKind {
        let file = |mode| matches!(mode, Mode::FILE | Mode::FILE_EXECUTABLE);
        match (old, new) {
            (None, _) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some((old, _)), Some((new, _))) if old == new || (file(old) && file(new)) => ChangeKind::Modified,
            _ => ChangeKind::TypeChanged,
        }
    }
}

/// The kind of a tree's entry at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A symbolic link.
    Link,
    /// The commit of a repository of its own: a submodule.
    Repository,
}

impl EntryKind {
    pub(in crate::git) fn of(mode: Mode) -> EntryKind {
        match mode {
            Mode::SYMLINK => EntryKind::Link,
            Mode::COMMIT => EntryKind::Repository,
            _ => EntryKind::File,
        }
    }
}

/// One file that differs from the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The file, relative to the working tree.
    pub path: PathBuf,
    /// The kind of difference.
    pub kind: ChangeKind,
    /// Its kind of entry; for a deleted file, the former kind.
    pub entry: EntryKind,
    /// The size of its new content in git, in bytes; 0 when it is deleted.
    pub size: u64,
}
