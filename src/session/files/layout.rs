//! The files that `ar` keeps in a repository, and how they are kept out of git.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fs::{make_folder, move_away, move_no_folder_away};
use crate::git::Repo;
use crate::ledger::RESULTS;
use crate::session::errors::SessionError;
use crate::state::SESSIONS_FOLDER;

/// The folder of the run, in the working tree's own git folder: it is removed with the working tree, but not part of it.
pub(crate) const REPRO_FOLDER: &str = "autoresearch-repro";

/// The file in it that is locked while the command runs, and removed at its end: without a lock, it was left behind.
pub(crate) const UNFINISHED: &str = "unfinished";

/// The files that `ar` and its agents keep in the repository's root and out of git.
pub(super) const OWN_FILES: &[&str] = &[
    "/.autoresearch/",
    "/results.tsv",
    "/results.tsv.before-repair*",
    "/run.log",
    "/run.log.before*",
    "/autoresearch-lessons.md",
    "/.aider.chat.history.md",
    "/.aider.input.history",
    "/.aider.tags.cache.v*/",
];

/// Returns whether `ar` itself writes this file of the working tree.
pub(crate) fn is_own(path: &Path) -> bool {
    let is_ledger = |name: &str| {
        let behind = name.strip_prefix("results-").and_then(|name| name.split_once(".tsv"));
        !name.contains('/') && behind.is_some_and(|(_, end)| end.is_empty() || end.starts_with(".before-repair"))
    };
    let begins = |name: &str| name.starts_with("results.tsv") || name.starts_with("run.log") || is_ledger(name);
    OWN_FILES.iter().any(|own| path.starts_with(own.trim_matches('/'))) || path.to_str().is_some_and(begins)
}

/// Refuses a repository that tracks the folder of sessions or one of these ledgers.
///
/// # Errors
///
/// It does, or its index cannot be read.
pub fn refuse_tracked<const N: usize>(repo: &Repo, ledgers: [PathBuf; N]) -> Result<(), SessionError> {
    for path in ledgers.into_iter().chain([SESSIONS_FOLDER.into()]) {
        if repo.working_tree.is_tracked(&path)? {
            return Err(SessionError::Tracked(path));
        }
    }
    Ok(())
}

/// Has git ignore `ar`'s own files. Other metrics than the first have ledgers of their own.
pub(crate) fn exclude_own(repo: &Repo, ledgers: &[String]) -> Result<(), SessionError> {
    repo.exclude(OWN_FILES)?;
    let others = ledgers.iter().filter(|name| *name != RESULTS).map(|name| format!("/{name}*"));
    Ok(repo.exclude(&others.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())?)
}

/// The index as it was when a change was set aside.
pub(crate) const INDEX_BEFORE: &str = "index.before";

/// The pattern by which git ignores a file of the working tree at `root`; nothing for one that is elsewhere.
pub fn exclude_pattern(file: &Path, root: &Path) -> Option<String> {
    let path = file.strip_prefix(root.canonicalize().ok()?).ok()?.to_str()?;
    let is_special = |c: char| matches!(c, '\\' | '*' | '?' | '[' | ' ');
    let escaped = path.chars().map(|c| if is_special(c) { format!("\\{c}") } else { c.to_string() });
    (!path.contains(['\n', '\r'])).then(|| format!("/{}", escaped.collect::<String>()))
}

/// Removes one of `ar`'s own files, if it is there. A folder in its place is moved away.
pub(crate) fn remove_file(path: &Path) -> Result<(), SessionError> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        let failed = |source| SessionError::Io { action: "move", path: path.to_owned(), source };
        return move_away(path).map(drop).map_err(failed);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SessionError::Io { action: "remove", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Makes a folder of `ar`'s own that is empty.
pub(crate) fn clear_folder(folder: &Path) -> Result<(), SessionError> {
    let cleared = move_no_folder_away(folder)
        .and_then(|_| make_folder(folder))
        .and_then(|()| fs::remove_dir_all(folder))
        .and_then(|()| make_folder(folder));
    cleared.map_err(|source| SessionError::Io { action: "clear", path: folder.to_owned(), source })
}

/// The file of settings in the root of the working tree, which is the user's alone.
pub const SETTINGS_FILE: &str = "ar.toml";
