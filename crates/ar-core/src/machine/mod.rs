//! The state of the loop: its open attempts, each with what its step needs, and their form in the journal.

mod act;
mod attempt;
mod document;
mod lanes;
mod run;

pub use act::{Act, Save};
pub use attempt::{Attempt, AttemptHead, Draft, Made, Origin, Ported, Recording};
pub use document::{AttemptEntry, Attempts};
pub use lanes::{CallWait, Lanes, NextCalls, NextCheck};
pub use run::{MOST_EVICTIONS, OpenRun};
