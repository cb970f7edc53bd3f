//! Files as git, exec, ledger and state share them: durable writes, also in place, locks, bounded reads, stamps.
//!
//! Nothing here knows what a file is for.

mod copies;
mod files;
mod names;

pub use copies::*;
pub use files::*;
pub use names::*;
