//! results.tsv and its dialects: reading any ledger, and writing our own or continuing a foreign one.
//!
//! [`read`] is pure; only [`LedgerFile`] touches a file. Nothing here rewrites a row that is whole.

mod columns;
mod file;
mod jsonl;
mod layout;
mod read;
mod rebuild;
mod repair;
mod since;
mod status;

pub use file::{LedgerError, LedgerFile};
pub use layout::Entry;
pub use read::{Ledger, Row, read};
pub use rebuild::Comparison;
pub use repair::{HeldRows, Rebuilt};
pub use since::Since;
pub use status::RowStatus;
