//! Terminating filters and signing programs that keep the loop from going on.

use std::thread;
use std::time::{Duration, Instant};

use super::error::SessionError;
use super::interrupts::{Interrupt, Interrupts};
use super::open::Session;
use crate::domain::{StopReason, StopWhen};
use crate::exec::kill_other_children;
use crate::git::{Cut, GitError, Repo, WAY_BACK};
use crate::state::SessionFolder;

/// Starts the watchdog of a repository. `budget` is how long this invocation may take.
pub(super) fn watch_programs(repo: &Repo, budget: Option<Duration>) -> Result<(), SessionError> {
    let programs = repo.programs();
    programs.end_at(budget.and_then(end_in));
    let watch = move || programs.watch(kill_other_children);
    thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop).map_err(SessionError::Watchdog)
}

fn end_in(budget: Duration) -> Option<Instant> {
    Instant::now().checked_add(budget)?.checked_add(WAY_BACK)
}

/// Has the watchdog listen to what is asked of the session in `folder`.
pub(super) fn listen(repo: &Repo, interrupts: &Interrupts, folder: &SessionFolder) {
    let (interrupts, folder) = (interrupts.clone(), folder.clone());
    repo.programs()
        .end_when(move || interrupts.asked() >= Interrupt::Detach || folder.stop_request() == Some(StopWhen::Now));
}

impl Session<'_> {
    /// Has the watchdog terminate programs at the end of this invocation, if it has one.
    pub(super) fn watch_the_clock(&self) {
        self.store.repo.programs().end_at(self.end().and_then(|end| end_in(end.left)));
    }

    /// Why the loop stops, where `error` is that a program was terminated for it. The open experiment stays open: to roll it
    /// back would need the same program.
    pub(super) fn cut_short(&mut self, error: &SessionError) -> Option<StopReason> {
        let SessionError::Git(GitError::Cut { cut, .. }) = error else { return None };
        self.forget_unwritten();
        match cut {
            Cut::Asked => Some(match self.asked() {
                Ok(Interrupt::Detach) => StopReason::Detached,
                _ => self.interrupted(),
            }),
            Cut::TimeOver => self.end().map(|end| end.reason),
            Cut::Late => None,
        }
    }
}
