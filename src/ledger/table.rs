//! Ledgers as tables: lines of cells, whatever stands between the cells.

use std::borrow::Cow;
use std::collections::VecDeque;

use memchr::memchr_iter;

use super::aligned::{self, Stops};
use super::text::{Cells, TextLines};

/// Maximum number of lines in a quoted cell; if it spans more, its quote counts as a character.
const LONGEST_CELL: usize = 64;

/// The kind of a ledger's file, as a sentence names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::Display)]
pub enum Form {
    /// Cells with tabs between them.
    #[default]
    #[strum(to_string = "tab-separated")]
    Tabs,
    /// Cells with commas between them, in double quotes where they need it.
    #[strum(to_string = "comma-separated")]
    Commas,
    /// The same with semicolons.
    #[strum(to_string = "semicolon-separated")]
    Semicolons,
    /// Columns that are aligned with blanks.
    #[strum(to_string = "a table aligned with blanks")]
    Aligned,
    /// A Markdown table.
    #[strum(to_string = "a Markdown table")]
    Markdown,
    /// A JSON object a line.
    #[strum(to_string = "JSON lines")]
    JsonLines,
    /// An array of JSON objects.
    #[strum(to_string = "a JSON array")]
    JsonArray,
}

impl Form {
    /// Tells the form by the first line that is neither blank nor a comment; of a text with a line such as `| - | - |` it is
    /// Markdown.
    pub(super) fn of(text: &str) -> Form {
        let is_row = |line: &&str| !line.trim().is_empty() && !is_comment(line);
        let Some(first) = TextLines::new(text).find(is_row) else { return Form::Tabs };
        let start = first.trim_start();
        if text.trim_start().strip_prefix('[').is_some_and(|inner| inner.trim_start().starts_with(['{', ']'])) {
            return Form::JsonArray;
        }
        if start.starts_with('{') {
            return Form::JsonLines;
        }
        if start.starts_with('|') || TextLines::new(text).take(200).any(is_rule) {
            return Form::Markdown;
        }
        if !first.contains('\t') && aligned::is_table(first) {
            return Form::Aligned;
        }
        match [('\t', Form::Tabs), (',', Form::Commas), (';', Form::Semicolons)]
            .into_iter()
            .find(|(sign, _)| first.contains(*sign))
        {
            Some((_, form)) => form,
            None => Form::Tabs,
        }
    }
}

/// Returns whether a line only draws the rule of a Markdown table.
fn is_rule(line: &str) -> bool {
    line.contains('|')
        && line.contains('-')
        && line.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t'))
}

pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// A line of cells that is neither blank nor a comment.
#[derive(Debug, Clone, Default)]
pub(super) struct Line<'a> {
    /// The line in the file at which it begins, from 1.
    pub(super) number: u32,
    pub(super) cells: Cells<'a>,
}

/// The lines of a table, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Lines<'a> {
    lines: TextLines<'a>,
    /// Lines that were looked at and are still to be given, with their numbers.
    ahead: VecDeque<(u32, &'a str)>,
    form: Form,
    /// The columns at which the cells of an aligned table begin.
    stops: Stops,
    /// Number of cells in a row, once known; it shows whether a row is torn in a quoted cell.
    pub(super) width: Option<usize>,
    /// The last comment, with its line.
    pub(super) comment: Option<(u32, &'a str)>,
    /// Number of lines that are not part of a Markdown table.
    pub(super) prose: u32,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str, form: Form) -> Self {
        let (mut lines, mut prose) = (TextLines::new(text), 0);
        // The header of a Markdown table is in front of its first rule, whatever bars prose has.
        let rule = TextLines::new(text).position(is_rule).filter(|_| form == Form::Markdown).unwrap_or_default();
        for line in (1..rule).map_while(|_| lines.next()) {
            prose += u32::from(!line.trim().is_empty() && !is_comment(line));
        }
        Lines { lines, ahead: VecDeque::new(), form, stops: Stops::default(), width: None, comment: None, prose }
    }

    /// Reads the next line of cells into `line`; false at the end.
    pub(super) fn read(&mut self, line: &mut Line<'a>) -> bool {
        while let Some((number, text)) = self.next_line() {
            // `# | time` is a header without a first bar.
            if is_comment(text) && !(self.form == Form::Markdown && text.contains('|')) {
                self.comment = Some((number, text));
                continue;
            }
            let draws = match self.form {
                Form::Markdown => is_rule(text),
                Form::Aligned => aligned::is_rule(text),
                _ => false,
            };
            if draws || text.trim().is_empty() {
                continue;
            }
            if self.form == Form::Markdown && !text.contains('|') {
                self.prose += 1;
                continue;
            }
            line.number = number;
            self.split(text, &mut line.cells);
            match self.form {
                Form::Tabs => self.repair_torn(text, &mut line.cells),
                Form::Commas | Form::Semicolons => self.repair_open(text, &mut line.cells),
                _ => {}
            }
            if line.cells.iter().any(|cell| !cell.trim().is_empty()) {
                return true;
            }
        }
        false
    }

    /// Takes a comment's text apart as a line of cells.
    pub(super) fn comment_cells(&mut self) -> Option<(u32, Cells<'a>)> {
        let (number, text) = self.comment?;
        let text = text.trim_start();
        let mut cells = Cells::new();
        // `# commit` is a commented header, `#` alone a column's name.
        self.split(if text.starts_with("#\t") { text } else { text.trim_start_matches('#') }, &mut cells);
        Some((number, cells))
    }

    fn next_line(&mut self) -> Option<(u32, &'a str)> {
        self.ahead.pop_front().or_else(|| {
            let text = self.lines.next()?;
            Some((self.lines.number, text))
        })
    }

    /// The line at a place among those still to come.
    fn peek(&mut self, place: usize) -> Option<&'a str> {
        while self.ahead.len() <= place {
            let text = self.lines.next()?;
            self.ahead.push_back((self.lines.number, text));
        }
        Some(self.ahead[place].1)
    }

    fn split(&mut self, text: &'a str, cells: &mut Cells<'a>) {
        cells.clear();
        match self.form {
            Form::Tabs | Form::JsonLines | Form::JsonArray => split_tabs(text, cells),
            Form::Commas => split_quoted(text, ',', cells),
            Form::Semicolons => split_quoted(text, ';', cells),
            Form::Aligned => self.stops.split(text, cells),
            Form::Markdown => split_bars(text, cells),
        }
    }

    /// Joins a row of too few cells that ends in an open quote with the lines behind it that are no rows either, where
    /// that makes a row: a line break within a quoted cell. Other quotes are characters.
    fn repair_torn(&mut self, text: &'a str, cells: &mut Cells<'a>) {
        let Some(width) = self.width else { return };
        let opens = |cell: &str| cell.starts_with('"') && !cell[1..].ends_with('"');
        if cells.len() > width || !cells.last().is_some_and(|last| opens(last)) {
            return;
        }
        for place in 0..LONGEST_CELL {
            let Some(next) = self.peek(place) else { return };
            let ends = next.split('\t').next().is_some_and(|cell| cell.ends_with('"'));
            // A line that is a row by itself belongs to nobody else.
            if (!ends && next.contains('\t')) || next.split('\t').count() == width {
                return;
            }
            if ends {
                return self.join(text, place, '\t', Some(width), cells);
            }
        }
    }

    /// Joins a line that ends within a quoted cell with the lines up to the one that ends the cell. A quote that is never ended
    /// is a character.
    fn repair_open(&mut self, text: &'a str, cells: &mut Cells<'a>) {
        if is_balanced(text) {
            return;
        }
        let sign = if self.form == Form::Commas { ',' } else { ';' };
        for place in 0..LONGEST_CELL {
            let Some(next) = self.peek(place) else { return };
            if !is_balanced(next) {
                let width = self.width;
                return self.join(text, place, sign, width, cells);
            }
        }
    }

    /// Joins a line with those up to a place among the next ones, where that makes a row of this width, or any row where none is
    /// known.
    fn join(&mut self, text: &str, place: usize, sign: char, width: Option<usize>, cells: &mut Cells<'a>) {
        let joined = self.ahead.iter().take(place + 1).fold(text.to_owned(), |joined, (_, next)| joined + "\n" + next);
        let mut whole = Cells::new();
        split_quoted(&joined, sign, &mut whole);
        if width.is_none_or(|width| whole.len() == width) {
            self.ahead.drain(..=place);
            *cells = whole.into_iter().map(|cell| Cow::Owned(cell.into_owned())).collect();
        }
    }
}

