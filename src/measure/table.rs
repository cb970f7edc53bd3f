//! Numbers in tables with a header: the column of a name, and which of its rows counts.
//!
//! A row of all parts counts, or the last one where the first columns count steps and these rise, or the only one. Of any others
//! each can be meant, so none counts. Tables count only in logs where no line names the number.

use memchr::{memchr2, memmem, memrchr2};

use super::extent::{Extent, Extents};
use super::name::{
    AGGREGATES, PARTS, PROCESSES, Reading, contains, is_bar, is_blank, is_decoration, is_stale, is_value, qualifies,
    unit_behind,
};
use super::{MetricMention, is_of_another_run, valid_text, value_at};
use crate::domain::{Number, Unit, WordList, word_list};

/// Longest line of a table, in bytes.
const LONGEST_LINE: usize = 1024;

/// Most numbers of rows to remember.
const MOST_NUMBERS: usize = 12;

/// Names of columns that count steps; `batch`, `round` and `epochs` may be settings.
const STEPS: &[&str] = &["epoch", "ep", "step", "global_step", "iter", "iteration", "update"];

/// Labels of rows that name ways to compute something: among them, `mean` and `all` are others.
const WAYS: &[&str] = &["cls", "first", "last", "max", "min", "none", "sum"];

/// Names of columns in tables of settings: `| parameter | loss |`.
static SETTINGS: WordList = WordList::new(|| word_list(include_str!("lists/settings.txt")));

/// Separates the cells of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Separator {
    Bars,
    Commas,
    /// Tabs, or two or more blanks.
    Gaps,
    #[default]
    Blanks,
}

impl Separator {
    fn of(line: &str) -> Separator {
        // `|grad|` is a name.
        let is_bar_alone = |word: &str| !word.is_empty() && word.chars().all(is_bar);
        match line {
            _ if line.starts_with(is_bar) || line.split(is_blank).any(is_bar_alone) => Separator::Bars,
            _ if line.contains(',') => Separator::Commas,
            _ if line.contains('\t') || line.contains("  ") => Separator::Gaps,
            _ => Separator::Blanks,
        }
    }

    fn cells(self, line: &str) -> Vec<&str> {
        let bounded = line.strip_prefix(is_bar).unwrap_or(line);
        let cells: Vec<&str> = match self {
            Separator::Bars => bounded.strip_suffix(is_bar).unwrap_or(bounded).split(is_bar).collect(),
            Separator::Commas => line.split(',').collect(),
            Separator::Gaps => line.split('\t').flat_map(|part| part.split("  ")).collect(),
            Separator::Blanks => line.split(is_blank).collect(),
        };
        let cells = cells.into_iter().map(|cell| cell.trim_matches(|c| is_blank(c) || is_decoration(c)));
        cells.filter(|cell| !cell.is_empty() || matches!(self, Separator::Bars | Separator::Commas)).collect()
    }
}

/// A table that has a column of the name, as far as it was read.
#[derive(Debug, Default)]
struct Table {
    /// The line above, as far as it tells what the table is of.
    title: Option<String>,
    separator: Separator,
    width: usize,
    /// The column of the name, and the unit that it gives.
    column: usize,
    unit: Option<Unit>,
    /// The number of columns at the start that count steps.
    steps: usize,
    /// True if a cell of the header has several words, which may be the names of two columns.
    has_phrase: bool,
    /// True if a rule is under the header.
    is_ruled: bool,
    /// Whether rows begin with a cell that has no name; absent without rows.
    has_index: Option<bool>,
    /// True if other lines followed the last row.
    is_left: bool,
    last: Option<MetricMention>,
    /// The number of all parts.
    of_all: Option<MetricMention>,
    /// The steps of the last row, and how far it was from the one before.
    at: Vec<f64>,
    stride: f64,
    /// True if the last number is one of several that can be meant.
    are_several: bool,
    /// True if a number of all parts can be another one, too.
    is_doubtful: bool,
    numbers: Vec<String>,
}

