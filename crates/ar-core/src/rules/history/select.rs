//! Selecting and sorting experiments.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use clap::ValueEnum;
use jiff::Timestamp;
use regex::Regex;

use super::counts::Ended;
use crate::domain::{Direction, ExperimentId, Note, Record};

/// The order of experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SortBy {
    /// The best number first
    Best,
    /// By number
    #[default]
    Id,
    /// The newest first
    Time,
}

/// A selection of experiments.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Their outcomes; all if empty.
    pub outcomes: Vec<Ended>,
    /// A pattern in their description, reason, direction, failure or notes.
    pub pattern: Option<Regex>,
    /// Their order.
    pub sort: SortBy,
    /// The most experiments to show.
    pub top: Option<usize>,
}

/// The facts of an experiment or a ledger row that a selection uses.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// Its number; absent for rows, which stay in order.
    pub id: Option<ExperimentId>,
    /// Its outcome.
    pub ended: Ended,
    /// Its metric value.
    pub value: Option<f64>,
    /// The metric's direction.
    pub direction: Direction,
    /// When it finished; absent for rows, the last of which is the newest.
    pub finished: Option<Timestamp>,
    /// The texts to search.
    pub said: Vec<&'a str>,
}

impl<'a> Candidate<'a> {
    /// An experiment with the notes on it.
    pub fn of_record(record: &'a Record, notes: &'a [Note]) -> Self {
        let failure = record.failure.iter().flat_map(|failure| [failure.class.into(), failure.excerpt.as_str()]);
        let said = [record.description.as_str(), record.reason.as_str()].into_iter().chain(record.direction.as_deref());
        Candidate {
            id: Some(record.id),
            ended: Ended::of_record(record),
            value: record.metric.value,
            direction: record.metric.direction,
            finished: Some(record.finished),
            said: said.chain(failure).chain(notes.iter().map(|note| note.text.as_str())).collect(),
        }
    }
}

/// The selected experiments, in order.
pub fn select<'a>(
    records: &'a [Record],
    notes: &BTreeMap<ExperimentId, Vec<Note>>,
    selection: &Selection,
) -> Vec<&'a Record> {
    let noted = |record: &Record| notes.get(&record.id).map(Vec::as_slice).unwrap_or_default();
    let candidates: Vec<_> = records.iter().map(|record| Candidate::of_record(record, noted(record))).collect();
    select_places(&candidates, selection).into_iter().map(|place| &records[place]).collect()
}

/// The indices of the selected candidates, in order.
pub fn select_places(candidates: &[Candidate<'_>], selection: &Selection) -> Vec<usize> {
    let is_meant = |place: &usize| {
        let Candidate { ended, said, .. } = &candidates[*place];
        (selection.outcomes.is_empty() || selection.outcomes.contains(ended))
            && selection.pattern.as_ref().is_none_or(|pattern| said.iter().any(|text| pattern.is_match(text)))
    };
    let mut selected: Vec<usize> = (0..candidates.len()).filter(is_meant).collect();
    match selection.sort {
        // With several open attempts, one that began later may be recorded first.
        SortBy::Id => selected.sort_by_key(|place| candidates[*place].id),
        SortBy::Best => selected.sort_by(|a, b| by_number(&candidates[*a], &candidates[*b])),
        SortBy::Time => selected.sort_by_key(|place| Reverse((candidates[*place].finished, *place))),
    }
    selected.truncate(selection.top.unwrap_or(usize::MAX));
    selected
}

/// Better values first; equal ones stay in order.
fn by_number(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    match (a.value, b.value) {
        (Some(better), Some(worse)) => a.direction.gain(worse, better).total_cmp(&0.0),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

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
        let notes = BTreeMap::from([(3.into(), vec![note])]);
        let ids = |selection: Selection| -> Vec<u32> {
            select(&records, &notes, &selection).iter().map(|record| record.id.number()).collect()
        };
        assert_eq!(ids(Selection::default()), [0, 1, 2, 3]);
        let as_recorded = [records[0].clone(), records[3].clone(), records[1].clone(), records[2].clone()];
        let by_number = select(&as_recorded, &notes, &Selection::default());
        assert_eq!(by_number.iter().map(|record| record.id.number()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(ids(Selection { sort: SortBy::Best, ..Selection::default() }), [3, 0, 2, 1]);
        assert_eq!(ids(Selection { sort: SortBy::Time, top: Some(2), ..Selection::default() }), [3, 2]);
        assert_eq!(ids(Selection { outcomes: vec![Ended::Crash, Ended::Keep], ..Selection::default() }), [0, 1, 3]);
        let pattern = Some(Regex::new("(?i)warmup").unwrap());
        assert_eq!(ids(Selection { pattern, top: Some(9), ..Selection::default() }), [1, 2, 3]);
    }
}
