//! The columns of the table of experiments.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::grid::Align;
use super::point::signed_gain;
use crate::domain::{Clock, Note, Number, Outcome, Record, exact_time, nearest};
use crate::rules::{Ended, History};

/// What a column of the table shows. A text is the name of a number in the logs where it is none of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// The experiment's number.
    Id,
    /// The start of its commit's name.
    Commit,
    /// Its outcome.
    Outcome,
    /// Its number of the metric.
    Value,
    /// What that gained over the incumbent.
    Gain,
    /// Peak memory in GiB.
    Memory,
    /// How long its runs took, in seconds.
    Seconds,
    /// How long the agent worked, in seconds.
    Agent,
    /// The class of its failure.
    Failure,
    /// When it was over.
    When,
    /// The strategy that it belongs to.
    Direction,
    /// Why the outcome is what it is.
    Reason,
    /// What people noted on it.
    Notes,
    /// What it tries.
    Description,
    /// Another number of its log.
    Metric(String),
}

/// All columns but those of other numbers, by name.
const NAMED: [(&str, Column); 14] = [
    ("id", Column::Id),
    ("commit", Column::Commit),
    ("outcome", Column::Outcome),
    ("value", Column::Value),
    ("gain", Column::Gain),
    ("memory", Column::Memory),
    ("seconds", Column::Seconds),
    ("agent", Column::Agent),
    ("failure", Column::Failure),
    ("when", Column::When),
    ("direction", Column::Direction),
    ("reason", Column::Reason),
    ("notes", Column::Notes),
    ("description", Column::Description),
];

/// The columns that are shown unless others are asked for.
pub(super) const DEFAULT: [Column; 9] = [
    Column::Id,
    Column::Commit,
    Column::Outcome,
    Column::Value,
    Column::Gain,
    Column::Memory,
    Column::Seconds,
    Column::Failure,
    Column::Description,
];

/// Which of these to go without where there is no room, the least important first.
pub(super) const SPARE: [&str; 5] = ["seconds", "GiB", "gain", "commit", "failure"];

/// Why a text names no column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown column `{name}`")]
pub struct ColumnError {
    name: String,
    known: Vec<String>,
}

impl ColumnError {
    /// The columns that there are, and the one that may be meant.
    pub fn known(&self) -> String {
        let meant = nearest(&self.name, &self.known).map(|meant| format!("; did you mean `{meant}`?"));
        self.known.join(", ") + &meant.unwrap_or_default()
    }
}

impl Column {
    /// The names of the columns that every session has.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// The column of that name: one of the table's own, the metric, or another number that any of the logs has.
    pub fn named(name: &str, history: &History) -> Result<Column, ColumnError> {
        if let Some((_, column)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(column.clone());
        }
        let records = history.records();
        if records.iter().any(|record| record.metric.name == name) {
            return Ok(Column::Value);
        }
        if records.iter().any(|record| record.metrics.get(name).is_some()) {
            return Ok(Column::Metric(name.to_owned()));
        }
        let mut numbers: Vec<String> =
            records.iter().flat_map(|record| record.metrics.names().iter().cloned()).collect();
        numbers.sort();
        numbers.dedup();
        let known = NAMED.iter().map(|(known, _)| (*known).to_owned()).chain(numbers).collect();
        Err(ColumnError { name: name.to_owned(), known })
    }

    /// Its heading; that of the value is the `metric`.
    pub(super) fn heading(&self, metric: &str) -> (String, Align) {
        let text = match self {
            Column::Id => "#",
            Column::Value => metric,
            Column::Memory => "GiB",
            Column::Agent => "agent seconds",
            Column::Metric(name) => name,
            named => NAMED.iter().find(|(_, column)| column == named).map_or("", |(name, _)| name),
        };
        let align = match self {
            Column::Id | Column::Value | Column::Gain | Column::Memory | Column::Seconds => Align::Right,
            Column::Agent | Column::Metric(_) => Align::Right,
            Column::Reason | Column::Description => Align::Text,
            Column::Notes => Align::Below,
            Column::Commit | Column::Outcome | Column::Failure | Column::When | Column::Direction => Align::Left,
        };
        (text.to_owned(), align)
    }

    /// What stands in it for an experiment. Times are said as on the `screen` of who has that clock, else in UTC.
    pub(super) fn cell(&self, shown: &Shown<'_>, screen: Option<Clock>) -> String {
        let record = shown.record;
        match self {
            Column::Id => record.id.to_string(),
            Column::Commit => record.commit.short(8).to_owned(),
            Column::Outcome => Ended::of_record(record).name().to_owned(),
            Column::Value => record.metric.number().map(|number| number.to_string()).unwrap_or_default(),
            Column::Gain => shown.gain().unwrap_or_default(),
            Column::Memory => record.memory_gb.map(|memory| format!("{memory:.1}")).unwrap_or_default(),
            Column::Seconds if record.runs.is_empty() => String::new(),
            Column::Seconds => format!("{:.1}", record.run_seconds()),
            Column::Agent => record.agent.as_ref().map(|call| format!("{:.1}", call.seconds)).unwrap_or_default(),
            Column::Failure => record.failure.as_ref().map(|failure| failure.class.to_string()).unwrap_or_default(),
            // Of an imported one that is not known.
            Column::When if record.imported.is_some() => String::new(),
            Column::When => time(record.finished, screen),
            Column::Direction => record.direction.clone().unwrap_or_default(),
            Column::Reason => record.reason.clone(),
            Column::Notes => shown.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; "),
            Column::Description => record.description.clone(),
            Column::Metric(name) => record.metrics.get(name).map(|value| value.to_string()).unwrap_or_default(),
        }
    }
}

/// A moment as on the `screen` of who has that clock, else in UTC.
pub(super) fn time(at: Timestamp, screen: Option<Clock>) -> String {
    screen.map_or_else(|| exact_time(at), |clock| clock.said(at))
}

/// An experiment with what the columns show of its surroundings.
pub(super) struct Shown<'a> {
    pub(super) record: &'a Record,
    pub(super) notes: &'a [Note],
    /// The number that it had to beat.
    pub(super) incumbent: Option<&'a Number>,
}

impl Shown<'_> {
    fn gain(&self) -> Option<String> {
        Some(signed_gain(self.record.metric.direction, &self.record.metric.number()?, self.incumbent?))
    }
}

/// The numbers that the experiments had to beat, by experiment; those without one are left out.
pub(super) fn incumbents(history: &History) -> BTreeMap<u32, Number> {
    let mut incumbent: Option<Number> = None;
    let mut all = BTreeMap::new();
    for record in history.records() {
        if let Some(number) = &incumbent {
            all.insert(record.id, number.clone());
        }
        if record.outcome == Outcome::Keep {
            incumbent = record.metric.number();
        }
    }
    all
}
