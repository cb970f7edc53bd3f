//! Writing to standard output and standard error, which may be gone: a closed pipe or terminal stops nothing.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use autoresearch::measure::PlainText;
use serde_json::Value;

/// Whether the last write that was begun is one to a terminal.
static TO_TERMINAL: AtomicBool = AtomicBool::new(false);

/// Whether nothing is written any more.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Notes that a write begins, and gives whether it should.
fn begin(stream: &impl IsTerminal) -> bool {
    TO_TERMINAL.store(stream.is_terminal(), Ordering::Relaxed);
    !GIVEN_UP.load(Ordering::Relaxed)
}

/// Notes that something else begins to draw on standard error.
pub(super) fn begin_drawing() {
    begin(&std::io::stderr());
}

/// Whether a write that does not come to its end is held up by a terminal.
pub(super) fn waits_for_terminal() -> bool {
    TO_TERMINAL.load(Ordering::Relaxed)
}

/// Writes nothing more: a write that another thread has begun does not come to its end, and the next one would wait
/// for it.
pub(super) fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// The files that standard output and standard error go to, where the system names them.
pub(super) fn files() -> Vec<PathBuf> {
    let named = ["1", "2"].iter().filter_map(|stream| fs::read_link(Path::new("/proc/self/fd").join(stream)).ok());
    named.filter(|path| path.is_file()).collect()
}

/// Writes a line to standard output.
pub(super) fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// Writes text that already ends its lines to standard output.
pub(super) fn text(text: &str) {
    if begin(&std::io::stdout()) {
        let mut out = anstream::stdout().lock();
        let _ = write!(out, "{text}").and_then(|()| out.flush());
    }
}

/// Writes bytes to standard output as they are.
pub(super) fn bytes(bytes: &[u8]) {
    if begin(&std::io::stdout()) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }
}

/// Writes bytes of others, such as a diff or a log: to a terminal without what it would obey, elsewhere as they are.
pub(super) fn foreign(bytes: &[u8]) {
    if std::io::stdout().is_terminal() {
        let mut plain = PlainText::default();
        let text = [plain.push(bytes), plain.finish()].concat();
        self::bytes(&text);
    } else {
        self::bytes(bytes);
    }
}

/// Writes a JSON document on one line to standard output.
pub(super) fn json_line(value: &Value) {
    bytes(format!("{value}\n").as_bytes());
}

/// Writes a JSON document, indented, to standard output.
pub(super) fn json(value: &Value) {
    bytes(format!("{value:#}\n").as_bytes());
}

/// Writes a line to standard error.
pub(super) fn note(text: &str) {
    if begin(&std::io::stderr()) {
        let mut err = anstream::stderr().lock();
        let _ = writeln!(err, "{text}");
    }
}

/// Whether a person can be asked.
pub(super) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// How many columns the terminal has, where standard output is one.
pub(super) fn width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0)
}

/// How many columns the terminal has, where standard error is one.
pub(super) fn note_width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0)
}

/// How many columns a line takes, styles not counted.
pub(super) fn columns(line: &str) -> usize {
    anstream::adapter::strip_str(line).map(|text| text.chars().map(char_columns).sum::<usize>()).sum()
}

/// A line cut to `width` columns, with `…` for what is missing; as it is where there is no terminal.
pub(super) fn fit(line: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from).filter(|width| columns(line) > *width) else { return line.to_owned() };
    let mut cut = String::new();
    let mut left = width.saturating_sub(1);
    let mut full = false;
    let mut in_style = false;
    for c in line.chars() {
        // Styles take no room, and one that was begun must also end.
        if in_style || c == '\u{1b}' {
            cut.push(c);
            in_style = c != 'm';
        } else if !full && char_columns(c) <= left {
            cut.push(c);
            left -= char_columns(c);
        } else if !full {
            full = true;
            cut.push('…');
        }
    }
    cut
}

/// How many columns a character takes: two in the East Asian wide blocks and for pictures, else one.
fn char_columns(c: char) -> usize {
    const WIDE: &[std::ops::RangeInclusive<u32>] = &[
        0x1100..=0x115f,
        0x2e80..=0xa4cf,
        0xac00..=0xd7a3,
        0xf900..=0xfaff,
        0xfe30..=0xfe6f,
        0xff00..=0xff60,
        0xffe0..=0xffe6,
        0x1f300..=0x1faff,
        0x20000..=0x3fffd,
    ];
    1 + usize::from(WIDE.iter().any(|block| block.contains(&u32::from(c))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_the_terminal_and_never_elsewhere() {
        assert_eq!(fit("a long line", None), "a long line");
        assert_eq!(fit("a long line", Some(11)), "a long line");
        assert_eq!(fit("a long line", Some(10)), "a long li…");
        assert_eq!(fit("你好吗", Some(5)), "你好…");
        assert_eq!(fit("\u{1b}[32mkeep\u{1b}[0m it", Some(3)), "\u{1b}[32mke…\u{1b}[0m");
        assert_eq!(columns("\u{1b}[32mkeep\u{1b}[0m 你"), 7);
    }
}
