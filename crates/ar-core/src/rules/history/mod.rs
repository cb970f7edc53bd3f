//! The records of a session: finding, counting and selecting them. Nothing here judges.

pub(super) mod comparable;
mod records;
pub(super) mod select;

pub(crate) use comparable::{LIMIT, RunningMedian};
pub use comparable::{
    OtherBaseline, Repeated, Spread, environment_changes, environment_differences, is_sound, why_not_kept,
};
pub use records::{
    CountedOutcome, Counts, History, UNNAMED_LIMIT, directions_tried, gaps, is_tried, lost_ids, near_misses,
    same_direction, unnamed_in_a_row,
};
pub(crate) use records::{best_kept_of, best_of, replaced};
pub use select::{Candidate, Selection, SessionSign, SortBy, Unfound, find_experiment, select_places, session_meant};
