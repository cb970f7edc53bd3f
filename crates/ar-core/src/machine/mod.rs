//! The state of the loop: its open attempts, each with what its step needs, and their form in the journal.

mod attempt;
mod document;
mod run;

pub use attempt::{Attempt, Draft, Head, Made, Origin, Ported, Recording};
pub use document::{AttemptEntry, Attempts};
pub use run::{MOST_EVICTIONS, OpenRun};
