//! How much time a call of the loop has left.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::error::SessionError;
use super::open::Session;
use crate::domain::{Event, StopReason, moment_text};
use crate::rules::{End, expected_call, expected_run, nearest_end, stop_for_time};

/// When a call of the loop began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    began: Instant,
    started: Timestamp,
    /// How long after its start the time of day comes at which it ends.
    until: Option<Duration>,
}

impl Session<'_> {
    /// From now on the time that the contract gives to a call of the loop counts. When it ends at a time of day, that is said
    /// with its day: the next one may be tomorrow's.
    pub(super) fn start_the_clock(&mut self) -> Result<(), SessionError> {
        let started = self.now();
        let ends = self.store.contract.until.map(|time| self.store.clock.next(time));
        let until = ends.and_then(|ends| ends.duration_since(started).try_into().ok());
        self.times = Some(Times { began: Instant::now(), started, until });
        self.watch_the_clock();
        match ends {
            Some(ends) => {
                self.emit(Event::Notice { detail: format!("this invocation stops at {}", moment_text(ends)) })
            }
            None => Ok(()),
        }
    }

    /// When this call of the loop ends; never for one without a budget, and for `ar try`.
    pub(super) fn end(&self) -> Option<End> {
        let times = self.times?;
        // One clock stands still while the machine sleeps, the other may be set.
        let by_the_wall = Duration::try_from(self.now().duration_since(times.started)).unwrap_or_default();
        nearest_end(&self.store.contract, times.until, times.began.elapsed().max(by_the_wall))
    }

    /// Why there is no time for another experiment, if so.
    pub(super) fn no_time_for_experiment(&self) -> Option<StopReason> {
        stop_for_time(self.end().as_ref(), expected_call(&self.store.history) + expected_run(&self.store.history))
    }

    /// Why there is no time for another run, if so.
    pub(super) fn no_time_for_run(&self) -> Option<StopReason> {
        stop_for_time(self.end().as_ref(), expected_run(&self.store.history))
    }
}
