//! Ignored files that may feed a number: which of them changed is noted, since no commit has them.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};

use super::error::SessionError;
use super::open::Session;
use super::plan::OWN_FILES;
use super::running::stamp;
use crate::git::Repo;
use crate::rules::files_named;
use crate::state::FileStamp;

/// How many ignored files are looked at.
const MOST: usize = 10_000;

/// Ignored files with what the file system says of them.
#[derive(Debug, Default)]
pub(super) struct IgnoredFiles(BTreeMap<PathBuf, Option<FileStamp>>);

impl IgnoredFiles {
    /// Looks at those of a working tree; `ar`'s own are none of them.
    pub(super) fn look(repo: &Repo) -> Result<IgnoredFiles, SessionError> {
        let is_own = |path: &PathBuf| {
            OWN_FILES.iter().any(|own| path.starts_with(own.trim_matches('/')))
                || path.to_str().is_some_and(|name| name.starts_with("results.tsv") || name.starts_with("run.log"))
        };
        let files = repo.ignored_files(MOST)?.into_iter().filter(|path| !is_own(path));
        Ok(IgnoredFiles(files.map(|path| (path.clone(), FileStamp::of(&repo.worktree().join(path)))).collect()))
    }

    /// Those that are new, gone or changed since.
    pub(super) fn changed(&self, repo: &Repo) -> Result<Vec<String>, SessionError> {
        let now = IgnoredFiles::look(repo)?;
        let paths = self.0.keys().chain(now.0.keys().filter(|path| !self.0.contains_key(*path)));
        let changed = paths.filter(|path| self.0.get(*path) != now.0.get(*path));
        Ok(changed.map(|path| path.display().to_string()).collect())
    }
}

impl Session<'_> {
    /// The ignored files of the working tree that the command names, with their stamps.
    pub(super) fn ignored_inputs(&self) -> Result<BTreeMap<String, String>, SessionError> {
        let root = self.repo.worktree();
        let mut inputs = BTreeMap::new();
        for path in files_named(&self.contract.command) {
            // Git ignores nothing outside its repository.
            if path.components().all(|part| matches!(part, Component::Normal(_)))
                && root.join(&path).is_file()
                && self.repo.is_ignored(&path)?
                && let Some(stamp) = stamp(&root.join(&path))
            {
                inputs.insert(path.display().to_string(), stamp);
            }
        }
        Ok(inputs)
    }
}
