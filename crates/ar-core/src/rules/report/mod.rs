//! Reports on a session: summary and doubts. Nothing here changes what the loop does.

pub(super) mod compare;
mod doubts;
mod finalize;
pub(super) mod patterns;
pub(super) mod summary;
pub(super) mod warnings;

pub use compare::{Aspect, Compared, Confound, MEMORY, Quantity};
pub use doubts::{WallCounts, doubted_numbers, doubtful_gain, how_to_repeat};
pub use finalize::{kept_message, kept_steps, squashed_message};
pub use patterns::{DirectionResult, Expectation, FileResult, Patterns, Tally};
pub use summary::{
    KeepHours, KeptStep, Margin, MarginBy, Miss, Point, SHORTEST, Summary, TimeSplit, margin, summarize,
};
pub use warnings::{Evidence, SessionFacts, Warning, listed};
