//! Printing what a loop tells on a thread of its own, so that a terminal that takes nothing does not hold the loop up; and the line
//! of an outcome: number, verdict and value, then the reason and the description.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};

use autoresearch::domain::{Event, ExperimentId, FailureClass, Number, Outcome, Record};
use autoresearch::exec::end_by_signals;
use autoresearch::report::{columns, fit};
use autoresearch::rules::CountedOutcome;
use autoresearch::session::Observer;

use super::{Progress, output};

/// Time after which the end stops waiting for a frozen terminal.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Poll interval while waiting for the terminal.
const LOOK: Duration = Duration::from_millis(2);

/// One thing to print.
enum PrintItem {
    Event(Box<Event>),
    Answer(Box<dyn FnOnce() + Send>),
}

/// Items sent to the thread and not printed yet.
#[derive(Default)]
struct PrintQueue {
    items: AtomicUsize,
    /// The experiments of which a sign of progress is among them.
    progress: Mutex<BTreeSet<ExperimentId>>,
}

impl PrintQueue {
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
    items: Sender<PrintItem>,
    thread: JoinHandle<()>,
    /// Is disconnected when the thread is over.
    ended: Receiver<()>,
    backlog: Arc<PrintQueue>,
    is_live: bool,
}

impl Printer {
    /// Starts the thread.
    pub(super) fn start(progress: Progress) -> std::io::Result<Printer> {
        let (items, received) = channel();
        let backlog = Arc::new(PrintQueue::default());
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
            self.send(PrintItem::Event(Box::new(event.clone())));
        })
    }

    /// Prints something after all events so far.
    pub(super) fn answer(&self, print: impl FnOnce() + Send + 'static) {
        self.send(PrintItem::Answer(Box::new(print)));
    }

    fn send(&self, item: PrintItem) {
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

fn print(mut progress: Progress, items: &Receiver<PrintItem>, backlog: &PrintQueue) {
    for item in items {
        match item {
            PrintItem::Event(event) => {
                progress.show(&event);
                if let Some(id) = progress_of(&event) {
                    backlog.printed(id);
                }
            }
            PrintItem::Answer(print) => print(),
        }
        backlog.items.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The width of the value.
const VALUE: usize = 9;

/// The columns that a description keeps while the reason is shortened, with the colon before it.
const LEAST_DESCRIPTION: usize = 22;

/// The outcome of an experiment or of a run.
pub(super) struct OutcomeLine {
    /// Number, verdict and value.
    head: String,
    description: String,
    reason: String,
    /// The reason that the gain is doubtful, if it is.
    doubt: Option<String>,
}

impl OutcomeLine {
    /// A finished experiment: its value or the class of its failure, its description, and the reason for its outcome.
    pub(super) fn of_experiment(record: &Record, doubt: Option<&str>) -> OutcomeLine {
        let ended = CountedOutcome::of_record(record);
        let color = match ended {
            CountedOutcome::Keep => AnsiColor::Green,
            CountedOutcome::Discard | CountedOutcome::Refused | CountedOutcome::Other => AnsiColor::Yellow,
            CountedOutcome::Crash => AnsiColor::Red,
        };
        let style = Style::new().fg_color(Some(color.into()));
        let outcome = <&str>::from(ended);
        let class = record.failure.as_ref().map(|failure| failure.class).filter(|class| *class != FailureClass::Crash);
        let class = class.map(|class| class.to_string());
        let value = record.metric.number().map(|number| format!("{number:#}"));
        let first = value.as_deref().or(class.as_deref()).unwrap_or("-");
        let class = class.as_ref().filter(|_| value.is_some()).map(|class| format!(" [{class}]")).unwrap_or_default();
        let Record { id, description, reason, .. } = record;
        OutcomeLine {
            head: format!("{id:>4}  {style}{outcome:<8}{style:#} {first:<VALUE$} "),
            description: description.clone(),
            reason: format!("{reason}{class}"),
            doubt: doubt.map(str::to_owned),
        }
    }

    /// A run without a record of its own yet; `what` says in a word what becomes of it.
    pub(super) fn of_run(
        id: ExperimentId,
        what: &str,
        value: Option<&Number>,
        description: &str,
        reason: &str,
    ) -> OutcomeLine {
        let value = value.map_or_else(|| "-".to_owned(), |number| format!("{number:#}"));
        OutcomeLine {
            head: format!("{id:>4}  {what:<8} {value:<VALUE$} "),
            description: description.to_owned(),
            reason: reason.to_owned(),
            doubt: None,
        }
    }

    /// The line in `width` columns, where there is a terminal. There the reason comes first. The description is shortened, then
    /// the cause of the doubt is omitted, then the reason is cut behind its error: that there is a doubt is the last to go.
    pub(super) fn fit(&self, width: Option<u16>) -> String {
        let OutcomeLine { head, description, reason, doubt } = self;
        let whole_doubt = doubt.as_ref().map(|why| format!("; doubtful: {why}")).unwrap_or_default();
        let Some(width) = width else { return format!("{head}{description}: {reason}{whole_doubt}") };
        let room = usize::from(width).saturating_sub(columns(head));
        let least = LEAST_DESCRIPTION.min(columns(description) + 2);
        let doubt = match doubt {
            Some(_) if columns(reason) + columns(&whole_doubt) + least > room => "; doubtful",
            _ => &whole_doubt,
        };
        let room = room.saturating_sub(columns(doubt));
        // A difference without its error says more than is known.
        let error =
            reason.find("± ").map_or(0, |at| at + reason[at..].split(' ').take(2).map(str::len).sum::<usize>() + 1);
        let least_reason = if error > 0 { columns(&reason[..error]) + 1 } else { 0 };
        let reason = cut(reason, room.saturating_sub(least).max(least_reason).min(room));
        fit(&format!("{head}{reason}{doubt}: {description}"), Some(width))
    }
}

/// Tells where the user's change is saved that is no longer in the working tree. A refused change stays in the tree.
pub(super) fn saved_line(record: &Record) -> Option<String> {
    let is_refused = record.failure.as_ref().is_some_and(|failure| failure.class.is_refusal());
    let Record { id, outcome, .. } = record;
    (*outcome != Outcome::Keep && !is_refused)
        .then(|| format!("      your change is saved as experiment {id}; `ar restore {id}` puts it on a branch"))
}

/// A text in so many columns; none at all in no column.
fn cut(text: &str, width: usize) -> String {
    if width == 0 { String::new() } else { fit(text, u16::try_from(width).ok()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_progress_holds_up_later_ones_of_its_own_experiment_only() {
        let backlog = PrintQueue::default();
        let [one, other] = [12, 14].map(ExperimentId::from);
        assert_eq!([backlog.note(one), backlog.note(one), backlog.note(other)], [true, false, true]);
        backlog.printed(one);
        assert_eq!([backlog.note(one), backlog.note(other)], [true, false]);
    }

    #[test]
    fn a_value_has_its_unit() {
        let line = |text: &str| {
            OutcomeLine::of_run(7.into(), "keep", Number::with_unit(text).as_ref(), "what", "why").fit(None)
        };
        assert_eq!(
            [line("0.98 ms"), line("1.5")],
            ["   7  keep     0.98 ms   what: why", "   7  keep     1.5       what: why"]
        );
    }

    #[test]
    fn the_verdict_stays_whole_while_the_description_is_cut() {
        let line = OutcomeLine {
            doubt: Some("gained more than half of 2.0".to_owned()),
            ..OutcomeLine::of_run(7.into(), "keep", None, "a description of 30 characters", "it is better than 2.0")
        };
        let head = "   7  keep     -         ";
        let at = |width: u16| {
            let fitted = line.fit(Some(width));
            assert!(columns(&fitted) <= usize::from(width), "{width}: {fitted}");
            fitted.strip_prefix(head).map(str::to_owned).unwrap_or(fitted)
        };
        let whole = "it is better than 2.0; doubtful: gained more than half of 2.0: a description of 30 characters";
        let piped = "a description of 30 characters: it is better than 2.0; doubtful: gained more than half of 2.0";
        assert_eq!(line.fit(None), format!("{head}{piped}"));
        assert_eq!(at(118), whole);
        assert_eq!(at(109), "it is better than 2.0; doubtful: gained more than half of 2.0: a description of 30 …");
        assert_eq!(at(80), "it is better than 2.0; doubtful: a description of 30 c…");
        assert_eq!(at(70), "it is better…; doubtful: a description of 30…");
        assert_eq!(at(45), "; doubtful: a descr…");
        for width in 1..120 {
            at(width);
        }
    }

    #[test]
    fn what_fresh_runs_say_is_whole_in_130_columns() {
        let reason =
            "val_bpb 1.0276 against 1.0254 of experiment 9: worse by 0.0022 ± 0.0010 on 4 fresh runs (98% sure)";
        let value = "1.0276".parse().unwrap();
        let description = "DEPTH 8 → 10, as deeper models of this width had more to gain";
        let line = OutcomeLine::of_run(10.into(), "discard", Some(&value), description, reason);
        let head = "  10  discard  1.0276    val_bpb 1.0276 against 1.0254 of experiment 9: worse by 0.0022 ± 0.0010";
        assert_eq!(line.fit(Some(130)), format!("{head} on 4 fresh…: DEPTH 8 → 10, as de…"));
        assert_eq!(line.fit(Some(110)), format!("{head}…: DEPTH 8 → …"));
    }

    #[test]
    fn wide_characters_and_short_descriptions_fit_too() {
        let fit = |description: &str, width: u16| {
            OutcomeLine::of_run(7.into(), "tried", None, description, "better").fit(Some(width))
        };
        assert_eq!(fit("学習率を上げる学習率を上げる", 54), "   7  tried    -         better: 学習率を上げる学習率…");
        assert_eq!(fit("short", 36), "   7  tried    -         bet…: short");
    }
}
