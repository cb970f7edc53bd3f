//! The change itself: scope, files, hazards, repeats. Nothing here has seen a number.

mod agent_words;
mod artifacts;
mod conventions;
mod hazards;
mod scope;

pub use agent_words::*;
pub use artifacts::*;
pub use conventions::*;
pub use hazards::*;
pub use scope::*;
