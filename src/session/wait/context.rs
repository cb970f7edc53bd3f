//! State that all attempts of a session share.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Began, Events, Gate, LogKeeper, Machine, publish_new_messages};
use crate::agent::{SearchFinding, permission_hint};
use crate::domain::{Bound, Environment, Event, ExperimentId, Reached, StopReason};
use crate::exec::Executor;
use crate::session::errors::SessionError;
use crate::session::handlers::SlotSetup;
use crate::session::store::{AGENT, Interrupt, Interrupts, REVIEW, Store};

/// Interval between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// State that all attempts of a session share. A user of a part borrows it for a few statements, never across an await.
pub(crate) struct SessionContext<'a> {
    pub(crate) store: RefCell<Store>,
    pub(crate) events: RefCell<Events<'a>>,
    pub(crate) machine: RefCell<Machine>,
    pub(crate) log_keeper: RefCell<LogKeeper>,
    /// The executor of agents, reviewers and helpers.
    pub(crate) local: Executor,
    /// The executor of runs and guards.
    pub(crate) runs: Executor,
    pub(crate) interrupts: Interrupts,
    pub(crate) times: Began,
    /// True if an agent can be called.
    pub(crate) calls_agent: bool,
    /// The runs that are ended since nobody waits for them any more.
    pub(crate) overtaken: RefCell<BTreeSet<ExperimentId>>,
    /// The numbers of a ladder step and, in research, of the experiment, with the search results found for it.
    pub(crate) searched: RefCell<Option<(u64, Rc<[SearchFinding]>)>>,
    /// The gate, with the facts seen before the last call or run.
    pub(crate) gate: RefCell<Gate>,
    /// The resources of slots.
    pub(crate) slots: SlotSetup,
}

/// When the next heartbeat is due.
pub(crate) struct Heartbeat(Instant);

impl Heartbeat {
    /// The first one is due after a while.
    pub(crate) fn new() -> Self {
        Heartbeat(Instant::now())
    }
}

impl<'a> SessionContext<'a> {
    /// The state of a session that was just opened.
    pub(crate) fn new(
        store: Store,
        events: Events<'a>,
        machine: Machine,
        interrupts: Interrupts,
        slots: SlotSetup,
        calls_agent: bool,
    ) -> SessionContext<'a> {
        let runs = Executor::for_runs(store.journal.layout.as_ref().and_then(|layout| layout.cluster.as_ref()));
        SessionContext {
            store: RefCell::new(store),
            events: RefCell::new(events),
            machine: RefCell::new(machine),
            log_keeper: RefCell::default(),
            local: Executor::local(),
            runs,
            interrupts,
            times: Began::default(),
            calls_agent,
            overtaken: RefCell::default(),
            searched: RefCell::default(),
            gate: RefCell::default(),
            slots,
        }
    }
}