impl Table {
    /// The table that begins with this header.
    fn of(header: &str, name: &str, above: &str) -> Option<Table> {
        let separator = Separator::of(header);
        let cells = separator.cells(header);
        let mut columns = cells.iter().enumerate().filter_map(|(at, cell)| Some((at, unit_in(cell, name)?)));
        let ((column, unit), None) = (columns.next()?, columns.next()) else { return None };
        let is_name = |cell: &&str| !cell.contains(['=', '{', '}', ':']) && !is_value(cell);
        let has = |words: &[&str]| cells.iter().any(|cell| contains(words, cell));
        let has_phrase = cells.iter().any(|cell| cell.contains(is_blank));
        // Blanks follow the commas of a sentence.
        let is_sentence = has_phrase && separator == Separator::Commas && header.contains(", ");
        let is_of_parts = has(&PARTS) || has(&PROCESSES) || has(&["run", "trial"]) || is_stale(name);
        let steps = cells[..column].iter().take_while(|cell| !is_of_parts && contains(STEPS, cell)).count();
        let is_table = cells.len() > 1 && (steps > 0 || separator != Separator::Blanks);
        let counts = cells.iter().all(is_name) && !is_sentence && !has(&SETTINGS) && !is_of_another_run(above);
        let title = above.trim_end().ends_with(':').then(|| match Extents::of(above, "", None).extent {
            Extent::Part(part) => part,
            _ => above.chars().filter(|c| c.is_alphabetic()).collect(),
        });
        (is_table && counts).then_some(Table {
            title,
            separator,
            width: cells.len(),
            column,
            unit,
            steps,
            has_phrase,
            ..Table::default()
        })
    }

    /// The cell in front of those of a line that has as many as the header, and these.
    fn cells<'a>(&self, line: &'a str) -> Option<(Option<&'a str>, Vec<&'a str>)> {
        let fits = |cells: &Vec<&str>| match cells.len().checked_sub(self.width) {
            Some(0) => self.has_index != Some(true),
            // Those of pandas begin with 0.
            Some(1) => !self.has_phrase && self.has_index.unwrap_or(cells[0] == "0" || !is_value(cells[0])),
            _ => false,
        };
        let is_loose = self.separator == Separator::Gaps && !self.has_phrase;
        let by_blanks = || {
            let cells = Some(Separator::Blanks.cells(line)).filter(|cells| is_loose && fits(cells))?;
            cells.iter().skip(1).all(|cell| is_value(cell)).then_some(cells)
        };
        let mut cells = Some(self.separator.cells(line)).filter(fits).or_else(by_blanks)?;
        Some(((cells.len() > self.width).then(|| cells.remove(0)), cells))
    }

    /// Reads a line below the header; returns whether it is a row.
    fn read(&mut self, line: &str) -> bool {
        let Some((index, cells)) = self.cells(line) else {
            let cells = self.separator.cells(line);
            let is_number = |cell: Option<&&str>| cell.is_some_and(|cell| is_value(cell));
            let is_row = cells.len() > 1 && is_number(cells.last()) && (self.steps == 0 || is_number(cells.first()));
            let is_torn = !self.is_left && (is_row || (self.separator == Separator::Bars && line.contains(is_bar)));
            self.is_doubtful |= is_torn;
            self.numbers.extend(
                cells.last().filter(|_| is_torn && self.numbers.len() < MOST_NUMBERS).map(|it| (*it).to_owned()),
            );
            return is_torn;
        };
        let cell = cells[self.column];
        let is_word = |cell: &&str| cell.contains(char::is_alphabetic) && !is_value(cell);
        let others = cells.iter().enumerate().filter(|(at, _)| *at != self.column).map(|(_, cell)| *cell);
        let label = index.into_iter().chain(others).find(is_word).unwrap_or_default();
        let is_all = contains(&AGGREGATES, label) || label.eq_ignore_ascii_case("all");
        let steps: Vec<f64> = cells[..self.steps].iter().map_while(|cell| step(cell)).collect();
        let are_numbers = !cells.iter().skip(usize::from(index.is_none())).any(is_word);
        let is_row = match self.separator {
            _ if self.steps > 0 => steps.len() == self.steps || (is_all && !self.is_left),
            Separator::Bars => self.is_ruled && !self.is_left,
            Separator::Commas => are_numbers && !self.is_left,
            _ => (self.is_ruled || (are_numbers && self.width + usize::from(index.is_some()) > 2)) && !self.is_left,
        };
        if !is_row {
            return false;
        }
        self.has_index = Some(index.is_some());
        let value = value_of(cell).map(|value| value.with_unit(self.unit.clone()));
        let is_torn = value.is_none() && cell.contains(|c: char| c.is_ascii_digit());
        if (value.is_some() || is_torn) && self.numbers.len() < MOST_NUMBERS {
            self.numbers.push(cell.to_owned());
        }
        match value {
            None => self.is_doubtful |= is_torn,
            Some(_) if self.steps == 0 && cells.iter().any(|cell| contains(WAYS, cell)) => {
                (self.of_all, self.is_doubtful) = (None, true)
            }
            Some(value) if is_all && self.steps == 0 && self.of_all.is_none() && !self.is_doubtful => {
                self.of_all = Some(value);
            }
            Some(_) if is_all => (self.of_all, self.is_doubtful) = (None, true),
            // `No log` is no phase of a step.
            Some(_) if qualifies(label) && (self.steps == 0 || !label.contains(is_blank)) => self.is_doubtful = true,
            Some(_) if label.eq_ignore_ascii_case("count") => self.is_doubtful = true,
            Some(value) => {
                let stride = steps.iter().zip(&self.at).next().map_or(0.0, |(step, before)| step - before);
                let is_next = steps > self.at && (!self.is_left || stride <= self.stride.max(1.0));
                self.are_several |= self.last.is_some() && !is_next;
                (self.last, self.at, self.stride, self.is_left) = (Some(value), steps, stride, false);
            }
        }
        true
    }

    fn has_rows(&self) -> bool {
        !self.numbers.is_empty()
    }

    fn found(&self) -> Option<&MetricMention> {
        self.of_all.as_ref().or(self.last.as_ref().filter(|_| !self.are_several && !self.is_doubtful))
    }
}

