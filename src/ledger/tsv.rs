//! results.tsv by the rules of the `csv` crate: tabs, no quotes, rows of any length. Damaged lines are none of its business; see
//! [`rebuild`](super::rebuild).

use csv::{QuoteStyle, ReaderBuilder, StringRecord, Terminator, WriterBuilder};

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
