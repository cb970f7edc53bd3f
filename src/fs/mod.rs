//! Files as git, exec, ledger and state share them: durable writes, locks, bounded reads, stamps.
//!
//! Nothing here knows what a file is for.

mod lock;
mod names;
mod read;
mod write;

pub use lock::*;
pub use names::*;
pub use read::*;
pub use write::*;
