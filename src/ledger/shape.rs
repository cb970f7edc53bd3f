//! The shape of a ledger's table: its columns, found by its header or by its cells, and the words and number formats of
//! its rows.

use csv::StringRecord;
use strum::VariantArray;

use super::columns::{
    CHECKS, ColumnPositions, DIRECTION, DIRECTION_FLAGS, METRIC, NAME, PERHAPS_STATUS, POINTER, STATUS, SWEPT, VALUE,
    is_nothing, is_scaled, is_weak, is_without_unit, memory, memory_unit, metric_assumed, named, number, quantity,
    verdict,
};
use super::{Cells, LedgerForm, RowStatus, TableLine, TableLines, VerdictColumn, classify, table, yes_or_no};
use crate::domain::{
    CommitId, DialectFormat, Direction, FailureClass, LedgerDialect, Number, Outcome, Record, Unit, one_line,
    plain_name,
};

/// Karpathy's columns, for a file of his shape without a header; the second is named after the metric.
const KARPATHY: [&str; 5] = ["commit", "metric", "memory_gb", "status", "description"];

/// Maximum number of rows to check for what a column contains.
pub(super) const SAMPLE: usize = 1000;

/// From which bare number on memory is taken to be in MiB: no single GPU has a TiB.
const SURELY_MIB: f64 = 1024.0;

/// The columns of a table.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) form: LedgerForm,
    /// The header's cells; empty where there is no header.
    pub(super) header: Vec<String>,
    /// Number of cells in a row.
    pub(super) width: usize,
    pub(super) columns: ColumnPositions,
    pub(super) verdict: VerdictColumn,
    /// GiB unless something says otherwise.
    pub(super) memory_unit: Option<Unit>,
    /// The number of the metric in whose unit the others are: the first with a unit, else the first.
    pub(super) reference: Option<Number>,
    /// True if all numbers of the metric have scales, as `3.1K`.
    pub(super) is_scaled: bool,
    /// The metric's name; absent where nothing says it.
    pub(super) metric: Option<String>,
    /// The column with the names of the rows' metrics, and the name that counts, where rows differ in it.
    pub(super) only: Option<(usize, String)>,
    /// The direction that a column states.
    pub(super) direction: Option<Direction>,
    /// The columns that say whether a result is right.
    pub(super) checks: Vec<usize>,
    /// True if the first line is the header.
    pub(super) skip: bool,
}

impl Shape {
    pub(super) fn find(text: &str, form: LedgerForm, metric: Option<&str>, assumed: &mut Vec<String>) -> Self {
        let mut lines = TableLines::new(text, form);
        let mut line = TableLine::default();
        if !lines.read(&mut line) {
            assumed.push("it has neither a header nor a row".to_owned());
        }
        let first: Vec<String> = line.cells.iter().map(|cell| cell.trim().to_owned()).collect();
        let width = first.len();
        lines.width = Some(width);
        let comment = lines.comment_cells().filter(|(_, cells)| cells.len() == width);
        let has_header = first.iter().all(|cell| number(cell).is_none());
        let mut sample = SampleRows { rows: Vec::new() };
        if !has_header {
            sample.rows.push(line.cells.clone());
        }
        while sample.rows.len() < SAMPLE && lines.read(&mut line) {
            if line.cells.len() == width {
                sample.rows.push(line.cells.clone());
            }
        }
        let shape =
            Shape { metric: metric.map(str::to_owned), skip: has_header && width > 0, form, width, ..Shape::default() };
        if has_header {
            return shape.with_header(first, &sample, assumed).with_units(&sample);
        }
        if let Some((number, cells)) = comment {
            let names: Vec<String> = cells.iter().map(|cell| cell.trim().to_owned()).collect();
            let ColumnPositions { commit, status, .. } = ColumnPositions::by_name(&names, None);
            if commit.or(status).is_some() {
                assumed.push(format!(
                    "the comment in line {number} is the header; a first line without a number says otherwise"
                ));
                return shape.with_header(names, &sample, assumed).with_units(&sample);
            }
        }
        shape.without_header(&sample, assumed).with_units(&sample)
    }

