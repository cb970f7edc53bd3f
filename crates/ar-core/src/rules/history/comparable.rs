//! Which values compare: changes of the environment, the reason why an experiment was not kept, and the spread of
//! repeated measurements of the same code.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use serde::Serialize;

use crate::domain::{
    CommitId, Environment, EnvironmentChange, ExperimentId, FailureClass, Number, Outcome, Record, Run, RunRole,
};

/// All changes between experiments, in the order of `records`. Unknown facts are not changes. Experiments that never
/// ran are skipped.
pub fn environment_changes<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<EnvironmentChange> {
    let mut last = BTreeMap::new();
    let ran = records.into_iter().filter(|record| !record.runs.is_empty());
    ran.flat_map(|record| changes(&mut last, record.id, &record.origin.environment)).collect()
}

/// The changes from the environment of `before` to `now`, in which experiment `next` will run.
pub fn environment_differences(before: &Record, next: ExperimentId, now: &Environment) -> Vec<EnvironmentChange> {
    changes(&mut before.origin.environment.known().into_iter().collect(), next, now)
}

/// The changes of an experiment's environment from the `last` known one.
fn changes<'a>(
    last: &mut BTreeMap<&'a str, &'a str>,
    experiment: ExperimentId,
    environment: &'a Environment,
) -> Vec<EnvironmentChange> {
    let change = |(field, after): (&'a str, &'a str)| {
        let before = last.insert(field, after).filter(|before| *before != after)?;
        Some(EnvironmentChange { experiment, field: field.into(), before: before.into(), after: after.into() })
    };
    environment.known().into_iter().filter_map(change).collect()
}

/// Returns whether others may build on an experiment's value: it was kept, or discarded for its value alone. A value
/// that broke a limit or failed a guard came at a forbidden price.
pub fn is_sound(record: &Record) -> bool {
    let is_bought = record.failure.is_some() || !record.unmet_limits.is_empty();
    record.outcome == Outcome::Keep || !is_bought
}

/// Returns the reason why an experiment was not kept: the limit or guard that it failed, else the reason in its record.
/// `None` for a keep.
pub fn why_not_kept(record: &Record) -> Option<String> {
    if record.outcome == Outcome::Keep {
        return None;
    }
    let is_guard = record.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::GuardFailed);
    if let Some(guard) = record.proof.guards.iter().find(|guard| is_guard && !guard.passed) {
        return Some(format!("guard failed: `{}`", guard.command));
    }
    if record.failure.is_none() && !record.unmet_limits.is_empty() {
        return Some(format!("broke a limit: {}", record.unmet_limits.join(", ")));
    }
    Some(record.reason.clone())
}

/// The largest difference of two measurements of the same code in 19 of 20 cases, in standard deviations: the
/// repeatability limit of ISO 5725-6, which is 1.96 times the square root of 2.
pub(crate) const LIMIT: f64 = 2.8;

/// A baseline of another session.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherBaseline {
    /// The session.
    pub tag: String,
    /// The commit.
    pub commit: CommitId,
    /// The values of the same metric by the same command, of each run.
    pub numbers: Vec<Number>,
    /// Its environment.
    pub environment: Arc<Environment>,
}

impl OtherBaseline {
    /// Reads the other session's baseline.
    pub fn of(baseline: Record) -> OtherBaseline {
        OtherBaseline {
            tag: baseline.tag.to_string(),
            numbers: numbers(&baseline),
            commit: baseline.commit,
            environment: baseline.origin.environment,
        }
    }
}

/// Code measured more than once on the same machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeated {
    /// The experiments that measured it.
    pub experiments: Vec<ExperimentId>,
    /// The other sessions that have it as their baseline.
    pub sessions: Vec<String>,
    /// The number of values; 2 or more.
    pub count: usize,
    /// The smallest value, as printed.
    #[serde(serialize_with = "value")]
    pub min: Number,
    /// The largest.
    #[serde(serialize_with = "value")]
    pub max: Number,
    /// The sample's standard deviation, in the metric's unit.
    pub deviation: f64,
}

/// The spread of repeated measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// The repeated measurements, most frequent first.
    pub repeated: Vec<Repeated>,
    /// The pooled standard deviation, in the metric's unit.
    pub deviation: f64,
    /// The largest difference of two measurements of the same code in 19 of 20 cases.
    pub limit: f64,
}

