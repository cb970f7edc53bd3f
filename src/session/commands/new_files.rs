//! Commits the files that a new session begins with.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::fs::{make_folder, read_regular};
use crate::git::Repo;
use crate::session::errors::{ResearchError, SessionError};
use crate::session::files::{is_session, session_of_head};
use crate::session::store::watch_programs;

/// Writes new files, each with its path and content, and commits them alone, on HEAD's branch. A file that is there with the same
/// content is left as it is. Returns whether there was something to commit.
///
/// # Errors
///
/// HEAD is on the branch of a session, tracked files are changed, a file is there with other content, or git ignores one.
pub fn commit_new_files(repo: &Repo, files: &[(PathBuf, String)], message: &str) -> Result<bool, SessionError> {
    if let Some(tag) = session_of_head(&repo.refs.head()?)
        && is_session(repo, &tag)?
    {
        return Err(ResearchError::OnSession(tag).into());
    }
    let changes = repo.working_tree.changes()?;
    if !changes.tracked.is_empty() {
        return Err(ResearchError::Dirty(changes.tracked_paths()).into());
    }
    let mut known = changes.untracked;
    let mut there = Vec::new();
    for (path, content) in files {
        if repo.working_tree.is_ignored(path)? {
            return Err(ResearchError::Ignored(path.clone()).into());
        }
        match read_regular(&repo.worktree().join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(found) if found == content.as_bytes() => there.push(path.as_path()),
            _ => return Err(ResearchError::Exists(path.clone()).into()),
        }
    }
    for (path, content) in files.iter().filter(|(path, _)| !there.contains(&path.as_path())) {
        let full = repo.worktree().join(path);
        let failed = |source| SessionError::Io { action: "write", path: full.clone(), source };
        make_folder(full.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        fs::write(&full, content).map_err(failed)?;
    }
    watch_programs(repo, None)?;
    there.into_iter().for_each(|path| known.forget(path));
    let before = repo.refs.head()?;
    let commit = repo.commit_new(message, &known)?;
    Ok(before.commit() != Some(&commit))
}
