//! Reports on a session: summary and doubts. Nothing here changes what the loop does.

mod compare;
mod doubts;
mod finalize;
mod patterns;
mod summary;
mod warnings;

pub use compare::*;
pub use doubts::*;
pub use finalize::*;
pub use patterns::*;
pub use summary::*;
pub use warnings::*;
