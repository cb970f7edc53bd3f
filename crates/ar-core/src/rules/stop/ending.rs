//! When the loop ends: its limits, and the stop rules on the course of the numbers.
//!
//! A stop rule is one function of [`RULES`], and one setting of `domain::settings`. `kill` and `kill2` are the Madani
//! adapter's kill criterion and its revision, which looks at the axes, too. In research all of them read the artifact,
//! which climbs, instead of the iterations, each of which is judged by what it adds.

use std::time::Duration;

use serde_json::json;

use crate::domain::{
    Bound, Composite, Contract, Direction, ExperimentId, Number, Record, StopReason, StopRule, Target, count_of,
};
use crate::rules::{
    ArtifactPoint, AxisValues, Expenses, History, NOVELTY, artifact_course, artifact_metric, axis_values, bring,
    brought, decided_novelty, four_decimals, mean_novelty, median, worst_axis,
};

/// The number of calls in a row without a change at which a loop stops unless its user says otherwise, before and after
/// the session's first change: an agent that never changed anything mostly may not write.
const FIRST_IDLE: u32 = 3;

const MAX_IDLE: u32 = 10;

/// Facts by which to decide whether a session stops.
#[derive(Debug, Clone, Copy)]
pub struct StopFacts<'a> {
    /// Its terms.
    pub contract: &'a Contract,
    /// Its experiments.
    pub history: &'a History,
    /// Its expenses.
    pub expenses: &'a Expenses,
    /// The place of the first record of this call of the loop: what crashed before is known to whoever made the call.
    pub first: u32,
    /// The number of agent calls in a row that changed nothing.
    pub idle_calls: u32,
    /// True if an agent has changed anything in the session.
    pub has_changed: bool,
}

/// The number of calls in a row without a change at which a loop stops; 0 for never.
pub fn idle_limit(contract: &Contract, has_changed: bool) -> u32 {
    contract.max_idle.unwrap_or(if has_changed { MAX_IDLE } else { FIRST_IDLE })
}

/// The rules, in the order in which they are asked.
const RULES: [fn(&StopFacts) -> Option<StopReason>; 6] = [
    goal,
    |facts| facts.expenses.night(facts.contract).experiments_enough(facts.contract, facts.history),
    |facts| facts.expenses.calls_enough(facts.contract, true),
    |facts| ended_by_course(facts.contract, facts.history),
    max_crashes,
    no_change,
];

/// Returns the reason to start no further experiment, if there is one.
pub fn stop_before_next(facts: &StopFacts) -> Option<StopReason> {
    RULES.iter().find_map(|rule| rule(facts))
}

/// Returns whether a number reached the goal; false if the two do not compare.
pub fn reached_goal(direction: Direction, number: &Number, goal: &Target) -> bool {
    goal.beside(number).is_some_and(|goal| !direction.better(goal, number.value))
}

fn goal(facts: &StopFacts) -> Option<StopReason> {
    let goal = facts.contract.goal.as_ref()?;
    let best = facts.history.best_kept()?;
    let is_reached = reached_goal(facts.contract.metric.direction, &best, goal);
    is_reached.then(|| {
        StopReason::reached(Bound::Goal, true, json!({"goal": goal}), format!("the goal of {goal} is reached"))
    })
}

fn max_crashes(facts: &StopFacts) -> Option<StopReason> {
    let (limit, count) = (facts.contract.max_crashes?, facts.history.crashes_in_a_row(facts.first));
    let text = || format!("{} in a row", count_of(count, "crash"));
    (count >= limit).then(|| StopReason::reached(Bound::Crashes, false, json!({"count": count}), text()))
}

fn no_change(facts: &StopFacts) -> Option<StopReason> {
    let (limit, calls) = (idle_limit(facts.contract, facts.has_changed), facts.idle_calls);
    let text = || format!("the agent changed nothing in {} in a row", count_of(calls, "call"));
    (limit > 0 && calls >= limit).then(|| StopReason::reached(Bound::NoChange, false, json!({"calls": calls}), text()))
}

/// The number of recent durations that predict the next one: enough to ignore a stuck one, few enough to follow the
/// session's current pace.
const NEWEST: usize = 9;

/// The end of a loop's invocation: the time left, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopEnd {
    /// The time left; zero if it has passed.
    pub left: Duration,
    /// The reason for the stop.
    pub reason: StopReason,
}

