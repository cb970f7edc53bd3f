//! Conclusions of guardians, `ar status` and `ar doctor` from observations.

mod status;
mod verdict;
pub(super) mod watching;

pub use status::{
    AttemptStatus, CLOCK_PATIENCE, LaneStatus, LanesStatus, OpenFound, OpenTrouble, OutageStatus, SleepStatus, Tip,
    UnrecordedTip, clock_jump, is_clock_behind, judge_open, judge_space, judge_tip, lanes_status, worst,
};
pub use verdict::{
    GuardianAction, Health, PatrolFacts, PatrolMemory, PatrolVerdict, SessionDriver, Thresholds, interval, patrol,
};
pub use watching::{
    Activity, DriverClaim, Observations, OtherHost, Ownership, is_beat_missing, ownership, pause_after_patrol,
};
