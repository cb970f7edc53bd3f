//! Ledgers as tables: text, lines and cells, whatever stands between the cells, also columns aligned with blanks;
//! results.tsv by the rules of the `csv` crate: tabs, no quotes, rows of any length.

use std::borrow::Cow;
use std::collections::VecDeque;

use csv::{QuoteStyle, ReaderBuilder, StringRecord, Terminator, WriterBuilder};
use memchr::memchr;

use super::columns::ColumnPositions;

/// Maximum number of lines in a quoted cell; if it spans more, its quote counts as a character.
const LONGEST_CELL: usize = 64;

/// The kind of a ledger's file, as a sentence names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::Display)]
pub enum LedgerForm {
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

impl LedgerForm {
    /// Tells the form by the first line that is neither blank nor a comment; of a text with a line such as `| - | - |` it is
    /// Markdown.
    pub(super) fn of(text: &str) -> LedgerForm {
        let is_row = |line: &&str| !line.trim().is_empty() && !is_comment(line);
        let Some(first) = TextLines::new(text).find(is_row) else { return LedgerForm::Tabs };
        let start = first.trim_start();
        if text.trim_start().strip_prefix('[').is_some_and(|inner| inner.trim_start().starts_with(['{', ']'])) {
            return LedgerForm::JsonArray;
        }
        if start.starts_with('{') {
            // Objects over several lines each.
            return if first.trim() == "{" { LedgerForm::JsonArray } else { LedgerForm::JsonLines };
        }
        let has_bars =
            start.starts_with(BARS) || (first.matches(BARS).count() > 1 && !first.contains(['\t', ',', ';']));
        if has_bars || TextLines::new(text).take(200).any(is_rule) {
            return LedgerForm::Markdown;
        }
        if !first.contains('\t') && is_table(first) {
            return LedgerForm::Aligned;
        }
        let forms = [LedgerForm::Tabs, LedgerForm::Commas, LedgerForm::Semicolons];
        forms.into_iter().find(|form| first.contains(form.sign())).unwrap_or_default()
    }

    /// The sign between cells.
    fn sign(self) -> char {
        match self {
            LedgerForm::Commas => ',',
            LedgerForm::Semicolons => ';',
            _ => '\t',
        }
    }
}

/// Signs between the cells of a Markdown table, and of one that a program draws.
const BARS: [char; 3] = ['|', '│', '┃'];

/// Returns whether a line only draws the rule of a Markdown table, or the frame of one that a program draws.
fn is_rule(line: &str) -> bool {
    let is_frame = |c: char| ('─'..='╿').contains(&c);
    line.contains(['|', '+', '┬', '┼', '┴', '┳', '╇', '┻'])
        && line.contains(['-', '=', '─', '━'])
        && line.chars().all(|c| matches!(c, '|' | '-' | '=' | '+' | ':' | ' ' | '\t') || is_frame(c))
}

/// The place of the rule below a header: of that with the most usual columns, else of the first.
fn header_rule(text: &str) -> Option<usize> {
    let lines: Vec<&str> = TextLines::new(text).collect();
    let usual = |rule: &usize| {
        let mut cells = Cells::new();
        split_bars(rule.checked_sub(1).map_or("", |header| lines[header]), &mut cells);
        let ColumnPositions { commit, status, description, .. } = ColumnPositions::by_name(&cells, None);
        [commit, status, description].iter().flatten().count()
    };
    (0..lines.len()).filter(|&at| is_rule(lines[at])).rev().max_by_key(usual)
}

pub(super) fn is_comment(line: &str) -> bool {
    // Excel's line with the sign between cells.
    line.trim_start().starts_with('#') || (line.starts_with("sep=") && line.len() <= 6)
}

/// A line of cells that is neither blank nor a comment.
#[derive(Debug, Clone, Default)]
pub(super) struct TableLine<'a> {
    /// The line in the file at which it begins, from 1.
    pub(super) number: u32,
    pub(super) cells: Cells<'a>,
}

