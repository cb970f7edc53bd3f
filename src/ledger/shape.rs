//! Finds the columns of a ledger's table by its header or by its cells.

use super::cell::{Quantity, number, quantity};
use super::columns::{Columns, is_without_unit, memory_unit, metric_assumed, verdict};
use super::status::{RowStatus, Verdict, classify};
use super::table::{Form, Line, Lines};
use super::text::Cells;

/// Karpathy's columns, for a file of his shape without a header; the second is named after the metric.
const KARPATHY: [&str; 5] = ["commit", "metric", "memory_gb", "status", "description"];

/// Maximum number of rows to check for what a column contains.
const SAMPLE: usize = 1000;

/// From which bare number on memory is taken to be in MiB: no single GPU has a TiB.
const SURELY_MIB: f64 = 1024.0;

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    /// The header's cells; empty where there is no header.
    pub(super) header: Vec<String>,
    /// Number of cells in a row.
    pub(super) width: usize,
    pub(super) columns: Columns,
    pub(super) verdict: Verdict,
    pub(super) memory_unit: f64,
    /// The metric's name; absent where nothing says it.
    pub(super) metric: Option<String>,
    /// True if the first line is the header.
    pub(super) skip: bool,
}

impl Shape {
    pub(super) fn find(text: &str, form: Form, metric: Option<&str>, assumed: &mut Vec<String>) -> Self {
        let mut lines = Lines::new(text, form);
        let mut line = Line::default();
        if !lines.read(&mut line) {
            assumed.push("it has neither a header nor a row".to_owned());
        }
        let first: Vec<String> = line.cells.iter().map(|cell| cell.trim().to_owned()).collect();
        let width = first.len();
        lines.width = Some(width);
        let comment = lines.comment_cells().filter(|(_, cells)| cells.len() == width);
        let has_header = first.iter().all(|cell| number(cell).is_none());
        let mut sample = Sample { rows: Vec::new(), width };
        if !has_header {
            sample.rows.push(line.cells.clone());
        }
        while sample.rows.len() < SAMPLE && lines.read(&mut line) {
            if line.cells.len() == width {
                sample.rows.push(line.cells.clone());
            }
        }
        let shape = Shape {
            form,
            header: Vec::new(),
            width,
            columns: Columns::default(),
            verdict: Verdict::Word,
            memory_unit: 1.0,
            metric: metric.map(str::to_owned),
            skip: has_header && width > 0,
        };
        if has_header {
            return shape.with_header(first, &sample, assumed);
        }
        if let Some((number, cells)) = comment {
            let names: Vec<String> = cells.iter().map(|cell| cell.trim().to_owned()).collect();
            let Columns { commit, status, .. } = Columns::by_name(&names, None);
            if commit.or(status).is_some() {
                assumed.push(format!(
                    "the comment in line {number} is the header; a first line without a number says otherwise"
                ));
                return shape.with_header(names, &sample, assumed);
            }
        }
        shape.without_header(&sample, assumed)
    }

    /// Finds the columns by their names.
    fn with_header(self, header: Vec<String>, sample: &Sample<'_>, assumed: &mut Vec<String>) -> Self {
        let mut columns = Columns::by_name(&header, self.metric.as_deref());
        let likely = || columns.likely_metric(&header, |column| sample.mostly(&is_number, column));
        let plain = columns.commit == Some(0)
            && self.width > 1
            && columns.may_be_said_metric(1, &header[1])
            && !columns.is_time_beside(1, &header, |column| sample.any(&is_number, column))
            && (sample.any(&is_number, 1) || likely().is_none_or(|(column, _)| column == 1));
        let mut metric = self.metric;
        if let Some(name) = &metric {
            if columns.metric.is_none() && self.width > 0 {
                let names = header.join(", ");
                assumed.push(format!(
                    "no column is named `{name}`, so no row has a value: `--metric` names one of {names}"
                ));
            }
        } else if plain {
            columns.metric = Some(1);
            metric = Some(header[1].clone());
        } else {
            let found = likely();
            columns.metric = found.map(|(column, _)| column);
            metric = columns.metric.map(|column| header[column].clone());
            assumed.push(metric_assumed(found.map(|(column, is_named)| (header[column].as_str(), is_named)), "column"));
        }
        let mut unit = columns.memory.and_then(|column| memory_unit(&header[column])).unwrap_or(1.0);
        if let Some(column) = columns.memory.filter(|&column| is_without_unit(&header[column])) {
            let name = &header[column];
            let any = |test: &dyn Fn(&Quantity<'_>) -> bool| {
                let is_bare = |cell: &str| quantity(cell).is_some_and(|found| found.unit.is_empty() && test(&found));
                sample.any(&is_bare, column)
            };
            if any(&|found| found.value >= SURELY_MIB) {
                unit = 1024.0;
                assumed.push(format!(
                    "`{name}` is in MiB, as its numbers are large; `{name}_gb` as its name says otherwise"
                ));
            } else if any(&|found| found.memory(1.0).is_some()) {
                assumed.push(format!("`{name}` is in GiB; `{name}_mb` as its name says otherwise"));
            }
        }
        Shape {
            verdict: columns.status.map_or(Verdict::Word, |column| verdict(&header[column])),
            memory_unit: unit,
            header,
            columns,
            metric,
            ..self
        }
    }

