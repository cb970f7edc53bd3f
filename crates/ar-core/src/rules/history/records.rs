//! A session's experiments so far, and the counts of their outcomes and strategies, the same in every view.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clap::ValueEnum;
use serde::Serialize;
use strum::{Display, IntoStaticStr, VariantArray};

use super::is_sound;
use crate::domain::{
    CommitId, Contract, ExperimentId, FailureClass, Layout, Number, Outcome, Record, Spent, TriedDirection, VerifiedId,
    VerifiedPair, Waits,
};

/// The records of one session in the order in which they were made; an experiment's number says when it was opened.
#[derive(Debug, Clone, Default)]
pub struct History {
    records: Vec<Record>,
    /// What the last control gave for each keep whose number had moved.
    moved: BTreeMap<ExperimentId, Number>,
    /// The pairs that were verified beside the session.
    verified: Vec<VerifiedPair>,
}

/// The places of the keeps with a number of their own, in order, all and by commit.
struct OwnKeeps<'a> {
    places: Vec<usize>,
    of_commit: BTreeMap<&'a CommitId, Vec<usize>>,
}

impl OwnKeeps<'_> {
    fn of(records: &[Record]) -> OwnKeeps<'_> {
        let mut keeps = OwnKeeps { places: Vec::new(), of_commit: BTreeMap::new() };
        let is_own = |record: &Record| record.outcome == Outcome::Keep && record.number_of().is_none();
        for (place, record) in records.iter().enumerate().filter(|(_, record)| is_own(record)) {
            keeps.places.push(place);
            keeps.of_commit.entry(&record.commit).or_default().push(place);
        }
        keeps
    }
}

