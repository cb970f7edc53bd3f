//! Examines a session, suggests repairs, and does those that need no guess.
//!
//! Examining takes no lock of a session and changes nothing. Each part compares the files with the refs. It returns
//! [`Difference`](repair::Difference)s: a [`Finding`](crate::domain::Finding) and what `repair` writes. Decisions that need no
//! disk access are in [`rules`](crate::rules).

mod examine;
mod facts;
mod host;
mod job;
mod ledger;
mod refs;
mod repair;
mod repository;
mod state;

pub use examine::*;
use facts::*;
pub use job::*;
pub use repair::*;
use state::*;
