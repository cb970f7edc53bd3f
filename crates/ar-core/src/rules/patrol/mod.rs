//! What guardians, `ar status` and `ar doctor` conclude from observations.

pub(super) mod activity;
pub(super) mod alerts;
mod beat;
mod consistency;
mod ownership;
mod sanity;
mod status;
mod verdict;

pub use activity::{Activity, Seen};
pub use beat::{is_beat_missing, pause_after_patrol};
pub use consistency::{OpenFound, OpenTrouble, Tip, judge_open, judge_space, judge_tip, worst};
pub use ownership::{Claim, OtherHost, Ownership, ownership};
pub use sanity::{CLOCK_PATIENCE, clock_jump, is_clock_behind};
pub use status::{LaneStatus, LanesStatus, OpenStatus, OutageStatus, SleepStatus, UnrecordedTip, lanes_status};
pub use verdict::{Driver, GuardianAction, Health, PatrolMemory, PatrolVerdict, Thresholds, Watched, interval, patrol};