impl History {
    /// The usage of the agent calls that led to experiments.
    pub fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for agent in self.records.iter().filter_map(|record| record.origin.agent.as_ref()) {
            spent.calls = spent.calls.saturating_add(1);
            spent.add(agent.tokens, agent.cost);
        }
        for review in self.records.iter().filter_map(|record| record.proof.review.as_ref()) {
            spent.add(review.tokens, review.cost);
        }
        spent
    }

    /// The times of the session so far that no record has.
    pub fn waits(&self) -> Waits {
        self.records.last().map(|last| last.conditions.waits).unwrap_or_default()
    }

    /// Creates a history from records in any order.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| (record.sequence(), record.id));
        History { moved: moved_numbers(&records), records, verified: Vec::new() }
    }

    /// The same with the pairs of experiments that were verified beside the session: their runs tell of the noise.
    #[must_use]
    pub fn with_verified(self, verified: Vec<VerifiedPair>) -> Self {
        History { verified, ..self }
    }

    /// The verified pairs whose later experiment was kept, but did not prove better than the earlier one.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &VerifiedPair> {
        let record_of = |id: &VerifiedId| id.own().and_then(|id| self.get(id));
        let is_failed = move |pair: &&VerifiedPair| {
            let Some((a, b)) = record_of(&pair.a).zip(record_of(&pair.b)).filter(|_| pair.runs > 0) else {
                return false;
            };
            // Trains are recorded in the order in which they add up, which need not be that of their numbers.
            let (is_failed, later) =
                if a.sequence() < b.sequence() { (pair.low <= 0.0, b) } else { (pair.high >= 0.0, a) };
            is_failed && later.outcome == Outcome::Keep
        };
        self.verified.iter().filter(is_failed)
    }

    /// Returns whether its command takes the seeds of its runs.
    pub fn takes_seeds(&self) -> bool {
        self.baseline().is_none_or(|baseline| !baseline.conditions.ignores_seeds)
    }

    /// The same with other records in the places of its own.
    #[must_use]
    pub fn with_each(&self, other: impl Fn(&Record) -> Record) -> Self {
        let records: Vec<Record> = self.records.iter().map(other).collect();
        History { moved: moved_numbers(&records), records, verified: self.verified.clone() }
    }

    /// The pairs that were verified beside the session.
    pub fn verified(&self) -> &[VerifiedPair] {
        &self.verified
    }

    /// All records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Adds a record, or replaces the one with the same number.
    pub fn push(&mut self, record: Record) {
        self.records.retain(|known| known.id != record.id);
        self.records.push(record);
        self.moved = moved_numbers(&self.records);
    }

    /// Replaces the record with the same number, which keeps its place.
    pub fn amend(&mut self, record: Record) {
        if let Some(known) = self.records.iter_mut().find(|known| known.id == record.id) {
            *known = record;
        }
        self.moved = moved_numbers(&self.records);
    }

    /// Removes an experiment that is being measured again, until it is recorded again.
    pub fn forget(&mut self, id: ExperimentId) {
        self.records.retain(|known| known.id != id);
        self.moved = moved_numbers(&self.records);
    }

    /// The newest experiment; the baseline before any is recorded.
    pub fn last_id(&self) -> ExperimentId {
        self.records.last().map_or(ExperimentId::BASELINE, |record| record.id)
    }

    /// The record of experiment `id`.
    pub fn get(&self, id: ExperimentId) -> Option<&Record> {
        // Without gaps an experiment stands at its number.
        let expected = self.records.get(id.number() as usize).filter(|record| record.id == id);
        expected.or_else(|| self.records.iter().find(|record| record.id == id))
    }

    /// The baseline, if measured.
    pub fn baseline(&self) -> Option<&Record> {
        self.get(ExperimentId::BASELINE)
    }

    /// A number of the metric in the baseline's unit, if it compares with the baseline's.
    pub fn in_own_unit(&self, number: Number) -> Number {
        let baseline = self.baseline().and_then(|record| record.metric.number());
        baseline.and_then(|baseline| number.like(&baseline)).unwrap_or(number)
    }

    /// The experiment to beat: the last keep.
    pub fn incumbent(&self) -> Option<&Record> {
        self.records.iter().rev().find(|record| record.outcome == Outcome::Keep)
    }

    /// The keep whose number an experiment had to beat. Of one that was not kept it is its base: other experiments may have
    /// been kept while it was open. Of a keep, and where the base is not known, it is the last one with a number of its own,
    /// before `record` and the train that it was kept with.
    pub fn had_to_beat(&self, record: &Record) -> Option<&Record> {
        self.rival(&OwnKeeps::of(&self.records), record).map(|place| &self.records[place])
    }

    /// The places among the records of those that the experiments had to beat, in the order of the records.
    pub fn rivals(&self) -> Vec<Option<usize>> {
        let keeps = OwnKeeps::of(&self.records);
        self.records.iter().map(|record| self.rival(&keeps, record)).collect()
    }

    fn rival(&self, keeps: &OwnKeeps<'_>, record: &Record) -> Option<usize> {
        let in_train = |id| record.beside.train.as_ref().is_some_and(|train| train.members.contains(&id));
        let end = self.records.partition_point(|known| known.sequence() < record.sequence());
        let before = |places: &[usize]| places.partition_point(|place| *place < end);
        let has_base = record.outcome != Outcome::Keep && record.base.is_known();
        let base = keeps.of_commit.get(&record.base).filter(|_| has_base);
        let base = base.and_then(|places| places[..before(places)].last().copied());
        let keeps = &keeps.places[..before(&keeps.places)];
        base.or_else(|| keeps.iter().rev().copied().find(|place| !in_train(self.records[*place].id)))
    }

    /// The keeps whose changes a later one, put on top, removed, each with that one.
    pub fn replaced(&self) -> BTreeMap<ExperimentId, ExperimentId> {
        replaced(&self.records)
    }

    /// The records up to that of experiment `id`, and those of the changes after it until the next keep; all of them if it has
    /// none.
    pub fn as_of(&self, id: ExperimentId) -> &[Record] {
        let start = self.records.iter().position(|record| record.id == id).map_or(self.records.len(), |at| at + 1);
        let after = self.records[start..].iter().take_while(|record| record.outcome != Outcome::Keep);
        &self.records[..start + after.count()]
    }

    /// The incumbent's value, with its experiment number.
    pub fn best(&self) -> Option<(ExperimentId, Number)> {
        best_of(&self.records)
    }

    /// The number that a keep stands for: what it gave when a control found that it had moved, else its own.
    pub fn number_to_beat(&self, keep: &Record) -> Option<Number> {
        number_of_keep(&self.moved, keep)
    }

    /// The value that the next experiment has to beat, with its experiment; `None` where a threshold decides.
    pub fn to_beat(&self, contract: &Contract) -> Option<(ExperimentId, Number)> {
        self.best().filter(|_| contract.keep_above.is_none())
    }

    /// The newest slots that a record tells of.
    pub fn layout(&self) -> Option<&Layout> {
        self.records.iter().rev().find_map(|record| record.conditions.layout.as_ref())
    }

    /// The last keep that is no part of a train without the number of that: what experiments are merged onto, with its number.
    /// A baseline that had nothing to measure yet has none.
    pub fn standing(&self) -> Option<(ExperimentId, Option<Number>)> {
        let record = self.records.iter().rev().find(|record| is_numbered_keep(record))?;
        Some((record.id, self.number_to_beat(record)))
    }

    /// The best value ever kept. It is the incumbent's unless a kept simplification cost something.
    pub fn best_kept(&self) -> Option<Number> {
        best_kept_of(&self.records).map(|(_, number)| number)
    }

    /// The experiment with [`History::best_kept`]; the first of equals.
    pub fn best_kept_record(&self) -> Option<&Record> {
        best_kept_of(&self.records).map(|(record, _)| record)
    }

    /// The experiment with the best number, kept or not; the first of equals.
    pub fn best_measured(&self) -> Option<&Record> {
        let is_better = |one: &Record, other: &Record| {
            let values = one.metric.value.zip(other.metric.value);
            values.is_some_and(|(value, other)| one.metric.direction.better(value, other))
        };
        let measured = self.records.iter().filter(|record| record.metric.value.is_some());
        measured.reduce(|best, record| if is_better(record, best) { record } else { best })
    }

    /// The number of crashes in a row at the end, among records from place `first` on. Lost runs do not count.
    pub fn crashes_in_a_row(&self, first: u32) -> u32 {
        let is_lost = |record: &&Record| record.failure.as_ref().is_some_and(|it| it.class == FailureClass::Lost);
        let newest =
            self.records.iter().rev().take_while(|record| record.sequence() >= first).filter(|it| !is_lost(it));
        newest.take_while(|record| record.outcome == Outcome::Crash).count() as u32
    }

    /// The runs in a row at the end that crashed, the newest first. Lost runs do not count, and neither do changes that were
    /// refused without a run.
    pub fn crashed_runs(&self) -> impl Iterator<Item = &Record> {
        let counts = |class: FailureClass| class != FailureClass::Lost && !class.is_refusal();
        let has_run = move |record: &&Record| record.failure.as_ref().is_none_or(|failure| counts(failure.class));
        let runs = self.records.iter().rev().filter(has_run);
        runs.take_while(|record| record.outcome == Outcome::Crash)
    }

    /// The experiments without the baseline, in the order of their records.
    pub fn without_baseline(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter().filter(|record| !record.id.is_baseline())
    }

    /// The number of experiments without the baseline and second looks.
    pub fn experiments(&self) -> u32 {
        self.without_baseline().filter(|record| !record.is_second_look()).count() as u32
    }

    /// The number of the next experiment.
    pub fn next_id(&self) -> ExperimentId {
        self.records.iter().map(|record| record.id.next()).max().unwrap_or(ExperimentId::BASELINE)
    }

    /// The place of the next record.
    pub fn next_sequence(&self) -> u32 {
        self.records.last().map_or(0, |record| record.sequence() + 1)
    }

    /// Returns whether an open attempt can have a number: no record has it, and it is at most the next one or `given`.
    /// `given` is the highest number that was given while several attempts were open.
    pub fn is_free(&self, id: ExperimentId, given: Option<ExperimentId>) -> bool {
        Some(id) <= given.max(Some(self.next_id())) && self.get(id).is_none()
    }

    /// The number of experiments since the last keep, without second looks.
    pub fn since_keep(&self) -> u32 {
        let since = self.records.iter().rev().take_while(|record| record.outcome != Outcome::Keep);
        since.filter(|record| !record.is_second_look()).count() as u32
    }

    /// The kept experiment whose commit this is.
    pub fn kept_at(&self, commit: &CommitId) -> Option<ExperimentId> {
        let kept = self.records.iter().rev().find(|record| record.outcome == Outcome::Keep && record.commit == *commit);
        kept.map(|record| record.id)
    }

    /// Returns whether `commit` belongs to an experiment.
    pub fn knows(&self, commit: &CommitId) -> bool {
        self.records.iter().any(|record| record.commit == *commit)
    }
}

