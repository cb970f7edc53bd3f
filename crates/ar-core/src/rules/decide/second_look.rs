//! Second looks: the discard that came closest gets fresh runs after many experiments without a keep, as one unlucky run may have
//! decided on it. What that gains and costs is simulated by `cargo bench --bench night`.

use super::{Repeats, fresh_groups, fresh_runs, is_confirmed, mean, repeats};
use crate::domain::{Contract, ExperimentId, Outcome, Record, ReviewVerdict, SecondLook};
use crate::rules::history::{CountedOutcome, History, is_sound};

/// A discard, and by how much it was better than the experiment that it was made on; negative if it was worse.
#[derive(Debug, Clone, Copy)]
pub struct CloseDiscard<'a> {
    /// Its record.
    pub record: &'a Record,
    /// The difference, in the metric's unit.
    pub score: f64,
}

/// The second look that is due: at the discard that came closest of those recorded when the number of discards and crashes since
/// the last keep became a multiple of the contract's. `None` if it was taken, if no discard may have one, and where none are taken.
pub fn second_look_due(contract: &Contract, history: &History) -> Option<SecondLook> {
    let every = contract.second_look.max(1) as usize;
    let incumbent = history.incumbent()?.id;
    let counted = stalled(history);
    let stall = counted.len() / every * every;
    let last = *counted.get(stall.checked_sub(1)?)?;
    let is_taken = |look: &SecondLook| look.incumbent == incumbent && look.stall as usize >= stall;
    let looks = || history.records().iter().filter_map(|record| record.beside.second_look.as_ref());
    if looks().any(is_taken) || !takes_second_looks(contract, history) {
        return None;
    }
    let known = &history.records()[..=last];
    let may_have_one = |close: &CloseDiscard| looks().all(|look| look.of != close.record.id);
    let closest = closest_discards(history, known).into_iter().find(may_have_one)?;
    let seeds = closest.record.runs.iter().filter_map(|run| run.seed);
    Some(SecondLook {
        of: closest.record.id,
        stall: stall as u32,
        score: closest.score,
        incumbent,
        seed: seeds.max().unwrap_or_default() + 1,
    })
}

/// Returns whether second looks are taken at all: fresh runs decide, and not all runs of the same code give the same number.
pub fn takes_second_looks(contract: &Contract, history: &History) -> bool {
    let is_asked = contract.second_look > 0 && is_confirmed(contract) && contract.keep_above.is_none();
    is_asked && repeats(&fresh_groups(history)) != Repeats::Exact
}

/// The number of discards and crashes since the last keep, without refused changes and second looks.
pub fn stall_length(history: &History) -> usize {
    stalled(history).len()
}

/// The places of the discards and crashes since the last keep among the records, oldest first. Neither refused changes nor second
/// looks count.
fn stalled(history: &History) -> Vec<usize> {
    let records = history.records();
    let first = records.iter().rposition(|record| record.outcome == Outcome::Keep).map_or(0, |keep| keep + 1);
    let counts = |record: &Record| {
        let ended = CountedOutcome::of_record(record);
        matches!(ended, CountedOutcome::Discard | CountedOutcome::Crash) && !record.is_second_look()
    };
    (first..records.len()).filter(|place| counts(&records[*place])).collect()
}

/// The discards among these records with a value that counts, the closest first and of equals the latest. Compared are the means
/// of the runs that decided on them and on the experiments that they were made on. Second looks and vetoed changes are none.
pub fn closest_discards<'a>(history: &'a History, records: &'a [Record]) -> Vec<CloseDiscard<'a>> {
    let value = |record: &Record| mean(fresh_runs(record).iter().map(|run| run.value)).or(record.metric.value);
    let close = |record: &'a Record| {
        let is_vetoed = record.proof.review.as_ref().is_some_and(|review| review.verdict == ReviewVerdict::NotEarned);
        let may_count = record.outcome == Outcome::Discard && is_sound(record) && !is_vetoed;
        let own = value(record).filter(|_| may_count && !record.is_second_look())?;
        let base = history.get(history.kept_at(&record.base)?).and_then(value)?;
        Some(CloseDiscard { record, score: record.metric.direction.gain(own, base) })
    };
    let mut found: Vec<CloseDiscard> = records.iter().rev().filter_map(close).collect();
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    found
}

