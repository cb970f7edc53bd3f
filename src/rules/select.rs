//! Which experiments of a session are looked at, and in which order. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use regex::Regex;

use crate::domain::{Note, Outcome, Record};

/// In which order experiments are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    /// By number.
    #[default]
    Id,
    /// The best number of the metric first, those without one last.
    Best,
    /// The newest first.
    Time,
}

/// Which experiments are shown.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Their outcomes; any when empty.
    pub outcomes: Vec<Outcome>,
    /// Found in their description, reason, direction, failure or notes.
    pub pattern: Option<Regex>,
    /// Their order.
    pub sort: SortBy,
    /// How many of the first ones in that order.
    pub top: Option<usize>,
}

/// The experiments that are selected, in order.
pub fn select<'a>(records: &'a [Record], notes: &BTreeMap<u32, Vec<Note>>, selection: &Selection) -> Vec<&'a Record> {
    let is_meant = |record: &&Record| {
        (selection.outcomes.is_empty() || selection.outcomes.contains(&record.outcome))
            && selection.pattern.as_ref().is_none_or(|pattern| says(record, notes, pattern))
    };
    let mut selected: Vec<&Record> = records.iter().filter(is_meant).collect();
    match selection.sort {
        SortBy::Id => {}
        SortBy::Best => selected.sort_by(|a, b| by_number(a, b)),
        SortBy::Time => selected.sort_by_key(|record| std::cmp::Reverse((record.finished, record.id))),
    }
    selected.truncate(selection.top.unwrap_or(usize::MAX));
    selected
}

/// The better number first; equal ones stay in their order.
fn by_number(a: &Record, b: &Record) -> Ordering {
    match (a.metric.value, b.metric.value) {
        (Some(better), Some(worse)) => a.metric.direction.gain(worse, better).total_cmp(&0.0),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn says(record: &Record, notes: &BTreeMap<u32, Vec<Note>>, pattern: &Regex) -> bool {
    let failure = record.failure.iter().flat_map(|failure| [failure.class.name(), failure.excerpt.as_str()]);
    let notes = notes.get(&record.id).into_iter().flatten().map(|note| note.text.as_str());
    let said = [record.description.as_str(), record.reason.as_str()].into_iter().chain(record.direction.as_deref());
    said.chain(failure).chain(notes).any(|text| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sample::record;
    use super::*;
    use crate::domain::Direction;

    fn measured(id: u32, outcome: &str, value: Option<&str>, description: &str) -> Record {
        let at = format!("2026-11-20T22:0{id}:00Z");
        let mut fields = json!({"id": id, "outcome": outcome, "description": description, "finished": at});
        if let Some(value) = value {
            fields["value"] = value.into();
        }
        let mut record = record(fields);
        record.metric.direction = Direction::Higher;
        record
    }

    #[test]
    fn selects_sorts_and_cuts() {
        let records = [
            measured(0, "keep", Some("0.5"), "baseline"),
            measured(1, "crash", None, "warmup"),
            measured(2, "discard", Some("0.4"), "more warmup"),
            measured(3, "keep", Some("0.6"), "decay"),
        ];
        let note = Note { at: None, by: None, text: "look at WARMUP again".into() };
        let notes = BTreeMap::from([(3, vec![note])]);
        let ids = |selection: Selection| -> Vec<u32> {
            select(&records, &notes, &selection).iter().map(|record| record.id).collect()
        };
        assert_eq!(ids(Selection::default()), [0, 1, 2, 3]);
        assert_eq!(ids(Selection { sort: SortBy::Best, ..Selection::default() }), [3, 0, 2, 1]);
        assert_eq!(ids(Selection { sort: SortBy::Time, top: Some(2), ..Selection::default() }), [3, 2]);
        assert_eq!(ids(Selection { outcomes: vec![Outcome::Crash, Outcome::Keep], ..Selection::default() }), [0, 1, 3]);
        let pattern = Some(Regex::new("(?i)warmup").unwrap());
        assert_eq!(ids(Selection { pattern, top: Some(9), ..Selection::default() }), [1, 2, 3]);
    }
}
