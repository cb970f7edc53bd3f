//! What the session cannot solve by itself: the report to the user, and the wait for an answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::error::{ErrorKind, SessionError};
use super::events::{Observer, event_detail};
use super::hooks::{Alerted, Hooks};
use super::interrupts::{Interrupt, Interrupts, Listener};
use super::open::Session;
use super::plan::{Drive, Plan};
use super::reading::read_history;
use super::room::refuse_full;
use super::shared::{Heartbeat, Shared};
use super::store::Store;
use super::times::Times;
use crate::crash;
use crate::domain::{
    Asked, Contract, Escalate, Escalation, Event, Notice, Outage, OutageKind, StopReason, Trouble, with_causes,
};
use crate::git::Repo;
use crate::report::{escalation_text, flag_text};
use crate::rules::{History, retry_pause};
use crate::state::{EscalationFiles, EventLog, Journal, OpenOutage, SessionFolder, guard_is_installed};

/// Whether the session waits for the answer to what it cannot solve, instead of stopping: where a guard is installed, somebody
/// looks after it.
fn waits(contract: &Contract) -> bool {
    contract.escalate == Escalate::Wait || guard_is_installed()
}

/// How driving a session ended.
#[derive(Debug)]
pub enum Driven {
    /// It stopped.
    Stopped(StopReason),
    /// What kept it from its work is gone, or the user answered: the session is to be opened again.
    Again(Resumed),
}

/// A loop that waited for an answer: its time goes on counting.
#[derive(Debug, Clone, Copy)]
pub struct Resumed(pub(super) Times);

/// What ended the wait for an answer.
enum Answer {
    Again,
    Stop(StopReason),
}

impl Shared<'_> {
    /// Reports an outage that exceeds its limit, once; returns whether the loop waits on.
    pub(super) fn escalate_outage(&self, open: &OpenOutage) -> Result<bool, SessionError> {
        let waits = waits(&self.store().contract);
        if self.store().journal.escalation.open().is_some_and(|known| known.kind == Trouble::Outage) {
            return Ok(waits);
        }
        let Outage { kind, said, .. } = &open.outage;
        let what = format!("{kind}, longer than --outage-limit allows: {said}");
        self.escalate(Trouble::Outage, &what, kind.remedy(), waits)?;
        Ok(waits)
    }

    /// Writes the report of what the session cannot solve, and tells it: to all the first time, and in a line after retries.
    fn escalate(&self, kind: Trouble, what: &str, needed: &str, waits: bool) -> Result<(), SessionError> {
        let told = {
            let store = &mut *self.store();
            let (after, now) = (store.history.last_id(), store.now());
            let escalation = store.journal.escalation.begin(kind, after, (what, needed), waits, now);
            // On a full disk the event is what is left.
            let healed = store.heal();
            let report = write_report(&store.folder, store.repo.worktree(), &escalation);
            let Escalation { what, needed, times, .. } = escalation.clone();
            match times {
                1 => store.say(Event::Escalated { kind, what, needed, times, waits, report }),
                _ => store.say(Notice::StillEscalated { escalation, report }),
            }
            healed
        };
        let told = told.and(self.tell_said());
        crash::point("escalation.told");
        let written = self.store().write_journal();
        told.and(written)
    }

    /// Tells that the session goes on after what it could not solve.
    pub(super) fn end_escalation(&self, why: &'static str) -> Result<(), SessionError> {
        let kind = self.store().end_escalation(why);
        if kind.is_some() { self.tell() } else { Ok(()) }
    }

    /// Waits until the cause may be gone or the user says something, at most until the end of this invocation. Nothing that
    /// cannot be written meanwhile ends the wait.
    async fn await_answer(&self, kind: Trouble, times: u32) -> Answer {
        let newest = self.store().journal.words.newest();
        let due = Instant::now() + retry_pause(times);
        let mut heartbeat = Heartbeat::new();
        let mut listener = self.interrupts.listen();
        loop {
            let _ = self.hear_words();
            let told = self.events.borrow().told;
            let asked = self.interrupts.hear(&mut self.store(), told);
            match asked {
                Interrupt::None => {}
                Interrupt::Detach => return Answer::Stop(StopReason::Detached),
                Interrupt::AfterExperiment | Interrupt::Now => {
                    return Answer::Stop(self.interrupts.reason(&self.store().folder));
                }
            }
            if let Some(end) = self.times.end(&self.store()).filter(|end| end.left == Duration::ZERO) {
                return Answer::Stop(end.reason);
            }
            let is_told = self.store().journal.words.newest() != newest;
            let has_room = kind != Trouble::Disk || {
                let store = self.store();
                refuse_full(&store.repo, &store.folder, &store.history).is_ok()
            };
            if is_told || Instant::now() >= due && has_room {
                if is_told {
                    self.store().journal.escalation.answered();
                    let _ = self.end_escalation("the user answered");
                } else {
                    let store = &mut *self.store();
                    // It is over when something comes of it.
                    if store.journal.escalation.suspend().is_some() {
                        remove_report(&store.folder);
                    }
                }
                let _ = self.store().write_journal();
                return Answer::Again;
            }
            let _ = self.beat(&mut heartbeat, || json!({"waiting_for": kind}));
            listener.signal_or_look().await;
        }
    }
}

