//! Axes, scores, lessons and ideas: what research sessions and the memory of sessions are judged by.

mod axes;
mod memory;
mod weights;

pub use axes::*;
pub use memory::*;
pub use weights::*;