impl SessionContext<'_> {
    /// The executor for a job of an experiment.
    pub(crate) fn executor_of(&self, job: &str) -> &Executor {
        if [AGENT, REVIEW].contains(&job) { &self.local } else { &self.runs }
    }

    /// The store, for a few statements.
    pub(crate) fn store(&self) -> RefMut<'_, Store> {
        self.store.borrow_mut()
    }

    /// Heals what others damaged, and tells what the store noted.
    pub(crate) fn publish(&self) -> Result<(), SessionError> {
        self.store().heal()?;
        self.publish_notices()
    }

    /// Heals what others damaged, and tells that and then the event.
    pub(crate) fn emit(&self, event: impl Into<Event>) -> Result<(), SessionError> {
        self.store().heal()?;
        self.store().note(event);
        self.publish_notices()
    }

    /// Tells what the store noted: all of it, also where the logs have no room.
    pub(crate) fn publish_notices(&self) -> Result<(), SessionError> {
        let store = &mut *self.store();
        let notices = store.notices.take();
        let events = &mut *self.events.borrow_mut();
        let mut told = Ok(());
        for event in &notices {
            told = told.and(events.emit(event, store));
        }
        store.expected.expect_again(&store.folder.logs());
        told
    }

    /// Writes the journal and a heartbeat with `detail`, if one is due.
    pub(crate) fn heartbeat(&self, last: &mut Heartbeat, detail: impl FnOnce() -> Value) -> Result<(), SessionError> {
        if last.0.elapsed() < HEARTBEAT {
            return Ok(());
        }
        last.0 = Instant::now();
        let store = &mut *self.store();
        store.heal()?;
        self.events.borrow().log.heartbeat(store.now(), &detail())?;
        store.expected.expect_again(&store.folder.logs());
        store.write_journal()
    }

    /// Writes the journal as a sign of life, if it was not written for a while. Fails if another process took over the session.
    pub(crate) fn show_life(&self) -> Result<(), SessionError> {
        let store = &mut *self.store();
        store.refuse_taken_over()?;
        if store.written.at.elapsed() < HEARTBEAT { Ok(()) } else { store.write_journal() }
    }

    /// The strongest request so far, by signals and by `ar stop`. Reports new requests, and new words of the user.
    pub(crate) fn asked(&self) -> Result<Interrupt, SessionError> {
        publish_new_messages(self)?;
        let told = self.events.borrow().told;
        let asked = self.interrupts.poll(&mut self.store(), told);
        self.events.borrow_mut().told = asked.max(told);
        if asked > told && asked != Interrupt::Detach {
            self.publish()?;
        }
        Ok(asked)
    }

    /// The rule by which the loop stops before the next call of the agent, if there is one; `first` is the place of its first
    /// experiment.
    pub(crate) fn rule_to_stop(&self, first: u32) -> Option<StopReason> {
        let store = &mut *self.store();
        // The value of a first run that selected a change reaches no goal.
        let visible = store.contract.decides_on_hidden().then(|| store.hidden.visible(&store.history));
        let history = visible.as_ref().unwrap_or(&store.history);
        let mut reason = store.journal.rule_to_stop(&store.contract, history, first)?;
        if let StopReason::Reached(Reached { rule: Bound::NoChange, text, .. }) = &mut reason {
            if !store.journal.has_change(&store.history) {
                let said = store.journal.calls.last().said.as_ref();
                *text += &said.map(|said| format!("; it last said: {said}")).unwrap_or_default();
                let seats = store.folder.trees();
                let root = store.journal.users_tree().unwrap_or(&seats);
                let command = store.contract.agent.as_deref().unwrap_or_default();
                *text += &format!("\n      {}; then run `ar resume` to continue", permission_hint(command, root));
            }
            let log = store.folder.run(store.history.next_id()).join("agent.log");
            store.note(format!("the agent's output is in {}", log.display()));
        }
        Some(reason)
    }

    /// Returns whether this invocation of the loop has no time left.
    pub(crate) fn is_time_over(&self) -> bool {
        self.times.end(&self.store()).is_some_and(|end| end.left.is_zero())
    }

    /// The machine, and the versions, that experiments run on.
    pub(crate) fn environment(&self) -> Arc<Environment> {
        Arc::clone(&self.machine.borrow().environment)
    }

    /// Refuses an experiment that there may be no room for.
    pub(crate) fn check_disk_space(&self) -> Result<(), SessionError> {
        let freed = self.log_keeper.borrow_mut().free_disk_space(&self.store(), &self.events.borrow().log);
        let store = &mut *self.store();
        store.expected.expect_again(&store.folder.logs());
        freed
    }

    /// Compresses the large logs of the experiments that are over and drops those that are too much.
    pub(crate) fn keep_logs(&self) -> Result<(), SessionError> {
        self.log_keeper.borrow_mut().keep(&self.store(), &self.events.borrow().log)?;
        let store = &mut *self.store();
        store.expected.expect_again(&store.folder.logs());
        Ok(())
    }

    /// Notes the lock files and the versions as they are now that a run is over.
    pub(crate) async fn note_environment(&self, id: ExperimentId) {
        if self.store().heal().is_err() {
            return;
        }
        let questions = {
            let store = self.store();
            let root = store.repo.worktree();
            self.machine.borrow_mut().look(
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
            self.machine.borrow_mut().note(questions, &printed);
        }
    }
}
