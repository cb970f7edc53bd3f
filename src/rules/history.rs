//! A session's experiments so far.

use crate::domain::{CommitId, FailureClass, Number, Outcome, Record, Spent};

/// The records of one session in the order of their numbers.
#[derive(Debug, Clone, Default)]
pub struct History {
    records: Vec<Record>,
}

impl History {
    /// The usage of the agent calls that led to experiments.
    pub fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for agent in self.records.iter().filter_map(|record| record.agent.as_ref()) {
            spent.calls = spent.calls.saturating_add(1);
            spent.add(agent.tokens, agent.cost);
        }
        spent
    }

    /// Creates a history from records in any order.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| record.id);
        History { records }
    }

    /// All records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Adds a record, or replaces the one with the same number.
    pub fn push(&mut self, record: Record) {
        self.records.retain(|known| known.id != record.id);
        self.records.push(record);
    }

    /// Removes an experiment that is being measured again, until it is recorded again.
    pub fn forget(&mut self, id: u32) {
        self.records.retain(|known| known.id != id);
    }

    /// The record of experiment `id`.
    pub fn get(&self, id: u32) -> Option<&Record> {
        self.records.binary_search_by_key(&id, |record| record.id).ok().map(|index| &self.records[index])
    }

    /// The baseline, if measured.
    pub fn baseline(&self) -> Option<&Record> {
        self.get(0)
    }

    /// The experiment to beat: the last keep.
    pub fn incumbent(&self) -> Option<&Record> {
        self.records.iter().rev().find(|record| record.outcome == Outcome::Keep)
    }

    /// The incumbent's value, with its experiment number.
    pub fn best(&self) -> Option<(u32, Number)> {
        let record = self.incumbent()?;
        Some((record.id, record.metric.number()?))
    }

    /// The best value ever kept. It is the incumbent's unless a kept simplification cost something.
    pub fn best_kept(&self) -> Option<Number> {
        self.best_kept_record()?.metric.number()
    }

    /// The experiment with [`History::best_kept`]; the first of equals.
    pub fn best_kept_record(&self) -> Option<&Record> {
        let kept = self.records.iter().filter(|it| it.outcome == Outcome::Keep && it.metric.value.is_some());
        kept.reduce(|best, record| if record.metric.is_better_than(&best.metric) { record } else { best })
    }

    /// The number of crashes in a row at the end, among experiments from number `first` on. Lost runs do not count.
    pub fn crashes_in_a_row(&self, first: u32) -> u32 {
        let is_lost = |record: &&Record| record.failure.as_ref().is_some_and(|it| it.class == FailureClass::Lost);
        let newest = self.records.iter().rev().take_while(|record| record.id >= first).filter(|it| !is_lost(it));
        newest.take_while(|record| record.outcome == Outcome::Crash).count() as u32
    }

    /// The number of experiments without the baseline.
    pub fn experiments(&self) -> u32 {
        self.records.iter().filter(|record| record.id != 0).count() as u32
    }

    /// The number of the next experiment.
    pub fn next_id(&self) -> u32 {
        self.records.last().map_or(0, |record| record.id + 1)
    }

    /// The number of experiments since the last keep.
    pub fn since_keep(&self) -> u32 {
        self.records.iter().rev().take_while(|record| record.outcome != Outcome::Keep).count() as u32
    }

    /// Whether `commit` belongs to an experiment.
    pub fn knows(&self, commit: &CommitId) -> bool {
        self.records.iter().any(|record| record.commit == *commit)
    }
}
