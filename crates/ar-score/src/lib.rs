//! Research: an artifact of claims and stored sources, and what they score.
//!
//! Pure over texts: nothing here reads a file, starts a command or knows of git and sessions. `session::scoring` brings
//! artifact, sources, earlier iterations and the verdicts of commands.

mod artifact;
mod axes;
mod citation;
#[cfg(test)]
mod course_tests;
mod explain;
mod keeps;
mod library;
mod problem;
mod scoring;
mod similarity;
mod source;
mod templates;
mod terms;
#[cfg(test)]
mod tests;
mod text;

pub use artifact::{Artifact, Claim};
pub use axes::{DIVERSITY_CAP, claim_density, source_diversity, topic_coverage};
pub use citation::Citation;
pub use explain::{CLAIMS_REMOVED, FIRST_STORED, SOURCES_CITED, SOURCES_KEPT, SOURCES_STORED, by_metric, explain};
pub use keeps::{Keeps, REPEAT};
pub use library::{Catalogue, Library};
pub use problem::Problem;
pub use scoring::{
    DIVERSITY_BY, Earlier, FRESHNESS, Judged, NOISY_SOURCES, Request, Score, Scoring, Standing, Verdicts,
};
pub use source::{FrontMatter, Source, source_id};
pub use templates::{SEARCH_FILE, SEARCH_SCRIPT, artifact_template, program_template, terms_template};
pub use terms::{ARTIFACT, ResearchTerms, SOURCES, TERMS_FILE, TermsError};
pub use text::{NotText, as_text};
