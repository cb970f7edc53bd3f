//! The steps that an attempt which was left open still needs.

pub(super) mod recovery;

pub use recovery::{Found, LOST_RETRIES, RunFound, Step, recover};
