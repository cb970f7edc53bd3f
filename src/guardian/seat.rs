//! The lock of the resident guard: there is one at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::service_error::ServiceError;
use crate::fs::{GLANCE, create_folder, failed, is_at, lock_within, open_regular, share_within};

/// The lock of the resident guard, held until this is dropped or the process ends.
pub(super) struct Seat {
    file: File,
    path: PathBuf,
}

fn lock_file(folder: &Path) -> PathBuf {
    folder.join("resident.lock")
}

impl Seat {
    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// Another resident guard holds it, or its file cannot be opened.
    pub(super) fn take(folder: &Path) -> Result<Seat, ServiceError> {
        create_folder(folder)?;
        let path = lock_file(folder);
        let lock = || -> io::Result<Option<File>> {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NONBLOCK);
            let file = options.open(&path)?;
            Ok(lock_within(&file, GLANCE)?.then_some(file))
        };
        match lock().map_err(failed("lock", &path))? {
            Some(file) => Ok(Seat { file, path }),
            None => Err(ServiceError::Running { process: holder(&path) }),
        }
    }

    /// Names this process in the file, for messages. A full disk stops no guard.
    pub(super) fn sign(&mut self) {
        let _ = self.file.set_len(0).and_then(|()| self.file.rewind());
        let _ = writeln!(self.file, "{}", std::process::id());
    }

    /// Returns whether the file is still the one that another process would lock.
    pub(super) fn holds(&self) -> bool {
        is_at(&self.file, &self.path).unwrap_or(true)
    }
}

/// The process that the lock file names.
fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    open_regular(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The process of the running resident guard, `Some(None)` if it is not named; `None` if none runs. Changes nothing.
pub(super) fn seated(folder: &Path) -> Option<Option<u32>> {
    let path = lock_file(folder);
    let file = open_regular(&path).ok()?;
    // A process that starts one takes a moment to let go of the lock.
    let is_free = share_within(&file, GLANCE / 10).unwrap_or(true);
    (!is_free).then(|| holder(&path))
}
