//! Files with one JSON document a line, to which several processes may append.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::StateError;
use crate::fs::{
    append, append_line, create_folder, failed, folder_of, if_exists, open_locked, read_at_most, write_atomic,
};

/// The largest file, in bytes: some hundred thousand lines.
pub(super) const LARGEST: u64 = 64 << 20;

/// Reads a file; empty if there is none.
pub(super) fn content(path: &Path) -> Result<Vec<u8>, StateError> {
    Ok(if_exists(read_at_most(path, LARGEST)).map_err(failed("read", path))?.unwrap_or_default())
}

/// The lines that are not blank.
pub(super) fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

/// The text of a line, without its end.
fn text(path: &Path, line: &impl Serialize) -> Result<String, StateError> {
    serde_json::to_string(line).map_err(|source| StateError::Json { path: path.to_owned(), source })
}

/// Appends a line; the system writes it to the disk at any time.
pub(super) fn add(path: &Path, line: &impl Serialize) -> Result<(), StateError> {
    append(path, &text(path, line)?)?;
    Ok(())
}

/// Appends a line; it is on the disk when this returns, as is the name of a new file.
pub(super) fn add_durably(path: &Path, line: &impl Serialize) -> Result<(), StateError> {
    append_line(path, &text(path, line)?)?;
    let folder = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    Ok(folder.map_err(failed("write", path))?)
}

/// Replaces all lines.
pub(super) fn replace(path: &Path, all: &[impl Serialize]) -> Result<(), StateError> {
    let text = all.iter().map(|line| Ok(text(path, line)? + "\n")).collect::<Result<String, StateError>>()?;
    Ok(write_atomic(path, text.as_bytes())?)
}

/// Locks a file, and makes it with its folder if there is none.
pub(super) fn lock(path: &Path) -> Result<File, StateError> {
    create_folder(folder_of(path))?;
    let Some((file, _)) = open_locked(path).map_err(failed("write", path))? else {
        return Err(failed("lock", path)(io::ErrorKind::TimedOut.into()).into());
    };
    Ok(file)
}
