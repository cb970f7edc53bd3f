//! How much time an invocation of the loop has left.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::store::Store;
use crate::domain::StopReason;
use crate::rules::{End, expected_run, nearest_end, stop_before_experiment, stop_for_time};

/// When an invocation of the loop began; never for `ar try`, which has no end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times(Option<Begun>);

#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    started: Timestamp,
    /// How long after its start the night is over by `--for`.
    budget: Option<Duration>,
    /// How long after its start the time of day comes at which it ends.
    until: Option<Duration>,
}

impl Times {
    /// Begins now, and gives the time of day at which the night ends, if it does so at one.
    pub(super) fn begin(store: &Store) -> (Times, Option<Timestamp>) {
        let started = store.now();
        let night = store.journal.expenses.night(&store.contract);
        let (budget, until) = night.left(started);
        (Times(Some(Begun { at: Instant::now(), started, budget, until })), night.until)
    }

    /// Whether a loop turns.
    pub(super) fn are_counted(&self) -> bool {
        self.0.is_some()
    }

    /// When this invocation ends; never without a budget.
    pub(super) fn end(&self, store: &Store) -> Option<End> {
        let Begun { at, started, budget, until } = self.0?;
        // One clock stands still while the machine sleeps, the other may be set.
        let by_the_wall = Duration::try_from(store.now().duration_since(started)).unwrap_or_default();
        nearest_end(&store.contract, budget, until, at.elapsed().max(by_the_wall))
    }

    /// Why there is no time for another experiment, if so.
    pub(super) fn no_time_for_experiment(&self, store: &Store) -> Option<StopReason> {
        stop_before_experiment(self.end(store).as_ref(), &store.history)
    }

    /// Why there is no time for another run, if so.
    pub(super) fn no_time_for_run(&self, store: &Store) -> Option<StopReason> {
        stop_for_time(self.end(store).as_ref(), expected_run(&store.history))
    }
}
