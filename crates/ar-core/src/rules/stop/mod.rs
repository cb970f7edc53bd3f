//! When a loop ends or changes its ways: budgets, nights, stop rules, outages, the ladder.

mod budget;
mod course_rules;
mod ending;
mod expenses;
mod ladder;
mod ladder_state;
pub(super) mod loop_agent;
mod night;
pub(super) mod outage;
mod reset;
mod spending;

pub use budget::{
    End, expected_call, expected_run, is_verified_after, kept_to_verify, nearest_end, stop_before_experiment,
    stop_for_time, verified_without_end,
};
pub use course_rules::course;
pub use ending::{StopFacts, idle_limit, reached_goal, stop_before_next};
pub use expenses::Expenses;
pub use ladder_state::LadderState;
pub use loop_agent::{AgentFacts, AgentLack, AgentSetting, LoopAgent};
pub use night::{
    LoopCall, Moment, Night, NightCaps, NightEnd, Tonight, cap_of_tries, session_calls_enough, session_enough,
};
pub use outage::{CallEnd, Patience, SoFar, patience, pause_after_idle, pause_on, refused, retry_pause};
pub use spending::{Reports, idle_limits, priced};
