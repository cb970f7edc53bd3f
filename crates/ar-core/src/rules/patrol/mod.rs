//! Conclusions of guardians, `ar status` and `ar doctor` from observations.

mod status;
mod verdict;
mod watching;

pub use status::*;
pub use verdict::*;
pub use watching::*;
