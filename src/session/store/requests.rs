//! Requests of the user to an active loop: by signals, and by `ar stop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep_until;

use super::writer::Store;
use crate::domain::{Notice, StopReason, StopWhen};
use crate::exec::beat;
use crate::state::SessionFolder;

/// Poll interval for `ar stop` during a wait: about a second, in step with other polls.
const LOOK: Duration = Duration::from_millis(1024);

/// A request of the user to an active loop. Later variants are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Interrupt {
    /// Nothing.
    #[default]
    None,
    /// To finish the experiment that is open and then stop.
    AfterExperiment,
    /// To leave the run going and exit: the terminal is gone.
    Detach,
    /// To end the run, roll back and stop.
    Now,
}

impl From<StopWhen> for Interrupt {
    fn from(when: StopWhen) -> Self {
        match when {
            StopWhen::Experiment => Interrupt::AfterExperiment,
            StopWhen::Now => Interrupt::Now,
        }
    }
}

/// The one place where everything that is asked of a loop comes together. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct Interrupts {
    asked: watch::Sender<Interrupt>,
    /// True if SIGTERM was the first request to stop.
    terminated: Arc<AtomicBool>,
}

impl Interrupts {
    /// Asks for something; what is stronger and was asked before stays.
    pub fn ask(&self, interrupt: Interrupt) {
        self.raise(|_| interrupt);
    }

    /// Asks as Ctrl-C does: to stop after the experiment, and when something was asked before, to end its run.
    pub fn press(&self) {
        self.raise(|asked| if asked == Interrupt::None { Interrupt::AfterExperiment } else { Interrupt::Now });
    }

    /// Asks as SIGTERM does: to end the run and stop. An earlier request to stop remains the reason.
    pub fn terminate(&self) {
        let is_first = matches!(self.asked(), Interrupt::None | Interrupt::Detach);
        self.terminated.fetch_or(is_first, Ordering::Relaxed);
        self.ask(Interrupt::Now);
    }

    fn raise(&self, next: impl FnOnce(Interrupt) -> Interrupt) {
        self.asked.send_if_modified(|asked| {
            let next = next(*asked);
            let is_stronger = next > *asked;
            *asked = next.max(*asked);
            is_stronger
        });
    }

    /// Returns the strongest request so far.
    pub fn asked(&self) -> Interrupt {
        *self.asked.borrow()
    }

    /// Returns the strongest request so far, from signals and `ar stop`. If it is stronger than `told`, notes it in the
    /// store.
    pub(crate) fn hear(&self, store: &mut Store, told: Interrupt) -> Interrupt {
        let request = store.folder.hear_stop_request();
        if let Some(when) = request {
            self.ask(when.into());
        }
        let asked = self.asked();
        if asked > told {
            let (after, run) = match store.journal.home().is_one_of_many() {
                true => ("these runs", "them"),
                false => ("this experiment", "its run"),
            };
            match (asked, request) {
                (Interrupt::AfterExperiment, None) => store.note(Notice::StopsAfter { after, run }),
                (Interrupt::AfterExperiment, Some(_)) => {
                    store.note(Notice::StopsAfterAsAsked { after });
                }
                (Interrupt::Now, None) => store.note(Notice::StopsNow),
                (Interrupt::Now, Some(_)) => store.note(Notice::StopsNowAsAsked),
                // Nobody is there to be told.
                (Interrupt::Detach | Interrupt::None, _) => {}
            }
        }
        asked
    }

    /// Returns the stop reason of a loop that was asked to stop.
    pub(crate) fn reason(&self, folder: &SessionFolder) -> StopReason {
        let requested = folder.heard_stop().is_some_and(|when| self.asked() == when.into());
        match !requested && self.terminated.load(Ordering::Relaxed) {
            true => StopReason::Terminated,
            false => StopReason::Interrupted { requested },
        }
    }

    /// Hears of what is asked from now on.
    pub(crate) fn listen(&self) -> Listener {
        Listener(self.asked.subscribe())
    }
}

/// Wakes a wait when it should look at [`Interrupts::hear`].
pub(crate) struct Listener(watch::Receiver<Interrupt>);

impl Listener {
    /// Comes back when a signal asks for something; with no signal never.
    pub(crate) async fn signal(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Comes back when a signal asks for something, or when it is time to look whether `ar stop` was called.
    pub(crate) async fn signal_or_look(&mut self) {
        tokio::select! {
            () = self.signal() => {}
            () = sleep_until(beat(LOOK)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lifts_what_is_stronger() {
        let interrupts = Interrupts::default();
        let asked = || interrupts.asked();
        interrupts.ask(Interrupt::AfterExperiment);
        interrupts.ask(Interrupt::AfterExperiment);
        assert_eq!(asked(), Interrupt::AfterExperiment);
        interrupts.press();
        assert_eq!(asked(), Interrupt::Now);
        interrupts.ask(Interrupt::Detach);
        interrupts.ask(Interrupt::AfterExperiment);
        assert_eq!(asked(), Interrupt::Now);
    }
}
