//! Whether a process of another host may have a session whose lock is free here.

use std::thread::sleep;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::Tag;
use crate::exec::host_name;
use crate::fs::age;
use crate::git::Repo;
use crate::rules::{Claim, OtherHost, Ownership, ownership};
use crate::session::errors::SessionError;
use crate::state::{Journal, PROGRESS, Presence, SessionFolder, StateError};

/// Poll interval for signs of life of another host.
const LOOK: Duration = Duration::from_secs(10);

/// The other host on which a session was opened last, whether or not a process is still active there. `presence` is that of
/// its journal.
pub(crate) fn opened_elsewhere(folder: &SessionFolder, presence: &Presence) -> Option<OtherHost> {
    let claim = Claim { is_active: true, ..presence.claim(Duration::ZERO) };
    other_host(folder, presence, claim)
}

/// The other host on which a process may drive a session whose lock nobody holds here.
pub(crate) fn driven_elsewhere(folder: &SessionFolder, presence: &Presence) -> Option<OtherHost> {
    other_host(folder, presence, presence.claim(Duration::ZERO))
}

fn other_host(folder: &SessionFolder, presence: &Presence, claim: Claim<'_>) -> Option<OtherHost> {
    let here = host_name();
    // The age is asked for only where it matters.
    if ownership(false, &claim, &here) == Ownership::Free {
        return None;
    }
    // The clocks of two hosts differ, so the one of the file system decides.
    let by_clocks = || Timestamp::now().duration_since(presence.last_seen()).try_into().unwrap_or_default();
    let seen = age(&folder.state().join(PROGRESS)).unwrap_or_else(by_clocks);
    match ownership(false, &Claim { seen, ..claim }, &here) {
        Ownership::Elsewhere(other) => Some(other),
        Ownership::Free | Ownership::Held => None,
    }
}

/// Refuses a session that a process of another host may drive, unless it missed its signs of life or the user says to
/// `take_over`. Returns the host that it is taken over from. Call it once nobody holds the lock here.
pub(crate) fn refuse_elsewhere(folder: &SessionFolder, take_over: bool) -> Result<Option<OtherHost>, SessionError> {
    // The code that needs an unreadable journal reports it.
    let journal = Journal::read(&folder.state()).ok().flatten();
    let other = journal.and_then(|journal| driven_elsewhere(folder, &journal.presence));
    match other {
        Some(other) if !take_over && !other.is_missed() => {
            Err(SessionError::Elsewhere { tag: folder.tag().clone(), other })
        }
        other => Ok(other),
    }
}

/// Waits until no process of another host may drive a session any more, as its signs of life tell. Calls `tell` with that host first.
pub fn await_other_host(repo: &Repo, tag: &Tag, tell: impl Fn(&OtherHost)) {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let mut is_told = false;
    while let Err(SessionError::Elsewhere { other, .. }) = refuse_elsewhere(&folder, false) {
        if !is_told {
            tell(&other);
            is_told = true;
        }
        sleep(other.wait.min(LOOK));
    }
}

/// Returns whether a process drives a session, on this host or, as far as its signs of life tell, on another one.
///
/// # Errors
///
/// A lock cannot be read.
pub(crate) fn is_driven(repo: &Repo, folder: &SessionFolder) -> Result<bool, StateError> {
    Ok(folder.owner(repo.git_dir())?.is_some() || refuse_elsewhere(folder, false).is_err())
}