fn value<S: serde::Serializer>(number: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(number.value)
}

/// The spread of repeated measurements: an experiment with several runs, several experiments with the same tree, or a
/// commit that is also another session's baseline. `None` without repeats.
///
/// Values from other machines or GPUs do not count: they differ for other reasons.
pub fn spread(records: &[Record], elsewhere: &[OtherBaseline]) -> Option<Spread> {
    let mut groups: BTreeMap<(&str, &str, Option<&str>), RepeatedRuns> = BTreeMap::new();
    for record in records {
        let numbers = numbers(record);
        let Some(own) = numbers.first().cloned().filter(|_| record.commit.is_known()) else { continue };
        let code = record.change.fingerprint.as_ref().map_or(record.commit.as_str(), |fingerprint| &fingerprint.tree);
        let group = groups.entry(key(code, &record.origin.environment)).or_default();
        group.experiments.push(record.id);
        group.numbers.extend(numbers);
        for other in elsewhere.iter().filter(|other| other.commit == record.commit) {
            let in_own_unit: Vec<Number> = other.numbers.iter().filter_map(|number| number.like(&own)).collect();
            if key(code, &other.environment) == key(code, &record.origin.environment) && !in_own_unit.is_empty() {
                group.sessions.push(other.tag.clone());
                group.numbers.extend(in_own_unit);
            }
        }
    }
    let mut repeated: Vec<Repeated> = groups.into_values().filter_map(RepeatedRuns::close).collect();
    repeated.sort_by_key(|group| (Reverse(group.count), group.experiments.first().copied()));
    let freedom: f64 = repeated.iter().map(|group| (group.count - 1) as f64).sum();
    let squares: f64 = repeated.iter().map(|group| (group.count - 1) as f64 * group.deviation.powi(2)).sum();
    let deviation = (squares / freedom).sqrt();
    (!repeated.is_empty()).then_some(Spread { repeated, deviation, limit: LIMIT * deviation })
}

/// The code and its environment.
fn key<'a>(code: &'a str, environment: &'a Environment) -> (&'a str, &'a str, Option<&'a str>) {
    (code, &environment.host, environment.gpu.as_deref())
}

/// The values measured for a record's commit, without those of other commits that its runs name. If the change was reworked, only
/// the last run belongs to it.
fn numbers(record: &Record) -> Vec<Number> {
    let Some(own) = record.metric.number() else { return Vec::new() };
    let is_own = |run: &&Run| !run.void && run.commit.as_ref().is_none_or(|commit| *commit == record.commit);
    // A run that selected the experiment says nothing about the noise of those that confirmed it.
    let is_confirmed = record.runs.iter().any(|run| run.role == Some(RunRole::Confirm));
    let is_fresh = |run: &&Run| !is_confirmed || run.role != Some(RunRole::Screen);
    let runs = record.runs.iter().filter(is_own).filter(is_fresh);
    let runs: Vec<f64> = runs.filter_map(|run| run.value).collect();
    if !record.change.versions.is_empty() || runs.len() < 2 {
        return vec![own];
    }
    let other = |value: f64| Number { unit: own.unit.clone(), ..Number::of(value) };
    runs.into_iter().map(|value| if value == own.value { own.clone() } else { other(value) }).collect()
}

#[derive(Default)]
struct RepeatedRuns {
    experiments: Vec<ExperimentId>,
    sessions: Vec<String>,
    numbers: Vec<Number>,
}

impl RepeatedRuns {
    fn close(mut self) -> Option<Repeated> {
        let count = self.numbers.len();
        if count < 2 {
            return None;
        }
        self.numbers.sort_by(|one, other| one.value.total_cmp(&other.value));
        let mean = self.numbers.iter().map(|number| number.value / count as f64).sum::<f64>();
        let squares: f64 = self.numbers.iter().map(|number| (number.value - mean).powi(2)).sum();
        let (min, max) = (self.numbers.first()?.clone(), self.numbers.last()?.clone());
        // The mean of equal numbers may be off by a rounding.
        let deviation = if min.value == max.value { 0.0 } else { (squares / (count - 1) as f64).sqrt() };
        Some(Repeated { experiments: self.experiments, sessions: self.sessions, count, min, max, deviation })
    }
}

