//! Errors of a patrol as a whole. Errors of one session are part of its verdict.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::session::SessionError;
use crate::state::StateError;

/// The reason why a patrol cannot take place.
#[derive(Debug, Error)]
pub enum GuardianError {
    /// Nobody knows where the register is.
    #[error("there is no register of sessions: neither HOME nor XDG_STATE_HOME is an absolute path")]
    NoHome,
    /// Another patrol takes too long.
    #[error("another patrol is active: it holds {}", .0.display())]
    Busy(PathBuf),
    /// A file of guardians cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A path that was named does not exist, or nobody may look there.
    #[error("cannot find {}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A repository that was named cannot be read.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl GuardianError {
    /// Returns a hint for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            GuardianError::NoHome => Some("set XDG_STATE_HOME to a folder that outlives the machine's restarts".into()),
            GuardianError::Busy(_) => Some("wait for it, then run `ar guard` again".into()),
            GuardianError::State(error) => error.hint(),
            GuardianError::Path { .. } => {
                Some("pass the path of a repository, or none for all registered sessions".into())
            }
            GuardianError::Session(error) => error.hint(),
        }
    }
}
