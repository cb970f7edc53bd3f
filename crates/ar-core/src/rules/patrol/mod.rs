//! What guardians, `ar status` and `ar doctor` conclude from observations.

mod consistency;
mod status;
mod verdict;
pub(super) mod watching;

pub use consistency::{
    CLOCK_PATIENCE, OpenFound, OpenTrouble, Tip, clock_jump, is_clock_behind, judge_open, judge_space, judge_tip, worst,
};
pub use status::{LaneStatus, LanesStatus, OpenStatus, OutageStatus, SleepStatus, UnrecordedTip, lanes_status};
pub use verdict::{
    GuardianAction, Health, PatrolFacts, PatrolMemory, PatrolVerdict, SessionDriver, Thresholds, interval, patrol,
};
pub use watching::{
    Activity, DriverClaim, Observations, OtherHost, Ownership, is_beat_missing, ownership, pause_after_patrol,
};
