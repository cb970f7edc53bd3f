//! Research artifacts: their terms, claims, scores, and the commands of `research.toml`. Nothing here knows the loop.

pub(super) mod artifact;
mod scoring;

pub use artifact::*;
pub use scoring::*;
