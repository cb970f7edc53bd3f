//! Why a session cannot have its slots.

use strum::EnumProperty;

use super::error::ErrorKind;
use crate::domain::{ExperimentId, Tag, count_of, shell_word};
use crate::exec::GpuLockError;
use crate::rules::GpuError;

/// Why a session cannot have its slots. Each variant carries its `kind` (by default [`ErrorKind::CannotStart`]) and, if it is
/// fixed, its `hint`.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum LayoutError {
    #[error("--{0} is for a session with slots")]
    #[strum(props(kind = "usage", hint = "add --slots N, --gpus all or --ahead N"))]
    NeedsSlots(&'static str),
    #[error("--{0} is for a session that divides GPUs among its slots")]
    #[strum(props(kind = "usage", hint = "add --gpus all"))]
    NeedsGpus(&'static str),
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    GpuLock(#[from] GpuLockError),
    #[error("{} are more than the GPUs suffice for: {there}", count_of(*slots, "slot"))]
    TooManySlots { slots: u32, there: u32 },
    #[error("`ar try` works in place only, and session {0} has slots")]
    Tried(Tag),
    #[error("--adopt works in place only, and session {0} has slots")]
    #[strum(props(hint = "commit the change first, or omit --adopt and describe it with `ar idea add`"))]
    Adopted(Tag),
    #[error("experiment {id} of session {tag} is still open in this working tree, where the session has no slots")]
    OpenInPlace { tag: Tag, id: ExperimentId },
    #[error("this working tree has branch {branch} checked out, which moves with each keep of a session with slots")]
    OnOwnBranch { branch: String, back: Option<String> },
}

impl LayoutError {
    /// What kind of trouble it is.
    pub(super) fn kind(&self) -> ErrorKind {
        self.get_str("kind").and_then(|kind| kind.parse().ok()).unwrap_or(ErrorKind::CannotStart)
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        if let Some(hint) = self.get_str("hint") {
            return hint.to_owned();
        }
        match self {
            LayoutError::Gpu(error) => error.hint(),
            LayoutError::GpuLock(error) => error.hint().unwrap_or_else(|| "omit --gpus".into()),
            LayoutError::TooManySlots { there, .. } => {
                format!("pass --slots {there}, choose more GPUs with --gpus, or lower --gpus-per-run")
            }
            LayoutError::Tried(tag) => format!(
                "hand the change in as an idea with `ar idea add`, or let an agent of the loop make it: `ar resume {tag} \
                    --agent COMMAND`"
            ),
            LayoutError::OpenInPlace { tag, .. } => format!(
                "run `ar resume {tag}` without these flags to continue it, or `ar stop {tag} --now` to save its change and \
                    close it"
            ),
            LayoutError::OnOwnBranch { back, .. } => match back {
                Some(branch) => format!("git switch {}", shell_word(branch.as_ref())),
                None => "git switch --detach".into(),
            },
            LayoutError::NeedsSlots(_) | LayoutError::NeedsGpus(_) | LayoutError::Adopted(_) => String::new(),
        }
    }
}