impl Store {
    /// Notes that the session waits for no answer any more, and what is to be told; gives what it waited for.
    pub(super) fn end_escalation(&mut self, why: &'static str) -> Option<Trouble> {
        let kind = self.journal.escalation.end()?;
        remove_report(&self.folder);
        self.say(Event::EscalationOver { kind, why });
        Some(kind)
    }

    /// Forgets what the session could not solve, now that something came of it.
    pub(super) fn forget_escalation(&mut self) {
        if let Some(kind) = self.journal.escalation.solve() {
            remove_report(&self.folder);
            self.say(Event::EscalationOver { kind, why: "an experiment was recorded" });
        }
    }

    /// Notes that the session waits for no answer any more, as it stops. Whoever stopped it has seen what it could not solve;
    /// where its time is over, the report stays, and says so.
    pub(super) fn end_wait(&mut self, reason: &StopReason) {
        if let StopReason::Interrupted { .. } = reason {
            self.remove_flag_report();
        }
        let Some(escalation) = self.journal.escalation.stop().cloned() else { return };
        if let StopReason::Interrupted { .. } = reason {
            self.journal.escalation.forget();
            return remove_report(&self.folder);
        }
        let report = write_report(&self.folder, self.repo.worktree(), &escalation);
        self.say(Notice::StillEscalated { escalation, report });
    }

    /// Notes what the session cannot solve outside of its folder, as the journal cannot be written.
    pub(super) fn note_escalation(&self) {
        if let Some(open) = self.journal.escalation.last() {
            EscalationFiles::of(&self.folder).note(open, self.now());
        }
    }

    /// Forgets what the session could not solve. Of a loop that was killed while it waited for an answer it stays known, as
    /// the next one may meet it again; an outage still goes on.
    pub(super) fn forget_solved(&mut self) {
        let Journal { escalation, presence, .. } = &mut self.journal;
        if !escalation.reopen(presence.was_killed()) {
            remove_report(&self.folder);
        }
    }

    /// Writes the report of a flag; gives where it is.
    pub(super) fn write_flag_report(&mut self, why: &str) -> Option<PathBuf> {
        let (tag, root) = (&self.contract.tag, self.repo.worktree());
        let text = flag_text(tag, root, (why, self.now()), &self.history, self.journal.ladder.told());
        // The journal has the flag, and the event tells of it.
        let written = EscalationFiles::of(&self.folder).write_flag_report(&text);
        self.expected.watch_again(&self.folder.state());
        written
    }

    /// Removes the report of a flag: a keep answers it.
    pub(super) fn remove_flag_report(&mut self) {
        EscalationFiles::of(&self.folder).remove_flag_report();
        self.expected.watch_again(&self.folder.state());
    }
}

/// Writes the report, and gives where it is; `root` is the working tree.
fn write_report(folder: &SessionFolder, root: &Path, escalation: &Escalation) -> Option<PathBuf> {
    EscalationFiles::of(folder).write_report(&escalation_text(folder.tag(), root, escalation))
}

/// Whether there is a report to the user.
pub(super) fn is_reported(folder: &SessionFolder) -> bool {
    let files = EscalationFiles::of(folder);
    files.report().is_some() || files.has_flag_report()
}

