//! The format of a file's rows: columns, words and number formats.

use csv::StringRecord;
use strum::VariantArray;

use super::columns::{ColumnPositions, memory_unit, verdict};
use super::rows::{RowStatus, VerdictColumn, classify};
use super::text;
use crate::domain::{CommitId, DialectFormat, FailureClass, LedgerDialect, Number, Outcome, Record, Unit, one_line};

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
        text::line(&self.header, self.line_end)
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
        text::line(cells, self.line_end)
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
