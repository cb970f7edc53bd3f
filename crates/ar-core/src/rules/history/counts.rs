//! The counts of outcomes, the same in every view, and of the strategies tried.

use clap::ValueEnum;
use serde::Serialize;
use strum::{Display, IntoStaticStr, VariantArray};

use super::comparable::is_sound;
use super::records::History;
use crate::domain::{FailureClass, Outcome, Record, TriedDirection};

/// The outcome of an experiment, as people count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr, ValueEnum, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum CountedOutcome {
    /// Kept
    Keep,
    /// Measured and not kept
    Discard,
    /// Run, and without a number that counts
    Crash,
    /// Refused before it ran: out of scope, protected, too large, measured before, or in a tried direction
    Refused,
    /// A row without a verdict, or with another one.
    #[value(skip)]
    Other,
}

impl CountedOutcome {
    /// Classifies an experiment by outcome and failure.
    pub fn of(outcome: Option<Outcome>, failure: Option<FailureClass>) -> CountedOutcome {
        match outcome {
            Some(Outcome::Keep) => CountedOutcome::Keep,
            Some(Outcome::Discard) => CountedOutcome::Discard,
            Some(Outcome::Crash) if failure.is_some_and(FailureClass::is_refusal) => CountedOutcome::Refused,
            Some(Outcome::Crash) => CountedOutcome::Crash,
            None => CountedOutcome::Other,
        }
    }

    /// Classifies a recorded experiment.
    pub fn of_record(record: &Record) -> CountedOutcome {
        CountedOutcome::of(record.verdict(), record.failure.as_ref().map(|failure| failure.class))
    }

    /// Returns whether it judges the idea. A refused change was never tried.
    pub fn is_judged(self) -> bool {
        matches!(self, CountedOutcome::Keep | CountedOutcome::Discard | CountedOutcome::Crash)
    }
}

/// The number of experiments, or ledger rows, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are how experiments end")]
pub struct Counts {
    /// The total of the following, without `elsewhere`.
    pub total: u32,
    pub keep: u32,
    pub discard: u32,
    pub crash: u32,
    pub refused: u32,
    pub other: u32,
    /// Rows that cannot be read.
    pub malformed: u32,
    /// Rows in other segments of the ledger.
    pub elsewhere: u32,
}

impl Counts {
    /// Counts recorded experiments.
    pub fn of(records: &[Record]) -> Counts {
        let mut counts = Counts::default();
        records.iter().map(CountedOutcome::of_record).for_each(|ended| counts.add(ended));
        counts
    }

    /// Adds one.
    pub fn add(&mut self, ended: CountedOutcome) {
        self.total += 1;
        *match ended {
            CountedOutcome::Keep => &mut self.keep,
            CountedOutcome::Discard => &mut self.discard,
            CountedOutcome::Crash => &mut self.crash,
            CountedOutcome::Refused => &mut self.refused,
            CountedOutcome::Other => &mut self.other,
        } += 1;
    }

    /// Formats the counts: `2 keep, 1 discard, 0 crash`, and the others unless 0.
    pub fn listed(&self) -> String {
        let always = [(self.keep, "keep"), (self.discard, "discard"), (self.crash, "crash")];
        let rest = [
            (self.refused, "refused"),
            (self.other, "other"),
            (self.malformed, "malformed"),
            (self.elsewhere, "in other segments"),
        ];
        let told = always.into_iter().chain(rest.into_iter().filter(|(count, _)| *count > 0));
        told.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_counted_by_itself() {
        let mut counts = Counts::default();
        let crashes = [
            FailureClass::Scope,
            FailureClass::Protected,
            FailureClass::TooLarge,
            FailureClass::Duplicate,
            FailureClass::NoChange,
            FailureClass::GuardFailed,
            FailureClass::Oom,
        ];
        for class in crashes {
            counts.add(CountedOutcome::of(Some(Outcome::Crash), Some(class)));
        }
        counts.add(CountedOutcome::of(Some(Outcome::Keep), None));
        assert_eq!((counts.total, counts.crash, counts.refused), (8, 3, 4));
        assert_eq!(counts.listed(), "1 keep, 0 discard, 3 crash, 4 refused");
    }
}
