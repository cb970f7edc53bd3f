//! The journal against the records: what it says of open attempts, and where their rows and iterations are noted.

use super::{Journal, OpenExperiment};
use crate::domain::{CommitId, ExperimentId, Phase, Record};
use crate::rules::{History, OpenFound};

impl Journal {
    /// The open attempts, each compared with the records. `tip` is the base of the next experiment. `is_replaced` is
    /// true for an experiment that is measured again: its old record stays until the new one exists.
    pub fn found<'a>(
        &'a self,
        history: &'a History,
        tip: &'a CommitId,
        is_replaced: impl Fn(&OpenExperiment) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a OpenExperiment, OpenFound<'a>)> {
        // The numbers of several attempts were given in advance.
        let are_several = self.home().is_one_of_many() || self.given.is_some();
        self.steps().map(move |(phase, open)| {
            let may_differ = is_replaced(open) || self.is_recorded_with_others(open);
            let recorded = history.get(open.id).filter(|_| !may_differ);
            let is_last = history.records().last().is_some_and(|last| last.id == open.id);
            // With several attempts, two may be recorded at the same time.
            let is_recording = are_several && matches!(phase, Phase::Recording | Phase::Settling);
            let found = OpenFound {
                phase,
                open: (open.commit.as_ref(), &open.base),
                is_free: may_differ || history.is_free(open.id, self.given),
                is_last: recorded.is_some() && (is_last || is_recording),
                recorded: recorded.map(|record| &record.commit),
                // The base of another attempt may no longer be the best one.
                tip: Some(&open.base).filter(|base| are_several && history.knows(base)).unwrap_or(tip),
            };
            (open, found)
        })
    }

    /// Returns whether an attempt is a car of a train that is being recorded: half of the train may be recorded, each car with
    /// a commit other than the one that it was measured with.
    fn is_recorded_with_others(&self, open: &OpenExperiment) -> bool {
        self.open_attempts().any(|by| {
            let is_own = |record: &Record| by.id == open.id && Some(&record.commit) == open.commit.as_ref();
            by.recording.iter().any(|record| record.id == open.id && !is_own(record))
        })
    }

    /// The members of the records that are being written. Any member's record commits all of them.
    fn recorded_together(&self) -> Vec<ExperimentId> {
        self.open_attempts().flat_map(|open| &open.recording).map(|record| record.id).collect()
    }

    /// Notes where the rows of open experiments are in a file that was written anew: `row_of` gives the place of each that has
    /// one. Returns whether any has.
    pub fn place_rows(&mut self, row_of: impl Fn(ExperimentId) -> Option<u64>) -> bool {
        let together = self.recorded_together();
        let mut is_changed = false;
        for (phase, open) in self.steps_mut() {
            let first = open.recording.first().map_or(open.id, |record| record.id);
            // A train is recorded and settled as one, by the attempt that has it.
            let is_member = open.recording.is_empty() && together.contains(&open.id);
            let Some(row) = row_of(first).filter(|_| !is_member) else { continue };
            open.rows_from = row;
            if open.recording.is_empty() {
                *phase = Phase::Settling;
            }
            is_changed = true;
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::rules::sample;

    fn open(id: u32) -> OpenExperiment {
        OpenExperiment::new(id.into(), CommitId::new("a".repeat(40)), Timestamp::UNIX_EPOCH)
    }

    fn record(id: u32) -> Record {
        sample::record(json!({"id": id, "outcome": "keep", "value": "1.0"}))
    }

    #[test]
    fn rows_of_open_experiments_are_settled_and_those_of_a_train_by_one_attempt() {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        journal.enter(Phase::Running, open(2));
        journal.enter(Phase::Waiting, open(3));
        journal.enter(Phase::Recording, OpenExperiment { recording: vec![record(3), record(4)], ..open(5) });
        assert!(!journal.clone().place_rows(|_| None));
        let row_of = |id: ExperimentId| (id != 2.into()).then(|| u64::from(id.number()) * 10);
        assert!(journal.place_rows(row_of));
        let rows: Vec<(Phase, u64)> = journal.steps().map(|(phase, open)| (phase, open.rows_from)).collect();
        assert_eq!(rows, [(Phase::Running, 0), (Phase::Waiting, 0), (Phase::Recording, 30)]);
        let mut alone = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        alone.enter(Phase::Committing, open(3));
        assert!(alone.place_rows(row_of));
        assert_eq!((alone.phase(), alone.attempts[0].open.rows_from), (Phase::Settling, 30));
    }
}
