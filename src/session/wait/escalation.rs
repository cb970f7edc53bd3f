//! Problems that the session cannot solve by itself: the report to the user, the wait for an answer, and messages of the
//! user.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::events::{Alerted, Hooks, event_detail};
use super::pauses::Began;
use super::shared::{Heartbeat, Shared};
use crate::crash;
use crate::domain::{Escalate, Escalation, Event, Notice, Outage, OutageKind, StopReason, Trouble, with_causes};
use crate::exec::ExecError;
use crate::rules::retry_pause;
use crate::session::errors::{ErrorKind, SessionError};
use crate::session::files::refuse_full;
use crate::session::store::{
    Interrupt, Listener, Store, close_escalation, receive_messages, remove_report, write_report,
};
use crate::state::{EscalationFiles, EventLog, OpenOutage, SessionFolder, has_guardian};

/// Returns whether the session waits for the user's answer to a problem instead of stopping. If a guard watches, it
/// always waits.
fn waits(store: &Store) -> bool {
    store.contract.escalate == Escalate::Wait || has_guardian(store.now())
}

/// The result of driving a session.
#[derive(Debug)]
pub enum Driven {
    /// It stopped.
    Stopped(StopReason),
    /// The obstacle may be gone, or the user answered: reopen the session.
    Again(Resumed),
}

/// A loop that waited for an answer: its time goes on counting.
#[derive(Debug, Clone, Copy)]
pub struct Resumed(pub(crate) Began);

/// The result of waiting for an answer.
enum EscalationAnswer {
    Again,
    Stop(StopReason),
    TakenOver,
}

/// Reports an outage that exceeds its limit, once; returns whether the loop waits on.
pub(crate) fn escalate_outage(shared: &Shared<'_>, open: &OpenOutage) -> Result<bool, SessionError> {
    let waits = waits(&shared.store());
    if shared.store().journal.escalation.waits_for(Trouble::Outage) {
        return Ok(waits);
    }
    let Outage { kind, said, .. } = &open.outage;
    let what = format!("{kind}, longer than --outage-limit allows: {said}");
    escalate(shared, Trouble::Outage, &what, kind.remedy(), waits)?;
    Ok(waits)
}

/// Writes the report of what the session cannot solve, and tells it: to all the first time, and in a line after retries.
fn escalate(shared: &Shared<'_>, kind: Trouble, what: &str, needed: &str, waits: bool) -> Result<(), SessionError> {
    let told = {
        let store = &mut *shared.store();
        let (after, now) = (store.history.last_id(), store.now());
        let escalation = store.journal.escalation.begin(kind, after, (what, needed), waits, now);
        // On a full disk the event is what is left.
        let healed = store.heal();
        let report = write_report(&store.folder, store.repo.worktree(), &escalation);
        let Escalation { what, needed, times, .. } = escalation.clone();
        match times {
            1 => store.note(Event::Escalated { kind, what, needed, times, waits, report }),
            _ => store.note(Notice::StillEscalated { escalation, report }),
        }
        healed
    };
    let told = told.and(shared.publish_notices());
    crash::point("escalation.told");
    let written = shared.store().write_journal();
    told.and(written)
}

/// Tells that the session goes on after what it could not solve.
pub(crate) fn end_escalation(shared: &Shared<'_>, why: &'static str) -> Result<(), SessionError> {
    let kind = close_escalation(&mut shared.store(), why);
    if kind.is_some() { shared.publish() } else { Ok(()) }
}

/// Waits until the cause may be gone or the user says something, at most until the end of this invocation. Nothing that
/// cannot be written meanwhile ends the wait, unless another process took over the session.
async fn await_answer(shared: &Shared<'_>, kind: Trouble, times: u32) -> EscalationAnswer {
    let has_answered = has_newer_messages(shared);
    let due = Instant::now() + retry_pause(times);
    let mut heartbeat = Heartbeat::new();
    let mut listener = shared.interrupts.listen();
    loop {
        if shared.store().refuse_taken_over().is_err() {
            return EscalationAnswer::TakenOver;
        }
        let _ = publish_new_messages(shared);
        let told = shared.events.borrow().told;
        let asked = shared.interrupts.hear(&mut shared.store(), told);
        match asked {
            Interrupt::None => {}
            Interrupt::Detach => return EscalationAnswer::Stop(StopReason::Detached),
            Interrupt::AfterExperiment | Interrupt::Now => {
                return EscalationAnswer::Stop(shared.interrupts.reason(&shared.store().folder));
            }
        }
        if let Some(end) = shared.times.end(&shared.store()).filter(|end| end.left == Duration::ZERO) {
            return EscalationAnswer::Stop(end.reason);
        }
        let is_told = has_answered();
        let has_space = kind != Trouble::Disk || {
            let store = shared.store();
            refuse_full(&store.repo, &store.folder, &store.history).is_ok()
        };
        if is_told || Instant::now() >= due && has_space {
            if is_told {
                shared.store().journal.escalation.answered();
                let _ = end_escalation(shared, "the user answered");
            } else {
                let store = &mut *shared.store();
                // It is over when something comes of it.
                if store.journal.escalation.suspend().is_some() {
                    remove_report(&store.folder);
                }
            }
            let _ = shared.store().write_journal();
            return EscalationAnswer::Again;
        }
        let _ = shared.beat(&mut heartbeat, || json!({"waiting_for": kind}));
        listener.signal_or_look().await;
    }
}

