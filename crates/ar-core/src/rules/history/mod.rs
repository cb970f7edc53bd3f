//! The records of a session: finding, counting and selecting them. Nothing here judges.

mod comparable;
mod records;
mod select;

pub use comparable::*;
pub use records::*;
pub use select::*;