/// Returns whether a cell of a header is the name, and the unit in brackets behind it.
fn unit_in(cell: &str, name: &str) -> Option<Option<Unit>> {
    let rest = cell.strip_prefix(name)?;
    let (length, unit) = unit_behind(rest.as_bytes()).unzip();
    let rest = &rest[length.unwrap_or_default()..];
    rest.chars().all(|c| is_blank(c) || is_decoration(c) || matches!(c, ')' | '↑' | '↓')).then_some(unit)
}

/// The number of a cell, with nothing behind it but a deviation, a mark or words in parentheses.
fn value_of(cell: &str) -> Option<MetricMention> {
    // `120 B` are bytes here, and elsewhere billions.
    let (value, length) = value_at(cell.as_bytes()).filter(|_| !cell.ends_with(" B"))?;
    let rest = cell.get(length..)?.trim_start();
    let is_all = !rest.contains(char::is_alphanumeric) || rest.starts_with(['±', '(']) || rest.starts_with("+/-");
    is_all.then_some(value)
}

/// The step of a cell: `3`, `3/10`.
fn step(cell: &str) -> Option<f64> {
    cell.split('/').next()?.trim().parse().ok().filter(|step: &f64| step.fract().abs() < f64::EPSILON)
}

/// The line without the progress bar behind it, as in `3/9  0.5  640: 100%|███| 8/8`; absent until that is full.
fn without_progress(line: &str) -> Option<&str> {
    let Some((row, bar)) = line.split_once(": ") else { return Some(line) };
    let digits = bar.trim_start().split_once('%').map(|(digits, _)| digits);
    match digits.filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(digits) => (digits == "100").then_some(row),
        None => Some(line),
    }
}

/// The tables with a column of a name, of which the last one with rows counts.
#[derive(Debug, Default)]
pub(super) struct Tables {
    newest: Option<Table>,
    /// The last one before it that has rows.
    before: Option<Table>,
    /// True if the newest one has ended.
    is_over: bool,
    /// The last line with text.
    above: String,
    /// True if the last line ended in a carriage return, behind which a line break is no empty line.
    is_returned: bool,
    /// True if the last line was empty.
    is_parted: bool,
}

