//! Research artifacts: their terms, claims, scores, and the commands of `research.toml`. Nothing here knows the loop.

mod commands;
mod files;
mod headings;
pub(super) mod new_claims;
mod past;
mod scoring;
mod terms;

pub use commands::ask_subtopics;
pub(crate) use headings::missing_headings;
pub(crate) use scoring::read_terms;
pub use scoring::{Compared, Scored, ScoredOf, score};
pub use terms::RESEARCH_THRESHOLD;
pub(crate) use terms::with_research;
