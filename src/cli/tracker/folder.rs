//! The folder of a tracker's files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoresearch::fs::lock_within;
use autoresearch::session::{SessionError, SessionView};
use autoresearch::state::SESSIONS_FOLDER;

use crate::cli::error::CliError;

/// What keeps a folder out of git, itself as well.
const IGNORE_ALL: &str = "*\n";

/// The folder of a tracker's files, locked for this process.
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder that was passed, or else the one named `name` beside the session's own files.
    ///
    /// # Errors
    ///
    /// Git does not ignore what is in it; another export writes into it; it cannot be made.
    pub(super) fn prepare(view: &SessionView, passed: Option<&Path>, name: &str) -> Result<Folder, CliError> {
        let own = view.folder.root().join(name);
        let dir = passed.unwrap_or(&own);
        let failed = |source| SessionError::Io { action: "write", path: dir.to_owned(), source };
        if passed.is_none() {
            // An imported session has not excluded it.
            view.repo.exclude(&[&format!("/{SESSIONS_FOLDER}/")])?;
        }
        fs::create_dir_all(dir).map_err(failed)?;
        let path = dir.canonicalize().map_err(failed)?;
        // An active loop would otherwise take it for a part of its change.
        if passed.is_some() && is_seen_by_git(view, &path)? {
            if fs::read_dir(&path).map_err(failed)?.next().is_some() {
                let error = format!("git does not ignore the files in {}", path.display());
                let hint = "add it to .gitignore, or pass a new folder".to_owned();
                return Err(CliError::new(error, Some(hint)));
            }
            fs::write(path.join(".gitignore"), IGNORE_ALL).map_err(failed)?;
        }
        let lock = File::open(&path).map_err(failed)?;
        // Some file systems lock no folders.
        if lock_within(&lock, Duration::ZERO).is_ok_and(|is_ours| !is_ours) {
            let error = format!("another export writes into {}", path.display());
            return Err(CliError::new(error, Some("wait for its end, or pass --output DIR".into())));
        }
        Ok(Folder { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns whether a new file in the folder would be a change of the working tree.
fn is_seen_by_git(view: &SessionView, folder: &Path) -> Result<bool, SessionError> {
    let root = view.repo.worktree().canonicalize();
    match root.ok().and_then(|root| folder.join("new").strip_prefix(root).ok().map(Path::to_owned)) {
        Some(inside) => Ok(!view.repo.working_tree.is_ignored(&inside)?),
        None => Ok(false),
    }
}
