//! Which rows of a ledger belong to which experiment, and what a ledger looks like when each experiment has one. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::cell::number;
use super::row_format::{Entry, RowFormat};
use super::status::classify;

/// The differences between a ledger and the experiments that should be in it. Lines count from 1, experiments from 0 in their
/// given order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The experiments that have no whole row and need one.
    pub missing: Vec<usize>,
    /// The lines of rows, or of a header, that were cut short.
    pub torn: Vec<u64>,
    /// The lines of rows that say the same once more.
    pub repeated: Vec<u64>,
    /// The lines of rows that have another number or verdict than their experiment, with the experiment.
    pub differing: Vec<(u64, usize)>,
    /// Number of experiments that have a row.
    pub own: usize,
    /// Number of rows that belong to none of the experiments.
    pub foreign: usize,
}

impl Comparison {
    /// Returns whether a rebuilt file would be the same.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.torn.is_empty() && self.repeated.is_empty()
    }
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Header, comment or blank.
    Frame,
    /// A row that belongs to no experiment.
    Foreign,
    /// The row of an experiment.
    Row(usize),
    /// The row of an experiment, with other numbers or another verdict.
    Differing(usize),
    /// The beginning of the row of an experiment that has no other.
    Torn(usize),
    /// The beginning of a row that stands elsewhere as well.
    TornAgain,
    /// A row that stands elsewhere as well.
    Repeated,
}

/// A ledger beside the experiments that should be in it.
#[derive(Debug)]
pub(super) struct Rebuild<'a> {
    text: &'a str,
    format: &'a RowFormat,
    /// True if the text has its header.
    has_header: bool,
    lines: Vec<Line>,
    /// The rows of the experiments as they are written, without line ends.
    rows: Vec<String>,
    /// Which of the experiments need no row.
    omitted: Vec<bool>,
}

