//! Errors about scores of research artifacts.

use std::path::PathBuf;

use crate::score::{TERMS_FILE, TermsError};

/// The reason why nothing can be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The artifact cannot be read.
    #[error("cannot read the artifact {}: {why}", path.display())]
    Artifact {
        /// The artifact.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// There is no `research.toml`.
    #[error("{place} has no {TERMS_FILE}")]
    NoTerms {
        /// The searched commit or folder.
        place: String,
    },
    /// It cannot be read.
    #[error("cannot read {TERMS_FILE} of {place}: {why}")]
    UnreadableTerms {
        /// The commit or folder with the file.
        place: String,
        /// The cause.
        why: String,
    },
    /// Terms cannot be used.
    #[error("cannot use {terms}")]
    Terms {
        /// The terms, with their place.
        terms: String,
        /// The cause.
        source: TermsError,
    },
}

impl ScoreError {
    /// The hint that tells the user how to fix it.
    pub fn hint(&self) -> String {
        match self {
            ScoreError::Artifact { path, .. } => {
                format!("run `git show HEAD:{}` to see the last version that was committed", path.display())
            }
            ScoreError::NoTerms { .. } => {
                "commit one before the session starts; `ar init --research \"QUESTION\"` writes it".into()
            }
            ScoreError::UnreadableTerms { .. } => format!("run `file {TERMS_FILE}` to see what it is"),
            ScoreError::Terms { source, .. } => source.hint(),
        }
    }
}
