//! `ar run`: the loop, and its waiting for the agent.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::attempt::{Attempt, Attempted};
use super::error::SessionError;
use super::interrupts::Interrupt;
use super::open::Session;
use super::plan::Drive;
use super::proposing::CallResult;
use super::running::HEARTBEAT;
use super::supervise::Ending;
use super::times::Times;
use super::watchdog::end_programs_in;
use crate::agent;
use crate::crash;
use crate::domain::{Event, ExperimentId, Notice, Outage, OutageKind, Refusal, StopReason, exact_time};
use crate::exec::Exit;
use crate::git::{Cut, GitError};
use crate::rules::{
    CallEnd, LOST_RETRIES, NO_CHANGE, Patience, SoFar, StopFacts, outage, patience, pause_after_idle, refused,
    stop_before_next,
};
use crate::state::{Level, OpenExperiment, OpenOutage};

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
        let first = self.store.history.next_sequence();
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
            let facts = StopFacts {
                contract: &self.store.contract,
                history: &self.store.history,
                spent: &self.store.journal.spent,
                first,
                idle_calls: self.store.journal.idle_calls,
            };
            if let Some(reason) = stop_before_next(&facts) {
                self.store.journal.idle_calls = 0;
                if reason.is_rule(NO_CHANGE) {
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

    /// The outage that kept the agent from its work, if that is why its call failed: by what it answered, else by `words`, the
    /// end of its output.
    pub(super) fn outage_of(
        &mut self,
        exit: &Exit,
        refusal: Option<&Refusal>,
        words: &str,
        open: &OpenExperiment,
    ) -> Result<Option<Outage>, SessionError> {
        // The times that an agent names are those of the real clock.
        let now = Zoned::now();
        let end = CallEnd { exit: exit.exit, timed_out: exit.timed_out, changed: false };
        let of = |end| refusal.and_then(|refusal| refused(refusal, end, &now)).or_else(|| outage(words, end, &now));
        let Some(found) = of(end) else { return Ok(None) };
        // Only now is the working tree worth a look.
        let changed = self.workspace.has_worked(&mut self.store, open)?;
        Ok(if changed { of(CallEnd { changed, ..end }) } else { Some(found) })
    }

    /// What an agent is kept by that could not even be started.
    pub(super) fn not_started(detail: &str) -> Outage {
        Outage { kind: OutageKind::NotStarted, said: agent::last_line(detail).unwrap_or_default(), until: None }
    }

    /// Puts back what a call changed that an outage cut short, and notes the outage. The call took so many seconds.
    pub(super) fn enter_outage(&mut self, attempt: &Attempt, outage: Outage, seconds: f64) -> Result<(), SessionError> {
        self.store.journal.enter_outage(outage, self.store.contract.agent.clone());
        self.store.journal.note_lasted(seconds);
        attempt.put_unfinished_away(self)
    }

    /// Notes that the agent works, again if it did not.
    pub(super) fn end_outage(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        self.store.journal.spent.calls = self.store.journal.spent.calls.saturating_add(1);
        match self.store.journal.outage.take() {
            Some(over) => self.emit(Event::OutageOver { id, seconds: over.seconds }),
            None => Ok(()),
        }
    }

    /// Waits until the agent is to be called again, at most until the end of this invocation. Any request ends it at once.
    /// Returns why the loop stops, where the outage takes too long.
    pub(super) async fn wait_out(&mut self) -> Result<Option<StopReason>, SessionError> {
        let Some(open) = self.store.journal.outage.clone() else { return Ok(None) };
        self.store.forget_logs();
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        // A session that is resumed waits for the reset, and no longer.
        let is_resumed = open.until.is_some();
        let so_far = SoFar {
            waits: if is_resumed { 0 } else { open.waits },
            lasted: duration(open.seconds),
            failed: duration(open.failed_seconds),
            repeats: open.repeats,
            is_first: self.has_never_worked(),
        };
        let now = Timestamp::now();
        let pause = match patience(&open.outage, so_far, self.store.contract.outage_limit, now) {
            Patience::Wait(pause) => pause,
            Patience::GiveUp => {
                let Outage { kind, said, until } = open.outage;
                return Ok(Some(StopReason::Outage { reason: kind, said, until, seconds: open.seconds }));
            }
        };
        let until = SignedDuration::try_from(pause).ok().and_then(|pause| now.checked_add(pause).ok());
        let again = until.unwrap_or(Timestamp::MAX);
        let (id, waits, seconds) = (self.store.history.next_id(), open.waits, open.seconds);
        let waited = waits.saturating_add(u32::from(!is_resumed));
        self.store.journal.outage = Some(OpenOutage { waits: waited, until, ..open.clone() });
        self.store.write_journal()?;
        crash::point("outage.noted");
        self.emit(Event::Outage { id, outage: open.outage, again, waits, seconds })?;

        self.pause(pause, again).await?;
        self.store.journal.wait_no_more();
        self.store.write_journal()?;
        crash::point("outage.waited");
        Ok(None)
    }

    /// Waits before the next call where the last ones changed nothing and were short; the last took so many seconds.
    pub(super) async fn pause_after_idle(&mut self, seconds: f64) -> Result<(), SessionError> {
        let pause = crash::pace(pause_after_idle(self.store.journal.idle_calls, seconds));
        let again = SignedDuration::try_from(pause).ok().and_then(|pause| Timestamp::now().checked_add(pause).ok());
        if pause.is_zero() { Ok(()) } else { self.pause(pause, again.unwrap_or(Timestamp::MAX)).await }
    }

    /// Waits for so long, or until that moment, at most until the end of this call of the loop. Whatever somebody asks for ends
    /// it at once.
    async fn pause(&mut self, pause: Duration, again: Timestamp) -> Result<(), SessionError> {
        let id = self.store.history.next_id();
        let began = Instant::now();
        let left = self.times.end(&self.store).map_or(pause, |end| end.left.min(pause));
        let due = began.checked_add(left).unwrap_or(began);
        let (mut last_beat, mut noted) = (began, began);
        let mut listener = self.interrupts.listen();
        while self.asked()? == Interrupt::None {
            self.store.journal.note_lasted(noted.elapsed().as_secs_f64());
            noted = Instant::now();
            // A machine that slept meanwhile does not wait on.
            if Instant::now() >= due || Timestamp::now() >= again {
                break;
            }
            if last_beat.elapsed() >= HEARTBEAT {
                last_beat = Instant::now();
                self.events
                    .log
                    .heartbeat(self.store.now(), &json!({"experiment": id, "waiting_until": exact_time(again)}))?;
                self.store.write_journal()?;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = listener.signal_or_look() => {}
            }
        }
        self.store.journal.note_lasted(noted.elapsed().as_secs_f64());
        Ok(())
    }

    /// Whether no call of the agent came to anything yet.
    fn has_never_worked(&self) -> bool {
        self.store.journal.spent.calls == 0 && self.store.history.records().iter().all(|record| record.agent.is_none())
    }
}