/// Removes all reports: the user has seen them; the logs have the same.
pub(super) fn remove_reports(folder: &SessionFolder) {
    remove_report(folder);
    EscalationFiles::of(folder).remove_flag_report();
}

/// Removes the report of what is over; the logs have it.
fn remove_report(folder: &SessionFolder) {
    EscalationFiles::of(folder).remove();
}

/// Reports what keeps a session from being opened, and waits until the command of `--on-event` was told.
pub(super) async fn report_unopened(
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
    // The error itself is told in any case.
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

/// What kind of trouble an error is that ends the loop; `None` for what somebody asked for.
fn trouble_of(error: &SessionError) -> Option<Trouble> {
    if error.is_disk_full() {
        return Some(Trouble::Disk);
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

/// What the user is asked to do about an error.
fn needed(error: &SessionError) -> String {
    error.hint().unwrap_or_else(|| "find the cause, and remove it".to_owned())
}

impl<'a> Session<'a> {
    /// Plans to open the session again after a wait for an answer, while this process still has it.
    ///
    /// # Errors
    ///
    /// Those of [`Plan::new`].
    pub fn plan_again(&self) -> Result<Plan, SessionError> {
        let (root, asked, clock, own) = {
            let store = self.shared.store();
            let asked = Asked { tag: Some(store.contract.tag.clone()), ..Asked::default() };
            (store.repo.worktree().to_owned(), asked, store.clock, store.lock.said().to_owned())
        };
        Plan::beside(Repo::discover(&root)?, &asked.into(), Drive::RESUMED, clock, Some(&own))
    }

    /// Opens a session again after a wait for an answer. What keeps it from that is reported.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub async fn open_again(plan: Plan, observer: Observer<'a>, interrupts: Interrupts) -> Result<Self, SessionError> {
        let (root, folder, contract) = (plan.repo.worktree().to_owned(), plan.folder.clone(), plan.contract.clone());
        let (clock, listener) = (plan.clock, interrupts.listen());
        let opened = Session::open(plan, observer, interrupts).await;
        // A contradiction is reported already.
        if let Err(error) = &opened
            && let Some(kind) = trouble_of(error).filter(|_| !matches!(error, SessionError::Contradiction(_)))
        {
            let repo = Repo::discover(&root);
            let history = repo.map_err(SessionError::from).and_then(|repo| read_history(&repo, &contract.tag));
            let history = history.unwrap_or_else(|_| History::new(Vec::new()));
            let of = Alerted { contract: &contract, history: &history, root: &root, logs: folder.logs(), clock };
            report_unopened(&folder, &of, listener, kind, (&with_causes(error), &needed(error))).await;
        }
        opened
    }

    /// Reports an error that ends the loop, where the user is needed, and waits for the answer where the session does that.
    /// `None` where the loop is to stop.
    pub(super) async fn escalate_error(&mut self, error: &SessionError) -> Option<Driven> {
        let kind = trouble_of(error)?;
        // What others wrote is put right first, and from here on nobody's doing is told from this process's own.
        let _ = self.shared.tell();
        let store = self.shared.store.get_mut();
        (store.expected.watch, store.expected.at_work) = (None, Vec::new());
        store.forget_unwritten();
        self.hold_on(kind, &with_causes(error), &needed(error)).await
    }

    /// Does the same where the agent cannot be called.
    pub(super) async fn escalate_agent(&mut self, reason: &StopReason) -> Option<Driven> {
        let StopReason::Agent { .. } = reason else { return None };
        self.hold_on(Trouble::Agent, &reason.to_string(), OutageKind::NotStarted.remedy()).await
    }

    async fn hold_on(&mut self, kind: Trouble, what: &str, needed: &str) -> Option<Driven> {
        let waits = kind.may_go() && waits(&self.shared.store().contract);
        // The first error is the one that has to be mended.
        let _ = self.shared.escalate(kind, what, needed, waits);
        if !waits {
            return None;
        }
        let times = self.shared.store().journal.escalation.times();
        Some(match self.shared.await_answer(kind, times).await {
            Answer::Again => Driven::Again(Resumed(self.shared.times)),
            Answer::Stop(reason) => Driven::Stopped(reason),
        })
    }
}