    /// The columns of JSON objects, whose fields are the header. A config line may name the metric.
    pub(super) fn of_fields(
        form: LedgerForm,
        wanted: Option<&str>,
        config: Option<&str>,
        header: Vec<String>,
        sample: &SampleRows<'_>,
        assumed: &mut Vec<String>,
    ) -> Self {
        // The field `metric` holds the number of the metric that a config line names.
        let is_own = |name: &str| config.map_or(!header.iter().any(|field| field == name), |config| config == name);
        let own = header.iter().position(|field| field == "metric").filter(|&column| sample.is_numeric(column));
        let column = if own.is_some() && wanted.is_some_and(is_own) { Some("metric") } else { wanted };
        let shape = Shape { metric: column.map(str::to_owned), form, width: header.len(), ..Shape::default() };
        let found = shape.with_header(header, sample, assumed);
        Shape { metric: wanted.map(str::to_owned).or(found.metric), ..found }.with_units(sample)
    }

    /// Finds the unit of the metric.
    fn with_units(self, sample: &SampleRows<'_>) -> Self {
        let Some(column) = self.columns.metric else { return self };
        let numbers: Vec<Number> = sample.cells(column).filter_map(quantity).collect();
        let has_unit = |number: &&Number| number.unit.as_ref().is_some_and(|unit| !unit.is_percent());
        // Beside numbers of at most 1, those in percent are hundredths.
        let is_bare = |number: &&Number| number.unit.is_none();
        let reference = numbers.iter().find(has_unit).or(numbers.iter().find(is_bare)).or(numbers.first()).cloned();
        let reference = reference.map(|number| number.named(self.metric.as_deref().unwrap_or_default()));
        Shape { is_scaled: numbers.iter().all(is_scaled), reference, ..self }
    }

    /// Finds the columns by their names, and by what stands in them where names do not tell.
    fn with_header(self, header: Vec<String>, sample: &SampleRows<'_>, assumed: &mut Vec<String>) -> Self {
        let is_json = matches!(self.form, LedgerForm::JsonLines | LedgerForm::JsonArray);
        let what = if is_json { "field" } else { "column" };
        let mut columns = ColumnPositions::by_name(&header, self.metric.as_deref());
        columns.status = sample.verdict_column(&header);
        let checks: Vec<usize> = named(&header, &CHECKS);
        let may_be = |column: usize| sample.may_be_metric(column, &header, &checks);
        let likely = columns.likely_metric(&header, may_be).or_else(|| Some((sample.timed(&header)?, true)));
        let pointed = sample.pointed_column(&header).filter(|column| may_be(*column));
        let likely = pointed.map(|column| (column, true)).or(likely);
        let is_second = |(column, _)| column == 1;
        let plain = !is_json
            && pointed.is_none_or(|column| column == 1)
            && columns.commit == Some(0)
            && self.width > 1
            && columns.may_be_said_metric(1, &header[1])
            && (likely.is_none_or(is_second) || (sample.any(&is_number, 1) && may_be(1) && !is_weak(&header[1])));
        let mut metric = self.metric;
        let in_rows = named_in_rows(metric.as_deref(), &header, sample);
        let by_row = in_rows.filter(|(_, value, _)| match &metric {
            Some(_) => columns.metric.is_none(),
            None => likely.is_some_and(|(column, _)| column == *value),
        });
        let mut only = None;
        if let Some((column, value, name)) = by_row {
            columns.metric = Some(value);
            metric = Some(name.clone());
            only = Some((column, name));
        } else if let Some(name) = &metric {
            if columns.metric.is_none() && self.width > 0 {
                let numeric = (0..self.width).filter(|&column| sample.any(&is_number, column));
                assumed.push(metric_missing(name, &numeric.map(|column| &*header[column]).collect::<Vec<_>>(), what));
            }
        } else if plain {
            columns.metric = Some(1);
            metric = Some(header[1].clone());
        } else {
            columns.metric = likely.map(|(column, _)| column);
            metric = columns.metric.map(|column| header[column].clone());
            assumed.push(metric_assumed(likely.map(|(column, is_named)| (header[column].as_str(), is_named)), what));
        }
        Shape {
            verdict: columns.status.map_or(VerdictColumn::Word, |column| sample.verdict_of(column, &header)),
            memory_unit: sample.memory_unit(columns.memory, &header, assumed),
            direction: sample.stated_direction(&header),
            header,
            checks: checks.into_iter().filter(|column| columns.metric != Some(*column)).collect(),
            columns,
            metric,
            only,
            ..self
        }
    }

