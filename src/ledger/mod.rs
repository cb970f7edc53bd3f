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

use columns::*;
pub use file::*;
pub use read::*;
pub use rebuild::*;
pub use repair::*;
pub use rows::*;
pub use shape::*;
pub use table::*;
