//! The refs of a repository: branches, records, notes and `HEAD`, moved by [`Refs`] alone.

mod damage;
mod head;
mod listing;
mod store;

pub use damage::*;
pub use head::*;
pub(in crate::git) use listing::*;
pub use store::*;
