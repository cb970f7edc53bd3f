//! Files as git, exec, ledger and state share them: durable writes, locks, bounded reads, stamps.
//!
//! Nothing here knows what a file is for.

mod files;
mod names;

pub use files::*;
pub use names::*;
