//! When a loop ends or changes its ways: budgets, nights, stop rules, outages, the ladder.

pub(super) mod budget;
pub(super) mod course_rules;
pub(super) mod ending;
pub(super) mod expenses;
pub(super) mod ladder;
pub(super) mod ladder_state;
pub(super) mod loop_agent;
pub(super) mod night;
pub(super) mod outage;
pub(super) mod reset;
pub(super) mod spending;
