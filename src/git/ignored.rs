//! Files that git ignores, and that a number may depend on all the same.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use gix::index::entry::Mode;

use super::error::During;
use super::path::to_git;
use super::{Repo, Result};
use crate::fs::OWN_FOLDER;

const WHAT: &str = "looking for ignored files";

impl Repo {
    /// Whether git ignores a file of the working tree.
    pub fn is_ignored(&self, path: &Path) -> Result<bool> {
        let index = self.index()?;
        let is_tracked = index.entry_by_path(to_git(path)?.as_ref()).is_some();
        Ok(!is_tracked && self.ignores(&index)?.at_path(path, Some(Mode::FILE)).during(WHAT)?.is_excluded())
    }

    /// The ignored files below the working tree, at most `limit`, those near its root first. `ar`'s own are left out, and so is
    /// bytecode, which Python writes whenever it likes.
    pub fn ignored_files(&self, limit: usize) -> Result<Vec<PathBuf>> {
        let index = self.index()?;
        let mut excludes = self.ignores(&index)?;
        let mut files = Vec::new();
        let mut folders = VecDeque::from([(PathBuf::new(), false)]);
        while let Some((folder, is_ignored)) = folders.pop_front() {
            let entries = fs::read_dir(self.worktree().join(&folder)).into_iter().flatten().flatten();
            for entry in entries {
                let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
                let Ok(kind) = entry.file_type() else { continue };
                let is_own = folder.as_os_str().is_empty() && name == OWN_FOLDER;
                if is_own || name == ".git" || name == "__pycache__" {
                    continue;
                }
                let git = to_git(&path)?;
                if !kind.is_dir() && index.entry_by_path(git.as_ref()).is_some() {
                    continue;
                }
                let mode = if kind.is_dir() { Mode::DIR } else { Mode::FILE };
                let is_ignored = is_ignored || excludes.at_path(&path, Some(mode)).during(WHAT)?.is_excluded();
                if kind.is_dir() {
                    folders.push_back((path, is_ignored));
                } else if is_ignored {
                    files.push(path);
                    if files.len() == limit {
                        return Ok(files);
                    }
                }
            }
        }
        Ok(files)
    }
}
