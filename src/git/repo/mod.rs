//! Opening a repository; its folders, locks, linked working trees and half-done operations.

mod call;
mod linked;
mod open;

pub use call::{CallCommits, CallGit};
pub use linked::{KeptTree, LinkedEntry, Oddity, TreeState};
pub use open::{LockFile, Operation, Repo};
