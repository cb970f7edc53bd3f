//! Ignored files that may feed a number: which of them changed is noted, since no commit has them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::layout::is_own;
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::rules::files_named;
use crate::session::errors::SessionError;

/// Maximum number of ignored files examined.
const MOST: usize = 10_000;

/// Ignored files with what the file system says of them.
#[derive(Debug, Default)]
pub(crate) struct IgnoredFiles {
    stamps: BTreeMap<PathBuf, Option<FileStamp>>,
    /// True if there may be more of them.
    is_cut: bool,
}

impl IgnoredFiles {
    /// Looks at those of a working tree; `ar`'s own are none of them.
    pub(crate) fn look(repo: &Repo) -> Result<IgnoredFiles, SessionError> {
        Ok(IgnoredFiles::of(repo.worktree(), repo.working_tree.ignored_files(MOST)?, MOST))
    }

    fn of(root: &Path, found: Vec<PathBuf>, most: usize) -> IgnoredFiles {
        let is_cut = found.len() >= most;
        let files = found.into_iter().filter(|path| !is_own(path));
        IgnoredFiles { stamps: files.map(|path| (path.clone(), FileStamp::of(&root.join(path)))).collect(), is_cut }
    }

    /// Those that are new, gone or changed since.
    pub(crate) fn changed(&self, repo: &Repo) -> Result<Vec<String>, SessionError> {
        // An incomplete list omits files at random, so it cannot show which files are new.
        let mut now = if self.is_cut { Vec::new() } else { repo.working_tree.ignored_files(MOST)? };
        now.sort();
        Ok(self.differing(repo.worktree(), &now))
    }

    fn differing(&self, root: &Path, now: &[PathBuf]) -> Vec<String> {
        let changed = self.stamps.iter().filter(|(path, stamp)| FileStamp::of(&root.join(path)) != **stamp);
        let new = now.iter().filter(|path| !self.is_cut && !is_own(path) && !self.stamps.contains_key(*path));
        changed.map(|(path, _)| path).chain(new).map(|path| path.display().to_string()).collect()
    }
}

/// The ignored files of the working tree that a command line names, with their stamps.
pub(crate) fn ignored_inputs(repo: &Repo, line: &str) -> Result<BTreeMap<String, String>, SessionError> {
    let root = repo.worktree();
    let mut inputs = BTreeMap::new();
    for path in files_named(line) {
        // Git ignores nothing outside its repository.
        if path.components().all(|part| matches!(part, Component::Normal(_)))
            && root.join(&path).is_file()
            && repo.working_tree.is_ignored(&path)?
            && let Some(stamp) = stamp(&root.join(&path))
        {
            inputs.insert(path.display().to_string(), stamp);
        }
    }
    Ok(inputs)
}

/// Returns a file's stamp as text. It changes whenever the file is written.
pub(crate) fn stamp(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
    Some(format!("{}:{}:{}:{times:?}", meta.dev(), meta.ino(), meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_is_cut_calls_no_file_new_or_gone_that_it_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let paths = ["a", "b", "c", "d"].map(PathBuf::from);
        for path in &paths {
            fs::write(root.join(path), "x").unwrap();
        }
        let cut = IgnoredFiles::of(root, paths[..2].to_vec(), 2);
        let whole = IgnoredFiles::of(root, paths[..2].to_vec(), 3);
        assert!(cut.differing(root, &paths[1..3]).is_empty(), "all were there before");
        assert_eq!(whole.differing(root, &paths[1..3]), ["c"]);
        fs::write(root.join("a"), "longer").unwrap();
        fs::remove_file(root.join("b")).unwrap();
        assert_eq!(cut.differing(root, &paths[1..3]), ["a", "b"]);
    }
}
