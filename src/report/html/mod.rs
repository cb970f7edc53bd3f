//! The report as one page that needs nothing else: no network, no other file, and no script to be read.
//!
//! Whatever comes from records, ledgers, logs and changes is text in it, never markup; its policy lets no other style
//! and script run than its own.

mod experiments;
mod page;

pub use experiments::*;
pub use page::*;