/// The keeps among these records that a later one replaced, each with that one.
pub(crate) fn replaced<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeMap<ExperimentId, ExperimentId> {
    let kept = records.into_iter().filter(|record| record.outcome == Outcome::Keep);
    kept.flat_map(|by| by.beside.replaces.iter().map(|id| (*id, by.id))).collect()
}

/// Returns whether a record is a keep with its own value, instead of that of the last one of its train.
fn is_numbered_keep(record: &Record) -> bool {
    record.outcome == Outcome::Keep && record.number_of().is_none()
}

/// The value of the last keep, with its experiment number.
pub(crate) fn best_of(records: &[Record]) -> Option<(ExperimentId, Number)> {
    let record = records.iter().rev().find(|record| is_numbered_keep(record))?;
    Some((record.id, number_of_keep(&moved_numbers(records), record)?))
}

/// What the last control gave for each keep whose number had moved, among these records.
fn moved_numbers(records: &[Record]) -> BTreeMap<ExperimentId, Number> {
    let controls = records.iter().filter_map(|record| record.proof.control.as_ref()).filter(|control| control.moved);
    controls.filter_map(|control| Some((control.experiment, control.metric.number()?))).collect()
}

/// The number that a keep stands for.
fn number_of_keep(moved: &BTreeMap<ExperimentId, Number>, keep: &Record) -> Option<Number> {
    moved.get(&keep.id).cloned().or_else(|| keep.metric.number())
}