/// Reports an error on opening a session, and waits until the command of `--on-event` has received the report.
pub(crate) async fn report_unopened(
    folder: &SessionFolder,
    of: &Alerted<'_>,
    listener: Listener,
    kind: Trouble,
    (what, needed): (&str, &str),
) {
    let now = of.clock.now();
    let mut known = folder.journal().ok().flatten().map(|journal| journal.escalation).unwrap_or_default();
    let after = of.history.last_id();
    let escalation = known.begin(kind, after, (what, needed), false, now);
    // The caller reports the error itself in any case.
    let report = write_report(folder, of.root, &escalation);
    EscalationFiles::of(folder).note(&escalation, now);
    if escalation.times > 1 {
        return;
    }
    let Escalation { what, needed, times, waits, .. } = escalation;
    let event = Event::Escalated { kind, what, needed, times, waits, report };
    let log = EventLog::new(&of.logs);
    let _ = log.decision(now, "rules", (&event).into(), &event_detail(&event));
    let mut hooks = Hooks::default();
    hooks.alert(&event, of);
    hooks.finish(listener, of.clock).await;
    hooks.note_trouble(&log);
}

/// Returns the kind of trouble to report for an error that ends the loop. `None` for errors that need no report, such as
/// interrupts and wrong usage.
pub(crate) fn trouble_of(error: &SessionError) -> Option<Trouble> {
    if error.is_disk_full() {
        return Some(Trouble::Disk);
    }
    if let SessionError::Exec(ExecError::EngineAway { .. }) = error {
        return Some(Trouble::Outage);
    }
    if let SessionError::BestLost { .. } = error {
        return Some(Trouble::Baseline);
    }
    match error.kind() {
        ErrorKind::Damaged => Some(Trouble::Contradiction),
        ErrorKind::CannotStart | ErrorKind::NeedsPerson => Some(Trouble::Error),
        ErrorKind::Usage | ErrorKind::BaselineFailed | ErrorKind::Held | ErrorKind::Interrupted => None,
    }
}

/// Returns the instruction to the user for an error.
pub(crate) fn needed(error: &SessionError) -> String {
    error.hint().unwrap_or_else(|| "find the cause, and remove it".to_owned())
}

/// Reports an error that ends the loop, where the user is needed, and waits for the answer where the session does that.
/// `None` where the loop is to stop.
pub(crate) async fn escalate_error(shared: &Shared<'_>, error: &SessionError) -> Option<Driven> {
    let kind = trouble_of(error)?;
    // Undo foreign writes first: from here on, `ar` cannot tell its own changes from those of others.
    let _ = shared.publish();
    {
        let store = &mut *shared.store();
        (store.expected.watch, store.expected.at_work) = (None, Vec::new());
        store.forget_unwritten();
    }
    hold_on(shared, kind, &with_causes(error), &needed(error)).await
}

/// Does the same where the agent cannot be called.
pub(crate) async fn escalate_agent(shared: &Shared<'_>, reason: &StopReason) -> Option<Driven> {
    let StopReason::Agent { .. } = reason else { return None };
    hold_on(shared, Trouble::Agent, &reason.to_string(), OutageKind::NotStarted.remedy()).await
}

async fn hold_on(shared: &Shared<'_>, kind: Trouble, what: &str, needed: &str) -> Option<Driven> {
    let waits = kind.may_go() && waits(&shared.store());
    // The first error is the one that has to be mended.
    let _ = escalate(shared, kind, what, needed, waits);
    if !waits {
        return None;
    }
    let times = shared.store().journal.escalation.times();
    match await_answer(shared, kind, times).await {
        EscalationAnswer::Again => Some(Driven::Again(Resumed(shared.times))),
        EscalationAnswer::Stop(reason) => Some(Driven::Stopped(reason)),
        EscalationAnswer::TakenOver => None,
    }
}

/// Hears what the user has said, and tells and notes what is new.
pub(crate) fn publish_new_messages(shared: &Shared<'_>) -> Result<(), SessionError> {
    let is_new = receive_messages(&mut shared.store());
    if is_new {
        shared.publish()?;
        crash::point("words.heard");
        shared.store().write_journal()?;
    }
    Ok(())
}

/// Returns a test for words that the session hears from now on.
pub(crate) fn has_newer_messages<'s>(shared: &'s Shared<'_>) -> impl Fn() -> bool + 's {
    let newest = || shared.store().journal.messages.newest();
    let before = newest();
    move || newest() != before
}
