//! Which experiment a name means. Pure.

use super::History;
use crate::domain::{FEWEST_DIGITS, Record, Which};

/// Why a name means no experiment, or more than one.
#[derive(Debug, PartialEq)]
pub enum Unfound<'a> {
    /// There is none of that number, and none whose commit starts so.
    Missing,
    /// Nothing was kept yet, so there is no best one.
    NothingKept,
    /// The commits of all these start so.
    Ambiguous(Vec<&'a Record>),
}

/// The experiment that is meant. A text that is both the number of an experiment and the start of another's commit means
/// the number.
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
