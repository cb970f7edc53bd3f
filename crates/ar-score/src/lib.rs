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

pub use artifact::{Artifact, Citation, Claim, Problem};
pub use explain::{
    CLAIMS_REMOVED, DIVERSITY_CAP, FIRST_STORED, SOURCES_CITED, SOURCES_KEPT, SOURCES_STORED, by_metric, claim_density,
    explain, source_diversity, topic_coverage,
};
pub use library::{Catalogue, FrontMatter, Library, Source, source_id};
pub use scoring::{
    ClaimVerdict, DIVERSITY_BY, Earlier, FRESHNESS, Keeps, NOISY_SOURCES, REPEAT, Request, Score, Scoring, Standing,
    Verdicts,
};
pub use terms::{
    ARTIFACT, ENGINES, KEYLESS, ResearchTerms, SOURCES, SearchScript, TERMS_FILE, artifact_template, program_template,
    refuse_topics, terms_template,
};
pub use text::{NotText, as_text};
