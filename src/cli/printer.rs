//! Printing what a loop tells on a thread of its own, so that a terminal that takes nothing does not hold the loop up.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use autoresearch::domain::{Event, ExperimentId};
use autoresearch::exec::end_by_signals;
use autoresearch::session::Observer;

use super::output;
use super::progress::Progress;

/// Time after which the end stops waiting for a frozen terminal.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Poll interval while waiting for the terminal.
const LOOK: Duration = Duration::from_millis(2);

/// One thing to print.
enum Item {
    Event(Box<Event>),
    Answer(Box<dyn FnOnce() + Send>),
}

/// Items sent to the thread and not printed yet.
#[derive(Default)]
struct Backlog {
    items: AtomicUsize,
    /// The experiments of which a sign of progress is among them.
    progress: Mutex<BTreeSet<ExperimentId>>,
}

impl Backlog {
    /// Notes a sign of progress; returns whether it is the only one of its experiment that waits.
    fn note(&self, id: ExperimentId) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).insert(id)
    }

    /// Notes that it was printed.
    fn printed(&self, id: ExperimentId) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Owns the [`Progress`] of a loop on a thread.
pub(super) struct Printer {
    items: Sender<Item>,
    thread: JoinHandle<()>,
    /// Is disconnected when the thread is over.
    ended: Receiver<()>,
    backlog: Arc<Backlog>,
    is_live: bool,
}

impl Printer {
    /// Starts the thread.
    pub(super) fn start(progress: Progress) -> std::io::Result<Printer> {
        let (items, received) = channel();
        let backlog = Arc::new(Backlog::default());
        let is_live = progress.is_live();
        let printed = Arc::clone(&backlog);
        let thread = thread::Builder::new().name("printer".into());
        let (alive, ended) = channel();
        let thread = thread.spawn(move || {
            print(progress, &received, &printed);
            drop(alive);
        })?;
        Ok(Printer { items, thread, ended, backlog, is_live })
    }

    /// The observer that receives a session's events.
    pub(super) fn observer(&self) -> Observer<'_> {
        Box::new(|event| {
            // A sign of progress is of no use where there is no live line, or while the one before it still waits.
            if progress_of(event).is_some_and(|id| !self.is_live || !self.backlog.note(id)) {
                return;
            }
            self.send(Item::Event(Box::new(event.clone())));
        })
    }

    /// Prints something after all events so far.
    pub(super) fn answer(&self, print: impl FnOnce() + Send + 'static) {
        self.send(Item::Answer(Box::new(print)));
    }

    fn send(&self, item: Item) {
        self.backlog.items.fetch_add(1, Ordering::Relaxed);
        // Without the thread nobody is there to be told.
        let _ = self.items.send(item);
    }

    /// Waits until everything is printed: without limit into a file or a pipe; a terminal that takes nothing for
    /// [`PATIENCE`] gets nothing more. Signals end the waiting: the loop that listened to them is over.
    pub(super) fn finish(self) {
        let Printer { items, thread, ended, backlog, .. } = self;
        drop(items);
        end_by_signals();
        let waiting = || backlog.items.load(Ordering::Relaxed);
        let mut last = (waiting(), Instant::now());
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let now = waiting();
            if now != last.0 || !output::waits_for_terminal() {
                last = (now, Instant::now());
            } else if last.1.elapsed() > PATIENCE {
                return output::give_up();
            }
        }
        // A thread that panicked has said so.
        let _ = thread.join();
    }
}

/// The experiment of which an event is no more than a sign of progress.
fn progress_of(event: &Event) -> Option<ExperimentId> {
    match event {
        Event::RunProgress { id, .. } => Some(*id),
        _ => None,
    }
}

fn print(mut progress: Progress, items: &Receiver<Item>, backlog: &Backlog) {
    for item in items {
        match item {
            Item::Event(event) => {
                progress.show(&event);
                if let Some(id) = progress_of(&event) {
                    backlog.printed(id);
                }
            }
            Item::Answer(print) => print(),
        }
        backlog.items.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_progress_holds_up_later_ones_of_its_own_experiment_only() {
        let backlog = Backlog::default();
        let [one, other] = [12, 14].map(ExperimentId::from);
        assert_eq!([backlog.note(one), backlog.note(one), backlog.note(other)], [true, false, true]);
        backlog.printed(one);
        assert_eq!([backlog.note(one), backlog.note(other)], [true, false]);
    }
}