/// The lines of a table, one after the other.
#[derive(Debug, Clone)]
pub(super) struct TableLines<'a> {
    lines: TextLines<'a>,
    /// Lines that were looked at and are still to be given, with their numbers.
    ahead: VecDeque<(u32, &'a str)>,
    form: LedgerForm,
    /// The columns at which the cells of an aligned table begin.
    stops: Stops,
    /// Number of cells in a row, once known; it shows whether a row is torn in a quoted cell.
    pub(super) width: Option<usize>,
    /// The last comment, with its line.
    pub(super) comment: Option<(u32, &'a str)>,
    /// Number of lines that are not part of a Markdown table.
    pub(super) prose: u32,
}

impl<'a> TableLines<'a> {
    pub(super) fn new(text: &'a str, form: LedgerForm) -> Self {
        let (mut lines, mut prose) = (TextLines::new(text), 0);
        // The header of a Markdown table is in front of its first rule, whatever bars prose has.
        let rule = (form == LedgerForm::Markdown).then(|| header_rule(text)).flatten().unwrap_or_default();
        for line in (1..rule).map_while(|_| lines.next()) {
            prose += u32::from(!line.trim().is_empty() && !is_comment(line));
        }
        TableLines { lines, ahead: VecDeque::new(), form, stops: Stops::default(), width: None, comment: None, prose }
    }

    /// Reads the next line of cells into `line`; false at the end.
    pub(super) fn read(&mut self, line: &mut TableLine<'a>) -> bool {
        while let Some((number, text)) = self.next_line() {
            // `# | time` is a header without a first bar.
            if is_comment(text) && !(self.form == LedgerForm::Markdown && text.contains(BARS)) {
                self.comment = Some((number, text));
                continue;
            }
            let draws = match self.form {
                LedgerForm::Markdown => is_rule(text),
                LedgerForm::Aligned => is_ruler(text),
                _ => false,
            };
            if draws || text.trim().is_empty() {
                continue;
            }
            if self.form == LedgerForm::Markdown && !text.contains(BARS) {
                self.prose += 1;
                continue;
            }
            line.number = number;
            self.split(text, &mut line.cells);
            match self.form {
                LedgerForm::Tabs => self.repair_torn(text, &mut line.cells),
                LedgerForm::Commas | LedgerForm::Semicolons => self.repair_open(text, &mut line.cells),
                _ => {}
            }
            if self.form == LedgerForm::Semicolons {
                line.cells.iter_mut().for_each(with_point);
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
            LedgerForm::Aligned => self.stops.split(text, cells),
            LedgerForm::Markdown => split_bars(text, cells),
            LedgerForm::Commas | LedgerForm::Semicolons if text.contains('"') => *cells = self.quoted_cells(text),
            _ => cells.extend(text.split(self.form.sign()).map(Cow::Borrowed)),
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
                self.join(text, place, cells);
                return;
            }
        }
    }

    /// Joins a line that ends within a quoted cell with the lines up to the one that ends the cell. A quote that is never ended
    /// is a character.
    fn repair_open(&mut self, text: &'a str, cells: &mut Cells<'a>) {
        if is_balanced(text) {
            return;
        }
        let end =
            (0..LONGEST_CELL).map_while(|place| Some((place, self.peek(place)?))).find(|(_, next)| !is_balanced(next));
        let is_joined = end.is_some_and(|(place, _)| self.join(text, place, cells));
        if !is_joined && self.width != Some(cells.len()) {
            *cells = text.split(self.form.sign()).map(Cow::Borrowed).collect();
        }
    }

    /// Joins a line with those up to a place among the next ones, where that makes a row. Returns whether it does.
    fn join(&mut self, text: &str, place: usize, cells: &mut Cells<'a>) -> bool {
        let joined = self.ahead.iter().take(place + 1).fold(text.to_owned(), |joined, (_, next)| joined + "\n" + next);
        let whole = self.quoted_cells(&joined);
        let is_row = self.width.is_none_or(|width| whole.len() == width);
        if is_row {
            self.ahead.drain(..=place);
            *cells = whole;
        }
        is_row
    }

    /// The cells of a row with quotes.
    fn quoted_cells(&self, text: &str) -> Cells<'static> {
        let sign = self.form.sign();
        let (mut plain, mut is_quoted) = (String::with_capacity(text.len()), false);
        for (place, c) in text.char_indices() {
            is_quoted ^= c == '"';
            // People write blanks in front of a quoted cell.
            let is_lead = c == ' ' && !is_quoted && (plain.is_empty() || plain.ends_with(sign));
            if !(is_lead && text[place..].trim_start_matches(' ').starts_with('"')) {
                plain.push(c);
            }
        }
        let mut builder = ReaderBuilder::new();
        builder.delimiter(sign as u8).has_headers(false).terminator(Terminator::Any(b'\0'));
        // Reading from memory cannot fail, and the text is UTF-8.
        let row = builder.from_reader(plain.as_bytes()).into_records().find_map(Result::ok).unwrap_or_default();
        row.iter().map(|cell| Cow::Owned(cell.to_owned())).collect()
    }
}

