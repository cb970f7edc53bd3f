//! results.tsv and its dialects: reading any ledger, and writing our own or continuing a foreign one.
//!
//! [`read`] is pure; only [`LedgerFile`] touches a file. Nothing here rewrites a row.

mod columns;
mod file;
mod jsonl;
mod layout;
mod read;
mod status;

pub use file::{LedgerError, LedgerFile};
pub use layout::Entry;
pub use read::{Ledger, Row, read};
pub use status::RowStatus;