    /// Finds the columns by what stands in them. The metric may be said as the number of its column, from 1.
    fn without_header(self, sample: &Sample<'_>, assumed: &mut Vec<String>) -> Self {
        let width = self.width;
        let is_verdict = |cell: &str| classify(cell, Verdict::Word) != RowStatus::Other;
        let status = (0..width).find(|&column| sample.mostly(&is_verdict, column));
        let mut columns = Columns { status, ..Columns::default() };
        let said =
            self.metric.as_deref().and_then(|name| name.parse().ok()).filter(|number| (1..=width).contains(number));
        if said.is_none() && width == KARPATHY.len() && status == Some(3) && sample.mostly(&is_number, 1) {
            columns = Columns::by_name(&KARPATHY, Some("metric"));
            assumed.push(format!(
                "the columns are {}, as there is no header; a first line of names says otherwise",
                KARPATHY.join(", ")
            ));
            return Shape { columns, ..self };
        }
        let numbers: Vec<usize> = (0..width).filter(|&column| sample.mostly(&is_number, column)).collect();
        columns.metric = match (said, &numbers[..]) {
            (Some(number), _) => Some(number - 1),
            (None, [only]) => Some(*only),
            _ => None,
        };
        columns.commit = (0..width).find(|&column| sample.mostly(&is_hash, column) && columns.metric != Some(column));
        columns.description = width
            .checked_sub(1)
            .filter(|&last| !numbers.contains(&last) && columns.status != Some(last) && columns.commit != Some(last));
        let value = match columns.metric {
            Some(column) => format!("column {} is the metric", column + 1),
            None => "the metric column is unknown".to_owned(),
        };
        let otherwise = "`--metric 2` takes the second, a first line of names says all of them";
        assumed.push(format!("there is no header, and {value}; {otherwise}"));
        Shape { columns, metric: self.metric.filter(|_| said.is_none()), ..self }
    }

    /// The columns that were found, as what and name.
    pub(super) fn found(&self) -> Vec<(&'static str, String)> {
        let Columns { commit, metric, memory, status, description } = self.columns;
        let roles = [
            ("commit", commit),
            ("metric", metric),
            ("memory", memory),
            ("verdict", status),
            ("description", description),
        ];
        let name = |column: usize| self.header.get(column).cloned().unwrap_or_else(|| format!("column {}", column + 1));
        roles.into_iter().filter_map(|(role, column)| Some((role, name(column?)))).collect()
    }
}

fn is_number(cell: &str) -> bool {
    quantity(cell).is_some()
}

fn is_hash(cell: &str) -> bool {
    let cell = cell.trim();
    (7..=64).contains(&cell.len()) && cell.chars().all(|c| c.is_ascii_hexdigit()) || cell == "HEAD"
}

/// The first well-formed rows.
struct Sample<'a> {
    rows: Vec<Cells<'a>>,
    width: usize,
}

impl Sample<'_> {
    fn count(&self, test: &dyn Fn(&str) -> bool, column: usize) -> usize {
        self.rows.iter().filter(|row| row.get(column).is_some_and(|cell| test(cell))).count()
    }

    /// Returns whether most cells of a column pass a test; true if there are no rows.
    fn mostly(&self, test: &dyn Fn(&str) -> bool, column: usize) -> bool {
        column < self.width && (self.rows.is_empty() || self.count(test, column) * 2 > self.rows.len())
    }

    /// Returns whether any cell of a column passes a test; true if there are no rows.
    fn any(&self, test: &dyn Fn(&str) -> bool, column: usize) -> bool {
        column < self.width && (self.rows.is_empty() || self.count(test, column) > 0)
    }
}