impl<'a> Rebuild<'a> {
    /// Finds out whose the rows are. Without a header, all that is there are comments and blanks.
    ///
    /// A row is an experiment's if it is what would be written, else if it has its commit, number and verdict, else if it
    /// has its commit. Each row belongs to one experiment, as two sessions can share a baseline's commit.
    pub(super) fn new(text: &'a str, format: &'a RowFormat, has_header: bool, entries: &[Entry<'_>]) -> Self {
        let rows: Vec<String> =
            entries.iter().map(|entry| format.row(entry).trim_end_matches(['\r', '\n']).to_owned()).collect();
        let omitted = entries.iter().map(|entry| format.omits(entry)).collect();
        let mut rebuild = Rebuild { text, format, has_header, lines: Vec::new(), rows, omitted };
        let mut header = has_header;
        rebuild.lines = text
            .split_inclusive('\n')
            .map(|line| {
                let line = line.trim_start_matches('\u{feff}').trim();
                if line.is_empty() || line.starts_with('#') || std::mem::take(&mut header) {
                    Line::Frame
                } else {
                    Line::Foreign
                }
            })
            .collect();
        let mut missing = rebuild.claim_exact();
        rebuild.claim_torn(&mut missing);
        rebuild.claim_by_commit(entries, &mut missing);
        rebuild
    }

    /// Gives each experiment the row that is as it would be written; gives which have none. More rows like that are repeated.
    fn claim_exact(&mut self) -> Vec<bool> {
        let mut wanted: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (index, row) in self.rows.iter().enumerate() {
            wanted.entry(row).or_default().push_back(index);
        }
        let mut missing = vec![true; self.rows.len()];
        for (line, text) in self.lines.iter_mut().zip(self.text.split_inclusive('\n')) {
            if *line != Line::Foreign {
                continue;
            }
            let Some(experiments) = wanted.get_mut(content(text)) else { continue };
            *line = match experiments.pop_front() {
                Some(index) => {
                    missing[index] = false;
                    Line::Row(index)
                }
                None => Line::Repeated,
            };
        }
        missing
    }

    /// Finds the rows that were cut short: the last line if it has no end, and lines with too few cells; then also those
    /// that begin like a row that stands elsewhere.
    fn claim_torn(&mut self, missing: &mut [bool]) {
        let column = self.format.columns.commit.unwrap_or_default();
        for is_again in [false, true] {
            for (line, text) in self.lines.iter_mut().zip(self.text.split_inclusive('\n')) {
                if *line != Line::Foreign {
                    continue;
                }
                let is_ended = text.ends_with('\n');
                // Bytes that were not written before a power failure read as zeros.
                let start = if is_ended { content(text) } else { text.trim_end_matches('\0') };
                let cells: Vec<&str> = start.split('\t').collect();
                // The commit's cell is whole: something follows it.
                let is_named = cells.len() > column + 1 && cells[column].len() >= 4;
                let is_short = cells.len() < self.format.header.len();
                let mut begun = (0..self.rows.len())
                    .filter(|&index| self.rows[index].starts_with(start) && self.rows[index] != start);
                if is_again {
                    if is_named && begun.any(|index| !missing[index]) {
                        *line = Line::TornAgain;
                    }
                } else if (!is_ended || (is_named && is_short))
                    && let Some(index) = begun.find(|&index| missing[index])
                {
                    missing[index] = false;
                    *line = Line::Torn(index);
                }
            }
        }
    }

    /// Gives the experiments that are left the rows that have their commit.
    fn claim_by_commit(&mut self, entries: &[Entry<'_>], missing: &mut [bool]) {
        let mut by_commit: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate().filter(|(index, _)| missing[*index]) {
            by_commit.entry(entry.commit.as_str()).or_default().push(index);
        }
        for must_agree in [true, false] {
            for (line, text) in self.lines.iter_mut().zip(self.text.split_inclusive('\n')) {
                if *line != Line::Foreign {
                    continue;
                }
                let cells: Vec<&str> = content(text).split('\t').collect();
                let Some(commit) = self.format.commit_cell(&cells) else { continue };
                let candidates = by_commit.range(commit..).take_while(|(full, _)| full.starts_with(commit));
                let found = candidates
                    .flat_map(|(_, indices)| indices)
                    .copied()
                    .find(|&index| missing[index] && (!must_agree || agree(self.format, &cells, &self.rows[index])));
                if let Some(index) = found {
                    missing[index] = false;
                    *line = if must_agree { Line::Row(index) } else { Line::Differing(index) };
                }
            }
        }
    }

    /// Compares the ledger with what it should be.
    pub(super) fn comparison(&self) -> Comparison {
        let mut found = Comparison::default();
        let mut has_row = vec![false; self.rows.len()];
        for (number, (line, text)) in (1..).zip(self.lines.iter().zip(self.text.split_inclusive('\n'))) {
            match *line {
                Line::Frame => {}
                Line::Foreign => found.foreign += 1,
                Line::Row(index) | Line::Differing(index) => {
                    has_row[index] = true;
                    if !text.ends_with('\n') {
                        found.torn.push(number);
                    }
                    if *line == Line::Differing(index) {
                        found.differing.push((number, index));
                    }
                }
                Line::Torn(_) | Line::TornAgain => found.torn.push(number),
                Line::Repeated => found.repeated.push(number),
            }
        }
        found.own = has_row.iter().filter(|has_row| **has_row).count();
        found.missing = (0..self.rows.len()).filter(|&index| !has_row[index] && !self.omitted[index]).collect();
        found
    }

    /// The ledger with one whole row for each experiment, and where each of these rows begins, in bytes.
    ///
    /// Rows that are there, those of others with them, stay as they are and in their order. A row that was cut short becomes
    /// whole where it is; one that is missing goes behind that of the experiment before it.
    pub(super) fn text(&self) -> (String, Vec<u64>) {
        let count = self.rows.len();
        let mut is_there = vec![false; count];
        for line in &self.lines {
            if let Line::Row(index) | Line::Differing(index) | Line::Torn(index) = *line {
                is_there[index] = true;
            }
        }
        let mut written = Written { text: String::new(), places: vec![0; count], line_end: self.format.line_end };
        let first = is_there.iter().position(|there| *there);
        let needs_row = |index: &usize| !self.omitted[*index];
        let following = |index: usize| (index + 1..count).take_while(|&next| !is_there[next]).filter(needs_row);
        let preceding = |index: usize| (0..if first == Some(index) { index } else { 0 }).filter(needs_row);
        for (line, text) in self.lines.iter().zip(self.text.split_inclusive('\n')) {
            match *line {
                Line::Frame | Line::Foreign => written.line(text),
                Line::TornAgain | Line::Repeated => {}
                Line::Row(index) | Line::Differing(index) | Line::Torn(index) => {
                    preceding(index).for_each(|index| written.row(index, &self.rows[index]));
                    match *line {
                        Line::Torn(_) => written.row(index, &self.rows[index]),
                        _ => written.place(index, text),
                    }
                    following(index).for_each(|index| written.row(index, &self.rows[index]));
                }
            }
        }
        if !self.has_header && (0..count).any(|index| needs_row(&index)) {
            written.line(&self.format.header_line());
        }
        if first.is_none() {
            (0..count).filter(needs_row).for_each(|index| written.row(index, &self.rows[index]));
        }
        (written.text, written.places)
    }
}

/// A ledger that grows line by line.
struct Written {
    text: String,
    places: Vec<u64>,
    line_end: &'static str,
}

impl Written {
    fn line(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text += self.line_end;
        }
        self.text += line;
    }

    /// Writes the row of an experiment, which is new.
    fn row(&mut self, index: usize, row: &str) {
        self.place(index, &format!("{row}{}", self.line_end));
    }

    /// Writes the line of an experiment's row as it is.
    fn place(&mut self, index: usize, line: &str) {
        self.line("");
        self.places[index] = self.text.len() as u64;
        self.text += line;
        self.line("");
    }
}

/// A line without its end.
fn content(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Returns whether a row has the same value and verdict as one that would be written.
fn agree(format: &RowFormat, cells: &[&str], row: &str) -> bool {
    let row: Vec<&str> = row.split('\t').collect();
    let value =
        |cells: &[&str]| format.columns.metric.and_then(|column| number(cells[column])).map(|number| number.value);
    let status = |cells: &[&str]| format.columns.status.map(|column| classify(cells[column], format.verdict()));
    value(cells) == value(&row) && status(cells) == status(&row)
}

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;
