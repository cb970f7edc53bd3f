//! Waiting for the agent: until an outage may be over, and between its calls.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;

use super::escalation::escalate_outage;
use super::new_messages::has_newer_messages;
use super::shared::{Heartbeat, Shared};
use crate::crash;
use crate::domain::{Event, Notice, Outage, StopReason, exact_time, moment_text};
use crate::rules::{Patience, idle_limit, patience, pause_after_idle, pause_on};
use crate::session::errors::SessionError;

/// Waits until the agent is to be called again, at most until the end of this invocation. Any request ends it at once.
/// Returns why the loop stops if the outage takes too long.
pub(crate) async fn wait_out(shared: &Shared<'_>) -> Result<Option<StopReason>, SessionError> {
    let found = {
        let store = shared.store();
        store.journal.outage(&store.history)
    };
    let Some((open, so_far)) = found else { return Ok(None) };
    let now = Timestamp::now();
    let limit = shared.store().contract.outage_limit;
    let pause = match patience(&open.outage, so_far, limit, now) {
        Patience::Wait(pause) => pause,
        Patience::GiveUp if escalate_outage(shared, &open)? => pause_on(&open.outage, so_far, now),
        Patience::GiveUp => {
            if open.waits == 0 {
                let (id, outage) = (shared.store().history.next_id(), open.outage.clone());
                shared.emit(Event::Outage { id, outage, again: None, waits: 0, seconds: open.seconds })?;
            }
            let Outage { kind, said, until } = open.outage;
            let until_text = until.map(moment_text);
            return Ok(Some(StopReason::Outage { reason: kind, said, until, until_text, seconds: open.seconds }));
        }
    };
    let until = SignedDuration::try_from(pause).ok().and_then(|pause| now.checked_add(pause).ok());
    let again = until.unwrap_or(Timestamp::MAX);
    let (id, waits, seconds) = (shared.store().history.next_id(), open.waits, open.seconds);
    shared.store().journal.pauses.wait_out(until);
    shared.store().write_journal()?;
    crash::point("outage.noted");
    shared.emit(Event::Outage { id, outage: open.outage, again: Some(again), waits, seconds })?;

    pause_unless_told(shared, pause, again).await?;
    let store = &mut *shared.store();
    store.journal.pauses.wait_no_more();
    store.write_journal()?;
    crash::point("outage.waited");
    Ok(None)
}

/// Waits before the next call if the last ones changed nothing and were short; the last took so many seconds.
pub(crate) async fn pause_when_idle(shared: &Shared<'_>, seconds: f64) -> Result<(), SessionError> {
    let (idle_calls, most_calls, limit) = {
        let store = shared.store();
        let limit = idle_limit(&store.contract, store.journal.has_change(&store.history));
        (store.journal.calls.idle(), store.journal.most_calls(), limit)
    };
    // Each agent has its own row of calls.
    let in_a_row = idle_calls.div_ceil(most_calls);
    let pause = crash::pace(pause_after_idle(in_a_row, seconds));
    let goes_on = limit == 0 || idle_calls / most_calls < limit;
    if idle_calls == most_calls + 1 && goes_on {
        shared.emit(Notice::AgentIdles { limit })?;
    }
    let until = SignedDuration::try_from(pause).ok().and_then(|pause| Timestamp::now().checked_add(pause).ok());
    let until = until.unwrap_or(Timestamp::MAX);
    if !pause.is_zero() {
        if goes_on {
            let id = shared.store().history.next_id();
            let seconds = pause.as_secs_f64();
            shared.emit(Event::IdlePause { id, until, seconds, idle_calls: in_a_row, max_idle: limit })?;
        }
        pause_unless_told(shared, pause, until).await?;
    }
    Ok(())
}

/// Waits like [`pause_for`], until the user says something new.
async fn pause_unless_told(shared: &Shared<'_>, pause: Duration, again: Timestamp) -> Result<(), SessionError> {
    pause_for(shared, pause, again, has_newer_messages(shared)).await.map(drop)
}

/// Waits for so long, or until that moment, at most until the end of this invocation. Any request, and what `is_woken`
/// says, end it at once. Returns whether it is over, instead of cut short by a request or by the end of this invocation.
pub(crate) async fn pause_for(
    shared: &Shared<'_>,
    pause: Duration,
    again: Timestamp,
    is_woken: impl Fn() -> bool,
) -> Result<bool, SessionError> {
    let id = shared.store().history.next_id();
    let began = Instant::now();
    let whole = began.checked_add(pause).unwrap_or(began);
    let (mut heartbeat, mut noted) = (Heartbeat::new(), began);
    let mut note = || {
        shared.store().journal.pauses.note_lasted(noted.elapsed().as_secs_f64());
        noted = Instant::now();
        noted
    };
    let is_over = loop {
        let noted = note();
        // A machine that slept meanwhile does not wait on.
        if noted >= whole || Timestamp::now() >= again || is_woken() {
            break true;
        }
        shared.beat(&mut heartbeat, || json!({"experiment": id, "waiting_until": exact_time(again)}))?;
        if !shared.pause(whole - noted).await? {
            break false;
        }
    };
    note();
    Ok(is_over)
}
