//! `ar run`: the loop.

use serde_json::json;

use super::attempt::{Attempt, Attempted};
use super::error::SessionError;
use super::interrupts::Interrupt;
use super::open::Session;
use super::plan::Drive;
use super::proposing::CallResult;
use super::supervise::Ending;
use super::times::Times;
use super::watchdog::end_programs_in;
use crate::agent::Proposal;
use crate::domain::{Notice, StopReason};
use crate::git::{Cut, GitError};
use crate::rules::{LOST_RETRIES, stop_before_next};
use crate::state::Level;

impl Session<'_> {
    /// Finishes what is open, measures the baseline if there is none, adopts a change if asked to, and calls the agent
    /// until something ends the loop.
    pub async fn run(&mut self, drive: Drive) -> Result<StopReason, SessionError> {
        let reason = self.run_on(drive).await;
        self.finish_alerts().await;
        reason
    }

    async fn run_on(&mut self, drive: Drive) -> Result<StopReason, SessionError> {
        let (times, ends) = Times::begin(&self.store);
        self.times = times;
        end_programs_in(&self.store.repo, self.times.end(&self.store).map(|end| end.left));
        if let Some(ends) = ends {
            // The next time of that name may be tomorrow's.
            self.emit(Notice::StopsAt(ends))?;
        }
        let begun = self.begin(drive).await;
        let reason = match self.or_take_back(begun) {
            Err(error) if self.store.taken_back => return Err(error),
            Err(error) => self.ended_by(error)?,
            Ok(Attempted::Recorded) => {
                self.goes_on = true;
                let turned = self.turn().await;
                self.goes_on = false;
                match turned {
                    Ok(reason) => reason,
                    Err(error) => self.ended_by(error)?,
                }
            }
            Ok(Attempted::StillRunning) => StopReason::Detached,
            Ok(Attempted::RolledBack) => self.interrupted(),
        };
        if !self.store.taken_back {
            self.stop(reason.clone())?;
        }
        Ok(reason)
    }

    /// What comes before the first call of the agent.
    async fn begin(&mut self, drive: Drive) -> Result<Attempted, SessionError> {
        if let Some(attempted) = self.recover(None).await?
            && attempted != Attempted::Recorded
        {
            return Ok(attempted);
        }
        if drive == (Drive::Loop { adopt: true }) {
            self.workspace.set_aside(&mut self.store, Proposal::default())?;
        }
        if self.store.history.baseline().is_none() {
            let measured = self.measure_baseline(None).await?;
            if measured != Attempted::Recorded {
                return Ok(measured);
            }
        }
        self.attempt_aside(None).await
    }

    /// Takes a session back that fails before it has a baseline: nothing of it may stay. On a full disk it does, to be
    /// continued, as a way back cannot be written either.
    pub(super) fn or_take_back<T>(&mut self, result: Result<T, SessionError>) -> Result<T, SessionError> {
        let fails = result.as_ref().is_err_and(|error| !error.is_disk_full());
        if fails && self.store.history.baseline().is_none() && !self.store.taken_back {
            // The first error is the one that has to be mended.
            let _ = self.take_back().and_then(|()| self.tell());
        }
        result
    }

    /// Why the loop stops after `error`; the error itself, where that is the reason.
    fn ended_by(&mut self, error: SessionError) -> Result<StopReason, SessionError> {
        self.cut_short(&error).ok_or_else(|| self.stopped_by(error))
    }

    /// Notes what stopped the loop, as far as that can still be written.
    fn stopped_by(&mut self, error: SessionError) -> SessionError {
        let detail = error.to_string();
        // What others wrote is put right first, and from here on nobody's doing is told from this process's own.
        let _ = self.tell();
        self.store.expected.watch = None;
        let _ = self.events.log.work(self.store.now(), Level::Error, "error", &json!({"detail": detail}));
        self.store.forget_unwritten();
        let _ = self.stop(StopReason::Error { detail });
        SessionError::Stopped(Box::new(error))
    }

    /// Why the loop stops, where `error` is that a program was terminated for it. The open experiment stays open: to roll it
    /// back would need the same program.
    fn cut_short(&mut self, error: &SessionError) -> Option<StopReason> {
        let SessionError::Git(GitError::Cut { cut, .. }) = error else { return None };
        self.store.forget_unwritten();
        match cut {
            Cut::Asked => Some(match self.asked() {
                Ok(Interrupt::Detach) => StopReason::Detached,
                _ => self.interrupted(),
            }),
            Cut::TimeOver => self.times.end(&self.store).map(|end| end.reason),
            Cut::Late => None,
        }
    }

    async fn turn(&mut self) -> Result<StopReason, SessionError> {
        let mut lost = 0;
        let first = self.store.history.next_id();
        let mut idle_seconds = None;
        loop {
            match self.asked()? {
                Interrupt::None => {}
                Interrupt::Detach => return Ok(StopReason::Detached),
                Interrupt::AfterExperiment | Interrupt::Now => return Ok(self.interrupted()),
            }
            if let Some(reason) = self.store.stop_for_flag() {
                return Ok(reason);
            }
            let idle = self.store.journal.idle_calls;
            if let Some(reason) =
                stop_before_next(&self.store.contract, &self.store.history, &self.store.journal.spent, first, idle)
            {
                self.store.journal.idle_calls = 0;
                if let StopReason::NoChange { .. } = reason {
                    let log = self.store.folder.run(self.store.history.next_id()).join("agent.log");
                    self.emit(Notice::AgentsLog(log))?;
                }
                return Ok(reason);
            }
            if let Some(reason) = self.times.no_time_for_experiment(&self.store) {
                return Ok(reason);
            }
            if self.store.contract.agent.is_none() {
                return Ok(StopReason::NoAgent);
            }
            if let Some(seconds) = idle_seconds.take() {
                self.pause_after_idle(seconds).await?;
                self.workspace.untracked.is_current = false;
                continue;
            }
            if self.store.journal.waits_for_reset() {
                if let Some(reason) = self.wait_out().await? {
                    return Ok(reason);
                }
                self.workspace.untracked.is_current = false;
                continue;
            }
            self.check_room()?;
            let keeper = self.log_keeper.start(&self.store);
            let proposed = Attempt::propose(self).await?;
            self.log_keeper.end(keeper, &self.store, &self.events.log)?;
            match proposed {
                Ending::Interrupted => return Ok(self.interrupted()),
                Ending::Detached => return Ok(StopReason::Detached),
                Ending::Lost if lost < LOST_RETRIES => lost += 1,
                Ending::Lost => return Ok(StopReason::Agent { detail: "its shim was killed each time".into() }),
                Ending::Done(CallResult::Outage) => {
                    let waited = self.wait_out().await?;
                    self.workspace.untracked.is_current = false;
                    if let Some(reason) = waited {
                        return Ok(reason);
                    }
                }
                Ending::Done(CallResult::Nothing { seconds }) => idle_seconds = Some(seconds),
                Ending::Done(CallResult::Change(attempt))
                    if attempt.open.refused.is_none()
                        && let Some(reason) = self.times.no_time_for_run(&self.store) =>
                {
                    attempt.roll_back(self, "came too late to be run")?;
                    return Ok(reason);
                }
                Ending::Done(CallResult::Change(mut attempt)) => match attempt.finish(self, None).await? {
                    Attempted::Recorded => lost = 0,
                    Attempted::RolledBack => return Ok(self.interrupted()),
                    Attempted::StillRunning => return Ok(StopReason::Detached),
                },
            }
        }
    }
}
