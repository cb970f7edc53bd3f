//! The objects of a repository: blobs, trees, commits and tags, written by [`Objects`] alone.

mod afresh;
mod change;
mod check;
mod commits;
mod diff;
mod diff_text;
mod held;
mod identity;
mod merge;
mod merge_lines;
mod merge_rules;
mod pack;
mod store;
mod tags;
mod trees;

pub(in crate::git) use afresh::read_of_repository;
pub use change::{ChangeKind, ChangedPath, EntryKind};
pub(in crate::git) use change::{TreeChange, Version};
pub use check::{Checked, ObjectChecker};
pub use commits::Header;
pub use diff::Diff;
pub(in crate::git) use identity::identity;
pub use merge::{Merged, MergedTree};
pub use store::Objects;
pub use tags::TagObject;
pub use trees::Stored;
