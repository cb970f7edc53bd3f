//! The strategies tried and their outcomes.

use super::records::History;
use super::why::is_sound;
use crate::domain::{Outcome, Record, TriedDirection};

/// The number of experiments in a row without a direction after which the agent is asked for one.
pub const UNNAMED_LIMIT: u32 = 10;

/// Counts the newest experiments in a row without a direction.
pub fn unnamed_in_a_row(records: &[Record]) -> u32 {
    let unnamed = records.iter().rev().take_while(|record| !record.id.is_baseline() && record.direction.is_none());
    u32::try_from(unnamed.count()).unwrap_or(u32::MAX)
}

/// Returns whether two names mean the same direction, ignoring case and white space. Signs count: `dropout -0.1` is not
/// `dropout +0.1`.
pub fn same_direction(one: &str, other: &str) -> bool {
    one == other || folded(one).eq(folded(other))
}

fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase)
}

/// Returns whether an experiment of `records` in this direction was measured. One that crashed without a value does not
/// count, and neither does a refused one.
pub fn is_tried(records: &[Record], direction: &str) -> bool {
    let is_measured = |record: &&Record| record.outcome != Outcome::Crash || record.metric.value.is_some();
    let mut named = records.iter().filter(is_measured).filter_map(|record| record.direction.as_deref());
    named.any(|known| same_direction(known, direction))
}

/// The directions that the experiments named, newest first. `records` are oldest first.
pub fn directions_tried<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<TriedDirection> {
    let mut tried: Vec<TriedDirection> = Vec::new();
    for record in records {
        let Some(direction) = &record.direction else { continue };
        let at = tried.iter().position(|known| same_direction(&known.direction, direction)).unwrap_or_else(|| {
            tried.push(TriedDirection {
                direction: direction.clone(),
                experiments: 0,
                kept: 0,
                best: None,
                last: record.id,
            });
            tried.len() - 1
        });
        let known = &mut tried[at];
        known.experiments += 1;
        known.kept += u32::from(record.outcome == Outcome::Keep);
        known.last = record.id;
        if let Some(number) = record.metric.number().filter(|_| is_sound(record))
            && known.best.as_ref().is_none_or(|best| record.metric.direction.better(number.value, best.value))
        {
            known.best = Some(number);
        }
    }
    tried.sort_by_key(|known| std::cmp::Reverse(known.last));
    tried
}

/// The `count` discarded experiments with the best values, best first, without those that broke a limit or failed a
/// guard.
pub fn near_misses(history: &History, count: usize) -> Vec<&Record> {
    let mut missed: Vec<(f64, &Record)> = history
        .records()
        .iter()
        .filter(|record| record.outcome == Outcome::Discard && is_sound(record))
        .filter_map(|record| Some((record.metric.value?, record)))
        .collect();
    missed.sort_by(|(one, record), (other, _)| record.metric.direction.gain(*other, *one).total_cmp(&0.0));
    missed.into_iter().take(count).map(|(_, record)| record).collect()
}
