//! Problems that the session cannot solve by itself: the report to the user, the wait for an answer, and messages of
//! the user; and the session's side of its guardians: signs of life, its line in the register, and what they said about
//! it.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::{Alerted, Began, Events, Heartbeat, Hooks, Observer, SessionContext, event_detail};
use crate::crash;
use crate::domain::{
    Cadence, Clock, Contract, Escalate, Escalation, Event, Notice, Outage, OutageKind, StopReason, Tag, Trouble,
    with_causes,
};
use crate::exec::ExecError;
use crate::git::Repo;
use crate::ledger::LedgerFile;
use crate::rules::{GuardianAction, interval, retry_pause};
use crate::session::errors::{ErrorKind, SessionError};
use crate::session::files::{read_history, refuse_elsewhere, refuse_full, stored_contract};
use crate::session::store::{
    Interrupt, Interrupts, Listener, Store, close_escalation, receive_messages, remove_report, write_report,
};
use crate::state::{
    EscalationFiles, EventLog, GuardianFiles, Journal, OpenOutage, Register, SessionFolder, StateError, has_guardian,
    user_folder,
};

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
pub(crate) fn escalate_outage(shared: &SessionContext<'_>, open: &OpenOutage) -> Result<bool, SessionError> {
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
fn escalate(
    shared: &SessionContext<'_>,
    kind: Trouble,
    what: &str,
    needed: &str,
    waits: bool,
) -> Result<(), SessionError> {
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
pub(crate) fn end_escalation(shared: &SessionContext<'_>, why: &'static str) -> Result<(), SessionError> {
    let kind = close_escalation(&mut shared.store(), why);
    if kind.is_some() { shared.publish() } else { Ok(()) }
}

/// Waits until the cause may be gone or the user says something, at most until the end of this invocation. Nothing that
/// cannot be written meanwhile ends the wait, unless another process took over the session.
async fn await_answer(shared: &SessionContext<'_>, kind: Trouble, times: u32) -> EscalationAnswer {
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
        let asked = shared.interrupts.poll(&mut shared.store(), told);
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
        let _ = shared.heartbeat(&mut heartbeat, || json!({"waiting_for": kind}));
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
pub(crate) async fn escalate_error(shared: &SessionContext<'_>, error: &SessionError) -> Option<Driven> {
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
pub(crate) async fn escalate_agent(shared: &SessionContext<'_>, reason: &StopReason) -> Option<Driven> {
    let StopReason::Agent { .. } = reason else { return None };
    hold_on(shared, Trouble::Agent, &reason.to_string(), OutageKind::NotStarted.remedy()).await
}

async fn hold_on(shared: &SessionContext<'_>, kind: Trouble, what: &str, needed: &str) -> Option<Driven> {
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
pub(crate) fn publish_new_messages(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let is_new = receive_messages(&mut shared.store());
    if is_new {
        shared.publish()?;
        crash::point("words.heard");
        shared.store().write_journal()?;
    }
    Ok(())
}

/// Returns a test for words that the session hears from now on.
pub(crate) fn has_newer_messages<'s>(shared: &'s SessionContext<'_>) -> impl Fn() -> bool + 's {
    let newest = || shared.store().journal.messages.newest();
    let before = newest();
    move || newest() != before
}

/// Within how many seconds a session shows itself again.
pub(crate) fn interval_of(contract: &Contract) -> u64 {
    let pause = match contract.cadence {
        Some(Cadence::Fixed(pause)) => pause,
        Some(Cadence::Adaptive | Cadence::Novelty) => Duration::MAX,
        None => Duration::ZERO,
    };
    interval(&[contract.timeout, contract.agent_timeout, pause])
}

/// Enters a session in the register of this user; gives why that failed. A missing folder counts only if `is_told`.
pub(crate) fn register(root: &Path, tag: &Tag, now: Timestamp, is_told: bool) -> Option<Notice> {
    match user_folder() {
        Some(user) => {
            Register::new(&user).enter(root, tag, now).err().map(|error| Notice::NoRegister(with_causes(&error)))
        }
        // Each `ar try` would say it again.
        None => is_told.then(|| Notice::NoRegister("neither HOME nor XDG_STATE_HOME is set".into())),
    }
}

/// Copies what guardians said since the last time into the log, and begins anew where they said so. Returns whether there
/// was anything.
fn copy_guardian_lines(store: &mut Store, log: &EventLog) -> Result<bool, SessionError> {
    let Some(files) = guardian_files(store.repo.main_worktree(), &store.contract.tag) else { return Ok(false) };
    let lines = match files.lines() {
        Ok(lines) => lines,
        Err(error) => {
            store.note_once(format!("cannot read the messages of `ar guard`: {}", with_causes(&error)));
            return Ok(false);
        }
    };
    let Some(first) = store.journal.first_new_guardian_line(lines.len()) else { return Ok(false) };
    store.heal()?;
    for line in lines.iter().skip(first).flatten() {
        log.guard(line)?;
        if line.action == GuardianAction::Redirect {
            store.note(format!("flagged for review, starting over in an untried direction: {}", line.detail));
            let before = store.journal.ladder.redirect(&store.contract, &store.history);
            store.note_steps(before, "a guardian nudged it in vain and had it start over");
        }
    }
    store.journal.guardian_lines = lines.len();
    store.expected.expect_again(&store.folder.logs());
    store.write_journal()?;
    Ok(true)
}

/// Takes in what guardians said since the last time.
pub(crate) fn take_in_guardians(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let log = shared.events.borrow().log.clone();
    let heard = copy_guardian_lines(&mut shared.store(), &log)?;
    if heard { shared.publish() } else { Ok(()) }
}

/// Copies what guardians reported about a session that no process holds, and informs `observer` and the command of
/// `--on-event`. A process that holds a session does this itself.
///
/// # Errors
///
/// A file or ref needed for this cannot be read or written.
pub async fn hear_guardians(repo: &Repo, tag: &Tag, clock: Clock, observer: Observer<'_>) -> Result<(), SessionError> {
    let root = repo.main_worktree();
    let folder = SessionFolder::new(root, tag);
    let state = folder.state();
    let Some(files) = guardian_files(root, tag) else { return Ok(()) };
    // If the lines are unreadable, the code that needs them reports it.
    let notices = files.lines().map_or(0, |lines| lines.len());
    let is_new = |journal: &Journal| journal.first_new_guardian_line(notices).is_some();
    let Some(journal) = Journal::read(&state).ok().flatten().filter(is_new) else { return Ok(()) };
    let lock = match folder.lock(repo.git_dir(), journal.tree_owner().has_user()) {
        Ok(lock) => lock,
        Err(StateError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if refuse_elsewhere(&folder, false).is_err() {
        return Ok(());
    }
    let (Some(journal), Some(contract)) = (Journal::read(&state)?, stored_contract(repo, tag)?) else { return Ok(()) };
    let metric = &contract.metric.name;
    let ledger = LedgerFile::open(&LedgerFile::place(root, metric), metric, contract.ledger)?;
    let log = EventLog::new(&folder.logs());
    let (repo, history) = (Repo::discover(repo.worktree())?.into(), read_history(repo, tag)?);
    let mut store = Store::new(repo, (folder, lock), contract, history, journal, ledger, clock);
    copy_guardian_lines(&mut store, &log)?;
    let mut events = Events::new(observer, log);
    for event in store.notices.take() {
        events.emit(&event, &store)?;
    }
    events.finish_alerts(&Interrupts::default(), clock).await;
    events.publish_hook_trouble(&store);
    Ok(())
}

/// Counts the lines of guardians about a session. Lines from before a journal begins do not concern it.
pub(crate) fn guardian_lines(repo: &Repo, tag: &Tag) -> usize {
    // If the lines are unreadable, the code that copies them reports it.
    guardian_files(repo.main_worktree(), tag).and_then(|files| files.lines().ok()).map_or(0, |lines| lines.len())
}

/// The files of guardians about a session; none without a home folder.
fn guardian_files(root: &Path, tag: &Tag) -> Option<GuardianFiles> {
    Some(GuardianFiles::new(&user_folder()?, root, tag))
}
