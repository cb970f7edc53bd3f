//! Errors about the experiments that a session kept.

use std::path::PathBuf;

use super::session::ErrorKind;
use crate::domain::{Decide, ExperimentId, Tag, list};
use crate::rules::listed;
use crate::state::SEE_DOCTOR;

/// The reason why the keeps of a session cannot be taken out of it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum KeepsError {
    #[error("session {0} has kept nothing but its baseline")]
    NothingKept(String),
    #[error("experiment {id} of session {tag} was not kept, so it cannot be left out")]
    NotKept { tag: Tag, id: ExperimentId },
    #[error("the reviewer calls what was kept not earned: {}", listed(ids))]
    NotEarned { tag: Tag, ids: Vec<ExperimentId> },
    #[error("experiment {id} of session {tag} builds on what is left out: {}", list(paths))]
    NeedsLeftOut { tag: Tag, id: ExperimentId, paths: Vec<PathBuf> },
    #[error("--decide {0} compares with the best experiment, which a threshold (--keep-above, or research) does not")]
    ThresholdDecides(Decide),
    #[error("session {0} has changes that wait for more runs")]
    WinnersWait(Tag),
    #[error(
        "the kept experiments of session {tag} do not form a chain: experiment {id} is not based on experiment \
        {before}"
    )]
    NoChain { tag: String, id: ExperimentId, before: ExperimentId },
    #[error("experiment {id} of session {tag} was kept but is not based on experiment {before}, the keep before it")]
    BrokenChain { tag: String, id: ExperimentId, before: ExperimentId },
}

impl KeepsError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            KeepsError::BrokenChain { .. } => ErrorKind::Damaged,
            KeepsError::ThresholdDecides(_) => ErrorKind::Usage,
            _ => ErrorKind::CannotStart,
        }
    }

    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            KeepsError::NothingKept(tag) => format!("run `ar log {tag}` to see the outcomes"),
            KeepsError::NotKept { tag, .. } => format!("run `ar log {tag} --outcome keep` to see the keeps"),
            KeepsError::NotEarned { tag, ids } => {
                let without = ids.iter().map(|id| format!(" --without {id}")).collect::<String>();
                format!(
                    "run `ar finalize {tag}{without}` to leave them out, or `ar finalize {tag} --with-not-earned` to include \
                     them; `ar show {} --tag {tag}` prints the reason",
                    ids.first().copied().unwrap_or(ExperimentId::BASELINE)
                )
            }
            KeepsError::NeedsLeftOut { id, .. } => format!("leave it out as well, with --without {id}"),
            KeepsError::WinnersWait(tag) => format!(
                "run `ar resume {tag}` to make these, or `ar finalize {tag} --drop-winners` to record the changes as discards"
            ),
            KeepsError::ThresholdDecides(_) => "pass --decide once, or remove `decide` from ar.toml".into(),
            KeepsError::NoChain { tag, id, .. } => format!("extract one of them with `ar restore {id} --tag {tag}`"),
            KeepsError::BrokenChain { .. } => SEE_DOCTOR.into(),
        }
    }
}