/// The nearest end of an invocation that has lasted for `elapsed`; `budget` and `until` are the times from its start to
/// the ends of its night, by its length and by the time of day.
pub fn nearest_end(
    contract: &Contract,
    budget: Option<Duration>,
    until: Option<Duration>,
    elapsed: Duration,
) -> Option<LoopEnd> {
    let reason = |length: Duration| StopReason::Budget { seconds: length.as_secs_f64() };
    let budget = budget.zip(contract.budget).map(|(after, length)| (after, reason(length)));
    let until = until.zip(contract.until).map(|(after, time)| (after, StopReason::Until { time }));
    let (after, reason) = [budget, until].into_iter().flatten().min_by_key(|(after, _)| *after)?;
    Some(LoopEnd { left: after.saturating_sub(elapsed), reason })
}

/// The time that an invocation of such ends keeps to verify what its night kept, at most half of the night; none without
/// `--verify-for`, nor in a night without an end, for which there is [`verified_without_end`].
pub fn kept_to_verify(contract: &Contract, budget: Option<Duration>, until: Option<Duration>) -> Duration {
    let left = [budget, until].into_iter().flatten().min().unwrap_or_default();
    let night = contract.budget.filter(|_| budget == Some(left)).unwrap_or(left);
    contract.verify_for.map_or(Duration::ZERO, |time| time.of_night(night).min(night / 2).min(left))
}

/// The time for that once the loop is over, after so much of a night without an end.
pub fn verified_without_end(contract: &Contract, elapsed: Duration) -> Duration {
    contract.verify_for.map_or(Duration::ZERO, |time| time.of_night(elapsed))
}

/// Returns whether a night that ends so is verified: it reached one of its ends, and nobody asked it to stop.
pub fn is_verified_after(reason: &StopReason) -> bool {
    matches!(
        reason,
        StopReason::MaxExperiments { .. }
            | StopReason::Budget { .. }
            | StopReason::Until { .. }
            | StopReason::NoTime { .. }
            | StopReason::Reached(_)
    )
}

/// The reason not to start anything that takes `needed`, if there is one.
pub fn stop_for_time(end: Option<&LoopEnd>, needed: Duration) -> Option<StopReason> {
    let LoopEnd { left, reason } = end?;
    if left.is_zero() {
        return Some(reason.clone());
    }
    let (left, needed) = (left.as_secs_f64(), needed.as_secs_f64());
    (left < needed).then(|| StopReason::NoTime { left, needed, end: Box::new(reason.clone()) })
}

/// The reason not to start another experiment, if there is one.
pub fn stop_before_experiment(end: Option<&LoopEnd>, history: &History) -> Option<StopReason> {
    stop_for_time(end, expected_call(history) + expected_run(history))
}

/// The expected time to measure a change: the median of recent runs, with their time in a queue, plus the median guard time of recent versions that
/// reached the guards. Zero without data.
pub fn expected_run(history: &History) -> Duration {
    let newest_first = || history.records().iter().rev();
    let runs =
        newest_first().flat_map(|record| record.runs.iter().rev().map(|run| run.seconds + run.queued.unwrap_or(0.0)));
    let guards = newest_first().flat_map(|record| {
        let earlier = record.change.versions.iter().rev().map(|version| &version.guards);
        [&record.proof.guards].into_iter().chain(earlier).filter(|guards| !guards.is_empty())
    });
    newest(runs) + newest(guards.map(|guards| guards.iter().map(|guard| guard.seconds).sum()))
}

/// The expected time of an agent call, in the same way.
pub fn expected_call(history: &History) -> Duration {
    newest(history.records().iter().rev().filter_map(|record| record.origin.agent.as_ref()).map(|agent| agent.seconds))
}

/// The median of the newest durations.
fn newest(newest_first: impl Iterator<Item = f64>) -> Duration {
    Duration::try_from_secs_f64(median(newest_first.take(NEWEST)).unwrap_or(0.0)).unwrap_or_default()
}

/// The fewest numbers before `kill2` acts.
const FEWEST: usize = 10;

/// The mean novelty below which `kill2` ends a research session whatever its axes are: its agent repeats or invents claims.
const REPEATS: f64 = 0.3;

