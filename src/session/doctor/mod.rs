//! Whether everything of a session is in order, what mends it if not, and mending what needs no guess.
//!
//! Looking takes no lock and changes nothing. What is found is said as [`Finding`](crate::domain::Finding)s; what is
//! wrong with what was found is decided in [`rules`](crate::rules) where that needs no look at the disk.

mod beside;
mod entries;
mod examine;
mod facts;
mod host;
mod ledger;
mod lost;
mod patients;
mod records;
mod refs;
mod repair;
mod repository;
mod shared;
mod start;
mod state;

pub use examine::{Examination, examine};
pub use repair::repair;
pub use start::examine_start;
