//! The folder of a job, which its shim maintains: an agent or the command itself may delete it.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, Write};
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::{self, JoinHandle};

use serde::Serialize;

use super::job::{JobFiles, lock_path};
use super::{ExecError, Job, Started};
use crate::fs::{
    free_name, is_odd, make_folder, move_away, move_no_folder_away, move_odd_away, open_regular, standing,
};
use crate::state::{write_json, write_json_unsynced};

/// A stamp that changes when a log grows: its size, and the seconds and nanoseconds of its last change.
pub(super) type Written = (u64, i64, i64);

/// The files by which a job is found, and the lock that shows that it is running.
pub(super) struct Place<'a> {
    job: &'a Job,
    files: &'a JobFiles,
    started: Option<Started>,
    lock: File,
    /// Locks whose files were deleted: a process that waits for the job may have opened one of them.
    deleted: Vec<File>,
    /// The output file of the job, still valid if its name is deleted or replaced.
    log: File,
}

impl<'a> Place<'a> {
    /// Takes over the lock and the log that were handed down.
    pub(super) fn of(job: &'a Job, files: &'a JobFiles, lock: File, log: File) -> Self {
        Place { job, files, started: None, lock, deleted: Vec::new(), log }
    }

    /// Releases the folder, also if another process has a copy of the lock's descriptor.
    pub(super) fn leave(self) {
        for lock in [self.lock].iter().chain(&self.deleted) {
            // The end of the process releases it at the latest.
            let _ = lock.unlock();
        }
    }

    /// Records when and where the job was started.
    pub(super) fn note_start(&mut self, started: Started) -> Result<(), ExecError> {
        write_json_unsynced(&self.files.started, &started)?;
        self.started = Some(started);
        Ok(())
    }

    /// Writes the name of `exit.json` into the lock: until [`Place::allow_exit`] empties it, that file does not count.
    ///
    /// # Errors
    ///
    /// The lock cannot be written.
    pub(super) fn refuse_exit(&self) -> Result<(), ExecError> {
        let named = self.files.exit.file_name().unwrap_or_default();
        let noted = (&self.lock).write_all(named.as_encoded_bytes());
        noted.map_err(|source| ExecError::File { path: lock_path(&self.job.folder), source })
    }

    /// Notes in the lock that the exit is the one of the job, whose processes are gone.
    pub(super) fn allow_exit(&self) {
        // In doubt, the command runs again.
        let _ = self.lock.set_len(0).and_then(|()| self.lock.sync_data());
    }

    /// Syncs the files by which a run is known after a power cut, in the thread that it returns, while the command is running
    /// already. A machine that goes down in that moment has a run that was never started, or none that can be read. A tied
    /// job needs none of this.
    pub(super) fn make_last(&self) -> Option<JoinHandle<()>> {
        let paths = [self.files.job.clone(), self.files.started.clone(), lock_path(&self.job.folder)];
        let folder = self.job.folder.clone();
        let sync = move || {
            // At worst, a power cut loses what cannot be synced.
            for path in &paths {
                let _ = open_regular(path).and_then(|file| file.sync_all());
            }
            let _ = File::open(&folder).and_then(|folder| folder.sync_all());
        };
        if self.job.tied { None } else { thread::Builder::new().spawn(sync).ok() }
    }

    /// The log, for the command to write to.
    pub(super) fn log_for_command(&self) -> Result<File, ExecError> {
        self.log.try_clone().map_err(|source| ExecError::File { path: self.job.log.clone(), source })
    }

    /// The size of the log and the time of its last change, by which more output is seen.
    pub(super) fn written(&self) -> Option<Written> {
        let log = self.log.metadata().ok()?;
        Some((log.len(), log.mtime(), log.mtime_nsec()))
    }

    /// Writes the log again where its name is missing or leads to something else, which is retained beside it.
    pub(super) fn put_log_back(&mut self) -> Result<(), ExecError> {
        let path = &self.job.log;
        let log = &mut self.log;
        let restore = |log: &mut File| {
            match fs::symlink_metadata(path) {
                Ok(there) if is_same(&there, &log.metadata()?) => return Ok(()),
                Ok(_) => fs::rename(path, free_name(&path.with_extension("log.replaced")))?,
                Err(_) => {}
            }
            log.rewind()?;
            io::copy(log, &mut File::create_new(path)?).map(drop)
        };
        standing(path, || restore(log)).map_err(|source| ExecError::File { path: self.job.log.clone(), source })
    }

    /// Restores what was deleted, so that the job can still be found and waited for. Returns whether the folder is this
    /// job's: after a deletion, another job may have been started in it.
    pub(super) fn keep(&mut self) -> Result<bool, ExecError> {
        let path = lock_path(&self.job.folder);
        let failed = |source| ExecError::File { path: path.clone(), source };
        move_no_folder_away(&self.job.folder).map_err(failed)?;
        if is_odd(&path) {
            move_away(&path).map_err(failed)?;
        }
        match fs::metadata(&path) {
            Ok(there) => {
                if !is_same(&there, &self.lock.metadata().map_err(failed)?) {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(&self.job.folder).map_err(failed)?;
                let lock = File::options().create(true).truncate(false).read(true).write(true).open(&path);
                let lock = lock.map_err(failed)?;
                if lock.try_lock().is_err() {
                    return Ok(false);
                }
                let is_refused = self.lock.metadata().is_ok_and(|old| old.len() > 0);
                self.deleted.push(mem::replace(&mut self.lock, lock));
                if is_refused {
                    self.refuse_exit()?;
                }
            }
            Err(error) => return Err(failed(error)),
        }
        restore(&self.files.job, self.job)?;
        if let Some(started) = &self.started {
            restore(&self.files.started, started)?;
        }
        Ok(true)
    }
}

/// Writes a file again that is missing, or not a file any more.
fn restore(path: &Path, content: &impl Serialize) -> Result<(), ExecError> {
    if path.is_file() {
        return Ok(());
    }
    move_odd_away(path).map_err(|source| ExecError::File { path: path.to_owned(), source })?;
    Ok(write_json(path, content)?)
}

/// Returns whether both describe the same file.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