impl Tables {
    /// Reads complete lines.
    pub(super) fn read(&mut self, lines: &[u8], finder: &memmem::Finder<'_>) {
        let name = valid_text(finder.needle());
        let mut at = 0;
        while at < lines.len() {
            if self.newest.is_none() || self.is_over {
                // Only a line with the name can be a header.
                let found = finder.find(&lines[at..]).map_or(lines.len(), |found| at + found);
                let start = memrchr2(b'\n', b'\r', &lines[at..found]).map_or(at, |brk| at + brk + 1);
                let mut skipped = lines[at..start].rsplit(|byte| matches!(byte, b'\n' | b'\r'));
                if let Some(last) = skipped.find(|line| !line.trim_ascii().is_empty()) {
                    self.remember(last);
                }
                at = start;
            }
            let end = memchr2(b'\n', b'\r', &lines[at..]).map_or(lines.len(), |brk| at + brk);
            let line = &lines[at..end.min(at + LONGEST_LINE)];
            let is_break = std::mem::replace(&mut self.is_returned, lines.get(end) == Some(&b'\r')) && line.is_empty();
            if !is_break {
                self.line(valid_text(line), name);
            }
            if !line.trim_ascii().is_empty() {
                self.remember(line);
            }
            at = end + 1;
        }
    }

    fn remember(&mut self, line: &[u8]) {
        valid_text(&line[..line.len().min(LONGEST_LINE)]).clone_into(&mut self.above);
    }

    fn line(&mut self, line: &str, name: &str) {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let mut next = || words.next().unwrap_or_default();
        let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        let may_be_row = |first: &str, second: &str| is_number(first) || (contains(STEPS, first) && !is_number(second));
        let is_left = !self.is_over && self.newest.as_ref().is_some_and(|table| table.is_left && table.steps > 0);
        let was_parted = std::mem::replace(&mut self.is_parted, line.trim().is_empty());
        // The header of another table.
        let begins_other = |table: &Table| {
            let cells = Separator::of(line).cells(line);
            cells.len() == table.width && !cells.iter().any(|cell| is_value(cell))
        };
        if is_left && was_parted && !self.is_parted && self.newest.as_ref().is_some_and(begins_other) {
            self.is_over = true;
        }
        let is_left = is_left && !self.is_over;
        // As most lines behind a table of steps.
        if is_left && !line.contains(name) && !may_be_row(next(), next()) {
            return;
        }
        let Some(line) = without_progress(line).map(|line| line.trim_matches(is_blank)) else { return };
        let has_text = line.contains(char::is_alphanumeric);
        if let Some(table) = self.newest.as_mut().filter(|_| !self.is_over) {
            let cells = Separator::of(line).cells(line);
            let is_header = cells.len() > 1 && contains(STEPS, cells[0]) && !cells.iter().any(|cell| is_value(cell));
            match has_text {
                false if line.is_empty() => table.is_left |= table.has_rows(),
                false => table.is_ruled |= !table.has_rows(),
                true if table.read(line) => return,
                true if table.steps == 0 || (is_header && cells.len() == table.width) => self.is_over = true,
                true => table.is_left = true,
            }
        }
        if let Some(mut table) = Some(line).filter(|_| has_text).and_then(|line| Table::of(line, name, &self.above)) {
            self.before = self.newest.take().filter(Table::has_rows).or(self.before.take());
            if let Some(before) = self.before.as_ref().filter(|before| before.steps == 0) {
                table.is_doubtful = before.title.is_some() && table.title.is_some() && before.title != table.title;
            }
            (self.newest, self.is_over) = (Some(table), false);
        }
    }

    /// The last one with rows.
    fn counting(&self) -> Option<&Table> {
        self.newest.as_ref().filter(|table| table.has_rows()).or(self.before.as_ref())
    }

    /// The number of the last step so far, if it is finite.
    pub(super) fn last(&self) -> Option<&Number> {
        match self.counting().filter(|table| table.steps > 0)?.found()? {
            MetricMention::Number(number) => Some(number),
            MetricMention::NotFinite(_) => None,
        }
    }

    /// What the last table says of the name.
    pub(super) fn reading(&self) -> Option<Reading> {
        let table = self.counting()?;
        let found = table.found().cloned().map(|value| Reading::Value(Extents::WHOLE, value));
        found.or_else(|| (table.numbers.len() > 1).then(|| Reading::Several(table.numbers.clone())))
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
