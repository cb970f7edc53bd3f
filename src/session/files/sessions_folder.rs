//! The folder of all sessions: a link in its place that was not there before is undone.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::fs::{free_beside, free_name, move_to};
use crate::git::Repo;
use crate::state::SESSIONS_FOLDER;

/// The former state of the folder: its path, link target and entries.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    path: PathBuf,
    /// The target, if a symlink was at the path: the user may keep the sessions elsewhere.
    link: Option<PathBuf>,
    names: Vec<OsString>,
}

/// Returns whether this process seems to be behind a wall of a job in this repository: the folder of sessions is a mount that
/// is read-only, as on a disk that is. A wall holds whatever the environment says.
pub fn is_behind_wall(repo: &Repo) -> bool {
    let folder = repo.main_worktree().join(SESSIONS_FOLDER);
    statvfs(folder).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
}

impl OwnFolder {
    /// Looks at it.
    pub(crate) fn look(path: PathBuf) -> OwnFolder {
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        OwnFolder { link: fs::read_link(&path).ok(), names: entries.map(|entry| entry.file_name()).collect(), path }
    }

    /// Returns whether another link or a file is at the path now.
    fn is_replaced(&self) -> bool {
        let now = fs::symlink_metadata(&self.path);
        now.is_ok_and(|now| !now.is_dir() && (!now.is_symlink() || fs::read_link(&self.path).ok() != self.link))
    }

    /// Restores the folder if a link or a file replaced it, and moves back its entries that are where the new link leads.
    /// Returns where the new link led, or the path to which the file was moved.
    pub(crate) fn restore(&self) -> io::Result<Option<PathBuf>> {
        if !self.is_replaced() {
            return Ok(None);
        }
        let led = self.path.canonicalize().ok().filter(|led| *led != self.path);
        let aside = free_beside(&self.path, ".replaced");
        fs::rename(&self.path, &aside)?;
        match &self.link {
            Some(link) => std::os::unix::fs::symlink(link, &self.path)?,
            None => fs::create_dir(&self.path)?,
        }
        // Entries that cannot be moved back are rebuilt from this process's memory.
        for name in self.names.iter().filter(|_| led.is_some()) {
            let (from, to) = (led.as_ref().unwrap_or(&aside).join(name), self.path.join(name));
            if fs::symlink_metadata(&to).is_err() && fs::symlink_metadata(&from).is_ok() {
                let _ = move_to(&from, &to);
            }
        }
        if fs::symlink_metadata(&aside)?.is_symlink() {
            fs::remove_file(&aside)?;
            return Ok(Some(led.unwrap_or(aside)));
        }
        // A file beside the folder would be a part of the change.
        let kept = free_name(&self.path.join("replaced"));
        move_to(&aside, &kept)?;
        Ok(Some(kept))
    }
}
