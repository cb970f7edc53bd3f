//! The columns of the table of experiments. A new one is a line in [`COLUMNS`].

use jiff::Timestamp;

use super::beside::{described, number};
use super::grid::Align::{self, Below, Left, Right, Text};
use super::grid::text;
use super::point::signed_gain;
use crate::domain::{Clock, ExperimentId, Note, Number, Record, exact_time, nearest};
use crate::rules::{Ended, History};

/// A column of the table of experiments.
#[derive(Debug, Clone)]
pub struct Column(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Named(&'static Named),
    /// A number of the logs.
    Metric(String),
}

/// A column that every session has.
#[derive(Debug)]
struct Named {
    name: &'static str,
    heading: &'static str,
    align: Align,
    cell: Cell,
}

/// The text of a cell. Times are local with a clock, else in UTC.
type Cell = fn(&Shown<'_>, Option<Clock>) -> String;

const fn named(name: &'static str, heading: &'static str, align: Align, cell: Cell) -> Named {
    Named { name, heading, align, cell }
}

/// The name of the column with the reviewers' verdicts, and of that with the notes.
const REVIEW: &str = "review";
const NOTES: &str = "notes";

/// The name of the column with the metric, by which its heading is called.
const VALUE: &str = "value";

/// The columns that every session has; each number in the logs is one too.
static COLUMNS: [Named; 16] = [
    named("id", "#", Right, |shown, _| shown.record.id.to_string()),
    named("commit", "commit", Left, |shown, _| shown.record.commit.short(8).to_owned()),
    named("outcome", "outcome", Left, |shown, _| Ended::of_record(shown.record).to_string()),
    named(VALUE, VALUE, Right, |shown, screen| match screen {
        Some(_) => number(shown.record),
        None => text(shown.record.metric.number()),
    }),
    named("gain", "gain", Right, |shown, _| text(shown.gain())),
    named("memory", "GiB", Right, |shown, _| tenths(shown.record.memory_gb)),
    named("seconds", "s/run", Right, |shown, _| tenths(shown.record.seconds_per_run())),
    named("agent", "agent seconds", Right, |shown, _| tenths(shown.record.agent.as_ref().map(|call| call.seconds))),
    named("failure", "failure", Left, |shown, _| text(shown.record.failure.as_ref().map(|failure| failure.class))),
    named(REVIEW, REVIEW, Left, |shown, _| {
        let verdict = shown.record.review.as_ref().map(|review| review.verdict.to_string());
        verdict.unwrap_or_default().replace('_', " ")
    }),
    // An imported experiment has no known time.
    named("when", "when", Left, |shown, screen| {
        text(shown.record.imported.is_none().then(|| time(shown.record.finished, screen)))
    }),
    named("direction", "direction", Left, |shown, _| text(shown.record.direction.as_ref())),
    named("reason", "reason", Text, |shown, _| shown.record.reason.clone()),
    named(NOTES, NOTES, Below, |shown, _| {
        shown.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ")
    }),
    named("replaced_by", "replaced by", Right, |shown, _| text(shown.replaced_by)),
    named("description", "description", Text, |shown, screen| {
        described(shown.replaced_by.filter(|_| screen.is_some()), &shown.record.description)
    }),
];

/// The columns that are shown by default; those of reviews and notes where there is something in them.
const DEFAULT: [&str; 11] =
    ["id", "outcome", VALUE, "gain", "commit", "memory", "seconds", "failure", REVIEW, "description", NOTES];

/// Columns to omit on a narrow terminal, the least important first.
pub(super) const SPARE: [&str; 5] = ["s/run", "GiB", "gain", "commit", "failure"];

fn tenths(number: Option<f64>) -> String {
    text(number.map(|number| format!("{number:.1}")))
}

/// The error for an unknown column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown column `{name}`")]
pub struct ColumnError {
    name: String,
    known: Vec<String>,
}

impl ColumnError {
    /// The existing columns, and the one that may be meant.
    pub fn known(&self) -> String {
        let meant = nearest(&self.name, &self.known).map(|meant| format!("; did you mean `{meant}`?"));
        self.known.join(", ") + &meant.unwrap_or_default()
    }
}

impl Column {
    /// The names of the columns that every session has.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().map(|column| column.name)
    }

    /// The columns that are shown by default, with the `axes` behind the value.
    pub(super) fn defaults(with_reviews: bool, with_notes: bool, axes: &[String]) -> Vec<Column> {
        let is_shown = |name: &&&str| (with_reviews || **name != REVIEW) && (with_notes || **name != NOTES);
        let named =
            DEFAULT.iter().filter(is_shown).filter_map(|name| COLUMNS.iter().find(|column| column.name == *name));
        let of = |named: &'static Named| {
            let axes = if named.name == VALUE { axes } else { &[] };
            [Column(Kind::Named(named))].into_iter().chain(axes.iter().map(|axis| Column(Kind::Metric(axis.clone()))))
        };
        named.flat_map(of).collect()
    }

    /// The column of that name: one of the table's own, the metric, or another number that any of the logs has.
    pub fn named(name: &str, history: &History) -> Result<Column, ColumnError> {
        let records = history.records();
        let name_of_own = if records.iter().any(|record| record.metric.name == name) { VALUE } else { name };
        let own = |name: &str| COLUMNS.iter().find(|column| column.name == name);
        if let Some(named) = own(name).or_else(|| own(name_of_own)) {
            return Ok(Column(Kind::Named(named)));
        }
        if records.iter().any(|record| record.metrics.get(name).is_some()) {
            return Ok(Column(Kind::Metric(name.to_owned())));
        }
        let mut numbers: Vec<String> = records.iter().flat_map(|record| record.metrics.names().cloned()).collect();
        numbers.sort();
        numbers.dedup();
        let known = Column::names().map(str::to_owned).chain(numbers).collect();
        Err(ColumnError { name: name.to_owned(), known })
    }

    /// Its heading; that of the value is the `metric`.
    pub(super) fn heading(&self, metric: &str) -> (String, Align) {
        match &self.0 {
            Kind::Named(Named { heading: VALUE, align, .. }) => (metric.to_owned(), *align),
            Kind::Named(named) => (named.heading.to_owned(), named.align),
            Kind::Metric(name) => (name.clone(), Right),
        }
    }

    /// Its text for an experiment. Times are local on the `screen` of a user with that clock, else in UTC.
    pub(super) fn cell(&self, shown: &Shown<'_>, screen: Option<Clock>) -> String {
        match &self.0 {
            Kind::Named(named) => (named.cell)(shown, screen),
            Kind::Metric(name) => text(shown.record.metrics.get(name)),
        }
    }
}

/// A moment, local on the `screen` of a user with that clock, else in UTC.
pub(super) fn time(at: Timestamp, screen: Option<Clock>) -> String {
    screen.map_or_else(|| exact_time(at), |clock| clock.said(at))
}

/// An experiment with the facts beside its record that columns show.
pub(super) struct Shown<'a> {
    pub(super) record: &'a Record,
    pub(super) notes: &'a [Note],
    /// The number that it had to beat.
    pub(super) rival: Option<Number>,
    /// The later keep that removed its change.
    pub(super) replaced_by: Option<ExperimentId>,
}

impl Shown<'_> {
    fn gain(&self) -> Option<String> {
        Some(signed_gain(self.record.metric.direction, &self.record.metric.number()?, self.rival.as_ref()?))
    }
}
