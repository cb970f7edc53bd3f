//! The content of a ledger, row by row.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::cell::{is_nothing, is_scaled, quantity};
use super::status::RowStatus;
use super::table::Form;
use crate::domain::{Direction, FailureClass, Number, Unit, count_of, cut};

/// Maximum number of distinct words to report that are not verdicts.
const MOST_WORDS: usize = 8;

/// Number of characters to show of a row or cell that cannot be read.
const SHOWN: usize = 120;

/// Number of characters to show of a word in a status column.
pub(super) const WORD_SHOWN: usize = 40;

/// The caller's choices for reading a ledger; the rest is read or assumed.
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
    /// Its path; absent if it was read from text alone.
    pub file: Option<PathBuf>,
    /// The kind of its file.
    pub form: Form,
    /// The metric's name; absent where nothing says it.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Direction,
    /// Assumptions, each a lower-case fragment with the option that changes it.
    pub assumed: Vec<String>,
    /// The columns that were found, as what they hold and what they are called.
    pub columns: Vec<(&'static str, String)>,
    /// True if the rows have verdicts.
    pub has_verdict: bool,
    /// All rows, in the file's order; of a JSON-lines ledger those of the segment.
    pub rows: Vec<Row>,
    /// The segments that the config lines of a JSON-lines ledger begin, oldest first; empty for other ledgers.
    pub segments: Vec<Segment>,
    /// Number of rows in the other segments.
    pub elsewhere: u32,
}

/// A segment of a JSON-lines ledger, as its config line describes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Segment {
    /// Its number, as its rows say it in a field `segment`; where they do not, one more than that before, from 0 on. Where two
    /// segments have the same number, its position, from 0.
    pub number: usize,
    /// Its name.
    pub name: Option<String>,
    /// The metric.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Option<Direction>,
    /// Number of its rows.
    pub rows: usize,
}

/// A row of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its line in the file, from 1; the first one, where it spans several.
    pub line: u32,
    /// The unchanged text of the commit's cell; absent if the ledger has no such column.
    pub commit: Option<Box<str>>,
    /// The status that it counts as.
    pub status: RowStatus,
    /// The metric; absent where the cell is no number, and where a zero says that there is none.
    #[serde(flatten, serialize_with = "Number::fields")]
    pub value: Option<Number>,
    /// Memory in GiB; never zero.
    pub memory_gb: Option<f64>,
    /// The failure class that the row names.
    #[serde(skip)]
    pub failure: Option<FailureClass>,
    /// The reason why it is malformed, or why it has no value although its cell is not blank.
    pub problem: Option<Box<str>>,
    /// True if it is never the best: its run did not finish, or its result is wrong.
    #[serde(skip)]
    pub is_barred: bool,
    /// A hash of all that stands in it.
    #[serde(skip)]
    pub(super) hash: u64,
    /// The description of the change; of a malformed row, the start of the row.
    pub description: Box<str>,
}

impl Row {
    pub(super) fn malformed(line: u32, text: &str, problem: String) -> Self {
        Row {
            line,
            status: RowStatus::Malformed,
            description: cut(text, SHOWN).into(),
            problem: Some(problem.into()),
            ..Row::default()
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
        self.rows.iter().filter_map(|row| Some((row.line.into(), row.problem.as_deref()?)))
    }
}

/// The number in a metric's cell in the unit of another one of its column, or why there is none although the cell is not
/// blank. A scale without a unit counts only where `may_scale`.
pub(super) fn value(cell: &str, reference: Option<&Number>, may_scale: bool) -> (Option<Number>, Option<String>) {
    let shown = || cut(cell.trim(), SHOWN);
    let Some(number) = quantity(cell).filter(|number| may_scale || !is_scaled(number)) else {
        return (None, (!is_nothing(cell)).then(|| format!("`{}` is not a number", shown())));
    };
    let Some(reference) = reference else { return (Some(number), None) };
    let unit = |number: &Number| number.unit.as_ref().map(Unit::to_string).unwrap_or_default();
    let problem = || format!("`{}` is in `{}`, others are in `{}`", shown(), unit(&number), unit(reference));
    match number.or_unit_of(reference).like(reference) {
        None => (None, Some(problem())),
        found => (found, None),
    }
}

/// Content that is not a verdict: the words of a status column with their counts, and lines outside the table.
#[derive(Debug, Default)]
pub(super) struct OtherWords {
    /// Number of lines that are not part of a Markdown table.
    pub(super) prose: u32,
    /// Number of lines that repeat the header.
    pub(super) headers: u32,
    pub(super) counts: BTreeMap<String, u32>,
    /// Number of rows with further words.
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

    /// Lists the words that count as neither keep, discard nor crash; absent if there are none.
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

/// The direction of a metric of which nobody said it: what the verdicts say, where more than three quarters of the keeps got
/// worse by the name, else what its name says, else lower. What is assumed is always said.
pub(super) fn assume_direction(name: Option<&str>, rows: &[Row], assumed: &mut Vec<String>) -> Direction {
    let told = name.and_then(Direction::of_name).map(|(direction, _)| direction);
    let by_name = told.unwrap_or_default();
    let (worse, steps) = keeps_that_got_worse(rows, by_name);
    // One keep alone does not outweigh a name.
    let is_turned = worse * 4 > steps * 3 && (told.is_none() || steps > 1);
    let direction = if is_turned { by_name.other() } else { by_name };
    let why = match (name, told) {
        _ if is_turned => format!(", as {worse} of {} got worse if {by_name} is", count_of(steps, "keep")),
        (Some(name), Some(_)) => format!(", as the name `{name}` says"),
        (Some(name), None) => format!(", as nothing in the name `{name}` says otherwise"),
        (None, _) => String::new(),
    };
    assumed.push(format!("{direction} is better{why}; `--{}` says otherwise", direction.other()));
    direction
}

/// The number of keeps that are worse than the one before, or than the baseline, and of all that have one before.
fn keeps_that_got_worse(rows: &[Row], direction: Direction) -> (usize, usize) {
    let (mut before, mut worse, mut steps) = (None, 0, 0);
    for row in rows.iter().filter(|row| row.status != RowStatus::Malformed) {
        let Some(value) = row.value.as_ref().map(|number| number.value) else { continue };
        match (row.status, before) {
            (RowStatus::Keep, Some(before)) => {
                steps += 1;
                worse += usize::from(direction.better(before, value));
            }
            (RowStatus::Keep | RowStatus::Baseline, _) | (RowStatus::Other | RowStatus::Finished, None) => {}
            _ => continue,
        }
        before = Some(value);
    }
    (worse, steps)
}
