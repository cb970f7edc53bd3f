//! What a report says of a session: its summary, and what to doubt. Nothing here changes what the loop does.

pub(super) mod by_direction;
mod chance;
pub(super) mod compare;
pub(super) mod confounds;
mod doubted_numbers;
mod doubts;
mod evidence;
mod finalize;
mod jumps;
pub(super) mod keep_hours;
pub(super) mod misses;
pub(super) mod patterns;
mod summary;
mod tally;
pub(super) mod time_split;
mod wall_counts;
pub(super) mod warnings;
mod waste;

pub use by_direction::DirectionResult;
pub use chance::how_to_repeat;
pub use compare::{Aspect, Compared, MEMORY};
pub use confounds::{Confound, Quantity};
pub use doubted_numbers::doubted_numbers;
pub use evidence::{Evidence, SessionFacts, Warning, listed};
pub use finalize::{kept_message, kept_steps, squashed_message};
pub use jumps::doubtful_gain;
pub use keep_hours::KeepHours;
pub use misses::{Margin, MarginBy, Miss, margin};
pub use patterns::{Expectation, FileResult, Patterns};
pub use summary::{KeptStep, Point, Summary, summarize};
pub use tally::Tally;
pub use time_split::{SHORTEST, TimeSplit};
pub use wall_counts::WallCounts;
