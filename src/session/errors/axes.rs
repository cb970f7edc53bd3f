//! Errors about a session's axes.

use strum::EnumProperty;

use super::session::ErrorKind;
use crate::domain::{CompositeError, Tag};

/// An error about a session's axes, or about something that depends on them.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum AxesError {
    #[error(transparent)]
    Composite(#[from] CompositeError),
    #[error("--metric-regex finds one number, and a composite is computed from several")]
    #[strum(props(hint = "omit --metric-regex"))]
    Pattern,
    #[error("the stop rule {0} needs the axes of a composite, and this session has another metric")]
    #[strum(props(
        hint = "use kill, plateau:N or above:VALUE:N, or describe the axes in [composite] and pass --metric composite"
    ))]
    NeedsComposite(String),
    #[error("research and --keep-above run on one slot, not {0}: each iteration builds on what was kept before it")]
    #[strum(props(hint = "omit --slots and --gpus, or pass --slots 1"))]
    OneSlot(u32),
    #[error("no home folder for your ratings")]
    #[strum(props(hint = "set HOME, or XDG_STATE_HOME to an absolute path"))]
    NoHome,
    #[error("session {0} has no axes to weigh")]
    #[strum(props(
        hint = "name a session with a [composite], as in `ar report TAG --weights`; `ar rate` lists the sessions"
    ))]
    NoComposite(Tag),
}

impl AxesError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            AxesError::NoComposite(_) | AxesError::NoHome => ErrorKind::CannotStart,
            _ => ErrorKind::Usage,
        }
    }

    /// Returns the hint for the user, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            AxesError::Composite(error) => Some(error.hint().to_owned()),
            error => error.get_str("hint").map(str::to_owned),
        }
    }
}
