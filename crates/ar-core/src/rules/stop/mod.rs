//! When a loop ends or changes its ways: budgets, nights, stop rules, outages, the ladder.

mod ending;
mod ladder;
pub(super) mod loop_agent;
mod night;
pub(super) mod outage;
mod spending;

pub use ending::{
    LoopEnd, StopFacts, course, expected_call, expected_run, idle_limit, is_verified_after, kept_to_verify,
    nearest_end, reached_goal, stop_before_experiment, stop_before_next, stop_for_time, verified_without_end,
};
pub use ladder::LadderState;
pub use loop_agent::{AgentFacts, AgentLack, AgentSetting, LoopAgent};
pub use night::{
    LoopCall, Moment, Night, NightCaps, NightEnd, Tonight, cap_of_tries, session_calls_enough, session_enough,
};
pub use outage::{CallEnd, Patience, SoFar, patience, pause_after_idle, pause_on, refused, retry_pause};
pub use spending::{Expenses, Reports, idle_limits, priced};
