//! The objects of a repository: blobs, trees, commits and tags, written by [`Objects`] alone.

mod check;
mod commits;
mod diff;
mod merge;
mod store;
mod tags;

pub use check::{Checked, ObjectChecker};
pub(in crate::git) use commits::identity;
pub use commits::{Header, Stored};
pub use diff::{ChangeKind, ChangedPath, Diff, EntryKind};
pub(in crate::git) use diff::{TreeChange, Version};
pub use merge::{Merged, MergedTree};
pub use store::Objects;
pub(in crate::git) use store::{read_of_repository, with_gc_retry};
pub use tags::TagObject;
