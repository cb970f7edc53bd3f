//! When the loop ends.

use super::History;
use super::spending::spent_enough;
use crate::domain::{Contract, Direction, Spent, StopReason};

/// After how many calls in a row that changed nothing an agent counts as stuck. Twice the five attempts without a
/// keep after which the refine ladder asks for a pivot: by then nothing that `ar` says moves the agent.
pub const NO_CHANGE_LIMIT: u32 = 10;

/// Whether a value is at the goal or past it.
pub fn reached_goal(direction: Direction, value: f64, goal: f64) -> bool {
    !direction.better(goal, value)
}

/// Whether a loop by this contract continues until the user stops it or it fails.
pub fn has_no_end(contract: &Contract) -> bool {
    let Contract { goal, max_experiments, budget, max_cost, max_tokens, until, stop_when_flagged, .. } = contract;
    let caps = [max_experiments.is_some(), max_cost.is_some(), max_tokens.is_some()];
    let ends = [goal.is_some(), budget.is_some(), until.is_some(), *stop_when_flagged];
    !caps.contains(&true) && !ends.contains(&true)
}

/// Why no further experiment may be started, if so. `first` is the number of the first experiment of this call of the
/// loop: what crashed before is known to whoever made the call. `idle_calls` is how many calls of the agent in a row
/// changed nothing; `spent` what all calls used.
pub fn stop_before_next(
    contract: &Contract,
    history: &History,
    spent: &Spent,
    first: u32,
    idle_calls: u32,
) -> Option<StopReason> {
    if let (Some(goal), Some((_, best))) = (contract.goal, history.best())
        && reached_goal(contract.metric.direction, best.value, goal)
    {
        return Some(StopReason::Goal { goal });
    }
    if let Some(limit) = contract.max_experiments
        && let experiments = history.experiments()
        && experiments >= limit
    {
        return Some(StopReason::MaxExperiments { limit, experiments });
    }
    if let Some(reason) = spent_enough(contract, spent) {
        return Some(reason);
    }
    let crashes = history.crashes_in_a_row(first);
    if contract.max_crashes.is_some_and(|limit| crashes >= limit) {
        return Some(StopReason::Crashes { count: crashes });
    }
    (idle_calls >= NO_CHANGE_LIMIT).then_some(StopReason::NoChange { calls: idle_calls })
}
