//! The file that says that a resident guard is wanted, and how.

use std::fs;
use std::path::{Path, PathBuf};

use super::service_error::ServiceError;
use crate::domain::Resident;
use crate::fs::create_folder;
use crate::state::{RESIDENT, StateError, read_json, write_json};

/// The file.
pub(super) fn file(folder: &Path) -> PathBuf {
    folder.join(RESIDENT)
}

/// Returns the settings of the resident guard; `None` if none is wanted.
///
/// A file that nobody can read still says that one is wanted: it gives `known`.
pub(super) fn wanted(folder: &Path, known: &Resident) -> Result<Option<Resident>, ServiceError> {
    let path = file(folder);
    match read_json(&path) {
        Ok(found) => Ok(found),
        Err(error @ StateError::Newer { .. }) => Err(error.into()),
        Err(_) => Ok(fs::symlink_metadata(&path).is_ok().then(|| known.clone())),
    }
}

/// Says that one is wanted.
pub(super) fn want(folder: &Path, resident: &Resident) -> Result<(), ServiceError> {
    create_folder(folder)?;
    Ok(write_json(&file(folder), resident)?)
}
