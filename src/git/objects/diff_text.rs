//! Changes between two commits, as `git diff` prints them.

use std::io::{self, Write};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::diff::blob::unified_diff::{ConsumeHunk, ContextSize, DiffLineKind, HunkHeader};
use gix::diff::blob::{InternedInput, UnifiedDiff};
use gix::index::entry::Mode;

use super::change::ChangeKind;
use super::diff::{Diff, FileChange, Side, lines};
use crate::git::path::quote;

/// Most bytes of a function's line that follow `@@`; git's limit.
const FUNCTION_WIDTH: usize = 80;

/// Prints a diff.
pub(super) fn print(gix: &gix::Repository, diff: Diff) -> Vec<u8> {
    let quote_high = gix.config_snapshot().boolean("core.quotePath").unwrap_or(true);
    let printer = Printer { gix, quote_high };
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

struct Printer<'repo> {
    gix: &'repo gix::Repository,
    quote_high: bool,
}

impl Printer<'_> {
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
