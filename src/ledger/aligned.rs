//! Tables whose columns are aligned with blanks.

use std::borrow::Cow;

use super::columns::ColumnPositions;
use super::text::Cells;

/// The fewest columns by which a line of text is taken for a table.
const FEWEST: usize = 3;

/// Columns at which the cells of an aligned table begin, in characters; empty until its first line is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Stops(Vec<usize>);

/// Returns whether the first line of a file is one of an aligned table: its cells are two blanks or more apart, or it names a
/// ledger's columns.
pub(super) fn is_table(first: &str) -> bool {
    let gapped: Vec<&str> = gapped(first).collect();
    if gapped.len() >= FEWEST {
        return gapped.iter().all(|cell| !cell.ends_with([',', ';']));
    }
    let words: Vec<&str> = first.split_whitespace().collect();
    let ColumnPositions { commit, status, description, .. } = ColumnPositions::by_name(&words, None);
    words.len() >= FEWEST && !first.contains([',', ';']) && [commit, status, description].iter().flatten().count() > 1
}

/// Returns whether a line only draws a rule below the header.
pub(super) fn is_rule(line: &str) -> bool {
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
}
