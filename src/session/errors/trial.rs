//! Errors about the change that `ar try` is to measure.

use std::path::PathBuf;

use strum::EnumProperty;

use super::session::ErrorKind;
use crate::domain::{ExperimentId, Tag, few, list, shell_word};

/// The reason why a change in the working tree cannot become the next experiment. Each variant carries its `hint`,
/// if it is fixed.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum TryError {
    #[error("nothing to try: the working tree is the same as the incumbent")]
    #[strum(props(hint = "edit a file first, or `git add` the files that belong to the change"))]
    NothingToTry,
    #[error("the direction \"{direction}\" was tried before and a new one is required; tried: {}", few(tried).join(", "))]
    #[strum(props(
        hint = "nothing was recorded; name another with --direction: if this one is named again, the change is recorded as refused"
    ))]
    RepeatedDirection { direction: String, tried: Vec<String> },
    #[error("no change to bring back: the last experiment did not fail a guard")]
    #[strum(props(hint = "run `ar log` to see what became of each experiment"))]
    NothingToRework,
    #[error("experiment {id} was already reworked {limit} times")]
    #[strum(props(hint = "try an idea that does not break the guard"))]
    ReworkedOften { id: ExperimentId, limit: u32 },
    #[error("cannot bring a change back: the working tree has changes: {}", list(.0))]
    #[strum(props(hint = "run `ar try` to measure them, or `git stash` to set them aside"))]
    DirtyBeforeRework(Vec<PathBuf>),
    #[error("nothing to try: the working tree is the same as an earlier version of experiment {0}")]
    #[strum(props(hint = "edit a file so that the guard passes, then run `ar try` again"))]
    SameVersion(ExperimentId),
    #[error("experiment {id} was refused, and the rest of your change is still in the working tree: {}", list(left))]
    RefusedStays { tag: Tag, id: ExperimentId, left: Vec<PathBuf> },
    #[error("experiment {0} of this session is still open")]
    #[strum(props(hint = "run `ar try --continue` to finish it, or `ar stop --now` to save its change and close it"))]
    StillOpen(ExperimentId),
    #[error("experiment {id} of session {tag} is still open in this working tree")]
    OtherOpen { tag: String, id: ExperimentId },
    #[error("{} is too large to commit: {} MiB", path.display(), size / (1024 * 1024))]
    TooLarge { path: PathBuf, size: u64 },
    #[error("no experiment to continue")]
    #[strum(props(hint = "start one with `ar try -m \"what it changes\"`"))]
    NothingOpen,
}

impl TryError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            TryError::RefusedStays { .. } => ErrorKind::NeedsPerson,
            _ => ErrorKind::CannotStart,
        }
    }

    /// Returns the hint for the user, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            TryError::RefusedStays { tag, .. } => Some(format!(
                "correct it and run `ar try -m TEXT`, or set it aside with `git stash`; then run `ar resume {tag}` to continue"
            )),
            TryError::OtherOpen { tag, .. } => Some(format!(
                "run `ar resume {tag}` to continue it, or `ar stop {tag} --now` to save its change and close it; `ar finalize \
                 {tag} --drop-winners` closes one that waits for more runs"
            )),
            TryError::TooLarge { path, .. } => {
                Some(format!("keep it out of the change: git stash push -- {}", shell_word(path)))
            }
            error => error.get_str("hint").map(str::to_owned),
        }
    }
}