    /// Finds the columns by what stands in them. The metric may be said as the number of its column, from 1.
    fn without_header(self, sample: &SampleRows<'_>, assumed: &mut Vec<String>) -> Self {
        let width = self.width;
        let is_verdict = |cell: &str| classify(cell, VerdictColumn::Word).is_verdict();
        let status = (0..width).find(|&column| sample.mostly(&is_verdict, column));
        let mut columns = ColumnPositions { status, ..ColumnPositions::default() };
        let said =
            self.metric.as_deref().and_then(|name| name.parse().ok()).filter(|number| (1..=width).contains(number));
        if said.is_none() && width == KARPATHY.len() && status == Some(3) && sample.mostly(&is_number, 1) {
            columns = ColumnPositions::by_name(&KARPATHY, Some("metric"));
            assumed.push(format!(
                "the columns are {}, as there is no header; a first line of names says otherwise",
                KARPATHY.join(", ")
            ));
            return Shape { columns, ..self };
        }
        let numbers: Vec<usize> = (0..width).filter(|&column| sample.is_numeric(column)).collect();
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
        let ColumnPositions { commit, metric, memory, status, description } = self.columns;
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

/// The columns of the rows' metrics and of their values, and the name that counts, where rows name their metric themselves.
fn named_in_rows(wanted: Option<&str>, header: &[String], sample: &SampleRows<'_>) -> Option<(usize, usize, String)> {
    let value = named(header, VALUE).into_iter().find(|&column| sample.any(&is_number, column))?;
    named(header, NAME).into_iter().find_map(|column| {
        let mut names: Vec<&str> = sample.cells(column).filter(|cell| !is_number(cell)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        // Names of metrics come again, names of runs do not.
        let is_of_metrics = plain_name(&header[column]).starts_with("metric") || names.len() * 2 <= count;
        let likely = || ColumnPositions::default().likely_metric(&names, |_| true).map_or(0, |(place, _)| place);
        let place = wanted.map_or_else(|| Some(likely()), |wanted| names.iter().position(|name| *name == wanted))?;
        Some((column, value, (*names.get(place).filter(|_| is_of_metrics)?).to_owned()))
    })
}

/// The first well-formed rows.
pub(super) struct SampleRows<'a> {
    pub(super) rows: Vec<Cells<'a>>,
}

/// Says that no column has the metric's name; `numeric` are those with numbers.
fn metric_missing(name: &str, numeric: &[&str], what: &str) -> String {
    match numeric {
        [] => format!("no {what} is named `{name}`, and none holds numbers, so no row has a value"),
        names => {
            format!("no {what} is named `{name}`, so no row has a value: `--metric` names one of {}", names.join(", "))
        }
    }
}

impl SampleRows<'_> {
    /// The cells of a column that are not blank.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().filter_map(move |row| row.get(column));
        cells.map(|cell| cell.trim()).filter(|cell| !is_nothing(cell))
    }

    /// Returns whether most cells of a column that are not blank pass a test; true if there are no rows.
    fn mostly(&self, test: &dyn Fn(&str) -> bool, column: usize) -> bool {
        let passed = self.cells(column).filter(|cell| test(cell)).count();
        self.rows.is_empty() || passed * 2 > self.cells(column).count()
    }

    /// Returns whether any cell of a column passes a test; true if there are no rows.
    fn any(&self, test: &dyn Fn(&str) -> bool, column: usize) -> bool {
        self.rows.is_empty() || self.cells(column).any(test)
    }

    /// Returns whether a column holds numbers.
    pub(super) fn is_numeric(&self, column: usize) -> bool {
        self.mostly(&is_number, column)
    }

