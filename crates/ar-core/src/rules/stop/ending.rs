//! When the loop ends.
//!
//! A stop rule is one function of [`RULES`], and one setting of `domain::settings`.

use serde_json::json;

use super::course_rules::course;
use super::expenses::Expenses;
use crate::domain::{Bound, Contract, Direction, Number, StopReason, Target, count_of};
use crate::rules::history::History;

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
