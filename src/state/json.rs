//! JSON files of the state folder, which an older version of `ar` never overwrites.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StateError;
use crate::domain::FORMAT_VERSION;
use crate::fs::{FileError, Unsynced, failed, if_exists, read_at_most, write_after, write_unsynced};

/// The journal's file.
pub const PROGRESS: &str = "progress.json";

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
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    check_version(path, parse::<Head>(path, &bytes)?.version.as_ref())?;
    parse(path, &bytes).map(Some)
}

/// Fails if a newer version of `ar` wrote the file.
fn refuse_newer(path: &Path) -> Result<(), StateError> {
    match read_bytes(path).and_then(|bytes| bytes.map(|bytes| parse::<Head>(path, &bytes)).transpose()) {
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
struct Head {
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
