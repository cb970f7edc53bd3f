//! Mending what needs no guess. Whatever is replaced is kept beside it.

use std::path::{Path, PathBuf};

use super::difference::Repairs;
use super::examine::{Examination, examine};
use super::facts::Facts;
use super::repository::in_the_way;
use super::sessions::{Part, Patients};
use super::{entries, ledger, open_refs, records, refs, shared, state};
use crate::domain::{Asked, Clock, Tag};
use crate::exec::{Job, may_be_held};
use crate::git::{LockOwner, Repo};
use crate::session::errors::SessionError;
use crate::session::files::{exclude_own, refuse_elsewhere};
use crate::session::store::AGENT;
use crate::state::{SessionFolder, lock_all, refuse_held};

/// Mends what can be mended without a guess, and looks again; see [`examine`].
///
/// # Errors
///
/// Another `ar` holds one of the sessions, there is no session `tag`, or something cannot be written.
pub fn repair(dir: &Path, tag: Option<&Tag>, asked: &Asked, clock: Clock) -> Result<Examination, SessionError> {
    let repo = Repo::find(dir)?;
    // Without a folder nothing can be mended, and without all refs there is nothing to mend from.
    if in_the_way(&repo).is_some() || repo.refs.broken_packed_line()?.is_some() {
        return examine(dir, tag, asked);
    }
    let patients = Patients::find(&repo, tag)?;
    let sessions = || patients.all().filter(|facts| !facts.is_remains() && facts.has_files());
    let folders: Vec<&SessionFolder> = sessions().map(|facts| &facts.folder).collect();
    // Nothing is made before it is known that nobody is at work.
    refuse_held(repo.git_dir())?;
    for folder in &folders {
        folder.refuse_held()?;
        refuse_elsewhere(folder, false)?;
    }
    for folder in &folders {
        folder.create()?;
    }
    let held = lock_all(&folders, repo.git_dir())?;
    let mut repairs = Repairs { done: Vec::new(), clock };
    locks(&repo, &mut repairs.done)?;
    for facts in sessions() {
        agents_locks(&repo, facts, &mut repairs.done)?;
    }
    entries::repair_head(&repo, sessions(), &mut repairs.done)?;
    entries::repair(&repo, &mut repairs.done)?;
    // Each part may restore facts that the next parts need, such as the contract, so they are read again.
    let parts: [Part; 5] = [records::inspect, refs::inspect, records::inspect, state::inspect, open_refs::inspect];
    for part in parts {
        let patients = Patients::find_held(&repo, tag)?;
        repairs.remove(patients.compare(&repo, part))?;
    }
    let patients = Patients::find_held(&repo, tag)?;
    repairs.remove(ledger::inspect(&repo, &patients))?;
    repairs.remove(shared::inspect(&repo))?;
    if !repairs.done.is_empty() {
        exclude_own(&repo, &ledger::names(&repo, &patients))?;
    }
    drop(held);
    Ok(Examination { repaired: repairs.done, ..examine(dir, tag, asked)? })
}

/// Removes the locks that killed processes of this program left behind.
fn locks(repo: &Repo, done: &mut Vec<String>) -> Result<(), SessionError> {
    let dead: Vec<PathBuf> =
        repo.locks()?.into_iter().filter(|lock| lock.owner == LockOwner::Dead).map(|lock| lock.path).collect();
    if !dead.is_empty() {
        repo.clear_own_locks()?;
    }
    done.extend(dead.iter().map(|path| format!("removed {}, left behind by a killed ar", path.display())));
    Ok(())
}

/// Removes the locks that a killed git of the last agent left behind.
fn agents_locks(repo: &Repo, facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    let next = facts.history().next_id();
    for id in facts.open_ids().into_iter().chain([next, next.previous()]) {
        let Some((since, until)) = Job::lifetime(&facts.folder.run(id), AGENT) else { continue };
        let folders = repo.folders();
        let left = repo.remove_left_locks(since, until, |locks| may_be_held(locks, &folders))?.removed;
        done.extend(
            left.iter().map(|path| format!("removed {}, left behind by a killed git of the agent", path.display())),
        );
    }
    Ok(())
}