/// The kept record with the best value, and that value; the first of equals.
pub(crate) fn best_kept_of(records: &[Record]) -> Option<(&Record, Number)> {
    let kept = records.iter().filter(|it| it.outcome == Outcome::Keep);
    let moved = moved_numbers(records);
    let numbered = kept.filter_map(|record| Some((record, number_of_keep(&moved, record)?)));
    numbered.reduce(|best, other| {
        let is_better = other.0.metric.direction.better(other.1.value, best.1.value);
        if is_better { other } else { best }
    })
}

/// The experiments that were recorded and have no record any more, of the numbers and places of those that have one: numbers
/// may have gaps, places may not.
pub fn lost_ids(there: impl IntoIterator<Item = (ExperimentId, u32)>) -> Vec<ExperimentId> {
    let (ids, places): (Vec<u32>, Vec<u32>) = there.into_iter().map(|(id, place)| (id.number(), place)).unzip();
    let lost = gaps(places);
    let unused = gaps(ids);
    // A number that nobody has can be that of a lost record, or of an attempt that was given up.
    let lost = if lost.is_empty() || unused.is_empty() { lost } else { unused };
    lost.into_iter().map(ExperimentId::from).collect()
}

/// The missing numbers below the last one.
pub fn gaps(numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let there: BTreeSet<u32> = numbers.into_iter().collect();
    (0..there.last().map_or(0, |last| last + 1)).filter(|number| !there.contains(number)).collect()
}

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

/// The endings of words that make no other direction.
const ENDINGS: [&str; 6] = ["ings", "ing", "ed", "es", "s", "e"];

/// From how many letters on, digits at the end of a word number it.
const LONG: usize = 5;

/// What names of the same direction have in common: their words without digits and endings.
pub fn direction_key(name: &str) -> String {
    let stem = |word: &str| {
        let letters = word.trim_end_matches(char::is_numeric);
        // `seed` is no form of `sees`.
        let least = |ending: &str| if ending.len() > 1 { 3 } else { 2 };
        let ended = |ending| letters.strip_suffix(ending).filter(|stem| stem.chars().count() >= least(ending));
        // `schedule2` is `schedule`, but `beta2`, `top5` and `conv1d` are names.
        match letters.chars().count() {
            count if letters.contains(char::is_numeric) || (letters != word && (1..LONG).contains(&count)) => {
                word.to_owned()
            }
            _ => ENDINGS.into_iter().find_map(ended).unwrap_or(letters).to_owned(),
        }
    };
    let lower = name.to_lowercase();
    let is_signed = |token: &str| token.strip_prefix(['+', '-']).is_some_and(|rest| rest.starts_with(char::is_numeric));
    // `layers +1` is not `layers -1`.
    let token = |token: &str| match is_signed(token) {
        true => token.to_owned(),
        false => token.split(|c: char| !c.is_alphanumeric()).map(stem).collect(),
    };
    let mut key: Vec<char> = lower.split_whitespace().map(token).collect::<String>().chars().collect();
    // `clipping` is `clip`, and `losses` are `loss`.
    key.dedup_by(|one, other| one == other && one.is_alphabetic());
    // A name of numbers and signs alone has nothing else.
    if key.is_empty() { lower } else { key.into_iter().collect() }
}

