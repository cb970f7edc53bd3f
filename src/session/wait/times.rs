//! The time that an invocation of the loop has left.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::domain::StopReason;
use crate::rules::{
    End, expected_run, kept_to_verify, nearest_end, stop_before_experiment, stop_for_time, to_verify,
    verified_without_end,
};
use crate::session::store::Store;

/// When an invocation of the loop began; never for `ar try`, which has no end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times(Option<Begun>);

#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    started: Timestamp,
    /// Time from the start to the end of the night by `--for`.
    budget: Option<Duration>,
    /// Time from the start to the time of day at which the night ends.
    until: Option<Duration>,
    /// True if the time for experiments was over by then.
    is_late: bool,
}

impl Begun {
    /// The time since then. One clock stands still while the machine sleeps, the other may be set.
    fn elapsed(&self, store: &Store) -> Duration {
        let by_the_wall = Duration::try_from(store.now().duration_since(self.started)).unwrap_or_default();
        self.at.elapsed().max(by_the_wall)
    }
}

impl Times {
    /// Begins now, and gives the time of day at which the night ends, if it does so at one.
    pub(crate) fn begin(store: &Store) -> (Times, Option<Timestamp>) {
        let started = store.now();
        let night = store.journal.expenses.night(&store.contract);
        let (budget, until) = night.left(started);
        let mut times = Times(Some(Begun { at: Instant::now(), started, budget, until, is_late: false }));
        let is_late = times.end(store).is_some_and(|end| end.left.is_zero());
        times.0.iter_mut().for_each(|begun| begun.is_late = is_late);
        (times, night.until)
    }

    /// Returns whether the time for experiments was over when this invocation began: then it only finishes what is open.
    pub(crate) fn began_late(&self) -> bool {
        self.0.is_some_and(|begun| begun.is_late)
    }

    /// Returns whether time counts, which is only so in a loop.
    pub(crate) fn are_counted(&self) -> bool {
        self.0.is_some()
    }

    /// When the experiments of this invocation end; never without a budget. The time to verify what was kept follows, once
    /// something was.
    pub(crate) fn end(&self, store: &Store) -> Option<End> {
        let begun = self.0?;
        let mut end = nearest_end(&store.contract, begun.budget, begun.until, begun.elapsed(store))?;
        if to_verify(&store.history).is_some() {
            end.left = end.left.saturating_sub(kept_to_verify(&store.contract, begun.budget, begun.until));
        }
        Some(end)
    }

    /// The time left to verify what the night kept, now that its loop is over.
    pub(crate) fn left_to_verify(&self, store: &Store) -> Duration {
        let Some(begun) = self.0 else { return Duration::ZERO };
        let elapsed = begun.elapsed(store);
        match nearest_end(&store.contract, begun.budget, begun.until, elapsed) {
            Some(end) => kept_to_verify(&store.contract, begun.budget, begun.until).min(end.left),
            None => verified_without_end(&store.contract, elapsed),
        }
    }

    /// The reason to stop if no time is left for another experiment.
    pub(crate) fn no_time_for_experiment(&self, store: &Store) -> Option<StopReason> {
        stop_before_experiment(self.end(store).as_ref(), &store.history)
    }

    /// The reason to stop if no time is left for another run.
    pub(crate) fn no_time_for_run(&self, store: &Store) -> Option<StopReason> {
        stop_for_time(self.end(store).as_ref(), expected_run(&store.history))
    }
}
