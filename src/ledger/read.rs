//! Reading a ledger that anybody wrote.

use csv::{ByteRecord, ReaderBuilder};
use memchr::memchr_iter;

use super::columns::{Columns, memory_unit, verdict};
use super::jsonl;
use super::status::{RowStatus, Verdict, classify};
use crate::domain::{Direction, Number};

/// Karpathy's columns, for a file of his shape without a header; the second is named after the metric.
const KARPATHY: [&str; 5] = ["commit", "metric", "memory_gb", "status", "description"];

/// A ledger, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// The metric's name; absent where nothing says it.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Direction,
    /// What was taken for granted, one sentence each, as lower-case fragments that say how to say otherwise.
    pub assumed: Vec<String>,
    /// The header's cells; empty where there is no header, and for JSON lines.
    pub columns: Vec<String>,
    /// Whether the rows say what became of them.
    pub has_verdict: bool,
    /// All rows, in the file's order.
    pub rows: Vec<Row>,
}

/// A row of a ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// The commit's cell as it is; absent where there is no such column.
    pub commit: Option<String>,
    /// The metric; absent where the cell is no number, and for the zero of a crash.
    pub value: Option<Number>,
    /// Memory in GiB.
    pub memory_gb: Option<f64>,
    /// What the row is counted as.
    pub status: RowStatus,
    /// What it says it tried.
    pub description: String,
    /// Why it is malformed.
    pub problem: Option<String>,
}

impl Row {
    pub(super) fn malformed(line: u64, text: &str, problem: String) -> Self {
        Row {
            line,
            commit: None,
            value: None,
            memory_gb: None,
            status: RowStatus::Malformed,
            description: text.to_owned(),
            problem: Some(problem),
        }
    }

    /// Takes the zero of a crash for what it means: no value.
    pub(super) fn without_crash_zero(mut self) -> Self {
        if self.status == RowStatus::Crash && self.value.as_ref().is_some_and(|number| number.value == 0.0) {
            self.value = None;
        }
        self
    }
}

/// Reads a tab-separated or JSON-lines ledger, whatever is wrong with it; what it cannot read as a row it counts.
///
/// The metric and its direction are the given ones, else what a plain header says (first column the commit, second
/// the metric, lower is better), else the likeliest, which [`Ledger::assumed`] then says.
pub fn read(bytes: &[u8], metric: Option<&str>, direction: Option<Direction>) -> Ledger {
    let text = decode(bytes);
    if text.trim_start().starts_with('{') {
        return jsonl::read(&text, metric, direction);
    }
    let lines = lines(text.as_bytes());
    let mut assumed = Vec::new();
    let shape = Shape::find(&lines, metric, &mut assumed);
    let direction = direction.unwrap_or_else(|| {
        let name = shape.metric.as_deref().unwrap_or_default();
        if !shape.plain || Direction::is_unclear_for(name) {
            assumed.push("lower is better; `--higher` says otherwise".to_owned());
        }
        Direction::Lower
    });
    let rows = lines.iter().skip(shape.skip).map(|line| shape.row(line)).collect();
    Ledger {
        has_verdict: shape.columns.status.is_some(),
        metric: shape.metric,
        direction,
        assumed,
        columns: shape.header,
        rows,
    }
}

/// A line that is neither blank nor a comment.
struct Line {
    number: u64,
    cells: ByteRecord,
}

impl Line {
    fn cell(&self, column: usize) -> String {
        String::from_utf8_lossy(self.cells.get(column).unwrap_or_default()).into_owned()
    }
}

