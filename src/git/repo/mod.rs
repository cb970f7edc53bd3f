//! Opening a repository; its folders, locks, linked working trees and half-done operations.

mod call;
mod entries;
mod linked;
mod locks;
mod open;
mod operation;

pub use call::{CallCommits, CallGit};
pub use entries::{LinkedEntry, Oddity};
pub use linked::{KeptTree, TreeState};
pub use locks::LockFile;
pub use open::Repo;
pub use operation::Operation;
