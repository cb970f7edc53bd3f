//! What can go wrong with the state folder.

use std::io;
use std::path::PathBuf;

use crate::domain::{FORMAT_VERSION, shell_word};

/// The hint where something is damaged.
pub const SEE_DOCTOR: &str = "run `ar doctor` to see the damage and the fix";

/// Whether a full disk is at the bottom of an error. Some libraries hide the type of a cause, but not its text.
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let full = [libc::ENOSPC, libc::EDQUOT].map(|code| io::Error::from_raw_os_error(code).to_string());
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| full.iter().any(|full| error.to_string().starts_with(full)))
}

/// A state file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system said no.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not hold what it should.
    #[error("cannot parse {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// A newer program wrote the file.
    #[error("{} has format version {found}; this program knows version {FORMAT_VERSION} and does not overwrite it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// Another process holds the session or the working tree.
    #[error("another ar holds the lock: {holder}")]
    Held {
        /// Who holds it, as far as it said.
        holder: String,
    },
}

impl StateError {
    /// The next command to type, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            StateError::Newer { .. } => Some("use the newer ar that wrote it".into()),
            StateError::Held { .. } => {
                Some("wait until it ends, or start a second session in `git worktree add --detach ../second`".into())
            }
            StateError::Io { .. } if is_disk_full(self) => Some("free disk space; nothing was lost".into()),
            StateError::Json { .. } => Some(SEE_DOCTOR.into()),
            StateError::Io { source, path, .. } if source.kind() == io::ErrorKind::TimedOut => {
                Some(format!("run `fuser {}` to find the process that holds it", shell_word(path)))
            }
            StateError::Io { source, path, .. } if source.kind() == io::ErrorKind::InvalidInput => {
                Some(format!("run `ls -l {}` to see what it is", shell_word(path)))
            }
            // A file or a link that leads nowhere stands where a folder should be.
            StateError::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) =>
            {
                Some(SEE_DOCTOR.into())
            }
            StateError::Io { .. } => None,
        }
    }
}