/// The first of the contract's rules that says that the loop is to stop.
pub fn ended_by_course(contract: &Contract, history: &History) -> Option<StopReason> {
    if contract.stop_rules.is_empty() {
        return None;
    }
    let course = RuleData::of(contract, history);
    let newest = course.experiments.iter().rev().find_map(|(_, number)| number.as_ref());
    let own = |target: &Target| target.value(newest);
    contract.stop_rules.iter().find_map(|rule| match rule {
        StopRule::Kill { window, slope, level } => course.kill(*window as usize, own(slope), own(level)),
        StopRule::Kill2 { window, slope, floor } => course.kill2(*window as usize, *slope, *floor),
        StopRule::Plateau(times) => course.plateau(*times),
        StopRule::Above { threshold, times } => course.above(own(threshold), *times as usize),
    })
}

/// The data that the rules read.
struct RuleData<'a> {
    contract: &'a Contract,
    /// The name of the number.
    name: String,
    /// The experiments without the baseline, each with the number that the rules read, if there is one.
    experiments: Vec<(&'a Record, Option<Number>)>,
    /// The best number so far, with its experiment and the place of that.
    best: Option<(ExperimentId, Number, u32)>,
    /// The artifact after the last experiment with a number, in a session where it has a composite of its own.
    artifact: Option<ArtifactPoint>,
}

/// The slope of the last `count` numbers, per number; `None` with fewer. It is rounded, so that numbers that rise by exactly
/// the threshold do not fall short of it by a rounding.
fn last_slope(numbers: &[f64], count: usize) -> Option<f64> {
    const DECIMALS: f64 = 1e9;
    let slope = slope(&numbers[numbers.len().checked_sub(count)?..])?;
    Some((slope * DECIMALS).round() / DECIMALS)
}

/// The slope of the least-squares line through numbers at the same distance, per number; `None` with fewer than two.
fn slope(numbers: &[f64]) -> Option<f64> {
    let middle = (numbers.len() as f64 - 1.0) / 2.0;
    let places = || (0..numbers.len()).map(|place| place as f64 - middle);
    let squares: f64 = places().map(|place| place * place).sum();
    // The places sum to 0, so the mean of the numbers drops out.
    let products: f64 = places().zip(numbers).map(|(place, number)| place * number).sum();
    (squares > 0.0).then(|| products / squares)
}

