//! `ar delete`: the refs of a session go into a bundle, and then the session out of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::{CommitId, Tag, shell_word};
use crate::exec::Executor;
use crate::fs::{create_folder, failed, remove_all};
use crate::git::{GitProgram, Repo};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::{has_job, holds, no_session, readable_refs, refuse_elsewhere, stored_contract};
use crate::session::handlers::forget_copies;
use crate::session::store::remove_reports;
use crate::state::{HiddenFile, SessionFolder};

/// Removes a session: its branch, refs, working trees and files. Its rows in the ledger and its hidden values stay. Returns the
/// bundle with all of its refs; `None` if it had none.
///
/// # Errors
///
/// A process is active in the session, its branch is checked out, or files of the user's wait for their return.
pub fn delete_session(repo: &Repo, tag: &Tag) -> Result<Option<PathBuf>, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let all = || -> Result<Vec<(String, String)>, SessionError> {
        let mut refs = readable_refs(repo, &tag.ref_prefix())?;
        refs.extend(repo.refs.branch(&tag.branch_ref())?.map(|commit| (tag.branch_ref(), commit.to_string())));
        Ok(refs)
    };
    if !folder.root().exists() && all()?.is_empty() {
        return Err(no_session(repo, tag));
    }
    create_folder(folder.root())?;
    let _lock = folder.lock(repo.git_dir(), false)?;
    let refs = all()?;
    refuse_elsewhere(&folder, false)?;
    if has_job(&folder) || !folder.files_to_return().is_empty() {
        let text = format!("session {tag} has an active job, or files of yours to put back");
        let hint = format!("run `ar stop {tag} --now`, then `ar delete {tag}`{}", without_engine(&folder));
        return refused(text, hint);
    }
    let is_here = repo.refs.head()?.branch() == Some(&tag.branch_ref());
    let elsewhere = repo.refs.checked_out_elsewhere(&tag.branch_ref())?;
    if let Some(place) = elsewhere.or(is_here.then(|| repo.worktree().to_owned())) {
        let from = stored_contract(repo, tag).ok().flatten().and_then(|contract| contract.started_from);
        let other = from.as_deref().map_or("ANOTHER-BRANCH", |name| name.trim_start_matches("refs/heads/"));
        let hint = format!("run `git -C {} switch {other}`, then `ar delete {tag}`", shell_word(&place));
        return refused(format!("{} is checked out in {}", tag.branch(), place.display()), hint);
    }
    let bundle = bundle(repo, &folder, &refs)?;
    let real = fs::canonicalize(folder.root()).map_err(failed("find", folder.root()))?;
    for (_, tree) in repo.linked_worktrees()? {
        if tree.starts_with(&real) || tree.starts_with(folder.root()) {
            repo.remove_kept(&tree)?;
        }
    }
    for (name, object) in &refs {
        // Commits that the user made on it meanwhile are in no bundle.
        match *name == tag.branch_ref() {
            true => repo.refs.delete_branch(name, &CommitId::new(object))?,
            false => repo.refs.drop_ref(name)?,
        }
    }
    forget_copies(repo, &folder);
    remove_reports(&folder);
    // Hidden values are in no ref, and wait here for the return of the session.
    let (state, hidden) = (folder.state(), HiddenFile::new(&folder.state()));
    let has_hidden = !state.is_symlink() && fs::metadata(hidden.path()).is_ok_and(|meta| meta.len() > 0);
    // What others made was moved there, and bundles are those of a session of that name.
    let is_kept = |path: &Path| {
        let is_hidden = has_hidden && [&*state, hidden.path()].contains(&path);
        is_hidden || path.ends_with("aside") || path.extension() == Some("bundle".as_ref())
    };
    for place in has_hidden.then_some(&*state).into_iter().chain([folder.root()]) {
        let entries = fs::read_dir(place).map_err(failed("read", place))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !is_kept(path)) {
            remove_all(&path).map_err(failed("remove", &path))?;
        }
    }
    // One that is not empty stays.
    let _ = fs::remove_dir(folder.root());
    for root in [repo.main_worktree(), repo.worktree()] {
        let link = root.join("run.log");
        if fs::read_link(&link).is_ok_and(|log| root.join(log).starts_with(folder.root())) {
            fs::remove_file(&link).map_err(failed("remove", &link))?;
        }
    }
    Ok(bundle)
}

/// The way out if the engine that has open jobs never answers again: only the user can know that they are over.
fn without_engine(folder: &SessionFolder) -> String {
    let (files, jobs): (Vec<String>, Vec<String>) = Executor::open_jobs(&folder.runs())
        .map(|(file, ticket)| (shell_word(&file), format!("{} {}", ticket.id.unwrap_or_default(), ticket.token)))
        .unzip();
    if files.is_empty() {
        return String::new();
    }
    let (jobs, files) = (jobs.iter().map(|job| job.trim()).collect::<Vec<_>>().join(", "), files.join(" "));
    format!(
        "; if the executor is gone for good, make sure that its jobs are over ({jobs}), and forget them by `rm {files}`"
    )
}

/// The bundle that holds these refs of a session: one that a killed invocation made, or a new one.
fn bundle(repo: &Repo, folder: &SessionFolder, refs: &[(String, String)]) -> Result<Option<PathBuf>, SessionError> {
    let tag = folder.tag();
    let is_free = |file: &PathBuf| !file.exists() || holds(file, refs);
    let Some(file) = folder.bundles().find(is_free).filter(|_| !refs.is_empty()) else { return Ok(None) };
    if file.exists() {
        return Ok(Some(file));
    }
    create_folder(file.parent().unwrap_or(folder.root()))?;
    let git = GitProgram::find(&[repo.worktree()], None)?;
    let all = format!("--glob={}/*", tag.ref_prefix());
    let branch = refs.iter().map(|(name, _)| name.as_str()).filter(|name| *name == tag.branch_ref());
    if !git.bundle(repo, &file, &branch.chain([all.as_str()]).collect::<Vec<_>>())? || !holds(&file, refs) {
        let text = format!("`git bundle create` failed to save the refs of session {tag} in {}", file.display());
        let packs = fs::read_dir(repo.common_dir().join("objects/pack")).into_iter().flatten().flatten();
        let is_partial = packs.into_iter().any(|pack| pack.path().extension() == Some("promisor".as_ref()));
        let hint = match is_partial {
            true => format!("run `git fetch --refetch --no-filter` to have all objects here, then `ar delete {tag}`"),
            false => format!("free disk space, and run `ar doctor --tag {tag}`"),
        };
        return refused(text, hint);
    }
    Ok(Some(file))
}

fn refused<T>(text: String, hint: String) -> Result<T, SessionError> {
    Err(refuse(CannotStart, text).hint(hint).into())
}