/// Returns whether two names mean the same direction.
pub fn same_direction(one: &str, other: &str) -> bool {
    direction_key(one) == direction_key(other)
}

/// Returns whether an experiment of `records` in this direction was measured. One that crashed without a value does not
/// count, and neither does a refused one.
pub fn is_tried(records: &[Record], direction: &str) -> bool {
    let is_measured = |record: &&Record| record.outcome != Outcome::Crash || record.metric.value.is_some();
    let mut named = records.iter().filter(is_measured).filter_map(|record| record.direction.as_deref());
    let key = direction_key(direction);
    named.any(|known| direction_key(known) == key)
}

/// The directions that the experiments named, newest first. `records` are oldest first.
pub fn directions_tried<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<TriedDirection> {
    let mut tried: Vec<TriedDirection> = Vec::new();
    let mut places = HashMap::new();
    for record in records {
        let Some(direction) = &record.direction else { continue };
        let at = *places.entry(direction_key(direction)).or_insert_with(|| {
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
    use serde_json::json;

    use super::*;
    use crate::domain::VerifiedId;
    use crate::rules::sample::record;

    #[test]
    fn a_verification_that_shows_no_gain_of_a_later_keep_is_found() {
        let made = |id: u32, outcome| record(json!({"id": id, "outcome": outcome}));
        let pair = |a: u32, b: u32, low, high| VerifiedPair {
            runs: 4,
            low,
            high,
            ..VerifiedPair::new(VerifiedId::new(None, a.into()), VerifiedId::new(None, b.into()))
        };
        let pairs = vec![
            pair(0, 1, -0.1, 0.2),
            pair(0, 2, 0.1, 0.2),
            pair(2, 0, -0.2, -0.1),
            pair(2, 1, -0.2, 0.1),
            pair(0, 3, -0.1, 0.2),
        ];
        let history = History::new(vec![made(0, "keep"), made(1, "keep"), made(2, "keep"), made(3, "discard")]);
        let history = history.with_verified(pairs);
        let found: Vec<_> = history.unconfirmed().map(|pair| (pair.a.text(), pair.b.text())).collect();
        let names = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(found, [names("the baseline", "experiment 1"), names("experiment 2", "experiment 1")]);
    }

    #[test]
    fn records_go_by_their_places_and_numbers_may_have_gaps() {
        let made =
            |id: u32, sequence: u32, outcome| record(json!({"id": id, "sequence": sequence, "outcome": outcome}));
        // Opened side by side: 3 was recorded before 2, and 1 was given up.
        let history =
            History::new(vec![made(0, 0, "keep"), made(2, 2, "keep"), made(3, 1, "keep"), made(5, 3, "crash")]);
        let ids: Vec<u32> = history.records().iter().map(|record| record.id.number()).collect();
        assert_eq!(ids, [0, 3, 2, 5]);
        assert_eq!(
            history.incumbent().map(|record| record.id),
            Some(2.into()),
            "the last one that was recorded as kept"
        );
        assert_eq!([history.next_id().number(), history.next_sequence()], [6, 4]);
        let is_free = |id: u32, given: Option<u32>| history.is_free(id.into(), given.map(ExperimentId::from));
        assert_eq!([1, 2, 4, 6, 7].map(|id| is_free(id, None)), [true, false, true, true, false]);
        assert!(is_free(7, Some(7)));
        assert_eq!(history.get(3.into()).map(|record| record.sequence()), Some(1));
        assert_eq!([history.crashes_in_a_row(3), history.crashes_in_a_row(4)], [1, 0]);
        assert!(history.get(4.into()).is_none());
    }

    #[test]
    fn the_number_of_a_train_is_that_of_its_last_record() {
        let train = json!({"last": 5, "members": [3, 4, 5]});
        let history = History::new(vec![
            record(json!({"id": 0, "value": "3"})),
            record(json!({"id": 3, "sequence": 1, "train": train})),
            record(json!({"id": 4, "sequence": 2, "train": train})),
        ]);
        assert_eq!(history.best().map(|(id, number)| (id.number(), number.value)), Some((0, 3.0)), "half recorded");
        let mut history = history;
        history.push(record(json!({"id": 5, "sequence": 3, "value": "2", "train": train})));
        history.push(record(json!({"id": 6, "sequence": 4, "outcome": "discard", "value": "4"})));
        assert_eq!(history.best().map(|(id, _)| id.number()), Some(5));
        let beaten = |id: u32| history.had_to_beat(history.get(id.into()).unwrap()).map(|record| record.id.number());
        assert_eq!([beaten(0), beaten(3), beaten(5), beaten(6)], [None, Some(0), Some(0), Some(5)]);
        assert_eq!(history.since_keep(), 1);
    }

    #[test]
    fn an_experiment_had_to_beat_its_own_base_although_others_were_kept_meanwhile() {
        let made = |id: u32, base: &str, outcome| {
            record(json!({"id": id, "value": "1", "commit": format!("c{id}"), "base": base, "outcome": outcome}))
        };
        let history = History::new(vec![
            made(0, "c0", "keep"),
            made(1, "c0", "keep"),
            made(2, "c0", "discard"),
            made(3, "c1", "keep"),
            made(4, "c1", "crash"),
            made(5, "elsewhere", "discard"),
        ]);
        let rivals = [None, Some(0), Some(0), Some(1), Some(1), Some(3)];
        assert_eq!(history.rivals(), rivals);
        for (record, rival) in history.records().iter().zip(rivals) {
            assert_eq!(history.had_to_beat(record).map(|record| record.id.number() as usize), rival);
        }
    }

    #[test]
    fn a_keep_that_was_removed_again_is_replaced_by_the_one_put_on_top() {
        let replaced = |outcome| {
            let last = record(json!({"id": 2, "outcome": outcome, "replaces": [1]}));
            let all = History::new(vec![record(json!({"id": 0})), record(json!({"id": 1})), last]).replaced();
            all.into_iter().map(|(id, by)| (id.number(), by.number())).collect::<Vec<_>>()
        };
        assert_eq!([replaced("keep"), replaced("discard")], [vec![(1, 2)], vec![]]);
    }

    #[test]
    fn a_record_without_a_place_has_its_number() {
        let history = History::new(vec![record(json!({"id": 1})), record(json!({"id": 0}))]);
        assert_eq!([history.next_id().number(), history.next_sequence()], [2, 2]);
        assert_eq!(history.records()[1].sequence(), 1);
    }

    #[test]
    fn only_runs_count_among_those_that_crashed_in_a_row() {
        let crash = |id: u32, class: &str| {
            record(json!({"id": id, "outcome": "crash", "failure": {"class": class, "excerpt": ""}}))
        };
        let records = vec![
            record(json!({"id": 0})),
            crash(1, "crash"),
            record(json!({"id": 2, "outcome": "discard"})),
            crash(3, "oom"),
            crash(4, "protected"),
            crash(5, "duplicate"),
            crash(6, "lost"),
            crash(7, "no_metric"),
        ];
        assert_eq!(History::new(records).crashed_runs().count(), 2);
    }

    #[test]
    fn a_gap_in_numbers_is_no_loss_and_one_in_places_is() {
        let lost = |there: &[(u32, u32)]| -> Vec<u32> {
            let there = there.iter().map(|(id, place)| (ExperimentId::from(*id), *place));
            lost_ids(there).into_iter().map(ExperimentId::number).collect()
        };
        assert_eq!(lost(&[(0, 0), (3, 1), (2, 2)]), [0u32; 0]);
        assert_eq!(lost(&[(0, 0), (2, 2), (3, 3)]), [1]);
        assert_eq!(lost(&[(1, 1), (2, 2)]), [0]);
    }

    #[test]
    fn gaps_are_numbers_below_the_last_one() {
        assert_eq!(gaps([]), [0u32; 0]);
        assert_eq!(gaps([0, 1, 2]), [0u32; 0]);
        assert_eq!(gaps([4, 1, 2]), [0, 3]);
    }

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
