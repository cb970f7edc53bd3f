//! Everything gix: open, snapshot, commit, restore, records, diff.
//!
//! This module reads and writes one git repository. It calls the git program only for what an agent's folder holds. No type
//! of gix appears in a public signature: objects are named in hexadecimal, paths are [`std::path::Path`] relative to the root of the working tree,
//! and any file name works. The purpose of a commit (experiments, outcomes, sessions) is unknown here.
//!
//! [`Repo`] opens a repository and hands out its parts. Each part alone writes what it owns:
//!
//! | part | owns |
//! |---|---|
//! | [`Objects`] | blobs, trees, commits and tags, held against `git gc` |
//! | [`Refs`] | branches, records, `HEAD`, packed refs |
//! | [`Index`] | the index and its lock |
//! | [`WorkingTree`] | the files: snapshots, proposals, restoring them |
//!
//! Every function that returns success after writing objects, refs or the index has synced them to disk, file and
//! folder, but for what [`Repo::defer_syncs`] puts off; gix itself syncs nothing.

mod error;
mod index;
mod objects;
mod path;
mod programs;
mod refs;
mod repo;
mod sync;
mod working_tree;

pub use error::*;
pub use index::*;
pub use objects::*;
use path::*;
pub use programs::*;
pub use sync::*;

pub use refs::*;
pub use repo::*;
pub use working_tree::*;
