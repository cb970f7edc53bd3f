//! Printing what a loop tells on a thread of its own, so that a terminal that takes nothing does not hold the loop up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use autoresearch::domain::Event;
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

/// Owns the [`Progress`] of a loop on a thread.
pub(super) struct Printer {
    items: Sender<Item>,
    thread: JoinHandle<()>,
    /// How much of what was sent is not printed yet.
    waiting: Arc<AtomicUsize>,
    is_live: bool,
}

impl Printer {
    /// Starts the thread.
    pub(super) fn start(progress: Progress) -> std::io::Result<Printer> {
        let (items, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let printed = Arc::clone(&waiting);
        let is_live = progress.is_live();
        let thread =
            thread::Builder::new().name("printer".into()).spawn(move || print(progress, &received, &printed))?;
        Ok(Printer { items, thread, waiting, is_live })
    }

    /// What a session tells its events to.
    pub(super) fn observer(&self) -> Observer<'_> {
        Box::new(|event| {
            // A sign of progress is only worth printing while it is news.
            let is_old = !self.is_live || self.waiting.load(Ordering::Relaxed) > 0;
            if !(is_old && matches!(event, Event::RunProgress { .. })) {
                self.send(Item::Event(Box::new(event.clone())));
            }
        })
    }

    /// Prints something after all events so far.
    pub(super) fn answer(&self, print: impl FnOnce() + Send + 'static) {
        self.send(Item::Answer(Box::new(print)));
    }

    fn send(&self, item: Item) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Without the thread nobody is there to be told.
        let _ = self.items.send(item);
    }

    /// Waits until everything is printed: without limit into a file or a pipe; a terminal that takes nothing for
    /// [`PATIENCE`] gets nothing more.
    pub(super) fn finish(self) {
        let Printer { items, thread, waiting, .. } = self;
        drop(items);
        let mut last = (waiting.load(Ordering::Relaxed), Instant::now());
        while !thread.is_finished() {
            let now = waiting.load(Ordering::Relaxed);
            if now != last.0 || !output::waits_for_terminal() {
                last = (now, Instant::now());
            } else if last.1.elapsed() > PATIENCE {
                return output::give_up();
            }
            thread::sleep(LOOK);
        }
        // A thread that panicked has said so.
        let _ = thread.join();
    }
}

fn print(mut progress: Progress, items: &Receiver<Item>, waiting: &AtomicUsize) {
    for item in items {
        match item {
            Item::Event(event) => progress.show(&event),
            Item::Answer(print) => print(),
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