fn lines(text: &[u8]) -> Vec<Line> {
    let mut reader =
        ReaderBuilder::new().delimiter(b'\t').quoting(false).flexible(true).has_headers(false).from_reader(text);
    let (mut counted, mut number) = (0, 1);
    // Reading from memory without quoting and with any number of fields cannot fail.
    let records = reader.byte_records().map_while(Result::ok);
    records
        .map(|cells| {
            // The reader's position is where the record before ended: in front of blank lines.
            let before = cells.position().and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(counted);
            let blank = text[before..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            number += memchr_iter(b'\n', &text[counted..before + blank]).count() as u64;
            counted = before + blank;
            Line { number, cells }
        })
        .filter(|line| {
            let comment = line.cells.get(0).is_some_and(|cell| cell.trim_ascii_start().starts_with(b"#"));
            !comment && line.cells.iter().any(|cell| !cell.trim_ascii().is_empty())
        })
        .collect()
}

/// What the columns of a ledger are.
struct Shape {
    header: Vec<String>,
    /// How many cells a row has.
    width: usize,
    columns: Columns,
    verdict: Verdict,
    memory_unit: f64,
    metric: Option<String>,
    /// Whether the header says metric and direction by itself.
    plain: bool,
    /// How many lines are no rows.
    skip: usize,
}

impl Shape {
    fn find(lines: &[Line], metric: Option<&str>, assumed: &mut Vec<String>) -> Self {
        let width = lines.first().map_or(0, |line| line.cells.len());
        let first: Vec<String> = (0..width).map(|column| lines[0].cell(column).trim().to_owned()).collect();
        if first.iter().any(|cell| number(cell).is_some()) {
            return Shape::without_header(lines, width, metric, assumed);
        }
        let mut columns = Columns::by_name(&first, metric);
        let plain = columns.commit == Some(0) && width > 1 && columns.status != Some(1);
        let name = match metric {
            Some(name) => {
                if columns.metric.is_none() && width > 0 {
                    assumed.push(format!(
                        "no column is named `{name}`, so no row has a value: `--metric` names one of {}",
                        first.join(", ")
                    ));
                }
                Some(name.to_owned())
            }
            None if plain => {
                columns.metric = Some(1);
                Some(first[1].clone())
            }
            None => {
                columns.metric = likely_metric(lines, &first, &columns);
                let name = columns.metric.map(|column| first[column].clone());
                match &name {
                    Some(name) => assumed.push(format!("`{name}` is the metric; `--metric NAME` names another column")),
                    None => assumed.push("no column looks like the metric; `--metric NAME` names it".to_owned()),
                }
                name
            }
        };
        Shape {
            verdict: columns.status.map_or(Verdict::Word, |column| verdict(&first[column])),
            memory_unit: columns.memory.and_then(|column| memory_unit(&first[column])).unwrap_or(1.0),
            plain: plain && columns.metric == Some(1),
            header: first,
            width,
            columns,
            metric: name,
            skip: 1,
        }
    }

    /// Finds the columns by what stands in them.
    fn without_header(lines: &[Line], width: usize, metric: Option<&str>, assumed: &mut Vec<String>) -> Self {
        let rows: Vec<&Line> = lines.iter().filter(|line| line.cells.len() == width).collect();
        let share = |test: &dyn Fn(&str) -> bool, column: usize| {
            let hits = rows.iter().filter(|line| test(&line.cell(column))).count();
            hits * 2 > rows.len()
        };
        let is_verdict = |cell: &str| classify(cell, Verdict::Word) != RowStatus::Other;
        let mut columns =
            Columns { status: (0..width).find(|&column| share(&is_verdict, column)), ..Columns::default() };
        let is_number = |cell: &str| number(cell).is_some();
        if width == KARPATHY.len() && columns.status == Some(3) && share(&is_number, 1) {
            columns = Columns::by_name(&KARPATHY, Some("metric"));
            assumed.push(format!("the columns are {}, as there is no header", KARPATHY.join(", ")));
        } else {
            let numbers: Vec<usize> = (0..width).filter(|&column| share(&is_number, column)).collect();
            if let [only] = numbers[..] {
                columns.metric = Some(only);
            }
            let hex = |cell: &str| {
                let cell = cell.trim();
                (7..=64).contains(&cell.len()) && cell.chars().all(|c| c.is_ascii_hexdigit()) || cell == "HEAD"
            };
            columns.commit = (0..width).find(|&column| share(&hex, column) && columns.metric != Some(column));
            columns.description = width.checked_sub(1).filter(|&last| {
                !numbers.contains(&last) && columns.status != Some(last) && columns.commit != Some(last)
            });
            let value = match columns.metric {
                Some(column) => format!("column {} is the metric", column + 1),
                None => "which column is the metric cannot be told: a header line would say it".to_owned(),
            };
            assumed.push(format!("there is no header; {value}"));
        }
        Shape {
            header: Vec::new(),
            width,
            columns,
            verdict: Verdict::Word,
            memory_unit: 1.0,
            metric: metric.map(str::to_owned),
            plain: false,
            skip: 0,
        }
    }

    fn row(&self, line: &Line) -> Row {
        if line.cells.len() != self.width {
            let text: Vec<String> = (0..line.cells.len()).map(|column| line.cell(column)).collect();
            let problem = format!("{} fields, not {}", line.cells.len(), self.width);
            return Row::malformed(line.number, &text.join("\t"), problem);
        }
        let cell = |column: Option<usize>| column.map(|column| line.cell(column));
        let memory = cell(self.columns.memory).and_then(|cell| number(&cell));
        Row {
            line: line.number,
            commit: cell(self.columns.commit),
            value: cell(self.columns.metric).and_then(|cell| number(&cell)),
            memory_gb: memory.map(|number| number.value / self.memory_unit),
            status: cell(self.columns.status).map_or(RowStatus::Other, |cell| classify(&cell, self.verdict)),
            description: cell(self.columns.description).unwrap_or_default(),
            problem: None,
        }
        .without_crash_zero()
    }
}

/// The first column that may be the metric and mostly holds numbers.
fn likely_metric(lines: &[Line], header: &[String], columns: &Columns) -> Option<usize> {
    let rows: Vec<&Line> = lines.iter().skip(1).filter(|line| line.cells.len() == header.len()).collect();
    (0..header.len()).find(|&column| {
        let numbers = rows.iter().filter(|line| number(&line.cell(column)).is_some()).count();
        columns.may_be_metric(column, &header[column]) && numbers * 2 > rows.len()
    })
}

/// The number that is all of a cell; a closing `%` does not count.
pub(super) fn number(cell: &str) -> Option<Number> {
    let cell = cell.trim();
    cell.strip_suffix('%').map_or(cell, str::trim_end).parse().ok()
}

/// Bytes to text: UTF-8, or UTF-16 by its mark; what is neither becomes replacement characters.
fn decode(bytes: &[u8]) -> String {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            return String::from_utf8_lossy(bytes).into_owned();
        }
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
