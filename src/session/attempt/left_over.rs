//! Remains of a job: files that its shim must restore, processes, and locks of its git.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::lifecycle::Attempt;
use crate::domain::{ExperimentId, Notice, RunRole};
use crate::exec::{Job, may_be_held};
use crate::session::errors::SessionError;
use crate::session::store::{AGENT, Interrupt, REVIEW, RUN, job_names, job_place};
use crate::session::wait::Shared;
use crate::state::further_runs;

/// Longest wait for a lock that a process may hold.
const LOCKS_PATIENCE: Duration = Duration::from_secs(30);

/// Poll interval during that wait.
const LOCKS_LOOK: Duration = Duration::from_millis(100);

/// Waits until the shim of an active job has restored the files by which it is found.
pub(crate) async fn await_files(shared: &Shared<'_>, attempt: &Attempt) {
    let job = attempt.job();
    let (folder, name) = job_place(&shared.store().folder.run(attempt.open.id), &job);
    shared.executor_of(&job).await_files(&folder, name).await;
}

/// Ends what is left of an experiment's jobs, and waits until it is gone.
pub(crate) async fn end_jobs(shared: &Shared<'_>, id: ExperimentId) -> Result<(), SessionError> {
    end_further_runs(shared, id).await?;
    end_first_jobs(shared, id).await
}

/// Ends the further runs of an experiment.
pub(crate) async fn end_further_runs(shared: &Shared<'_>, id: ExperimentId) -> Result<(), SessionError> {
    let folder = shared.store().folder.run(id);
    for further in further_runs(&folder) {
        shared.runs.stop(&further, RUN).await?;
    }
    Ok(())
}

/// Ends an experiment's jobs, and lets its further runs continue.
pub(crate) async fn end_first_jobs(shared: &Shared<'_>, id: ExperimentId) -> Result<(), SessionError> {
    let folder = shared.store().folder.run(id);
    let guards = shared.store().contract.guards.len();
    let mut names: Vec<String> = job_names(guards).collect();
    // The shim of a job elsewhere may hold the folder's lock.
    names.sort_by_key(|name| Job::ticket_of(&folder, name).is_none());
    for name in names {
        shared.executor_of(&name).stop(&folder, &name).await?;
    }
    remove_left_locks(shared, id, AGENT).await
}

/// Ends the reviewer of a late review that was cut off, and removes the locks that it left behind.
pub(crate) async fn end_late_review(shared: &Shared<'_>) -> Result<(), SessionError> {
    let late = shared.store().journal.tree.reviewed();
    let Some(id) = late else { return Ok(()) };
    let folder = shared.store().folder.run(id);
    shared.local.stop(&folder, REVIEW).await?;
    remove_left_locks(shared, id, REVIEW).await
}

/// Removes the locks that a finished job left behind, and undoes forbidden changes. Returns how many rows it removed from
/// results.tsv.
pub(crate) async fn restore_after(shared: &Shared<'_>, id: ExperimentId, job: &str) -> Result<u32, SessionError> {
    let locks = remove_left_locks(shared, id, job).await;
    // Undoes forbidden changes even if a lock remains.
    let rows = shared.store().end_detection(id);
    locks.and(rows)
}

/// Removes the locks that git processes of a finished job left behind: they were made during the job, and no process can
/// hold them. Waits for a lock that a process may hold.
///
/// # Errors
///
/// A lock is still there after 30 s.
async fn remove_left_locks(shared: &Shared<'_>, id: ExperimentId, job: &str) -> Result<(), SessionError> {
    let (folder, name) = job_place(&shared.store().folder.run(id), job);
    // Locks made after the job's end belong to another process.
    let Some((started, over)) = Job::lifetime(&folder, name) else { return Ok(()) };
    let (begun, mut removed) = (Instant::now(), Vec::new());
    let folders = shared.store().repo.folders();
    loop {
        let is_held = |locks: &[PathBuf]| may_be_held(locks, &folders);
        let left = shared.store().repo.remove_left_locks(started, over, is_held)?;
        removed.extend(left.removed);
        let Some(lock) = left.held.first() else { break };
        if begun.elapsed() >= LOCKS_PATIENCE {
            return Err(shared.store().repo.locked(lock).into());
        }
        if matches!(shared.asked()?, Interrupt::Now | Interrupt::Detach) {
            break;
        }
        sleep(LOCKS_LOOK).await;
    }
    if removed.is_empty() {
        return Ok(());
    }
    let of = match job {
        AGENT => "agent",
        REVIEW => "reviewer",
        job if job == RUN || RunRole::is_folder(job) => "run",
        _ => "guard",
    };
    shared.emit(Notice::LocksRemoved { of, locks: removed })
}
