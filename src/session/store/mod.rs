//! What all attempts of a session share: refs, journal, rows, memory files, notices. [`Store`] alone writes it; nothing here
//! waits, and nothing knows a working tree.

mod expectations;
mod hidden;
mod jobs;
mod open_attempt;
mod requests;
mod writer;

pub(crate) use expectations::*;
pub(crate) use hidden::*;
pub use jobs::*;
pub(crate) use open_attempt::*;
pub use requests::*;
pub use writer::*;
