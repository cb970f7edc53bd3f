//! The records of a session: finding, counting and selecting them. Nothing here judges.

mod counts;
mod directions;
mod environment;
mod find;
mod meant;
pub(super) mod median;
mod records;
pub(super) mod select;
pub(super) mod spread;
mod why;

pub use counts::{Counts, Ended};
pub use directions::{UNNAMED_LIMIT, directions_tried, is_tried, near_misses, same_direction, unnamed_in_a_row};
pub use environment::{environment_changes, environment_differences};
pub use find::{Unfound, find_experiment};
pub use meant::{SessionSign, session_meant};
pub(crate) use median::RunningMedian;
pub use records::{History, gaps, lost_ids};
pub(crate) use records::{best_kept_of, best_of, replaced};
pub use select::{Candidate, Selection, SortBy, select_places};
pub(crate) use spread::LIMIT;
pub use spread::{Elsewhere, Repeated, Spread};
pub use why::{is_sound, why_not_kept};
