//! Research: an artifact of claims and stored sources, and what they score.
//!
//! Pure over texts: nothing here reads a file, starts a command or knows of git and sessions. `session::scoring` brings
//! artifact, sources, earlier iterations and the verdicts of commands.

mod artifact;
#[cfg(test)]
mod course_tests;
mod explain;
mod library;
mod scoring;
mod terms;
#[cfg(test)]
mod tests;
mod text;

pub use artifact::*;
pub use explain::*;
pub use library::*;
pub use scoring::*;
pub use terms::*;
pub use text::*;
