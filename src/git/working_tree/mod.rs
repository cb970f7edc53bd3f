//! The working tree: what changed in it, proposals, and putting it back to a commit. [`WorkingTree`] alone writes its files.

mod changes;
mod files;
mod pinned;
mod restore;
mod snapshot;
mod tree;
mod untracked;
mod walk;

pub use changes::*;
pub(in crate::git) use files::*;
pub use pinned::*;
pub use restore::*;
pub use snapshot::*;
pub use tree::*;
pub use untracked::*;
use walk::*;
