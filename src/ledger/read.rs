//! Reading a ledger that anybody wrote.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cell::{Quantity, is_nothing, quantity};
use super::jsonl;
use super::shape::Shape;
use super::status::{RowStatus, Verdict, classify, failure};
use super::table::{Form, Line, Lines};
use super::text::decode;
use crate::domain::{Direction, FailureClass, Number, count_of, cut};

/// How many different words that are no verdict are told.
const MOST_WORDS: usize = 8;

/// How much of a row or cell that cannot be read is shown, in characters.
const SHOWN: usize = 120;

/// How much of a word in a status column is shown, in characters.
const WORD_SHOWN: usize = 40;

/// What is said of a ledger from outside; the rest is read or assumed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Said<'a> {
    /// The metric's column, or its number from 1 where there is no header.
    pub metric: Option<&'a str>,
    /// Which way is better.
    pub direction: Option<Direction>,
    /// The segment of a JSON-lines ledger, by its [number](Segment::number).
    pub segment: Option<usize>,
}

/// A ledger, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// Where it is; absent where it was read from text alone.
    pub file: Option<PathBuf>,
    /// What kind of file it is.
    pub form: Form,
    /// The metric's name; absent where nothing says it.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Direction,
    /// What was taken for granted, one sentence each, as lower-case fragments that say how to say otherwise.
    pub assumed: Vec<String>,
    /// The columns that were found, as what they hold and what they are called; empty for JSON lines.
    pub columns: Vec<(&'static str, String)>,
    /// Whether the rows say what became of them.
    pub has_verdict: bool,
    /// All rows, in the file's order; of a JSON-lines ledger those of the segment.
    pub rows: Vec<Row>,
    /// What a JSON-lines ledger's config lines begin, oldest first; empty for other ledgers.
    pub segments: Vec<Segment>,
    /// How many rows the other segments have.
    pub elsewhere: u32,
}

/// What a config line of a JSON-lines ledger says of the rows behind it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Segment {
    /// Its number, as its rows say it in a field `segment`; where they do not, one more than that before, from 0 on.
    pub number: usize,
    /// What it is called.
    pub name: Option<String>,
    /// The metric.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Option<Direction>,
    /// How many rows it has.
    pub rows: usize,
}

/// A row of a ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its line in the file, from 1; the first one, where it spans several.
    pub line: u64,
    /// The commit's cell as it is; absent where there is no such column.
    pub commit: Option<Box<str>>,
    /// The metric; absent where the cell is no number, and where a zero says that there is none.
    pub value: Option<Number>,
    /// Memory in GiB; never zero.
    pub memory_gb: Option<f64>,
    /// What the row is counted as.
    pub status: RowStatus,
    /// How it failed, where it says so.
    pub failure: Option<FailureClass>,
    /// What it says it tried; of a malformed row the start of it.
    pub description: Box<str>,
    /// Why it is malformed, or why it has no value although its cell is not blank.
    pub problem: Option<Box<str>>,
}

impl Row {
    pub(super) fn malformed(line: u64, text: &str, problem: String) -> Self {
        Row {
            line,
            commit: None,
            value: None,
            memory_gb: None,
            status: RowStatus::Malformed,
            failure: None,
            description: cut(text, SHOWN).into(),
            problem: Some(problem.into()),
        }
    }

    /// Takes a zero for what it means: in a crash that there is no value; in a row that was not kept too, where memory is
    /// zero as well.
    pub(super) fn without_empty_zero(mut self, memory_is_zero: bool) -> Self {
        let is_empty = self.status == RowStatus::Crash || (self.status != RowStatus::Keep && memory_is_zero);
        if is_empty && self.value.as_ref().is_some_and(|number| number.value == 0.0) {
            self.value = None;
        }
        self
    }
}

impl Ledger {
    /// The rows that could not be read, or whose number could not.
    pub fn problems(&self) -> impl Iterator<Item = (u64, &str)> {
        self.rows.iter().filter_map(|row| Some((row.line, row.problem.as_deref()?)))
    }
}

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
        // That there is nothing is all there is to say.
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
        .map(|(word, status)| format!("`{}` is {}", cut(word, WORD_SHOWN), status.word()))
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
    (rows, OtherWords { prose: lines.prose, headers, ..reader.words })
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
            let problem = format!("{}, not {width}", count_of(line.cells.len() as u32, "field"));
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

/// The number in a metric's cell, or why there is none although the cell is not blank. `unit` is the first unit of the column:
/// numbers in another one do not compare.
pub(super) fn value(cell: &str, unit: &mut String) -> (Option<Number>, Option<String>) {
    let shown = || cut(cell.trim(), SHOWN);
    let Some(Quantity { value, digits, unit: own }) = quantity(cell) else {
        return (None, (!is_nothing(cell)).then(|| format!("`{}` is not a number", shown())));
    };
    if unit.is_empty() {
        own.clone_into(unit);
    }
    if own.is_empty() || own.eq_ignore_ascii_case(unit) {
        return (Some(Number { value, raw: digits.into_owned() }), None);
    }
    (None, Some(format!("`{}` is in `{own}`, others are in `{unit}`", shown())))
}

/// What is no verdict: the words of a status column, how often each stands there, and lines beside the table.
#[derive(Debug, Default)]
pub(super) struct OtherWords {
    /// How many lines are no part of a Markdown table.
    prose: u32,
    /// How many lines are the header once more.
    headers: u32,
    counts: BTreeMap<String, u32>,
    /// How many rows have further words.
    more: u32,
}

impl OtherWords {
    pub(super) fn add(&mut self, cell: &str) {
        let word = cell.trim();
        if let Some(count) = self.counts.get_mut(word) {
            *count += 1;
        } else if self.counts.len() < MOST_WORDS && word.len() <= SHOWN {
            self.counts.insert(word.to_owned(), 1);
        } else {
            self.more += 1;
        }
    }

    /// What is counted as neither keep, discard nor crash; nothing where all is.
    pub(super) fn sentence(&self) -> Option<String> {
        let named =
            |word: &str| if word.is_empty() { "blank".to_owned() } else { format!("`{}`", cut(word, WORD_SHOWN)) };
        let mut told: Vec<String> =
            self.counts.iter().map(|(word, count)| format!("{} ({count})", named(word))).collect();
        if self.more > 0 {
            told.push(format!("further words ({})", self.more));
        }
        (!told.is_empty()).then(|| {
            format!("neither keep, discard nor crash by their words, so counted as other: {}", told.join(", "))
        })
    }
}

/// The direction of a metric of which nobody said it: what its name says, else lower; a trend against that is a doubt that
/// the report tells. What is assumed is always said.
pub(super) fn assume_direction(name: Option<&str>, assumed: &mut Vec<String>) -> Direction {
    let told = name.and_then(Direction::of_name).map(|(direction, _)| direction);
    let direction = told.unwrap_or_default();
    let why = match (name, told) {
        (Some(name), Some(_)) => format!(", as the name `{name}` says"),
        (Some(name), None) => format!(", as nothing in the name `{name}` says otherwise"),
        (None, _) => String::new(),
    };
    let other = if direction == Direction::Lower { "--higher" } else { "--lower" };
    assumed.push(format!("{direction} is better{why}; `{other}` says otherwise"));
    direction
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