/// The record of the second look at an experiment, if there was one.
pub fn second_look_at(history: &History, id: ExperimentId) -> Option<&Record> {
    let is_of = |record: &&Record| record.beside.second_look.as_ref().is_some_and(|look| look.of == id);
    history.records().iter().filter(|record| record.is_second_look()).find(is_of)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::Decide;
    use crate::rules::sample;

    /// Runs of this role by the seeds from `first` on.
    fn runs(role: &str, first: u64, values: &[f64]) -> Vec<Value> {
        let run = |(seed, value): (u64, &f64)| {
            let mut run = sample::run(1.0, Some(*value));
            (run["role"], run["seed"]) = (json!(role), json!(seed));
            run
        };
        (first..).zip(values).map(run).collect()
    }

    fn record(id: u32, value: &str, runs: &[Value], more: Value) -> Record {
        let mut fields = json!({"id": id, "sequence": id, "commit": format!("c{id}"), "base": "c0", "value": value,
            "outcome": if id == 0 { "keep" } else { "discard" }, "runs": runs});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sample::record(fields)
    }

    /// A baseline of 10 on four runs, and a discard of 12 for each number up to `last` that none of `others` has.
    fn history(last: u32, others: Vec<Record>) -> History {
        let baseline = record(0, "10.0", &runs("baseline", 1, &[9.0, 11.0, 9.5, 10.5]), json!({}));
        let is_free = |id: &u32| others.iter().all(|other| other.id.number() != *id);
        let plain = |id| record(id, "12.0", &runs("screen", 1, &[12.0]), json!({}));
        let all = (1..=last).filter(is_free).map(plain).collect::<Vec<_>>();
        History::new([vec![baseline], all, others].concat())
    }

    fn close() -> Vec<Record> {
        let fresh = [runs("screen", 1, &[9.0]), runs("confirm", 2, &[10.0, 10.2])].concat();
        let vetoed = json!({"review": {"verdict": "not_earned", "why": "", "seconds": 1.0}});
        vec![
            record(3, "9.4", &runs("screen", 1, &[9.4]), json!({})),
            record(7, "10.1", &fresh, json!({})),
            record(9, "10.4", &runs("screen", 1, &[10.4]), json!({})),
            record(10, "10.4", &runs("screen", 1, &[10.4]), json!({})),
            record(11, "9.1", &runs("screen", 1, &[9.1]), json!({"unmet_limits": ["memory_gb<=1"]})),
            record(12, "9.1", &runs("screen", 1, &[9.1]), vetoed),
        ]
    }

    fn contract() -> Contract {
        Contract { decide: Decide::Confirmed, ..sample::contract("true") }
    }

    fn due(history: &History) -> Option<(u32, u32, f64, u64)> {
        let look = second_look_due(&contract(), history)?;
        Some((look.of.number(), look.stall, (look.score * 1e9).round() / 1e9, look.seed))
    }

    fn look(id: u32, of: u32, stall: u32, outcome: &str) -> Record {
        let look = json!({"of": of, "stall": stall, "score": 0.0, "incumbent": 0, "seed": 2});
        record(id, "11.0", &runs("confirm", 2, &[11.0, 11.0]), json!({"second_look": look, "outcome": outcome}))
    }

    #[test]
    fn at_each_multiple_the_closest_discard_is_due_once() {
        assert_eq!(due(&history(14, close())), None);
        assert_eq!(due(&history(15, close())), Some((3, 15, 0.6, 2)));
        assert_eq!(
            due(&history(17, close())),
            Some((3, 15, 0.6, 2)),
            "what ended meanwhile on other slots changes nothing"
        );
        let first = || [close(), vec![look(16, 3, 15, "discard")]].concat();
        assert_eq!(due(&history(30, first())), None, "the look itself counts in no stall");
        assert_eq!(
            due(&history(31, first())),
            Some((7, 30, -0.1, 4)),
            "the mean of its fresh runs, and seeds that it has not used"
        );
        let second = [first(), vec![look(32, 7, 30, "discard")]].concat();
        assert_eq!(due(&history(47, second)), Some((10, 45, -0.4, 2)), "of equals the later one");
        let kept = [close(), vec![look(16, 3, 15, "keep")]].concat();
        assert_eq!(due(&history(30, kept)), None);
        let marked = |record: Record| match record.id.number() {
            3 => Record { beside: look(3, 3, 15, "discard").beside, ..record },
            _ => record,
        };
        let marked: Vec<Record> = close().into_iter().map(marked).collect();
        assert_eq!(due(&history(29, marked.clone())), None, "a conflict ends the look");
        assert_eq!(due(&history(30, marked)), Some((7, 30, -0.1, 4)));
    }

    #[test]
    fn nothing_is_looked_at_again_where_one_run_decides_or_all_are_equal() {
        let history = history(15, close());
        let is_due = |contract: Contract| second_look_due(&contract, &history).is_some();
        assert!(is_due(contract()) && is_due(Contract { decide: Decide::Strict, ..contract() }));
        assert!(!is_due(Contract { decide: Decide::Once, ..contract() }));
        assert!(!is_due(Contract { second_look: 0, ..contract() }));
        let exact = record(0, "10.0", &runs("baseline", 1, &[10.0; 4]), json!({}));
        let plain = (1..=15).map(|id| record(id, "12.0", &runs("screen", 1, &[12.0]), json!({})));
        let records: Vec<Record> = [exact].into_iter().chain(plain).collect();
        assert_eq!(due(&History::new(records)), None);
    }
}
