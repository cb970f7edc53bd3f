//! Which sessions there are: of this user on this machine, or of the repositories named.

use std::path::{Path, PathBuf};

use super::GuardianError;
use crate::domain::Tag;
use crate::fs::is_disk_full;
use crate::git::Repo;
use crate::session::{SessionError, session_tags};
use crate::state::{Register, Registered, SessionFolder};

/// The sessions in the register, as main worktree and tag. Sessions that do not exist any more are dropped from it; those on
/// a disk that is not mounted stay in it.
///
/// # Errors
///
/// The register cannot be read or written.
pub(super) fn all_sessions(user: &Path) -> Result<Vec<(PathBuf, Tag)>, GuardianError> {
    let register = Register::new(user);
    let mut sessions = match register.prune(is_gone) {
        Err(error) if is_disk_full(&error) => register.sessions()?,
        sessions => sessions?,
    };
    sessions.retain(is_there);
    Ok(named(sessions))
}

/// The sessions in the register that exist, for those who only look.
///
/// # Errors
///
/// The register cannot be read.
pub fn registered_sessions(user: &Path) -> Result<Vec<(PathBuf, Tag)>, GuardianError> {
    let mut sessions = Register::new(user).sessions()?;
    sessions.retain(is_there);
    Ok(named(sessions))
}

fn named(sessions: Vec<Registered>) -> Vec<(PathBuf, Tag)> {
    sessions.into_iter().map(|session| (session.repository, session.tag)).collect()
}

/// Returns whether a session or its whole repository no longer exists.
fn is_gone(session: &Registered) -> bool {
    !is_there(session) && !is_unmounted(&session.repository)
}

fn is_there(session: &Registered) -> bool {
    let folder = SessionFolder::new(&session.repository, &session.tag);
    // A loop rebuilds a folder that was deleted under it.
    folder.has_contract() || folder.refuse_held().is_err()
}

/// Returns whether a path may be on a disk that is not mounted now: the nearest folder that exists is empty.
fn is_unmounted(path: &Path) -> bool {
    let standing = path.ancestors().skip(1).find(|folder| folder.exists());
    !path.exists()
        && standing.and_then(|folder| folder.read_dir().ok()).is_some_and(|mut entries| entries.next().is_none())
}

/// The sessions of the repositories that `paths` are in.
///
/// # Errors
///
/// A path does not exist or is in no repository, or its refs cannot be read.
pub(super) fn sessions_at(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Tag)>, GuardianError> {
    let mut sessions = Vec::new();
    for path in paths {
        let repo = Repo::discover(&real_path(path)?).map_err(SessionError::from)?;
        let root = repo.main_worktree();
        let tags = session_tags(&repo)?;
        // A session without a contract was fetched or imported.
        let own = tags.into_iter().filter(|tag| SessionFolder::new(&root, tag).has_contract());
        for session in own.map(|tag| (root.clone(), tag)) {
            // Several paths may lead to one repository.
            if !sessions.contains(&session) {
                sessions.push(session);
            }
        }
    }
    Ok(sessions)
}

/// The real path of a repository that was named, as the register and the files of guardians have it.
///
/// # Errors
///
/// It does not exist, or nobody may look there.
pub fn real_path(path: &Path) -> Result<PathBuf, GuardianError> {
    path.canonicalize().map_err(|source| GuardianError::Path { path: path.to_owned(), source })
}
