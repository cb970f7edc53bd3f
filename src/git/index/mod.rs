//! The index of a working tree, written by [`Index`] alone.

mod lock;
mod staged;
mod store;

pub use lock::LeftLocks;
pub(in crate::git) use lock::{owner, remove_left_behind};
pub(in crate::git) use staged::{Edits, Staged, stat_of};
pub use store::Index;
pub(in crate::git) use store::Sides;
