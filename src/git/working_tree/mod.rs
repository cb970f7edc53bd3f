//! The working tree: what changed in it, proposals, and putting it back to a commit. [`WorkingTree`] alone writes its files.

mod attributes;
mod changes;
mod files;
mod filters;
mod odd;
mod pinned;
mod plan;
mod restore;
mod snapshot;
mod stamps;
mod tree;
mod untracked;
mod usable;
mod walk;

pub(in crate::git) use attributes::refuse_encodings;
pub use changes::{Changes, Look};
pub(in crate::git) use odd::{odd_git_files, refuse_odd_repository};
pub use pinned::{FilterSettings, PinnedFilters, names_attributes};
pub use restore::{Restored, SaveAs, Saved};
pub use snapshot::{LeftOut, Proposal, TooLarge, WhyLeftOut};
pub use stamps::TreeStamps;
pub use tree::WorkingTree;
pub use untracked::{PutBack, Untracked};
