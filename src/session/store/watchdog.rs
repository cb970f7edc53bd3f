//! Terminating filters and signing programs that keep the loop from going on.

use std::thread;
use std::time::{Duration, Instant};

use super::requests::{Interrupt, Interrupts};
use crate::domain::StopWhen;
use crate::exec::kill_other_children;
use crate::git::{Repo, WAY_BACK};
use crate::session::errors::SessionError;
use crate::state::SessionFolder;

/// Starts the watchdog of a repository. `budget` is how long this invocation may take.
pub(crate) fn watch_programs(repo: &Repo, budget: Option<Duration>) -> Result<(), SessionError> {
    end_programs_in(repo, budget);
    let programs = repo.programs();
    let watch = move || programs.watch(kill_other_children);
    thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop).map_err(SessionError::Watchdog)
}

/// Starts the watchdog of a repository for a call that ends at the first request of `interrupts`.
pub(crate) fn watch_programs_until(repo: &Repo, interrupts: &Interrupts) -> Result<(), SessionError> {
    let interrupts = interrupts.clone();
    repo.programs().end_when(move || interrupts.asked() != Interrupt::None);
    watch_programs(repo, None)
}

fn end_in(budget: Duration) -> Option<Instant> {
    Instant::now().checked_add(budget)?.checked_add(WAY_BACK)
}

/// Has the watchdog listen to what is asked of the session in `folder`.
pub(crate) fn listen(repo: &Repo, interrupts: &Interrupts, folder: &SessionFolder) {
    let (interrupts, folder) = (interrupts.clone(), folder.clone());
    repo.programs()
        .end_when(move || interrupts.asked() >= Interrupt::Detach || folder.stop_request() == Some(StopWhen::Now));
}

/// Has the watchdog terminate programs when so much time is over, or never.
pub(crate) fn end_programs_in(repo: &Repo, left: Option<Duration>) {
    repo.programs().end_at(left.and_then(end_in));
}
