//! Log bytes to metrics and a failure class.
//!
//! A [`Scanner`] reads a log in one pass and bounded memory; [`judge`] says what its [`LogSummary`] and the way the
//! run ended amount to. All of it is pure: nothing here opens a file or knows of a process.

mod clean;
mod extent;
mod file;
mod mentions;
mod name;
mod number;
mod scanner;
mod summary;
mod table;
mod verdict;

pub use clean::*;
pub use file::*;
use mentions::*;
use name::*;
pub use number::*;
pub use scanner::*;
pub use summary::*;
use table::*;
pub use verdict::*;