/// The middle one of some finite numbers, or the mean of the two middle ones; `None` where there are none.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    Some(if numbers.len().is_multiple_of(2) { f64::midpoint(numbers[numbers.len() / 2 - 1], upper) } else { upper })
}

/// The running median of a stream of numbers.
#[derive(Debug, Default)]
pub(crate) struct RunningMedian {
    /// The bits of the lower half, the largest first.
    low: BinaryHeap<u64>,
    /// The bits of the upper half, which holds the middle one too, the smallest first.
    high: BinaryHeap<Reverse<u64>>,
}

impl RunningMedian {
    /// Adds a number that is not negative: the bits of such numbers sort like the numbers.
    pub(crate) fn add(&mut self, number: f64) {
        let bits = number.to_bits();
        if self.low.peek().is_some_and(|below| bits < *below) {
            self.low.push(bits);
        } else {
            self.high.push(Reverse(bits));
        }
        if self.low.len() > self.high.len() {
            self.high.extend(self.low.pop().map(Reverse));
        } else if self.high.len() > self.low.len() + 1 {
            self.low.extend(self.high.pop().map(|Reverse(bits)| bits));
        }
    }

    /// The count.
    pub(crate) fn count(&self) -> usize {
        self.low.len() + self.high.len()
    }

    /// Their [`median`].
    pub(crate) fn get(&self) -> Option<f64> {
        let upper = self.high.peek().map(|Reverse(bits)| f64::from_bits(*bits))?;
        let lower = self.low.peek().filter(|_| self.low.len() == self.high.len());
        Some(lower.map_or(upper, |bits| f64::midpoint(f64::from_bits(*bits), upper)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(id: u32, environment: serde_json::Value) -> Record {
        let run = json!({"command": "c", "seed": null, "started": "2025-11-20T01:00:00Z", "seconds": 1.0, "exit": 0,
            "signal": null, "value": 1.0});
        serde_json::from_value(json!({
            "version": 1, "id": id, "tag": "t", "commit": "c", "base": "b", "description": "", "direction": null,
            "outcome": "keep", "failure": null, "reason": "", "metrics": {}, "memory_gb": null, "runs": [run],
            "metric": {"name": "loss", "direction": "lower", "value": 1.0, "raw": "1.0"},
            "diff": {"files": 0, "added": 0, "deleted": 0}, "agent": null, "environment": environment,
            "started": "2025-11-20T01:00:00Z", "finished": "2025-11-20T01:00:00Z",
        }))
        .unwrap()
    }

    fn on(host: &str, driver: Option<&str>, tools: serde_json::Value) -> serde_json::Value {
        json!({"host": host, "gpu": null, "driver": driver, "lockfile": null, "tools": tools})
    }

    fn words(changes: &[EnvironmentChange]) -> Vec<String> {
        let words = |it: &EnvironmentChange| format!("{} {} {} {}", it.experiment, it.field, it.before, it.after);
        changes.iter().map(words).collect()
    }

    #[test]
    fn a_change_is_named_once_with_the_experiment_that_first_had_it() {
        let records = [
            record(0, on("a", Some("550"), json!({"torch": "2.4"}))),
            record(1, on("a", Some("550"), json!({"torch": "2.4"}))),
            record(2, on("b", Some("550"), json!({"torch": "2.5"}))),
            record(3, on("b", Some("550"), json!({"torch": "2.5"}))),
            record(4, on("a", Some("560"), json!({"torch": "2.5"}))),
        ];
        let changes = environment_changes(&records);
        assert_eq!(words(&changes), ["2 host a b", "2 torch 2.4 2.5", "4 host b a", "4 driver 550 560"]);
        assert_eq!(environment_changes(&records[..2]), []);
        let pair = environment_changes([&records[4], &records[0]]);
        assert_eq!(words(&pair), ["0 driver 560 550", "0 torch 2.5 2.4"]);
        let here = &records[1].origin.environment;
        assert_eq!(words(&environment_differences(&records[2], 3.into(), here)), ["3 host b a", "3 torch 2.5 2.4"]);
    }

    #[test]
    fn what_was_not_found_out_or_never_ran_is_no_change() {
        let refused = Record { runs: Vec::new(), ..record(3, on("c", None, json!({}))) };
        let records = [
            record(0, on("a", Some("550"), json!({"python": "3.12"}))),
            record(1, on("a", None, json!({}))),
            record(2, on("", Some("550"), json!({"torch": "2.5"}))),
            refused,
            record(4, on("a", Some("560"), json!({"python": "3.13"}))),
        ];
        assert_eq!(words(&environment_changes(&records)), ["4 driver 550 560", "4 python 3.12 3.13"]);
    }

    #[test]
    fn a_hash_is_cut_short() {
        let change = |field: &str| EnvironmentChange {
            experiment: 1.into(),
            field: field.into(),
            before: "0123456789".into(),
            after: "abcdefghij".into(),
        };
        assert_eq!(change("lockfile").to_string(), "lockfile 01234567 → abcdefgh");
        assert_eq!(change("driver").to_string(), "driver 0123456789 → abcdefghij");
    }

    #[test]
    fn fields_of_another_program_survive_and_are_not_compared() {
        let before = json!({"host": "a", "kernel": "Linux 6.1", "tools": {"torch": "2.4", "uv": "0.5"}, "rack": 7});
        let after = json!({"host": "a", "kernel": "Linux 6.2", "tools": {"torch": "2.4", "uv": "0.6"}, "rack": 8});
        let read: Environment = serde_json::from_value(before.clone()).unwrap();
        let written = serde_json::to_value(read).unwrap();
        assert_eq!(
            (&written["rack"], &written["kernel"], &written["tools"]),
            (&before["rack"], &before["kernel"], &before["tools"])
        );
        assert_eq!(environment_changes(&[record(0, before), record(1, after)]), []);
    }
}

#[cfg(test)]
mod comparable_tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn a_limit_and_a_guard_are_named_before_the_number() {
        let why = |fields: serde_json::Value| {
            let record = record(fields);
            (is_sound(&record), why_not_kept(&record).unwrap_or_default())
        };
        let guard = json!({"command": "sh t.sh", "exit": 1, "signal": null, "timed_out": false, "seconds": 1.0, "passed": false,
            "excerpt": ""});
        for (fields, expected) in [
            (json!({"outcome": "keep", "reason": "better"}), (true, "")),
            (json!({"outcome": "discard", "reason": "loss 2 is worse"}), (true, "loss 2 is worse")),
            (
                json!({"outcome": "discard", "reason": "loss 1 is better, but …", "unmet_limits": ["memory_gb is 44 and must be <= 40"]}),
                (false, "broke a limit: memory_gb is 44 and must be <= 40"),
            ),
            (
                json!({"outcome": "discard", "reason": "", "failure": {"class": "guard_failed"}, "guards": [guard]}),
                (false, "guard failed: `sh t.sh`"),
            ),
            (
                json!({"outcome": "crash", "reason": "out of memory", "failure": {"class": "oom"}}),
                (false, "out of memory"),
            ),
        ] {
            assert_eq!(why(fields), (expected.0, expected.1.to_owned()));
        }
    }
}

#[cfg(test)]
mod spread_tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Unit;
    use crate::rules::sample::{record, run};

    fn measured(id: u32, tree: &str, value: &str, host: &str) -> Record {
        record(json!({"id": id, "commit": format!("c{id}"), "value": value, "fingerprint": {"tree": tree, "patch": ""},
            "environment": {"host": host, "gpu": null, "driver": null, "lockfile": null}}))
    }

    #[test]
    fn the_same_code_on_the_same_machine_is_one_group() {
        let records = [
            record(json!({"value": "2.0", "runs": [run(1.0, Some(2.0)), run(1.0, None), run(1.0, Some(2.5))]})),
            measured(1, "a", "1.0", "box"),
            measured(2, "b", "1.5", "box"),
            measured(3, "a", "2.0", "box"),
            measured(4, "a", "9.0", "other"),
            record(json!({"id": 5, "commit": "c5", "outcome": "crash", "fingerprint": {"tree": "b", "patch": ""}})),
        ];
        let found = spread(&records, &[]).unwrap();
        let groups: Vec<_> = found
            .repeated
            .iter()
            .map(|it| (it.experiments.clone(), it.min.raw.as_str(), it.max.raw.as_str()))
            .collect();
        assert_eq!(
            groups,
            [(vec![ExperimentId::BASELINE], "2.0", "2.5"), (vec![1.into(), 3.into()], "1.0", "2.0")],
            "not of a crash, not of another host"
        );
        // For two values it is their distance divided by the square root of two; for both groups, the mean square.
        assert!((found.deviation - (0.5 * (0.125 + 0.5_f64)).sqrt()).abs() < 1e-12, "{found:?}");
        assert!((found.limit - 2.8 * found.deviation).abs() < 1e-12);
        assert_eq!(spread(&records[1..3], &[]), None, "nothing twice");
    }

    #[test]
    fn runs_of_versions_that_were_worked_on_again_are_of_other_code() {
        let version = json!({"commit": "v", "saved": "s", "failure": null, "reason": "", "value": 3.0});
        let reworked =
            record(json!({"value": "2.0", "runs": [run(1.0, Some(3.0)), run(1.0, Some(2.0))], "versions": [version]}));
        assert_eq!(spread(&[reworked], &[]), None);
    }

    #[test]
    fn a_baseline_of_another_session_counts_where_it_is_of_the_same_machine() {
        let records = [record(json!({"value": "2.0"}))];
        let other = |tag: &str, host: &str| OtherBaseline {
            tag: tag.into(),
            commit: CommitId::new("c0"),
            numbers: vec!["2.0".parse().unwrap()],
            environment: Arc::new(Environment { host: host.into(), ..Environment::default() }),
        };
        let found = spread(&records, &[other("u", "box"), other("v", "laptop")]).unwrap();
        assert_eq!(
            (&found.repeated[0].sessions, found.repeated[0].count, found.limit),
            (&vec!["u".to_owned()], 2, 0.0)
        );
        assert_eq!(spread(&records, &[other("v", "laptop")]), None);
    }

    #[test]
    fn a_baseline_of_another_session_counts_in_the_unit_of_this_one() {
        let measured = |value: &str, unit: &str, runs: [f64; 2]| {
            let mut measured = record(json!({"value": value, "runs": runs.map(|value| run(1.0, Some(value)))}));
            measured.metric.unit = Some(Unit::new(unit));
            measured
        };
        let own = measured("2.0", "s", [2.0, 3.0]);
        let of =
            |other: Record| spread(std::slice::from_ref(&own), &[OtherBaseline::of(other)]).unwrap().repeated.remove(0);
        let found = of(measured("2500", "ms", [2000.0, 3500.0]));
        assert_eq!((found.count, found.max.value, found.sessions.len()), (4, 3.5, 1));
        let found = of(measured("2500", "MB", [2000.0, 3500.0]));
        assert_eq!((found.count, found.sessions.len()), (2, 0), "another dimension is no repeat");
    }

    #[test]
    fn each_run_of_another_sessions_baseline_counts_and_not_their_mean() {
        let other = record(json!({"value": "2.5", "runs": [run(1.0, Some(2.0)), run(1.0, Some(3.0))]}));
        let found = spread(&[record(json!({"value": "2.5"}))], &[OtherBaseline::of(other)]).unwrap();
        assert_eq!((found.repeated[0].count, found.deviation), (3, 0.5));
    }

    #[test]
    fn a_run_that_selected_the_experiment_is_no_repeat_of_those_that_confirmed_it() {
        let of_role = |role: &str, value: f64| {
            let mut run = run(1.0, Some(value));
            run["role"] = json!(role);
            run
        };
        let runs = json!([of_role("screen", 9.0), of_role("confirm", 2.0), of_role("confirm", 2.5)]);
        let found = spread(&[record(json!({"value": "2.25", "runs": runs}))], &[]).unwrap();
        assert_eq!((found.repeated[0].count, found.repeated[0].max.value), (2, 2.5));
    }

    #[test]
    fn a_run_of_another_commit_is_no_repeat() {
        let mut other = run(1.0, Some(3.0));
        other["commit"] = json!("c9");
        assert_eq!(spread(&[record(json!({"value": "2.0", "runs": [other, run(1.0, Some(2.0))]}))], &[]), None);
    }

    #[test]
    fn the_median_of_what_came_so_far_is_the_median_of_that() {
        let mut running = RunningMedian::default();
        let mut so_far = Vec::new();
        for number in [3.0, 1.0, 2.0, 2.0, 0.5, 1e-300, 7.0, 7.0, 6.5, 0.0, 1e300] {
            assert_eq!((running.count(), running.get()), (so_far.len(), median(so_far.iter().copied())));
            running.add(number);
            so_far.push(number);
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
