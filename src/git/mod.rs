//! Everything gix: open, snapshot, commit, restore, records, diff.
//!
//! What lives here reads and writes one git repository and never calls the git program. No type of gix appears in a
//! public signature: objects are named in hexadecimal, paths are [`std::path::Path`] relative to the root of the
//! working tree, and any file name works. What a commit is *for* (experiments, outcomes, sessions) is not known here.
//!
//! Every function that returns success after writing objects, refs or the index has synced them to disk, file and
//! folder, but for what [`Repo::defer_syncs`] puts off; gix itself syncs nothing.

mod attributes;
mod cache_tree;
mod check;
mod commit;
mod diff;
mod diff_text;
mod error;
mod filters;
mod head;
mod head_log;
mod identity;
mod ignored;
mod index;
mod index_cache;
mod known_commits;
mod linked;
mod listing;
mod lock;
mod look;
mod notes;
mod objects;
mod odd;
mod open;
mod operation;
mod pack_refs;
mod packed_tags;
mod path;
mod pinned;
mod plan;
mod programs;
mod propose;
mod records;
mod ref_guard;
mod refs;
mod restore;
mod save;
mod scan;
mod sync;
mod tags;
mod tree_diff;
mod untracked;
mod walk;
mod whole_folders;
mod worktree;

pub use check::{BrokenRef, LockFile, LockOwner};
pub use error::{Cause, GitError};
pub use head::{Head, HeadTarget};
pub use lock::LeftLocks;
pub use look::Look;
pub use notes::NOTES;
pub use open::Repo;
pub use operation::Operation;
pub use programs::{Cut, Program, Programs, WAY_BACK};
pub use propose::{ChangeKind, ChangedPath, EntryKind, LeftOut, Proposal, TooLarge, WhyLeftOut};
pub use records::{PreparedRecord, TagObject};
pub use restore::Restored;
pub use save::{SaveAs, Saved};
pub use scan::Changes;
pub use untracked::{PutBack, Stamp, Untracked};

/// The result of everything here.
pub type Result<T, E = GitError> = std::result::Result<T, E>;