impl<'a> RuleData<'a> {
    fn of(contract: &'a Contract, history: &'a History) -> RuleData<'a> {
        let name = contract.metric.name.clone();
        if contract.artifact().is_none() {
            let number = |record: &'a Record| (record, record.metric.number());
            let experiments = history.without_baseline().map(number).collect();
            // Below a threshold nothing is kept, however much better it gets.
            let best = if contract.keep_above.is_some() { history.best_measured() } else { history.best_kept_record() };
            let best = best.and_then(|best| Some((best.id, best.metric.number()?, best.sequence())));
            return RuleData { contract, name, experiments, best, artifact: None };
        }
        let points = artifact_course(contract, history);
        let mut artifact = None;
        let mut best: Option<(ExperimentId, Number, u32)> = None;
        let mut experiments = Vec::new();
        for (record, point) in history.records().iter().zip(points).filter(|(record, _)| !record.id.is_baseline()) {
            let number = point.as_ref().and_then(|point| point.composite.clone());
            if let Some(number) = &number
                && best.as_ref().is_none_or(|(_, best, _)| number.value > best.value)
            {
                best = Some((record.id, number.clone(), record.sequence()));
            }
            artifact = point.filter(|_| number.is_some()).or(artifact);
            experiments.push((record, number));
        }
        RuleData { contract, name: artifact_metric(&name), experiments, best, artifact }
    }

    /// The numbers, without experiments that have none.
    fn numbers(&self) -> Vec<f64> {
        self.experiments.iter().filter_map(|(_, number)| Some(number.as_ref()?.value)).collect()
    }

    fn kill(&self, count: usize, rise: f64, low: f64) -> Option<StopReason> {
        let direction = self.contract.metric.direction;
        let numbers = self.numbers();
        let (slope, level) = (last_slope(&numbers, count)?, *numbers.last()?);
        let gain = if direction == Direction::Lower { -slope } else { slope };
        if gain >= rise || !direction.better(low, level) {
            return None;
        }
        let (name, worse) = (&self.name, if direction == Direction::Lower { "above" } else { "below" });
        let text = format!(
            "kill: over the last {count} numbers {name} changed by {} an experiment, a gain of less than {rise}, and it is \
             {level:.4}, {worse} {low}",
            four_decimals(slope)
        );
        Some(StopReason::reached(Bound::Kill, true, json!({"slope": slope, "over": count, "level": level}), text))
    }

    fn kill2(&self, count: usize, rise: f64, floor: f64) -> Option<StopReason> {
        let composite = self.contract.composite.as_ref()?;
        let numbers = self.numbers();
        let slope = last_slope(&numbers, count).filter(|slope| numbers.len() >= FEWEST && *slope < rise)?;
        let name = &self.name;
        let text = format!(
            "kill2: over the last {count} numbers {name} changed by {} an experiment, less than {rise}, and",
            four_decimals(slope)
        );
        let reached = |numbers, why| Some(StopReason::reached(Bound::Kill2, true, numbers, format!("{text} {why}")));
        let Some(artifact) = &self.artifact else {
            let (last, _) = self.experiments.iter().rfind(|(_, number)| number.is_some())?;
            let axes = axis_values(composite, &last.metrics);
            if is_weak(composite, &axes, floor, |_| true) {
                return None;
            }
            let (axis, value) = worst_axis(composite, &axes)?;
            let worst = json!({"axis": axis, "value": value});
            return reached(
                json!({"slope": slope, "over": count, "worst": worst}),
                format!("no axis is below its floor: the worst is {axis} with {value:.4}"),
            );
        };
        let axis = composite.axes.get(NOVELTY);
        let novelties: Vec<f64> = self.experiments.iter().filter_map(|(record, _)| decided_novelty(record)).collect();
        let novelty = mean_novelty(&novelties, count).map(|mean| bring(mean, axis.and_then(|axis| axis.range)));
        let numbers = json!({"slope": slope, "over": count, "novelty": novelty});
        if let Some(novelty) = novelty.filter(|novelty| *novelty < REPEATS) {
            let why = format!(
                "the mean novelty of these iterations is {novelty:.4}, below {REPEATS}: the agent repeats or invents claims"
            );
            return reached(numbers, why);
        }
        let least = axis.and_then(|axis| axis.floor).unwrap_or(floor);
        if novelty.is_some_and(|novelty| novelty >= least)
            || is_weak(composite, &artifact.axes, floor, |name| name != NOVELTY)
        {
            return None;
        }
        let why = match novelty {
            Some(novelty) => {
                format!("the mean novelty is {novelty:.4}, below {least}, and no other axis is below its floor")
            }
            None => "no axis is below its floor".to_owned(),
        };
        reached(numbers, why)
    }

    fn plateau(&self, times: u32) -> Option<StopReason> {
        let since = self.best.as_ref().map(|(_, _, place)| *place);
        let is_after = |record: &Record| since.is_none_or(|since| record.sequence() > since);
        let without = self.experiments.iter().rev().take_while(|(record, _)| is_after(record)).count();
        if without < times as usize {
            return None;
        }
        let name = &self.name;
        let still = match &self.best {
            Some((id, number, _)) => format!("the best {name} is {number} of experiment {id}"),
            None => format!("there is no {name} yet"),
        };
        let text = format!("plateau: no new best in {}; {still}", count_of(without as u32, "experiment"));
        Some(StopReason::reached(Bound::Plateau, true, json!({"experiments": without, "limit": times}), text))
    }

    fn above(&self, threshold: f64, times: usize) -> Option<StopReason> {
        let direction = self.contract.metric.direction;
        let newest = self.experiments.iter().rev().take(times).map(|(_, number)| number.as_ref());
        let better = |number: &Option<&Number>| number.is_some_and(|it| direction.better(it.value, threshold));
        let mut row: Vec<&Number> = newest.take_while(better).flatten().collect();
        if row.len() < times {
            return None;
        }
        row.truncate(3);
        row.reverse();
        let newest = row.iter().map(|number| number.raw.as_str()).collect::<Vec<_>>().join(", ");
        let row = count_of(times as u32, "experiment");
        let text = format!("above: {row} in a row better than {threshold}, the last with {} {newest}", self.name);
        Some(StopReason::reached(Bound::Above, true, json!({"threshold": threshold, "experiments": times}), text))
    }
}