fn is_balanced(text: &str) -> bool {
    memchr_iter(b'"', text.as_bytes()).count().is_multiple_of(2)
}

fn split_tabs<'a>(text: &'a str, cells: &mut Cells<'a>) {
    let mut from = 0;
    for tab in memchr_iter(b'\t', text.as_bytes()) {
        cells.push(Cow::Borrowed(&text[from..tab]));
        from = tab + 1;
    }
    cells.push(Cow::Borrowed(&text[from..]));
}

/// Splits at a sign that does not stand in a quoted cell; `""` in one is a quote. A quote elsewhere, or one that is not ended
/// in front of the sign, is a character.
fn split_quoted<'a>(text: &'a str, sign: char, cells: &mut Cells<'a>) {
    let mut rest = text;
    loop {
        let (cell, behind) = quoted_cell(rest, sign).unwrap_or_else(|| match rest.split_once(sign) {
            Some((cell, behind)) => (Cow::Borrowed(cell), Some(behind)),
            None => (Cow::Borrowed(rest), None),
        });
        cells.push(cell);
        match behind {
            Some(behind) => rest = behind,
            None => return,
        }
    }
}

/// The quoted cell at the start of `text` without its quotes, and what stands behind the sign that ends it.
fn quoted_cell(text: &str, sign: char) -> Option<(Cow<'_, str>, Option<&str>)> {
    let inner = text.trim_start_matches(' ').strip_prefix('"')?;
    let mut from = 0;
    loop {
        let end = from + inner[from..].find('"')?;
        let behind = &inner[end + 1..];
        if behind.starts_with('"') {
            from = end + 2;
            continue;
        }
        let cell = &inner[..end];
        let cell = if from == 0 { Cow::Borrowed(cell) } else { Cow::Owned(cell.replace("\"\"", "\"")) };
        let behind = behind.trim_start_matches(' ');
        return match behind.strip_prefix(sign) {
            Some(behind) => Some((cell, Some(behind))),
            None => behind.is_empty().then_some((cell, None)),
        };
    }
}

/// Splits a line of a Markdown table; `\|` is a bar, and emphasis around a cell goes.
fn split_bars(text: &str, cells: &mut Cells<'_>) {
    let text = text.trim();
    let text = text.strip_prefix('|').unwrap_or(text);
    let mut cell = String::new();
    let mut push = |cell: &mut String| {
        let shown = cell.trim();
        let bare = ["**", "`", "*"].iter().find_map(|mark| shown.strip_prefix(mark)?.strip_suffix(mark));
        cells.push(Cow::Owned(bare.unwrap_or(shown).to_owned()));
        cell.clear();
    };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            '|' => push(&mut cell),
            c => cell.push(c),
        }
    }
    // A bar at the end of the line does not start another cell.
    if !cell.trim().is_empty() || !text.ends_with('|') {
        push(&mut cell);
    }
}