/// Gives a number with a decimal comma a point: with semicolons between them, cells have such numbers.
fn with_point(cell: &mut Cow<'_, str>) {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = cell.trim().split_once(',');
    let is_whole = |whole: &str| is_digits(&whole.trim_start_matches(['-', '+']).replace('.', ""));
    if parts.is_some_and(|(whole, part)| is_whole(whole) && is_digits(part)) {
        *cell = Cow::Owned(cell.replace('.', "").replace(',', "."));
    }
}

fn is_balanced(text: &str) -> bool {
    text.matches('"').count().is_multiple_of(2)
}

/// Splits a line of a Markdown table; `\|` is a bar, and emphasis around a cell goes.
fn split_bars(text: &str, cells: &mut Cells<'_>) {
    let text = text.trim();
    let text = text.strip_prefix(BARS).unwrap_or(text);
    let mut cell = String::new();
    let mut push = |cell: &mut String| {
        let shown = cell.trim();
        let bare = ["**", "`", "*"].iter().find_map(|mark| shown.strip_prefix(mark)?.strip_suffix(mark));
        let shown = bare.unwrap_or(shown);
        let link = || shown.strip_prefix('[')?.strip_suffix(')')?.split_once("](");
        cells.push(Cow::Owned(link().map_or(shown, |(text, _)| text).to_owned()));
        cell.clear();
    };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            c if BARS.contains(&c) => push(&mut cell),
            c => cell.push(c),
        }
    }
    // A bar at the end of the line does not start another cell.
    if !cell.trim().is_empty() || !text.ends_with(BARS) {
        push(&mut cell);
    }
}

/// The fewest columns by which a line of text is taken for a table.
const FEWEST: usize = 3;

/// Columns at which the cells of an aligned table begin, in characters; empty until its first line is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Stops(Vec<usize>);

/// Returns whether the first line of a file is one of an aligned table: its cells are two blanks or more apart, or it names a
/// ledger's columns.
fn is_table(first: &str) -> bool {
    let gapped: Vec<&str> = gapped(first).collect();
    if gapped.len() >= FEWEST {
        return gapped.iter().all(|cell| !cell.ends_with([',', ';']));
    }
    let words: Vec<&str> = first.split_whitespace().collect();
    let ColumnPositions { commit, status, description, .. } = ColumnPositions::by_name(&words, None);
    words.len() >= FEWEST && !first.contains([',', ';']) && [commit, status, description].iter().flatten().count() > 1
}

/// Returns whether a line only draws a rule below the header.
fn is_ruler(line: &str) -> bool {
    line.contains(['-', '=', '─', '━']) && line.chars().all(|c| matches!(c, '-' | '=' | '─' | '━' | '+' | ' ' | '\t'))
}