    /// Returns whether a column counts the rows: each number is one more than that before.
    fn is_counter(&self, column: usize) -> bool {
        let numbers: Vec<f64> = self.cells(column).filter_map(|cell| Some(number(cell)?.value)).collect();
        numbers.len() > 1 && numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0)
    }

    /// The column of the verdicts: the first with words such as keep and discard, else the first that is named so, else one that
    /// says of each row whether it failed.
    fn verdict_column(&self, header: &[String]) -> Option<usize> {
        let perhaps = named(header, PERHAPS_STATUS);
        let named = named(header, &STATUS);
        let is_of = |cell: &str, verdict| matches!(classify(cell, verdict), RowStatus::Keep | RowStatus::Discard);
        let says = |column: &usize| {
            let verdict = match verdict(&header[*column]) {
                VerdictColumn::Word => VerdictColumn::WideWord,
                other => other,
            };
            self.cells(*column).any(|cell| is_of(cell, verdict))
        };
        let status = |cell: &str| match cell.chars().all(char::is_alphabetic) {
            true => classify(cell, VerdictColumn::WideWord),
            false => RowStatus::Other,
        };
        let says_only = |column: &usize| {
            self.cells(*column).any(|cell| is_of(cell, VerdictColumn::WideWord))
                && self.cells(*column).all(|cell| status(cell).is_verdict())
        };
        let says_failed = |column: &usize| {
            !self.rows.is_empty()
                && self.cells(*column).any(|cell| status(cell) == RowStatus::Crash)
                && self.cells(*column).all(|cell| status(cell) != RowStatus::Other)
        };
        let first = |says: &dyn Fn(&usize) -> bool| (0..header.len()).find(says);
        let found = named.iter().copied().find(says).or_else(|| first(&says_only));
        let found = found.or_else(|| perhaps.into_iter().find(says));
        // `failed` may count tests.
        let may_be_flag = |column: &usize| match verdict(&header[*column]) {
            VerdictColumn::Failure | VerdictColumn::Undone => {
                !self.is_numeric(*column) || Direction::of_name(&header[*column]).is_none()
            }
            _ => false,
        };
        let flag = || first(&|column| may_be_flag(column) && self.says_yes_or_no(*column));
        found.or_else(flag).or(named.first().copied()).or_else(|| first(&says_failed))
    }

    /// Returns whether all cells of a column say yes or no.
    fn says_yes_or_no(&self, column: usize) -> bool {
        let mut answers = self.cells(column).map(yes_or_no).peekable();
        answers.peek().is_some() && answers.all(|answer| answer.is_some())
    }

    /// The kind of a verdict's column: one that only says yes and no in words, such as `decision`, says whether a row was kept.
    fn verdict_of(&self, column: usize, header: &[String]) -> VerdictColumn {
        match verdict(&header[column]) {
            VerdictColumn::Word if self.says_yes_or_no(column) && !self.is_numeric(column) => VerdictColumn::Flag,
            kind => kind,
        }
    }

    /// Returns whether the numbers of a column can be a metric's: it does not count, check, or vary with a setting that is tried.
    fn may_be_metric(&self, column: usize, header: &[String], checks: &[usize]) -> bool {
        let name = plain_name(&header[column]);
        let is_swept = || named(header, SWEPT).iter().any(|&it| self.cells(it).any(|cell| plain_name(cell) == name));
        let is_other = checks.contains(&column) && self.cells(column).all(|cell| matches!(cell, "0" | "1"))
            || Direction::of_name(&header[column]).is_none() && !METRIC.contains(&&*name) && self.is_counter(column)
            || is_swept();
        self.is_numeric(column) && !is_other
    }

    /// The column of times with units. A time by the clock has no unit.
    fn timed(&self, header: &[String]) -> Option<usize> {
        let is_timed = |cell: &str| cell.contains(char::is_alphabetic) && is_number(cell);
        named(header, &["time", "duration"]).into_iter().find(|&column| self.mostly(&is_timed, column))
    }

    /// The column that all rows name in another one.
    fn pointed_column(&self, header: &[String]) -> Option<usize> {
        let mut names = named(header, POINTER).into_iter().map(|column| self.cells(column).collect::<Vec<_>>());
        names.find_map(|names| {
            let name = names.first().filter(|first| names.iter().all(|name| name == *first))?;
            header.iter().position(|column| column == name)
        })
    }

    /// The direction that a column states, where all its rows state the same.
    pub(super) fn stated_direction(&self, header: &[String]) -> Option<Direction> {
        let flagged = DIRECTION_FLAGS.into_iter().flat_map(|(name, direction)| {
            let flags = named(header, &[name]).into_iter().flat_map(|column| self.cells(column)).filter_map(yes_or_no);
            flags.map(move |flag| if flag { direction } else { direction.other() })
        });
        let stated = named(header, DIRECTION).into_iter().flat_map(|column| self.cells(column));
        let mut stated = stated.filter_map(Direction::stated).chain(flagged);
        stated.next().filter(|first| stated.all(|other| other == *first))
    }

    /// The unit of the memory column: what its name says, else what its numbers do.
    fn memory_unit(&self, column: Option<usize>, header: &[String], assumed: &mut Vec<String>) -> Option<Unit> {
        let column = column?;
        let name = &header[column];
        let unit = memory_unit(name);
        let any = |test: &dyn Fn(&Number) -> bool| {
            let is_bare = |cell: &str| quantity(cell).is_some_and(|found| found.unit.is_none() && test(&found));
            is_without_unit(name) && self.any(&is_bare, column)
        };
        if any(&|found| found.value >= SURELY_MIB) {
            assumed
                .push(format!("`{name}` is in MiB, as its numbers are large; `{name}_gb` as its name says otherwise"));
            return Some(Unit::new("MiB"));
        }
        if any(&|found| memory(found, unit.as_ref()).is_some()) {
            assumed.push(format!("`{name}` is in GiB; `{name}_mb` as its name says otherwise"));
        }
        unit
    }
}

