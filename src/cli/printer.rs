//! Printing what a loop tells on a thread of its own, so that a terminal that takes nothing does not hold the loop up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use autoresearch::domain::Event;
use autoresearch::exec::end_by_signals;
use autoresearch::session::Observer;

use super::output;
use super::progress::Progress;

/// How long a terminal may take nothing before the end stops waiting for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is looked meanwhile whether it took something.
const LOOK: Duration = Duration::from_millis(2);

/// One thing to print.
enum Item {
    Event(Box<Event>),
    Answer(Box<dyn FnOnce() + Send>),
}

/// What was sent to the thread and is not printed yet.
#[derive(Default)]
struct Backlog {
    items: AtomicUsize,
    /// Whether a sign of progress is among them.
    progress: AtomicBool,
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

    /// What a session tells its events to.
    pub(super) fn observer(&self) -> Observer<'_> {
        Box::new(|event| {
            // A sign of progress is of no use where there is no live line, or while the one before it still waits.
            if is_progress(event) && (!self.is_live || self.backlog.progress.swap(true, Ordering::Relaxed)) {
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

fn is_progress(event: &Event) -> bool {
    matches!(event, Event::RunProgress { .. })
}

fn print(mut progress: Progress, items: &Receiver<Item>, backlog: &Backlog) {
    for item in items {
        match item {
            Item::Event(event) => {
                progress.show(&event);
                if is_progress(&event) {
                    backlog.progress.store(false, Ordering::Relaxed);
                }
            }
            Item::Answer(print) => print(),
        }
        backlog.items.fetch_sub(1, Ordering::Relaxed);
    }
}
