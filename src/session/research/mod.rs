//! Research artifacts: their terms, claims, scores, and the commands of `research.toml`. Nothing here knows the loop.

pub(super) mod artifact;
mod scoring;

pub use artifact::{RESEARCH_THRESHOLD, ask_subtopics};
pub(crate) use artifact::{missing_headings, with_research};
pub(crate) use scoring::read_terms;
pub use scoring::{ComparedState, Scored, ScoredOf, score};
