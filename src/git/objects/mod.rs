//! The objects of a repository: blobs, trees, commits and tags, written by [`Objects`] alone.

mod commits;
mod diff;
mod merge;
mod store;
mod tags;

pub use commits::*;
pub use diff::*;
pub use merge::*;
pub use store::*;
pub use tags::*;
