//! Logs that outlive their names: a job may delete the folder that its log is in.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use super::error::SessionError;

/// Makes sure that a log is there before its job starts, and holds it open.
pub(super) fn open_log(path: &Path) -> Result<File, SessionError> {
    let file = File::options().read(true).append(true).create(true).open(path);
    file.map_err(|source| SessionError::Io { action: "open", path: path.to_owned(), source })
}

/// Writes a log anew where its name is gone. The folder that it belongs in must be there.
pub(super) fn put_log_back(path: &Path, log: &mut File) -> Result<(), SessionError> {
    if path.exists() {
        return Ok(());
    }
    let copy = |log: &mut File| {
        log.rewind()?;
        io::copy(log, &mut File::create(path)?)
    };
    copy(log).map(drop).map_err(|source| SessionError::Io { action: "put back", path: path.to_owned(), source })
}