impl Stops {
    /// Splits a line into cells; the first one says where the columns begin.
    pub(super) fn split<'a>(&mut self, text: &'a str, cells: &mut Cells<'a>) {
        if self.0.is_empty() {
            let gapped: Vec<&str> = gapped(text).collect();
            let names = if gapped.len() >= FEWEST { gapped } else { text.split_whitespace().collect() };
            let place = |cell: &&str| text[..cell.as_ptr().addr() - text.as_ptr().addr()].chars().count();
            self.0 = names.iter().map(place).collect();
            cells.extend(names.into_iter().map(Cow::Borrowed));
            return;
        }
        // A blank cell leaves a gap that is found by its place alone; numbers that stand at the right end of their column are
        // not where the column begins.
        let gapped: Vec<&str> = gapped(text).collect();
        let found = if gapped.len() == self.0.len() { None } else { self.at_stops(text).or_else(|| self.words(text)) };
        cells.extend(found.unwrap_or(gapped).into_iter().map(Cow::Borrowed));
    }

    /// The cells at the places of the columns, where none reaches into the next.
    fn at_stops<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let bytes = |stop: &usize| text.char_indices().nth(*stop).map_or(text.len(), |(at, _)| at);
        let mut starts: Vec<usize> = self.0.iter().map(bytes).collect();
        let is_apart = |start: &usize| text[..*start].ends_with([' ', '\t']) || *start == text.len();
        starts.iter().skip(1).all(is_apart).then(|| {
            starts[0] = 0;
            starts.push(text.len());
            starts.windows(2).map(|pair| text[pair[0]..pair[1]].trim()).collect()
        })
    }

    /// As many words as there are columns, the last with all that is left.
    fn words<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let (mut rest, mut words) = (text.trim(), Vec::with_capacity(self.0.len()));
        while words.len() + 1 < self.0.len() {
            let (word, behind) = rest.split_once(char::is_whitespace)?;
            words.push(word);
            rest = behind.trim_start();
        }
        words.push(rest);
        Some(words)
    }
}

/// Returns the parts of a line between runs of two blanks or more.
fn gapped(text: &str) -> impl Iterator<Item = &str> {
    text.split("  ").map(str::trim).filter(|cell| !cell.is_empty())
}

/// Bytes to text: UTF-8, or UTF-16 by its mark; what is neither becomes replacement characters. UTF-8 is not copied.
pub(super) fn decode(mut bytes: Vec<u8>) -> String {
    let unit: fn([u8; 2]) -> u16 = match &bytes[..] {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            if bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            return String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        }
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The cells of a line: pieces of the text where they stand in it as they are.
pub(super) type Cells<'a> = Vec<Cow<'a, str>>;

/// The lines of a text without their ends. A carriage return ends a line only where the text has no line feed.
#[derive(Debug, Clone)]
pub(super) struct TextLines<'a> {
    rest: &'a str,
    end: u8,
    /// The number of the line that was given last, from 1.
    pub(super) number: u32,
}

impl<'a> TextLines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let end = if memchr(b'\n', text.as_bytes()).is_none() { b'\r' } else { b'\n' };
        TextLines { rest: text, end, number: 0 }
    }
}

impl<'a> Iterator for TextLines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let (line, rest) = match memchr(self.end, self.rest.as_bytes()) {
            Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
            None => (self.rest, ""),
        };
        self.rest = rest;
        Some(line.trim_end_matches('\r'))
    }
}

/// The rows of a text, its header first, each with the byte at which it starts; without blank lines and comments.
pub(super) fn records(text: &str) -> impl Iterator<Item = (usize, StringRecord)> {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(b'\t').quoting(false).flexible(true).has_headers(false).terminator(Terminator::Any(b'\n'));
    // Reading from memory cannot fail, and the text is UTF-8.
    let rows = builder.from_reader(text.as_bytes()).into_records().map_while(Result::ok);
    let is_row = |row: &StringRecord| {
        let first = row.get(0).unwrap_or_default().trim_start();
        !first.starts_with('#') && row.iter().any(|cell| !cell.trim().is_empty())
    };
    rows.filter(is_row).map(|mut row| {
        let start = row.position().map_or(0, |position| usize::try_from(position.byte()).unwrap_or(0));
        row.trim();
        (start, row)
    })
}

