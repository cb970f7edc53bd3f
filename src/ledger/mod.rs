//! results.tsv and its dialects: reading any ledger, and writing our own or continuing a foreign one.
//!
//! [`read()`] and [`examine()`] are pure; only [`LedgerFile`] and [`read_file`] touch a file. Nothing here rewrites a row that is whole.

mod columns;
mod file;
mod jsonl;
mod read;
mod rebuild;
mod repair;
mod rows;
mod shape;
mod table;

pub use file::{LedgerError, LedgerFile, RESULTS};
pub use read::{examine, read, read_file};
pub use rebuild::LedgerDifferences;
pub use repair::{HeldRows, LedgerChanges, Rebuilt};
pub use rows::{Ledger, ReadOptions, Row, RowStatus, Segment};
pub use shape::Entry;
pub use table::LedgerForm;