/// The value of a keep without a number of its own, in every dialect.
const UNNUMBERED: &str = "nan";

/// The content of an experiment's row.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// Its commit.
    pub commit: &'a CommitId,
    /// The measured number.
    pub value: Option<Number>,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The verdict.
    pub outcome: Outcome,
    /// The reason why it has no value.
    pub failure: Option<FailureClass>,
    /// The change that it tried.
    pub description: &'a str,
    /// True if a run that decides did not finish.
    pub is_partial: bool,
    /// True if the change was refused without a run.
    pub is_refused: bool,
    /// True for the commit that its session began at, whose row another session may have had as well.
    pub is_baseline: bool,
}

impl<'a> Entry<'a> {
    /// Makes the entry of a record.
    pub fn of(record: &'a Record) -> Self {
        Entry {
            commit: &record.commit,
            value: record.metric.number(),
            memory_gb: record.memory_gb,
            outcome: record.outcome,
            failure: record.failure.as_ref().map(|failure| failure.class),
            description: &record.description,
            is_partial: record.is_partial(),
            is_refused: record.runs.is_empty()
                && record.failure.as_ref().is_some_and(|failure| failure.class.is_refusal()),
            is_baseline: record.id.is_baseline(),
        }
    }
}

/// The columns of a file and how they are filled.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowFormat {
    pub(super) header: Vec<String>,
    pub(super) columns: ColumnPositions,
    dialect: LedgerDialect,
    upper_case: bool,
    digits: usize,
    pub(super) line_end: &'static str,
}

impl RowFormat {
    /// A new file's columns.
    pub(super) fn new(metric: &str, dialect: LedgerDialect) -> Self {
        let DialectFormat { commit, digits, .. } = dialect.format();
        RowFormat {
            header: [commit, metric, "memory_gb", "status", "description"].map(str::to_owned).to_vec(),
            columns: ColumnPositions {
                commit: Some(0),
                metric: Some(1),
                memory: Some(2),
                status: Some(3),
                description: Some(4),
            },
            dialect,
            upper_case: false,
            digits,
            line_end: "\n",
        }
    }

    /// The columns of a file that exists, continued as it is; `rows` are those behind the header.
    ///
    /// The words, their case and the length of a hash are those of most of its rows, else those of its header.
    pub(super) fn continued(
        header: &[&str],
        columns: ColumnPositions,
        rows: impl Iterator<Item = StringRecord>,
        line_end: &'static str,
    ) -> Self {
        let mut votes: Vec<(LedgerDialect, usize)> =
            LedgerDialect::VARIANTS.iter().copied().map(|dialect| (dialect, 0)).collect();
        let (mut upper, mut lower) = (0usize, 0usize);
        let mut lengths = [0usize; 65];
        for cells in rows {
            if cells.len() != header.len() {
                continue;
            }
            if let Some(status) = columns.status.map(|column| cells[column].trim()) {
                let folded = status.to_lowercase();
                for (dialect, count) in &mut votes {
                    *count += usize::from(dialect.format().words.contains(&folded.as_str()));
                }
                if classify(status, VerdictColumn::Word) != RowStatus::Other {
                    upper += usize::from(status.to_uppercase() == status);
                    lower += usize::from(status.to_uppercase() != status);
                }
            }
            if let Some(commit) = columns.commit.map(|column| cells[column].trim())
                && (4..=64).contains(&commit.len())
                && commit.chars().all(|c| c.is_ascii_hexdigit())
            {
                lengths[commit.len()] += 1;
            }
        }
        let commit = columns.commit.map_or("", |column| header[column]);
        let likely =
            |(dialect, count): &(LedgerDialect, usize)| (*count, commit.eq_ignore_ascii_case(dialect.format().commit));
        // If several are equally likely, takes the dialect that most ledgers have.
        let rank = |vote: &(LedgerDialect, usize)| (likely(vote), vote.0 == LedgerDialect::Karpathy);
        let dialect = votes.into_iter().max_by_key(rank).map(|(dialect, _)| dialect).unwrap_or_default();
        let usual = (4..=64).rev().max_by_key(|&length| lengths[length]).filter(|&length| lengths[length] > 0);
        RowFormat {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            columns,
            dialect,
            upper_case: upper > lower,
            digits: usual.unwrap_or(dialect.format().digits),
            line_end,
        }
    }

