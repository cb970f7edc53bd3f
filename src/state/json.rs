//! JSON files of the state folder, which an older version of `ar` never overwrites, and the errors of the state folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::{FORMAT_VERSION, UserError, shell_word};
use crate::fs::{FileError, Unsynced, failed, if_exists, is_disk_full, read_at_most, write_after, write_unsynced};

/// The journal's file.
pub const PROGRESS: &str = "progress.json";

/// The file with durable copies of the journal.
pub const PROGRESS_COPIES: &str = "progress.copies";

/// The version of the journal. Before 3, the first attempt stood at the top level only, and before 2 there was one at most.
pub(super) const JOURNAL_VERSION: u32 = 3;

/// The largest JSON file, in bytes: room for a million untracked files.
const LARGEST: u64 = 256 << 20;

/// Replaces a JSON file, indented, unless a newer version of `ar` wrote it.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    write_json_after(Unsynced::default(), path, value)
}

/// Like [`write_json`], for a file that may be lost in a power cut.
pub fn write_json_unsynced(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    Ok(write_unsynced(path, &json_text(path, value)?)?)
}

/// Like [`write_json`], but syncs everything in `unsynced` before it replaces the file.
pub fn write_json_after(unsynced: Unsynced, path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    Ok(write_after(unsynced, path, &json_text(path, value)?)?)
}

/// Formats the content of the JSON file at `path`, unless a newer version of `ar` wrote the existing one.
pub fn json_text(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, StateError> {
    refuse_newer(path)?;
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|source| StateError::Json { path: path.to_owned(), source })?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a JSON file; `None` if it does not exist.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    read_bytes(path)?.map(|bytes| from_bytes(path, &bytes)).transpose()
}

/// The value of what the JSON file at `path` has, or a copy of it, unless a newer version of `ar` wrote it.
pub(super) fn from_bytes<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, StateError> {
    check_version(path, parse::<VersionField>(path, bytes)?.version.as_ref())?;
    parse(path, bytes)
}

/// Fails if a newer version of `ar` wrote the file.
fn refuse_newer(path: &Path) -> Result<(), StateError> {
    match read_bytes(path).and_then(|bytes| bytes.map(|bytes| parse::<VersionField>(path, &bytes)).transpose()) {
        Ok(Some(head)) => check_version(path, head.version.as_ref()),
        // Replaces torn and foreign files, and anything that is not a file.
        Ok(None) | Err(StateError::Json { .. }) => Ok(()),
        Err(StateError::File(FileError { source, .. }))
            if matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The field by which a file says its version.
#[derive(Deserialize)]
struct VersionField {
    version: Option<Value>,
}

/// Fails if a newer version of `ar` than this one wrote what has this `version`.
pub(super) fn check_version(path: &Path, version: Option<&Value>) -> Result<(), StateError> {
    let is_journal = path.file_name().is_some_and(|name| name == PROGRESS);
    let known = if is_journal { JOURNAL_VERSION } else { FORMAT_VERSION };
    match version.and_then(Value::as_u64) {
        Some(found) if found > u64::from(known) => Err(StateError::Newer { path: path.to_owned(), found, known }),
        _ => Ok(()),
    }
}

fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    Ok(if_exists(read_at_most(path, LARGEST)).map_err(failed("read", path))?)
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, StateError> {
    serde_json::from_slice(bytes).map_err(|source| StateError::Json { path: path.to_owned(), source })
}

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

impl From<StateError> for UserError {
    fn from(error: StateError) -> Self {
        let hint = error.hint();
        UserError::of(error, hint)
    }
}

impl StateError {
    /// The next command to type, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            StateError::Newer { .. } => Some("use the newer ar that wrote it".into()),
            StateError::Held { .. } => Some(
                "wait until it ends, end it with `ar stop`, or start another session in `git worktree add --detach \
                 ../second`"
                    .into(),
            ),
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

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_newer_format_is_read_by_nobody_and_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contract.json");
        fs::write(&path, r#"{"version": 2, "tag": "x"}"#).unwrap();
        let error = write_json(&path, &json!({"version": 1})).unwrap_err();
        assert!(matches!(error, StateError::Newer { found: 2, .. }), "{error}");
        assert!(read_json::<Value>(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"version": 2, "tag": "x"}"#);
    }
}
