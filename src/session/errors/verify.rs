//! Errors about verifying experiments.

use super::session::ErrorKind;
use crate::domain::{ExperimentId, Tag, experiment_name};

/// The reason why two experiments cannot be verified.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum VerifyError {
    #[error("{} cannot be compared with itself", experiment_name(*.0))]
    Same(ExperimentId),
    #[error("the run of {what} with seed {seed} gave no number: {why}")]
    Failed { what: String, seed: u64, why: String },
    #[error("cannot compare the sessions: {a}, and {b}")]
    OtherMetric { a: String, b: String },
    #[error("branch {0} is there already, with other code")]
    BranchThere(String),
    #[error("one run of each says nothing about the noise")]
    NoNoise,
    #[error("an experiment of session {0} was recorded meanwhile")]
    Recorded(Tag),
    #[error("{0} is not a tag that this program can add to")]
    Unread(String),
    #[error("cannot write what was verified: {0}")]
    Text(String),
}

impl VerifyError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            VerifyError::Same(_) | VerifyError::NoNoise | VerifyError::OtherMetric { .. } => ErrorKind::Usage,
            VerifyError::BranchThere(_)
            | VerifyError::Recorded(_)
            | VerifyError::Failed { .. }
            | VerifyError::Unread(_)
            | VerifyError::Text(_) => ErrorKind::CannotStart,
        }
    }

    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            VerifyError::Same(_) => "name two experiments, as in `ar verify baseline best`".into(),
            VerifyError::Failed { .. } => {
                "the runs that ended are recorded; `ar repro N` shows the log of such a run, and the same command goes on"
                    .into()
            }
            VerifyError::BranchThere(branch) => {
                format!("rename it with `git branch -m {branch} {branch}-before`, and repeat the command")
            }
            VerifyError::OtherMetric { .. } => "name two sessions with the same metric, unit and direction".into(),
            VerifyError::Unread(name) => format!("look at it with `git show {name}`; a newer ar may have written it"),
            VerifyError::Recorded(_) => "repeat the command, which may name another experiment now".into(),
            VerifyError::NoNoise => "pass --runs 2 or more".into(),
            VerifyError::Text(_) => "report this as a defect".into(),
        }
    }
}
