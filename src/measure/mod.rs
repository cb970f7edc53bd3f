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
mod verdict;

pub use clean::PlainText;
pub(crate) use file::quote_constants;
pub use file::{MetricFileError, metric_file, place_of};
pub use mentions::MetricMention;
pub use scanner::{LogSummary, Scanner};
pub use summary::{last_lines, plain_text, summary_number};
pub use verdict::{EXCERPT_LINES, RunEnd, judge, partial};
