//! The working tree: what changed in it, proposals, and putting it back to a commit. [`WorkingTree`] alone writes its files.

mod changes;
mod files;
mod pinned;
mod restore;
mod snapshot;
mod tree;
mod untracked;
mod walk;

pub use changes::{Changes, TreeStamps, WorktreeSnapshot};
pub(in crate::git) use files::refuse_encodings;
pub use pinned::{FilterSettings, PinnedFilters, names_attributes};
pub use restore::{Restored, SaveAs, Saved};
pub use snapshot::{LeftOut, Proposal, TooLarge, WhyLeftOut};
pub use tree::WorkingTree;
pub(in crate::git) use tree::{odd_git_files, refuse_odd_repository};
pub use untracked::{MissingFiles, Untracked};
