//! What can go wrong with a file.

use std::io::{self, ErrorKind};
use std::iter::successors;
use std::path::{Path, PathBuf};

/// A file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    /// What was tried.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Attaches the action and the file to an error of the system.
pub fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError { action, path: path.to_owned(), source }
}

/// Whether an error says that there is no such file.
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

/// Whether a full disk is at the bottom of an error.
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause(error, &[libc::ENOSPC, libc::EDQUOT])
}

/// Whether a file or folder that is missing, or that somebody changes at this moment, is at the bottom of an error.
pub fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    has_cause(error, &[libc::ENOENT, libc::ENOTDIR, libc::ENOTEMPTY])
}

/// Whether one of these errors of the system is at the bottom of an error. Some libraries hide the type of a cause, but not
/// its text.
fn has_cause(error: &(dyn std::error::Error + 'static), codes: &[i32]) -> bool {
    let texts: Vec<String> = codes.iter().map(|code| io::Error::from_raw_os_error(*code).to_string()).collect();
    successors(Some(error), |error| error.source())
        .any(|error| texts.iter().any(|text| error.to_string().starts_with(text)))
}
