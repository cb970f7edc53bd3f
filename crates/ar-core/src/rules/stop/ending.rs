//! When the loop ends.
//!
//! A stop rule is one function of [`RULES`], and one setting of `domain::settings`.

use std::time::Duration;

use serde_json::json;

use super::course_rules::course;
use super::spending::Expenses;
use crate::domain::{Bound, Contract, Direction, Number, StopReason, Target, count_of};
use crate::rules::history::History;
use crate::rules::history::spread::median;

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
    |facts| course(facts.contract, facts.history),
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
        let earlier = record.versions.iter().rev().map(|version| &version.guards);
        [&record.guards].into_iter().chain(earlier).filter(|guards| !guards.is_empty())
    });
    newest(runs) + newest(guards.map(|guards| guards.iter().map(|guard| guard.seconds).sum()))
}

/// The expected time of an agent call, in the same way.
pub fn expected_call(history: &History) -> Duration {
    newest(history.records().iter().rev().filter_map(|record| record.agent.as_ref()).map(|agent| agent.seconds))
}

/// The median of the newest durations.
fn newest(newest_first: impl Iterator<Item = f64>) -> Duration {
    Duration::try_from_secs_f64(median(newest_first.take(NEWEST)).unwrap_or(0.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
