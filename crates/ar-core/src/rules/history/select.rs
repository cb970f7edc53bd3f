//! Selecting experiments: filters and orders, the experiment that a name means, and the session of a command without a tag.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use clap::ValueEnum;
use jiff::Timestamp;
use regex::Regex;

use super::{CountedOutcome, History};
use crate::domain::{Direction, ExperimentId, FEWEST_DIGITS, Note, Record, Which};

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
    pub outcomes: Vec<CountedOutcome>,
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
    pub ended: CountedOutcome,
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
            ended: CountedOutcome::of_record(record),
            value: record.metric.value,
            direction: record.metric.direction,
            finished: Some(record.origin.finished),
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

/// The reason why a name does not match exactly one experiment.
#[derive(Debug, PartialEq)]
pub enum Unfound<'a> {
    /// No experiment has that number or a commit with that start.
    Missing,
    /// There is no keep yet, so there is no best experiment.
    NothingKept,
    /// All these commits match.
    Ambiguous(Vec<&'a Record>),
}

/// The experiment with this name. If a text is both a number and the start of a commit, the number wins.
pub fn find_experiment<'a>(history: &'a History, which: &Which) -> Result<&'a Record, Unfound<'a>> {
    let digits = match which {
        Which::Best => return history.best_kept_record().ok_or(Unfound::NothingKept),
        Which::Baseline => return history.baseline().ok_or(Unfound::Missing),
        Which::Last => return history.records().last().ok_or(Unfound::Missing),
        Which::Digits(digits) => digits,
    };
    if let Some(record) = digits.parse().ok().and_then(|id| history.get(id)) {
        return Ok(record);
    }
    let is_hash = digits.len() >= FEWEST_DIGITS;
    let starts_so = |record: &&Record| is_hash && record.commit.short(usize::MAX).starts_with(digits.as_str());
    let mut found: Vec<&Record> = history.records().iter().filter(starts_so).collect();
    match found.len() {
        0 => Err(Unfound::Missing),
        1 => Ok(found.remove(0)),
        _ => Err(Unfound::Ambiguous(found)),
    }
}

/// The activity of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSign {
    /// True if an `ar` process holds it.
    pub is_active: bool,
    /// Its latest activity, if known.
    pub last_activity: Option<Timestamp>,
}

/// The index of the session: the active one, else the newest. Among several active ones, the newest; among equals, the
/// last.
pub fn session_meant(signs: &[SessionSign]) -> Option<usize> {
    (0..signs.len()).max_by_key(|place| (signs[*place].is_active, signs[*place].last_activity))
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
        assert_eq!(
            ids(Selection { outcomes: vec![CountedOutcome::Crash, CountedOutcome::Keep], ..Selection::default() }),
            [0, 1, 3]
        );
        let pattern = Some(Regex::new("(?i)warmup").unwrap());
        assert_eq!(ids(Selection { pattern, top: Some(9), ..Selection::default() }), [1, 2, 3]);
    }

    #[test]
    fn the_active_one_comes_before_the_newest() {
        let sign = |is_active, second: Option<i64>| SessionSign {
            is_active,
            last_activity: second.map(|second| Timestamp::from_second(second).unwrap()),
        };
        assert_eq!(session_meant(&[]), None);
        assert_eq!(session_meant(&[sign(false, None)]), Some(0));
        assert_eq!(session_meant(&[sign(false, Some(2)), sign(false, Some(1)), sign(false, None)]), Some(0));
        assert_eq!(session_meant(&[sign(false, Some(2)), sign(true, Some(1)), sign(false, Some(3))]), Some(1));
        assert_eq!(session_meant(&[sign(true, Some(2)), sign(true, Some(1))]), Some(0));
        assert_eq!(session_meant(&[sign(false, Some(2)), sign(false, Some(2))]), Some(1));
    }
}
