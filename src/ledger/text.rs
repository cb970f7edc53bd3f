//! The bytes of a ledger as text and lines, and results.tsv by the rules of the `csv` crate: tabs, no quotes, rows of any
//! length.

use std::borrow::Cow;

use csv::{QuoteStyle, ReaderBuilder, StringRecord, Terminator, WriterBuilder};
use memchr::memchr;

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
