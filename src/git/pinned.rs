//! Whether files in the working tree are those of a commit.

use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;
use gix::traverse::tree::Recorder;

use super::error::During;
use super::path::{to_git, to_path};
use super::worktree::OnDisk;
use super::{Repo, Result};
use crate::domain::CommitId;

impl Repo {
    /// The files of a commit that `is_meant` names, sorted by path; submodules are none.
    pub fn files_at(&self, commit: &CommitId, is_meant: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
        const WHAT: &str = "reading a tree";
        let tree = self.gix.find_tree(self.tree_id(commit)?).during(WHAT)?;
        let mut recorder = Recorder::default();
        tree.traverse().breadthfirst(&mut recorder).during(WHAT)?;
        let files = recorder.records.into_iter().filter(|entry| !entry.mode.is_tree() && !entry.mode.is_commit());
        let mut paths: Vec<PathBuf> =
            files.map(|entry| to_path(entry.filepath.as_bstr())).filter(|path| is_meant(path)).collect();
        paths.sort();
        Ok(paths)
    }

    /// Those of `paths` that are not in the working tree as `commit` has them: changed, gone, or a link in their place.
    /// Their content is read, whatever the index says of their times.
    pub fn differing(&self, commit: &CommitId, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.tree_id(commit)?;
        let index = self.index()?;
        let mut files = self.files(&index)?;
        let mut differing = Vec::new();
        for native in paths {
            let path = to_git(native)?;
            let now = match files.read(path.as_ref(), &index)? {
                OnDisk::File(content) => Some(content.version),
                OnDisk::Large(large) => Some(files.large_version(path.as_ref(), &large, &index)?),
                OnDisk::Absent | OnDisk::Other => None,
            };
            if now != self.version_in(tree, path.as_ref())? {
                differing.push(native.clone());
            }
        }
        Ok(differing)
    }
}
