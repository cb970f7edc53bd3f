//! A session's experiments so far.

use crate::domain::{CommitId, FailureClass, Number, Outcome, Record, Spent};

/// The records of one session in the order of their numbers.
#[derive(Debug, Clone, Default)]
pub struct History {
    records: Vec<Record>,
}

impl History {
    /// What the agent's calls for the experiments used; those that led to none are not among them.
    pub fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for agent in self.records.iter().filter_map(|record| record.agent.as_ref()) {
            spent.calls = spent.calls.saturating_add(1);
            spent.add(agent.tokens, agent.cost);
        }
        spent
    }

    /// Wraps records; they may come in any order.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| record.id);
        History { records }
    }

    /// All records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Adds the record of the experiment that was just finished; one of the same number is replaced.
    pub fn push(&mut self, record: Record) {
        self.records.retain(|known| known.id != record.id);
        self.records.push(record);
    }

    /// Takes an experiment out that is measured once more, until it is recorded again.
    pub fn forget(&mut self, id: u32) {
        self.records.retain(|known| known.id != id);
    }

    /// The record of experiment `id`.
    pub fn get(&self, id: u32) -> Option<&Record> {
        self.records.binary_search_by_key(&id, |record| record.id).ok().map(|index| &self.records[index])
    }

    /// The baseline, once it was measured.
    pub fn baseline(&self) -> Option<&Record> {
        self.get(0)
    }

    /// The experiment that a new one has to beat: the last one that was kept.
    pub fn incumbent(&self) -> Option<&Record> {
        self.records.iter().rev().find(|record| record.outcome == Outcome::Keep)
    }

    /// The incumbent's number of its metric, with its experiment's number.
    pub fn best(&self) -> Option<(u32, Number)> {
        let record = self.incumbent()?;
        Some((record.id, record.metric.number()?))
    }

    /// The best number of its metric that was ever kept. It is the incumbent's unless a simplification was kept that cost
    /// something.
    pub fn best_kept(&self) -> Option<Number> {
        self.best_kept_record()?.metric.number()
    }

    /// The experiment that has [`History::best_kept`]; the first of equals.
    pub fn best_kept_record(&self) -> Option<&Record> {
        let kept = self.records.iter().filter(|it| it.outcome == Outcome::Keep && it.metric.value.is_some());
        kept.reduce(|best, record| if record.metric.is_better_than(&best.metric) { record } else { best })
    }

    /// How many crashes there were in a row at the end, of the experiments from number `first` on. Runs that were lost with
    /// their machine count for nothing.
    pub fn crashes_in_a_row(&self, first: u32) -> u32 {
        let is_lost = |record: &&Record| record.failure.as_ref().is_some_and(|it| it.class == FailureClass::Lost);
        let newest = self.records.iter().rev().take_while(|record| record.id >= first).filter(|it| !is_lost(it));
        newest.take_while(|record| record.outcome == Outcome::Crash).count() as u32
    }

    /// How many experiments there are, the baseline not counted.
    pub fn experiments(&self) -> u32 {
        self.records.iter().filter(|record| record.id != 0).count() as u32
    }

    /// The number that the next experiment gets.
    pub fn next_id(&self) -> u32 {
        self.records.last().map_or(0, |record| record.id + 1)
    }

    /// How many experiments came after the last one that was kept.
    pub fn since_keep(&self) -> u32 {
        self.records.iter().rev().take_while(|record| record.outcome != Outcome::Keep).count() as u32
    }

    /// Whether `commit` is the commit of one of the experiments.
    pub fn knows(&self, commit: &CommitId) -> bool {
        self.records.iter().any(|record| record.commit == *commit)
    }
}
