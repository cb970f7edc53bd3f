//! How many experiments ended how: the one way of counting, whoever shows it.

use serde::Serialize;

use crate::domain::{FailureClass, Outcome, Record};

/// How an experiment ended, as people count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ended {
    /// Kept.
    Keep,
    /// Measured, and not kept.
    Discard,
    /// Run, without a number that counts.
    Crash,
    /// A crash in the record that was never run, as the change was refused.
    Refused,
    /// A row with a verdict that is none of these, or without one.
    Other,
}

impl Ended {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Ended; 5] = [Ended::Keep, Ended::Discard, Ended::Crash, Ended::Refused, Ended::Other];

    /// How an experiment with this outcome ended.
    pub fn of(outcome: Option<Outcome>, failure: Option<FailureClass>) -> Ended {
        match outcome {
            Some(Outcome::Keep) => Ended::Keep,
            Some(Outcome::Discard) => Ended::Discard,
            Some(Outcome::Crash) if failure.is_some_and(FailureClass::is_refusal) => Ended::Refused,
            Some(Outcome::Crash) => Ended::Crash,
            None => Ended::Other,
        }
    }

    /// How a recorded experiment ended.
    pub fn of_record(record: &Record) -> Ended {
        Ended::of(record.verdict(), record.failure.as_ref().map(|failure| failure.class))
    }

    /// Its word in counts and tables.
    pub fn name(self) -> &'static str {
        match self {
            Ended::Keep => "keep",
            Ended::Discard => "discard",
            Ended::Crash => "crash",
            Ended::Refused => "refused",
            Ended::Other => "other",
        }
    }

    /// Whether it says something of the idea: what was refused was never tried.
    pub fn is_judged(self) -> bool {
        matches!(self, Ended::Keep | Ended::Discard | Ended::Crash)
    }
}

/// How many experiments, or rows of a ledger, ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are how experiments end")]
pub struct Counts {
    /// All of the following together, without those elsewhere.
    pub total: u32,
    pub keep: u32,
    pub discard: u32,
    pub crash: u32,
    pub refused: u32,
    pub other: u32,
    /// Rows that cannot be read.
    pub malformed: u32,
    /// Rows of other segments of a ledger.
    pub elsewhere: u32,
}

impl Counts {
    /// Counts recorded experiments.
    pub fn of(records: &[Record]) -> Counts {
        let mut counts = Counts::default();
        records.iter().map(Ended::of_record).for_each(|ended| counts.add(ended));
        counts
    }

    /// Counts one more.
    pub fn add(&mut self, ended: Ended) {
        self.total += 1;
        *match ended {
            Ended::Keep => &mut self.keep,
            Ended::Discard => &mut self.discard,
            Ended::Crash => &mut self.crash,
            Ended::Refused => &mut self.refused,
            Ended::Other => &mut self.other,
        } += 1;
    }

    /// The counts as a sentence has them: `2 keep, 1 discard, 0 crash`, and of the rest what there is.
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
            counts.add(Ended::of(Some(Outcome::Crash), Some(class)));
        }
        counts.add(Ended::of(Some(Outcome::Keep), None));
        assert_eq!((counts.total, counts.crash, counts.refused), (8, 3, 4));
        assert_eq!(counts.listed(), "1 keep, 0 discard, 3 crash, 4 refused");
    }
}
