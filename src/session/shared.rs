//! State that all attempts of a session share.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::error::SessionError;
use super::events::Events;
use super::gate::Gate;
use super::interrupts::{Interrupt, Interrupts};
use super::jobs::{AGENT, REVIEW};
use super::keep_logs::LogKeeper;
use super::lanes::SlotSetup;
use super::store::Store;
use super::surroundings::Place;
use super::times::Times;
use super::words::hear_words;
use crate::agent::Finding;
use crate::domain::{Environment, Event, ExperimentId, Notice, StopReason};
use crate::exec::Executor;
use crate::rules::NO_CHANGE;

/// Interval between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// State that all attempts of a session share. A user of a part borrows it for a few statements, never across an await.
pub(super) struct Shared<'a> {
    pub(super) store: RefCell<Store>,
    pub(super) events: RefCell<Events<'a>>,
    pub(super) place: RefCell<Place>,
    pub(super) log_keeper: RefCell<LogKeeper>,
    /// The executor of agents, reviewers and helpers.
    pub(super) local: Executor,
    /// The executor of runs and guards.
    pub(super) runs: Executor,
    pub(super) interrupts: Interrupts,
    pub(super) times: Times,
    /// True if an agent can be called.
    pub(super) calls_agent: bool,
    /// The runs that are ended since nobody waits for them any more.
    pub(super) overtaken: RefCell<BTreeSet<ExperimentId>>,
    /// The number of a ladder step, with the search results found for it outside the repository.
    pub(super) searched: RefCell<Option<(u32, Rc<[Finding]>)>>,
    /// The gate, with the facts seen before the last call or run.
    pub(super) gate: RefCell<Gate>,
    /// The resources of slots.
    pub(super) slots: SlotSetup,
}

/// When the next heartbeat is due.
pub(super) struct Heartbeat(Instant);

impl Heartbeat {
    /// The first one is due after a while.
    pub(super) fn new() -> Self {
        Heartbeat(Instant::now())
    }
}

impl Shared<'_> {
    /// The executor for a job of an experiment.
    pub(super) fn executor_of(&self, job: &str) -> &Executor {
        if [AGENT, REVIEW].contains(&job) { &self.local } else { &self.runs }
    }

    /// The store, for a few statements.
    pub(super) fn store(&self) -> RefMut<'_, Store> {
        self.store.borrow_mut()
    }

    /// Heals what others damaged, and tells what the store noted.
    pub(super) fn tell(&self) -> Result<(), SessionError> {
        self.store().heal()?;
        self.tell_said()
    }

    /// Heals what others damaged, and tells that and then the event.
    pub(super) fn emit(&self, event: impl Into<Event>) -> Result<(), SessionError> {
        self.store().heal()?;
        self.store().say(event);
        self.tell_said()
    }

    /// Tells what the store noted: all of it, also where the logs have no room.
    pub(super) fn tell_said(&self) -> Result<(), SessionError> {
        let store = &mut *self.store();
        let said = store.said.take();
        let events = &mut *self.events.borrow_mut();
        let mut told = Ok(());
        for event in &said {
            told = told.and(events.emit(event, store));
        }
        store.expected.watch_again(&store.folder.logs());
        told
    }

    /// Writes the journal and a heartbeat with `detail`, if one is due.
    pub(super) fn beat(&self, last: &mut Heartbeat, detail: impl FnOnce() -> Value) -> Result<(), SessionError> {
        if last.0.elapsed() < HEARTBEAT {
            return Ok(());
        }
        last.0 = Instant::now();
        let store = &mut *self.store();
        store.heal()?;
        self.events.borrow().log.heartbeat(store.now(), &detail())?;
        store.expected.watch_again(&store.folder.logs());
        store.write_journal()
    }

    /// Writes the journal as a sign of life, if it was not written for a while.
    pub(super) fn show_life(&self) -> Result<(), SessionError> {
        let store = &mut *self.store();
        if store.written.at.elapsed() < HEARTBEAT { Ok(()) } else { store.write_journal() }
    }

    /// The strongest request so far, by signals and by `ar stop`. Reports new requests, and new words of the user.
    pub(super) fn asked(&self) -> Result<Interrupt, SessionError> {
        hear_words(self)?;
        let told = self.events.borrow().told;
        let asked = self.interrupts.hear(&mut self.store(), told);
        self.events.borrow_mut().told = asked.max(told);
        if asked > told && asked != Interrupt::Detach {
            self.tell()?;
        }
        Ok(asked)
    }

    /// The rule by which the loop stops before the next call of the agent, if there is one; `first` is the place of its first
    /// experiment.
    pub(super) fn rule_to_stop(&self, first: u32) -> Option<StopReason> {
        let store = &mut *self.store();
        let reason = store.journal.rule_to_stop(&store.contract, &store.history, first)?;
        if reason.is_rule(NO_CHANGE) {
            let log = store.folder.run(store.history.next_id()).join("agent.log");
            store.say(Notice::AgentsLog(log));
        }
        Some(reason)
    }

    /// Returns whether this invocation of the loop has no time left.
    pub(super) fn is_time_over(&self) -> bool {
        self.times.end(&self.store()).is_some_and(|end| end.left.is_zero())
    }

    /// The machine, and the versions, that experiments run on.
    pub(super) fn environment(&self) -> Arc<Environment> {
        Arc::clone(&self.place.borrow().environment)
    }

    /// Refuses an experiment that there may be no room for.
    pub(super) fn check_room(&self) -> Result<(), SessionError> {
        self.log_keeper.borrow_mut().make_room(&self.store(), &self.events.borrow().log)
    }

    /// Notes the lock files and the versions as they are now that a run is over.
    pub(super) async fn look_around(&self, id: ExperimentId) {
        if self.store().heal().is_err() {
            return;
        }
        let questions = {
            let store = self.store();
            let root = store.repo.worktree();
            self.place.borrow_mut().look(
                root,
                store.folder.root(),
                id,
                &store.contract.command,
                self.times.are_counted(),
            )
        };
        if let Some(questions) = questions
            && let Some(printed) = questions.ask(&self.local).await
        {
            self.place.borrow_mut().note(questions, &printed);
        }
    }
}