/// The line of a row, with its end.
pub(super) fn line<C: AsRef<str>>(cells: impl IntoIterator<Item = C>, end: &'static str) -> String {
    let terminator = if end == "\r\n" { Terminator::CRLF } else { Terminator::Any(b'\n') };
    let mut builder = WriterBuilder::new();
    builder.delimiter(b'\t').quote_style(QuoteStyle::Never).flexible(true).terminator(terminator);
    let mut writer = builder.from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(cells.into_iter().map(|cell| cell.as_ref().to_owned()));
    writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(header: &str, row: &str) -> Vec<String> {
        let (mut stops, mut cells) = (Stops::default(), Cells::new());
        stops.split(header, &mut cells);
        cells.clear();
        stops.split(row, &mut cells);
        cells.into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn cells_are_found_by_their_gaps_by_their_places_and_by_their_words() {
        let header = "commit    val_bpb  status    description";
        assert_eq!(
            split(header, "a3f8b2c1  1.8342   improved  base line"),
            ["a3f8b2c1", "1.8342", "improved", "base line"]
        );
        assert_eq!(split(header, "a3f8b2c1           failed    OOM é"), ["a3f8b2c1", "", "failed", "OOM é"]);
        assert_eq!(split(header, "a3f8b2c1  1.8342   failed"), ["a3f8b2c1", "1.8342", "failed", ""]);
        assert_eq!(
            split(header, "a3f8b2c1  123456789.5 improved wide  one"),
            ["a3f8b2c1", "123456789.5", "improved", "wide  one"]
        );
        assert_eq!(split("commit status  description", "a1 keep x y"), ["a1", "keep", "x y"]);
        assert_eq!(split(header, "torn"), ["torn", "", "", ""]);
    }

    #[test]
    fn a_line_is_a_table_by_its_gaps_or_its_names() {
        for line in ["a  b  c", "commit val_bpb memory_gb status description", "  id   commit   loss"] {
            assert!(is_table(line), "{line}");
        }
        for line in ["a, b, c", "a,  b,  c", "one two three", "commit,val_bpb,status", "x", ""] {
            assert!(!is_table(line), "{line}");
        }
    }

    #[test]
    fn lines_end_as_their_text_does_it() {
        let lines = |text| TextLines::new(text).collect::<Vec<_>>();
        assert_eq!(lines("a\r\nb\r\r\n\nc\rd"), ["a", "b", "", "c\rd"]);
        assert_eq!(lines("a\rb\r"), ["a", "b"]);
        assert_eq!(lines(""), [] as [&str; 0]);
    }

    #[test]
    fn quotes_are_characters_and_rows_may_have_any_length() {
        let text = "\n# a comment\t1\n\ncommit\tm\tstatus\r\naa\t1\tkeep\t\"more\nbb\t\"2\"\n \t\nc c\t\t\r\n";
        let found: Vec<(usize, Vec<String>)> =
            records(text).map(|(start, row)| (start, row.iter().map(str::to_owned).collect())).collect();
        let rows: Vec<_> = found.iter().map(|(_, row)| row.join("|")).collect();
        assert_eq!(rows, ["commit|m|status", "aa|1|keep|\"more", "bb|\"2\"", "c c||"]);
        assert!(found.iter().all(|(start, row)| text[*start..].trim_start().starts_with(&row[0])), "{found:?}");
    }

    #[test]
    fn a_row_is_written_as_it_is() {
        assert_eq!(line(["a", "say \"x\", y", "", "\"q"], "\n"), "a\tsay \"x\", y\t\t\"q\n");
        assert_eq!(line(["a", ""], "\r\n"), "a\t\r\n");
    }
}
