//! Errors of file operations.

use std::io::{self, ErrorKind};
use std::iter::successors;
use std::path::{Path, PathBuf};

/// A file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    /// The action that failed.
    pub action: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

/// Attaches the action and the file to an error of the system.
pub fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError { action, path: path.to_owned(), source }
}

/// Returns whether an error means that there is no such file.
pub fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Turns the error that there is no such file into `None`.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Returns whether a full disk or an exceeded quota caused an error.
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause(error, &[libc::ENOSPC, libc::EDQUOT])
}

/// Returns whether a file or folder caused an error because it is missing or is being changed by another process.
pub fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause(error, &[libc::ENOENT, libc::ENOTDIR, libc::ENOTEMPTY])
}

/// Returns whether an error was caused by one of these system errors. It compares texts, because some libraries hide the type
/// of a cause.
fn has_cause(error: &(dyn std::error::Error + 'static), codes: &[i32]) -> bool {
    let texts: Vec<String> = codes.iter().map(|code| io::Error::from_raw_os_error(*code).to_string()).collect();
    successors(Some(error), |error| error.source())
        .any(|error| texts.iter().any(|text| error.to_string().starts_with(text)))
}
