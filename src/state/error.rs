//! Errors of the state folder.

use std::io;
use std::path::PathBuf;

use crate::domain::shell_word;
use crate::fs::{FileError, is_disk_full};

/// The hint for damage.
pub const SEE_DOCTOR: &str = "run `ar doctor` to see the damage and the fix";

/// An error of reading or writing a state file.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system reported an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file's content is not valid.
    #[error("cannot parse {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The error in the content.
        source: serde_json::Error,
    },
    /// A newer version of `ar` wrote the file.
    #[error("{} has format version {found}; this program knows version {known} and does not overwrite it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The file of the user's key is too short to be one.
    #[error("{} is no key: it is shorter than {least} bytes", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// The length of a key.
        least: usize,
    },
    /// Another process holds the session or the working tree.
    #[error("another ar holds the lock: {holder}")]
    Held {
        /// The holder, as far as it named itself.
        holder: String,
    },
}

impl StateError {
    /// The next command to type, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            StateError::Newer { .. } => Some("use the newer ar that wrote it".into()),
            StateError::Held { .. } => {
                Some("wait until it ends, or start a second session in `git worktree add --detach ../second`".into())
            }
            StateError::NoKey { path, .. } => {
                Some(format!("remove it, and the next `ar tell` makes a new one: rm {}", shell_word(path)))
            }
            StateError::File(_) if is_disk_full(self) => Some("free disk space; nothing was lost".into()),
            StateError::Json { .. } => Some(SEE_DOCTOR.into()),
            StateError::File(FileError { source, path, .. }) if source.kind() == io::ErrorKind::TimedOut => {
                Some(format!("run `fuser {}` to find the process that holds it", shell_word(path)))
            }
            StateError::File(FileError { source, path, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
                Some(format!("run `ls -l {}` to see what it is", shell_word(path)))
            }
            // A file or a dangling link is in the place of a folder.
            StateError::File(FileError { source, .. })
                if matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) =>
            {
                Some(SEE_DOCTOR.into())
            }
            StateError::File(_) => None,
        }
    }
}
