//! Reading a ledger that anybody wrote.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cell::{memory, quantity};
use super::jsonl;
use super::rows::{Ledger, OtherWords, Row, Said, WORD_SHOWN, assume_direction, value};
use super::shape::Shape;
use super::status::{RowStatus, Verdict, classify, failure, says_wrong};
use super::table::{Form, Line, Lines};
use super::text::decode;
use crate::domain::{Direction, count_of, cut};

/// Reads a ledger in any of the [`Form`]s, whatever is wrong with it; what it cannot read as a row it counts.
///
/// The metric and its direction are those that are `said`, else what a config line or a plain header says (first column the
/// commit, second the metric), else the likeliest by their names, which [`Ledger::assumed`] then says. A segment that is not
/// there has no rows.
pub fn read(bytes: impl Into<Vec<u8>>, said: &Said<'_>) -> Ledger {
    let text = decode(bytes.into());
    let form = Form::of(&text);
    if matches!(form, Form::JsonLines | Form::JsonArray) {
        return jsonl::read(&text, form, said);
    }
    let mut assumed = Vec::new();
    let shape = Shape::find(&text, form, said.metric, &mut assumed);
    let is_empty = shape.width == 0;
    let mut found = ledger(shape, said.direction, assumed, |reader| rows(&text, reader));
    if is_empty {
        // For an empty ledger, the first sentence is enough.
        found.assumed.truncate(1);
    }
    found
}

/// Makes a ledger of the rows that `read` reads, whatever its form.
pub(super) fn ledger(
    shape: Shape,
    said: Option<Direction>,
    mut assumed: Vec<String>,
    read: impl Fn(&mut RowReader<'_>) -> Vec<Row>,
) -> Ledger {
    let (mut rows, words) = read_rows(&shape, &mut assumed, read);
    let direction = said.or(shape.direction);
    let direction = direction.unwrap_or_else(|| assume_direction(shape.metric.as_deref(), &rows, &mut assumed));
    let has = |wanted: &[RowStatus]| rows.iter().any(|row| wanted.contains(&row.status));
    let has_states = has(&[RowStatus::Finished]) && !has(&[RowStatus::Keep, RowStatus::Discard]);
    if has_states {
        let is_measured = |row: &Row| matches!(row.status, RowStatus::Finished | RowStatus::Baseline);
        rows.iter_mut().filter(|row| !is_measured(row)).for_each(|row| row.is_barred = true);
        assumed.push("the verdicts are states of runs, so the best is that of all finished rows".to_owned());
    }
    assumed.extend(words.sentence());
    if words.headers > 0 {
        assumed.push(format!("{} with the header again left out", count_of(words.headers, "line")));
    }
    if words.prose > 0 {
        assumed.push(format!("{} outside the table left out", count_of(words.prose, "line")));
    }
    Ledger {
        file: None,
        form: shape.form,
        columns: shape.found(),
        has_verdict: shape.columns.status.is_some() && !has_states,
        metric: shape.metric,
        direction,
        assumed,
        rows,
        segments: Vec::new(),
        elsewhere: 0,
    }
}

/// Reads the rows; with more words for a verdict where none says keep with the usual ones.
fn read_rows(
    shape: &Shape,
    assumed: &mut Vec<String>,
    read: impl Fn(&mut RowReader<'_>) -> Vec<Row>,
) -> (Vec<Row>, OtherWords) {
    let read = |verdict| {
        let mut reader = RowReader::new(shape, verdict);
        (read(&mut reader), reader.words)
    };
    let (rows, words) = read(shape.verdict);
    let says_keep = rows.iter().any(|row| row.status == RowStatus::Keep);
    if says_keep || shape.verdict != Verdict::Word || words.counts.is_empty() {
        return (rows, words);
    }
    let (wide, wide_words) = read(Verdict::WideWord);
    if wide.iter().all(|row| row.status != RowStatus::Keep) {
        return (rows, words);
    }
    let taken = words.counts.keys().map(|word| (word, classify(word, Verdict::WideWord)));
    let told: Vec<String> = taken
        .filter(|(_, status)| status.is_verdict())
        .map(|(word, status)| format!("`{}` is {}", cut(word, WORD_SHOWN), status))
        .collect();
    assumed.push(format!("no row says keep, so {}; the words keep, discard and crash say otherwise", told.join(", ")));
    (wide, wide_words)
}

/// The rows of a table.
fn rows(text: &str, reader: &mut RowReader<'_>) -> Vec<Row> {
    let shape = reader.shape;
    let mut lines = Lines::new(text, shape.form);
    let mut line = Line::default();
    let mut header = None;
    if shape.skip {
        lines.read(&mut line);
        header = Some(line.cells.clone());
    }
    lines.width = Some(shape.width);
    let mut rows = Vec::new();
    while lines.read(&mut line) {
        // Ledgers that were put one after the other have it in between, too.
        if header.as_ref() == Some(&line.cells) {
            reader.words.headers += 1;
        } else {
            rows.push(reader.row(line.number, &line.cells));
        }
    }
    reader.words.prose = lines.prose;
    rows
}

/// Reads rows one after the other.
pub(super) struct RowReader<'a> {
    shape: &'a Shape,
    verdict: Verdict,
    words: OtherWords,
}

impl<'a> RowReader<'a> {
    fn new(shape: &'a Shape, verdict: Verdict) -> Self {
        RowReader { shape, verdict, words: OtherWords::default() }
    }

    pub(super) fn row(&mut self, number: u32, cells: &[Cow<'_, str>]) -> Row {
        let Shape { width, columns, memory_unit, reference, only, checks, .. } = self.shape;
        if cells.len() != *width {
            let problem = format!("{}, not {width}", count_of(cells.len(), "field"));
            return Row::malformed(number, &cells.join("\t"), problem);
        }
        let cell = |column: Option<usize>| column.map(|column| cells[column].as_ref());
        let status = cell(columns.status).map_or(RowStatus::Other, |cell| {
            let status = classify(cell, self.verdict);
            if !status.is_verdict() {
                self.words.add(cell);
            }
            status
        });
        let is_named = only.as_ref().is_none_or(|(column, name)| cells[*column].trim() == name);
        let metric = cell(columns.metric).filter(|_| is_named);
        let reference = reference.as_ref();
        let may_scale = self.shape.is_scaled || reference.is_some_and(|it| it.unit.is_some());
        let (value, problem) = value(metric.unwrap_or_default(), reference, may_scale);
        let used = cell(columns.memory).and_then(quantity);
        let is_zero = used.as_ref().is_some_and(|found| found.value == 0.0);
        let piece = |column: Option<usize>| cell(column).map(Box::from);
        let mut hasher = DefaultHasher::new();
        cells.hash(&mut hasher);
        Row {
            line: number,
            commit: piece(columns.commit),
            value,
            memory_gb: used.and_then(|found| memory(&found, memory_unit.as_ref())),
            status,
            failure: failure(status, [columns.status, columns.memory, columns.metric].into_iter().filter_map(cell)),
            description: piece(columns.description).unwrap_or_default(),
            problem: problem.map(Into::into),
            is_barred: checks.iter().any(|&column| says_wrong(&cells[column])),
            hash: hasher.finish(),
        }
        .without_empty_zero(is_zero)
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
