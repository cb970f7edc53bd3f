//! Resolving the name of an experiment.

use super::records::History;
use crate::domain::{FEWEST_DIGITS, Record, Which};

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
