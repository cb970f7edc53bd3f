//! When a loop ends or changes its ways: budgets, nights, stop rules, outages, the ladder.

mod ending;
mod ladder;
mod loop_agent;
mod night;
mod outage;
mod spending;

pub use ending::*;
pub use ladder::*;
pub use loop_agent::*;
pub use night::*;
pub use outage::*;
pub use spending::*;