    /// The header with its line end.
    pub(super) fn header_line(&self) -> String {
        table::line(&self.header, self.line_end)
    }

    /// The dialect whose words are written.
    pub(super) fn dialect(&self) -> LedgerDialect {
        self.dialect
    }

    /// Shortens a commit to the length that its column has.
    pub(super) fn commit<'a>(&self, commit: &'a CommitId) -> &'a str {
        commit.short(self.digits)
    }

    /// The commit's cell of a row, where the row has as many cells as the header and it can be one.
    pub(super) fn commit_cell<'a>(&self, cells: &[&'a str]) -> Option<&'a str> {
        let cell = cells[self.columns.commit?.min(cells.len() - 1)].trim();
        let is_commit = cell.len() >= self.digits.min(7) && cell.chars().all(|c| c.is_ascii_hexdigit());
        (cells.len() == self.header.len() && is_commit).then_some(cell)
    }

    /// Returns the kind of the verdict's column.
    pub(super) fn verdict(&self) -> VerdictColumn {
        self.columns.status.map_or(VerdictColumn::Word, |column| verdict(&self.header[column]))
    }

    /// Returns whether the experiment needs no row. If an earlier version wrote one, it stays.
    pub(super) fn omits(&self, entry: &Entry<'_>) -> bool {
        entry.is_refused && self.dialect.format().omits_refused
    }

    /// The row with its line end; cells that nothing is known of are blank.
    pub(super) fn row(&self, entry: &Entry<'_>) -> String {
        let mut cells = vec![String::new(); self.header.len()];
        let mut fill = |column: Option<usize>, text: String| {
            if let Some(column) = column {
                cells[column] = text;
            }
        };
        fill(self.columns.commit, self.commit(entry.commit).to_owned());
        fill(self.columns.metric, self.value(entry));
        fill(self.columns.memory, self.memory(entry));
        fill(self.columns.status, self.status(entry.outcome));
        let partial = if entry.is_partial { " (partial)" } else { "" };
        fill(self.columns.description, unquoted(&one_line(entry.description)) + partial);
        table::line(cells, self.line_end)
    }

    fn value(&self, entry: &Entry<'_>) -> String {
        match &entry.value {
            Some(number) => number.raw.clone(),
            // A keep whose train has the number; a zero would be read as its value.
            None if entry.outcome == Outcome::Keep => UNNUMBERED.to_owned(),
            None => self.dialect.format().no_value.to_owned(),
        }
    }

    fn memory(&self, entry: &Entry<'_>) -> String {
        let DialectFormat { no_memory, in_memory, forgets_memory, .. } = self.dialect.format();
        let unit = self.columns.memory.and_then(|column| memory_unit(&self.header[column]));
        let named = entry.failure.filter(|class| in_memory.contains(class)).and_then(FailureClass::ledger_word);
        match (entry.memory_gb.filter(|memory| memory.is_finite()), named) {
            (_, Some(word)) => word.to_owned(),
            (Some(memory), None) if entry.value.is_some() || entry.outcome == Outcome::Keep || !forgets_memory => {
                format!("{:.1}", unit.and_then(|unit| Unit::new("GiB").convert(memory, &unit)).unwrap_or(memory))
            }
            _ => no_memory.to_owned(),
        }
    }

    fn status(&self, outcome: Outcome) -> String {
        let flag = self.columns.status.map(|column| self.header[column].to_lowercase());
        let kept = outcome == Outcome::Keep;
        match flag.as_deref() {
            Some(name) if verdict(name) == VerdictColumn::Flag => match name {
                "kept" => kept.to_string(),
                _ => u8::from(kept).to_string(),
            },
            _ => {
                let [keep, discard, crash] = self.dialect.format().words;
                let word = match outcome {
                    Outcome::Keep => keep,
                    Outcome::Discard => discard,
                    Outcome::Crash => crash,
                };
                if self.upper_case { word.to_uppercase() } else { word.to_owned() }
            }
        }
    }
}

/// A text that starts with a double quote, with single ones in their place: a reader with CSV quoting, as pandas has by
/// default, would take the first for the start of a quoted cell. Elsewhere in a cell they are harmless.
fn unquoted(text: &str) -> String {
    if text.starts_with('"') { text.replace('"', "'") } else { text.to_owned() }
}