/// Returns whether one of the axes that `counts` selects is below its floor. `floor` applies to axes that name none.
fn is_weak(composite: &Composite, values: &AxisValues, floor: f64, counts: impl Fn(&str) -> bool) -> bool {
    let floors = composite.axes.values().map(|axis| axis.floor.unwrap_or(floor));
    let mut numbers = brought(composite, values).zip(floors).filter(|((name, _), _)| counts(name));
    numbers.any(|((_, value), floor)| value.is_some_and(|value| value < floor))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Axis, CommitId, Composite, Direction, Form, MetricSource, MetricSpec};
    use crate::rules::sample::record;

    #[test]
    fn half_of_the_newest_take_no_longer_than_the_median() {
        assert_eq!(newest([].into_iter()), Duration::ZERO);
        assert_eq!(newest([600.0, 3.0, 5.0].into_iter()), Duration::from_secs(5));
        let newest_first = [1.0; 9].into_iter().chain([500.0; 100]);
        assert_eq!(newest(newest_first), Duration::from_secs(1));
    }

    #[test]
    fn a_change_is_measured_by_one_run_and_all_guards() {
        let guards = |seconds: &[f64]| -> Vec<_> {
            let guard = |seconds| json!({"command": "", "exit": 0, "signal": null, "seconds": seconds, "passed": true});
            seconds.iter().map(guard).collect()
        };
        let run = json!({"command": "", "seed": null, "started": "2026-11-20T22:00:00Z", "seconds": 60.0, "exit": 0,
            "signal": null, "value": 1.0});
        let version = json!({"commit": "c", "saved": "s", "failure": null, "reason": "", "value": 1.0,
            "guards": guards(&[3.0, 4.0])});
        let record = |versions: usize| {
            serde_json::from_value(json!({
                "version": 1, "id": versions, "tag": "t", "commit": "c", "base": "b", "description": "", "direction": null,
                "outcome": "keep", "failure": null, "reason": "", "metrics": {}, "memory_gb": null,
                "runs": vec![&run; versions + 1], "guards": guards(&[3.0, 5.0]), "versions": vec![&version; versions],
                "metric": {"name": "loss", "direction": "lower", "value": 1.0, "raw": null},
                "diff": {"files": 1, "added": 1, "deleted": 0}, "agent": null,
                "environment": {"host": "", "gpu": null, "driver": null, "lockfile": null},
                "started": "2026-11-20T22:00:00Z", "finished": "2026-11-20T22:00:00Z",
            }))
            .unwrap()
        };
        assert_eq!(expected_run(&History::new(vec![record(0)])), Duration::from_secs(68));
        assert_eq!(
            expected_run(&History::new(vec![record(0), record(2)])),
            Duration::from_millis(67_500),
            "reworked twice"
        );
        assert_eq!(expected_run(&History::new(Vec::new())), Duration::ZERO);
    }

    #[test]
    fn a_night_keeps_time_to_verify_of_its_length_and_never_more_than_half() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let contract = |verify_for: Option<&str>, budget: Option<u64>| {
            let mut contract = crate::rules::sample::contract("true");
            (contract.verify_for, contract.budget) = (verify_for.map(|it| it.parse().unwrap()), budget.map(hours));
            contract
        };
        for (verify_for, budget, left, until, kept) in [
            (Some("1h"), Some(8), Some(8), None, 1),
            (Some("20h"), Some(8), Some(8), None, 4),
            // Of a night that is resumed there is less than that left.
            (Some("2h"), Some(8), Some(1), None, 1),
            (Some("25%"), Some(8), Some(8), None, 2),
            (Some("25%"), Some(8), Some(8), Some(4), 1),
            (Some("1h"), None, None, None, 0),
            (None, Some(8), Some(8), None, 0),
        ] {
            let found = kept_to_verify(&contract(verify_for, budget), left.map(hours), until.map(hours));
            assert_eq!(found, hours(kept), "{verify_for:?} {budget:?} {left:?} {until:?}");
        }
        assert_eq!(verified_without_end(&contract(Some("1h"), None), hours(10)), hours(1));
        assert_eq!(verified_without_end(&contract(Some("10%"), None), hours(10)), hours(1));
        assert_eq!(verified_without_end(&contract(None, None), hours(10)), Duration::ZERO);
    }

    #[test]
    fn nothing_starts_that_cannot_end() {
        let end = |left| LoopEnd { left: Duration::from_secs(left), reason: StopReason::Budget { seconds: 60.0 } };
        let minute = Duration::from_secs(60);
        assert_eq!(stop_for_time(None, minute), None);
        assert_eq!(stop_for_time(Some(&end(60)), minute), None);
        assert_eq!(stop_for_time(Some(&end(0)), Duration::ZERO), Some(StopReason::Budget { seconds: 60.0 }));
        assert!(matches!(stop_for_time(Some(&end(59)), minute), Some(StopReason::NoTime { .. })));
    }

    fn contract(rule: &str) -> Contract {
        let metric =
            MetricSpec { name: "composite".into(), direction: Direction::Higher, source: MetricSource::default() };
        let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
        let mut contract = Contract::new(tag, metric, "true".into(), start, jiff::Timestamp::UNIX_EPOCH);
        let axis = |floor| Axis { weight: 0.5, floor, range: None };
        let axes = [("a".to_owned(), axis(Some(0.5))), ("b".to_owned(), axis(Some(0.4)))].into();
        contract.composite = Some(Composite { form: Form::Weighted, axes });
        contract.stop_rules = vec![rule.parse().unwrap()];
        contract
    }

    /// A baseline, and an experiment for each number, with both axes at it; a crash for each `None`.
    fn history(numbers: &[Option<f64>]) -> History {
        let fields = |(id, number): (usize, &Option<f64>)| match number {
            Some(number) => json!({"id": id + 1, "sequence": id + 1, "metrics": {"a": number, "b": number},
                "metric": {"name": "composite", "direction": "higher", "value": number, "raw": format!("{number:.4}")}}),
            None => json!({"id": id + 1, "sequence": id + 1, "outcome": "crash",
                "metric": {"name": "composite", "direction": "higher", "value": null, "raw": null}}),
        };
        let baseline =
            record(json!({"metric": {"name": "composite", "direction": "higher", "value": 0.9, "raw": "0.9"}}));
        let mut records: Vec<Record> = numbers.iter().enumerate().map(fields).map(record).collect();
        // Values that are not better than the best one before are discards.
        let mut best = f64::MIN;
        for record in &mut records {
            let value = record.metric.value.unwrap_or(f64::MIN);
            if value <= best {
                record.outcome = crate::domain::Outcome::Discard;
            }
            best = best.max(value);
        }
        records.push(baseline);
        History::new(records)
    }

    fn rising(count: usize, from: f64, by: f64) -> Vec<Option<f64>> {
        (0..count).map(|place| Some(from + by * place as f64)).collect()
    }

    fn fired(rule: &str, numbers: &[Option<f64>]) -> Option<String> {
        ended_by_course(&contract(rule), &history(numbers)).map(|reason| reason.to_string())
    }

    #[test]
    fn the_slope_is_that_of_least_squares_by_hand() {
        // Places −2, −1, 0, 1, 2 have the squares 10; −2×1 − 1×3 + 0×2 + 1×5 + 2×4 = 8.
        assert_eq!(slope(&[1.0, 3.0, 2.0, 5.0, 4.0]), Some(0.8));
        assert_eq!((slope(&[0.5; 7]), slope(&[1.0]), slope(&[])), (Some(0.0), None, None));
    }

    #[test]
    fn kill_needs_fifty_numbers_that_do_not_rise_and_a_low_one_at_the_end() {
        assert_eq!(fired("kill", &rising(49, 0.4, 0.0009)), None);
        // 0.5 + 0.0009 × 49 = 0.5441
        let reason = fired("kill", &rising(50, 0.5, 0.0009)).unwrap();
        assert_eq!(
            reason,
            "kill: over the last 50 numbers composite changed by 0.0009 an experiment, a gain of less than 0.001, and it \
             is 0.5441, below 0.55"
        );
        assert_eq!(fired("kill", &rising(50, 0.4, 0.0011)), None, "it rises");
        assert_eq!(fired("kill", &rising(50, 0.51, 0.0009)), None, "0.5541 is not low");
        let mut crashed = rising(25, 0.5, 0.0);
        crashed.push(None);
        crashed.extend(rising(24, 0.5, 0.0));
        assert_eq!(fired("kill", &crashed), None, "a crash has no number");
        crashed.push(Some(0.5));
        assert!(fired("kill", &crashed).is_some());
        assert!(fired("kill:25:0.001:0.55", &rising(25, 0.5, 0.0009)).is_some(), "fewer are enough where that is said");
        assert_eq!(fired("kill:50:0.0005:0.55", &rising(50, 0.5, 0.0009)), None);
        assert_eq!(fired("kill:50:0.001:0.54", &rising(50, 0.5, 0.0009)), None);
        // Axes make no difference, and where lower is better a fall is a gain, and a high number a bad one.
        let mut plain = contract("kill");
        plain.composite = None;
        let ended = |contract: &Contract, from, by| ended_by_course(contract, &history(&rising(50, from, by)));
        assert!(ended(&plain, 0.5, 0.0).is_some());
        plain.metric.direction = Direction::Lower;
        assert!(ended(&plain, 0.6, 0.001).unwrap().to_string().ends_with("it is 0.6490, above 0.55"));
        assert_eq!((ended(&plain, 0.5, 0.0), ended(&plain, 0.7, -0.0011)), (None, None));
    }

    #[test]
    fn kill2_needs_ten_numbers_a_flat_end_and_no_weak_axis() {
        assert_eq!(fired("kill2", &rising(9, 0.6, 0.0)), None, "not before ten numbers");
        let reason = fired("kill2", &rising(10, 0.6, 0.0)).unwrap();
        assert_eq!(
            reason,
            "kill2: over the last 5 numbers composite changed by 0.0000 an experiment, less than 0.01, and no axis is below \
             its floor: the worst is a with 0.6000"
        );
        assert_eq!(fired("kill2", &rising(10, 0.6, 0.011)), None, "it rises");
        assert_eq!(fired("kill2", &rising(10, 0.6, 0.01)), None, "0.01 is not below 0.01");
        assert!(fired("kill2", &rising(10, 0.6, 0.0099)).is_some());
        assert!(fired("kill2", &rising(10, 0.6, -0.000001)).unwrap().contains("changed by 0.0000"));
        assert_eq!(fired("kill2", &rising(10, 0.49, 0.0)), None, "axis a is below 0.5");
        let mut crashed = rising(10, 0.6, 0.0);
        crashed.push(None);
        assert!(fired("kill2", &crashed).is_some(), "the last one with a number has its axes");
    }

    #[test]
    fn plateau_counts_experiments_since_the_best_one() {
        let lower = |rule: &str, values: &[(&str, &str)]| {
            let mut contract = contract(rule);
            contract.metric.direction = Direction::Lower;
            let records = values
                .iter()
                .enumerate()
                .map(|(id, (value, outcome))| record(json!({"id": id, "value": value, "outcome": outcome})));
            ended_by_course(&contract, &History::new(records.collect())).map(|reason| reason.to_string())
        };
        let course = [("2.0", "keep"), ("1.5", "keep"), ("1.9", "discard"), ("1.6", "keep"), ("1.2", "discard")];
        assert_eq!(
            lower("plateau:3", &course),
            Some("plateau: no new best in 3 experiments; the best composite is 1.5 of experiment 1".into())
        );
        assert_eq!(lower("plateau:4", &course), None);
        assert_eq!(lower("plateau:1", &course[..1]), None, "the baseline is no experiment");
        let mut threshold = contract("plateau:3");
        (threshold.metric.direction, threshold.keep_above) = (Direction::Lower, Some(1.0.into()));
        let falling = ["2.0", "1.8", "1.6", "1.4", "1.5", "1.6", "1.7"].into_iter().enumerate().map(|(id, value)| {
            let outcome = if id == 0 { "keep" } else { "discard" };
            record(json!({"id": id, "value": value, "outcome": outcome}))
        });
        let falling: Vec<Record> = falling.collect();
        let reason = |count: usize| ended_by_course(&threshold, &History::new(falling[..count].to_vec()));
        assert_eq!(
            reason(6).map(|reason| reason.to_string()),
            None,
            "nothing reached the threshold, and it got better"
        );
        assert_eq!(
            reason(7).map(|reason| reason.to_string()),
            Some("plateau: no new best in 3 experiments; the best composite is 1.4 of experiment 3".into())
        );
        assert_eq!(fired("plateau:2", &[None]), None);
        let none = History::new(vec![record(json!({})), record(json!({"id": 1, "outcome": "crash"}))]);
        let reason = ended_by_course(&contract("plateau:1"), &none).unwrap().to_string();
        assert_eq!(reason, "plateau: no new best in 1 experiment; there is no composite yet");
    }

    #[test]
    fn above_needs_a_row_beyond_the_threshold_that_no_crash_breaks() {
        let row = |numbers: &[Option<f64>]| fired("above:0.6:3", numbers);
        assert_eq!(
            row(&[Some(0.5), Some(0.61), Some(0.7), Some(0.62)]),
            Some(
                "above: 3 experiments in a row better than 0.6, the last with composite 0.6100, 0.7000, 0.6200".into()
            )
        );
        assert_eq!(row(&[Some(0.61), Some(0.6), Some(0.7), Some(0.62)]), None, "0.6 is not greater than 0.6");
        assert_eq!(row(&[Some(0.61), Some(0.7), None, Some(0.62)]), None, "a crash breaks it");
        assert_eq!(row(&[Some(0.7), Some(0.7)]), None, "the baseline does not count");
        let mut lower = contract("above:0.6:1");
        lower.metric.direction = Direction::Lower;
        let value: Value = json!({"name": "composite", "direction": "lower", "value": 0.5, "raw": "0.5"});
        let history = History::new(vec![record(json!({})), record(json!({"id": 1, "metric": value}))]);
        assert!(ended_by_course(&lower, &history).is_some(), "where lower is better, below it");
    }

    /// Applies a rule to a research session of kept iterations, each with its own score and that of the artifact then.
    /// Returns the reason to stop, if the rule fires.
    fn fired_in_research(rule: &str, scores: &[(f64, f64)]) -> Option<String> {
        let fields = |(id, (own, artifact)): (usize, &(f64, f64))| {
            json!({"id": id, "sequence": id, "metrics": {"a": own, "b": own, "artifact_a": artifact, "artifact_b": artifact},
                "metric": {"name": "composite", "direction": "higher", "value": own, "raw": format!("{own:.4}")}})
        };
        let mut contract = contract(rule);
        contract.artifact_form = Some(Form::Weighted);
        let baseline = [(0.0, 0.0)];
        let records = baseline.iter().chain(scores).enumerate().map(fields).map(record).collect();
        ended_by_course(&contract, &History::new(records)).map(|reason| reason.to_string())
    }

    #[test]
    fn kill_and_above_read_the_artifact_in_research_and_no_iteration() {
        let end = "kill: over the last 50 numbers artifact_composite changed by 0.0000 an experiment, a gain of less than \
                   0.001, and it is 0.4000, below 0.55";
        assert_eq!(
            fired_in_research("kill", &[(0.9, 0.4); 50]).as_deref(),
            Some(end),
            "good iterations, a low artifact"
        );
        let climbs: Vec<_> = (0..50).map(|place| (0.4, 0.3 + 0.005 * f64::from(place))).collect();
        assert_eq!(fired_in_research("kill", &climbs), None, "flat iterations, an artifact that climbs");
        assert_eq!(fired_in_research("kill", &[(0.4, 0.6); 50]), None, "low iterations, a good artifact");
        assert_eq!(fired_in_research("above:0.6:3", &[(0.9, 0.4); 3]), None);
        assert_eq!(
            fired_in_research("above:0.6:3", &[(0.9, 0.4), (0.3, 0.61), (0.3, 0.62), (0.3, 0.63)]).as_deref(),
            Some(
                "above: 3 experiments in a row better than 0.6, the last with artifact_composite 0.6100, 0.6200, 0.6300"
            )
        );
    }

    #[test]
    fn the_first_rule_that_fires_is_the_reason_and_the_session_is_done() {
        let mut contract = contract("plateau:2");
        contract.stop_rules.push("above:0.1:1".parse().unwrap());
        let history = history(&[Some(0.5), Some(0.5), Some(0.5)]);
        let reason = ended_by_course(&contract, &history).unwrap();
        assert!(reason.is_rule(Bound::Plateau));
        assert!(matches!(reason, StopReason::Reached(reached) if reached.is_done));
    }
}
