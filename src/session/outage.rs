//! Waiting out an outage of the agent.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::attempt::Attempt;
use super::error::SessionError;
use super::interrupts::Interrupt;
use super::open::Session;
use super::running::HEARTBEAT;
use crate::agent;
use crate::crash;
use crate::domain::{Event, Outage, OutageKind, Refusal, StopReason, exact_time};
use crate::exec::Exit;
use crate::rules::{CallEnd, Patience, SoFar, outage, patience, pause_after_idle, refused};
use crate::state::{OpenExperiment, OpenOutage};

impl Session<'_> {
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
    pub(super) fn end_outage(&mut self, id: u32) -> Result<(), SessionError> {
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
