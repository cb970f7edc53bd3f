//! results.tsv and its dialects: reading any ledger, and writing our own or continuing a foreign one.
//!
//! [`read()`] and [`examine()`] are pure; only [`LedgerFile`] and [`read_file`] touch a file. Nothing here rewrites a row that is whole.

mod aligned;
mod cell;
mod columns;
mod examine;
mod file;
mod jsonl;
mod outcomes;
mod read;
mod rebuild;
mod repair;
mod row_format;
mod rows;
mod shape;
mod since;
mod source;
mod status;
mod table;
mod text;
mod tsv;

pub use examine::examine;
pub use file::{LedgerError, LedgerFile, RESULTS};
pub use read::read;
pub use rebuild::Comparison;
pub use repair::{HeldRows, Rebuilt};
pub use row_format::Entry;
pub use rows::{Ledger, Row, Said, Segment};
pub use since::Since;
pub use source::{SourceError, read_file};
pub use status::RowStatus;
pub use table::Form;
