//! Reading a ledger that anybody wrote.

use super::cell::quantity;
use super::jsonl;
use super::rows::{Ledger, OtherWords, Row, Said, WORD_SHOWN, assume_direction, value};
use super::shape::Shape;
use super::status::{RowStatus, Verdict, classify, failure};
use super::table::{Form, Line, Lines};
use super::text::decode;
use crate::domain::{count_of, cut};

/// Reads a ledger in any of the [`Form`]s, whatever is wrong with it; what it cannot read as a row it counts.
///
/// The metric and its direction are those that are `said`, else what a config line or a plain header says (first column the
/// commit, second the metric), else the likeliest by their names, which [`Ledger::assumed`] then says. A segment that is not
/// there has no rows.
pub fn read(bytes: impl Into<Vec<u8>>, said: &Said<'_>) -> Ledger {
    let text = decode(bytes.into());
    let form = Form::of(&text);
    if form == Form::JsonLines {
        return jsonl::read(&text, said);
    }
    let mut assumed = Vec::new();
    let shape = Shape::find(&text, form, said.metric, &mut assumed);
    let (rows, words) = read_rows(&text, &shape, &mut assumed);
    let direction = said.direction.unwrap_or_else(|| assume_direction(shape.metric.as_deref(), &mut assumed));
    assumed.extend(words.sentence());
    if shape.width == 0 {
        // For an empty ledger, the first sentence is enough.
        assumed.truncate(1);
    }
    if words.headers > 0 {
        assumed.push(format!("{} with the header again left out", count_of(words.headers, "line")));
    }
    if words.prose > 0 {
        assumed.push(format!("{} without a bar left out", count_of(words.prose, "line")));
    }
    Ledger {
        file: None,
        form,
        columns: shape.found(),
        has_verdict: shape.columns.status.is_some(),
        metric: shape.metric,
        direction,
        assumed,
        rows,
        segments: Vec::new(),
        elsewhere: 0,
    }
}

/// Reads the rows; with more words for a verdict where none says keep with the usual ones.
fn read_rows(text: &str, shape: &Shape, assumed: &mut Vec<String>) -> (Vec<Row>, OtherWords) {
    let (rows, words) = rows(text, shape, shape.verdict);
    let says_keep = rows.iter().any(|row| row.status == RowStatus::Keep);
    if says_keep || shape.verdict != Verdict::Word || words.counts.is_empty() {
        return (rows, words);
    }
    let (wide, wide_words) = self::rows(text, shape, Verdict::WideWord);
    if wide.iter().all(|row| row.status != RowStatus::Keep) {
        return (rows, words);
    }
    let taken = words.counts.keys().map(|word| (word, classify(word, Verdict::WideWord)));
    let told: Vec<String> = taken
        .filter(|(_, status)| *status != RowStatus::Other)
        .map(|(word, status)| format!("`{}` is {}", cut(word, WORD_SHOWN), status))
        .collect();
    assumed.push(format!("no row says keep, so {}; the words keep, discard and crash say otherwise", told.join(", ")));
    (wide, wide_words)
}

fn rows(text: &str, shape: &Shape, verdict: Verdict) -> (Vec<Row>, OtherWords) {
    let mut lines = Lines::new(text, shape.form);
    let mut line = Line::default();
    let mut header = None;
    if shape.skip {
        lines.read(&mut line);
        header = Some(line.cells.clone());
    }
    lines.width = Some(shape.width);
    let said = (String::new(), RowStatus::Other);
    let mut reader = RowReader { shape, verdict, said, unit: String::new(), words: OtherWords::default() };
    let mut rows = Vec::new();
    let mut headers = 0;
    while lines.read(&mut line) {
        // Ledgers that were put one after the other have it in between, too.
        if header.as_ref() == Some(&line.cells) {
            headers += 1;
        } else {
            rows.push(reader.row(&line));
        }
    }
    let mut words = reader.words;
    (words.prose, words.headers) = (lines.prose, headers);
    (rows, words)
}

/// Reads rows one after the other.
struct RowReader<'a> {
    shape: &'a Shape,
    verdict: Verdict,
    /// The verdict of the last row, as it is written and what it is.
    said: (String, RowStatus),
    /// The first unit in the metric's column; blank until there is one.
    unit: String,
    words: OtherWords,
}

impl RowReader<'_> {
    fn row(&mut self, line: &Line<'_>) -> Row {
        let Shape { width, columns, memory_unit, .. } = self.shape;
        if line.cells.len() != *width {
            let problem = format!("{}, not {width}", count_of(line.cells.len(), "field"));
            return Row::malformed(line.number, &line.cells.join("\t"), problem);
        }
        let cell = |column: Option<usize>| column.map(|column| line.cell(column));
        let status = cell(columns.status).map_or(RowStatus::Other, |cell| {
            // Most rows say what the one before them says.
            if self.said.0 != cell {
                self.said = (cell.to_owned(), classify(cell, self.verdict));
            }
            if self.said.1 == RowStatus::Other {
                self.words.add(cell);
            }
            self.said.1
        });
        let (value, problem) = value(cell(columns.metric).unwrap_or_default(), &mut self.unit);
        let memory = cell(columns.memory).and_then(quantity);
        let is_zero = memory.as_ref().is_some_and(|found| found.value == 0.0);
        let piece = |column: Option<usize>| cell(column).map(Box::from);
        Row {
            line: line.number,
            commit: piece(columns.commit),
            value,
            memory_gb: memory.and_then(|found| found.memory(*memory_unit)),
            status,
            failure: failure(status, [columns.status, columns.memory, columns.metric].into_iter().filter_map(cell)),
            description: piece(columns.description).unwrap_or_default(),
            problem: problem.map(Into::into),
        }
        .without_empty_zero(is_zero)
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
