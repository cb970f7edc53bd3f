//! Whether everything of a session is in order, what mends it if not, and mending what needs no guess.
//!
//! Looking takes no lock and changes nothing. Each part compares what the refs tell with what is there. It gives
//! [`Difference`](difference::Difference)s: a [`Finding`](crate::domain::Finding), and what removes it. What is wrong is
//! decided in [`rules`](crate::rules) where that needs no look at the disk.

mod beside;
mod difference;
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
