//! The findings and the progress of a session, in the journal.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The findings and the progress of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The number of its findings.
    total_findings: u32,
    /// When the session last came to something: an experiment, or a finding.
    #[serde(default, with = "crate::domain::millis::option", skip_serializing_if = "Option::is_none")]
    progressed: Option<Timestamp>,
    /// The place of the last record that the summary of a loop tells of, in the lessons.
    #[serde(default)]
    summed_up: u32,
}

impl Results {
    /// The results of a session of which only its records are known.
    pub fn of_records(findings: usize, progressed: Option<Timestamp>) -> Self {
        Results { total_findings: u32::try_from(findings).unwrap_or(u32::MAX), progressed, summed_up: 0 }
    }

    /// The number of findings.
    pub fn findings(&self) -> u32 {
        self.total_findings
    }

    /// When the session last came to something.
    pub fn progressed(&self) -> Option<Timestamp> {
        self.progressed
    }

    /// Returns whether the session made no progress since a moment.
    pub fn are_none_since(&self, moment: Timestamp) -> bool {
        self.progressed.is_none_or(|progressed| progressed <= moment)
    }

    /// Notes an experiment, with as many findings as were added.
    pub fn note(&mut self, findings: usize, now: Timestamp) {
        self.progressed = Some(now);
        self.total_findings = self.total_findings.saturating_add(u32::try_from(findings).unwrap_or(u32::MAX));
    }

    /// The place of the last record that a summary tells of.
    pub fn summed_up(&self) -> u32 {
        self.summed_up
    }

    /// Notes that a summary tells of all records before the place of the `next` one.
    pub fn sum_up(&mut self, next: u32) {
        self.summed_up = next.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_the_time_of_the_last_result() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut results = Results::of_records(2, Some(at(5)));
        assert!(results.are_none_since(at(5)) && !results.are_none_since(at(4)));
        results.note(0, at(7));
        results.note(3, at(9));
        assert_eq!((results.findings(), results.progressed()), (5, Some(at(9))));
        results.sum_up(0);
        assert_eq!(results.summed_up(), 0);
    }
}
