//! Locks of git's that an agent's own git left behind when it was killed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::SessionError;
use super::interrupts::Interrupt;
use super::jobs::{AGENT, RUN};
use super::open::Session;
use crate::domain::Notice;
use crate::exec;

/// How long a lock is waited for that somebody may hold.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(100);

impl Session<'_> {
    /// Removes the locks that git processes of a job of the open experiment left behind, which is over with all its processes:
    /// they were made while it was at work, and nobody can hold them. One that somebody may hold is waited for.
    ///
    /// # Errors
    ///
    /// One is still there when the patience is over.
    pub(super) async fn remove_left_locks(&mut self, id: u32, job: &str) -> Result<(), SessionError> {
        let folder = self.store.folder.run(id);
        let written = |kind| fs::metadata(exec::job_file(&folder, job, kind)).and_then(|meta| meta.modified()).ok();
        let Some(started) = written("job") else { return Ok(()) };
        // What was made later is somebody else's.
        let over = written("exit").filter(|over| *over >= started);
        let (begun, mut removed) = (Instant::now(), Vec::new());
        let folders = self.store.repo.folders();
        loop {
            let is_held = |locks: &[PathBuf]| exec::may_be_held(locks, &folders);
            let left = self.store.repo.remove_left_locks(started, over, is_held)?;
            removed.extend(left.removed);
            let Some(lock) = left.held.first() else { break };
            if begun.elapsed() >= PATIENCE {
                return Err(self.store.repo.locked(lock).into());
            }
            if matches!(self.asked()?, Interrupt::Now | Interrupt::Detach) {
                break;
            }
            sleep(LOOK).await;
        }
        if removed.is_empty() {
            return Ok(());
        }
        self.emit(Notice::LocksRemoved { of: job_words(job), locks: removed })
    }
}

fn job_words(job: &str) -> &'static str {
    match job {
        AGENT => "agent",
        RUN => "run",
        _ => "guard",
    }
}
