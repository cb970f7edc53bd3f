//! The records of a session: finding, counting and selecting them. Nothing here judges.

mod comparable;
mod counts;
mod records;
pub(super) mod select;
pub(super) mod spread;

pub use comparable::{environment_changes, environment_differences, is_sound, why_not_kept};
pub use counts::{
    CountedOutcome, Counts, UNNAMED_LIMIT, directions_tried, is_tried, near_misses, same_direction, unnamed_in_a_row,
};
pub use records::{History, gaps, lost_ids};
pub(crate) use records::{best_kept_of, best_of, replaced};
pub use select::{Candidate, Selection, SessionSign, SortBy, Unfound, find_experiment, select_places, session_meant};
pub(crate) use spread::{LIMIT, RunningMedian};
pub use spread::{OtherBaseline, Repeated, Spread};
