//! The loop over slots and seats: it carries out what the scheduler and the line of winners say.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::thread::JoinHandle;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::calls::{Called, call_again, propose};
use super::gpu_turn::await_gpus;
use super::line::{Chains, open_attempt, settle_line};
use super::merging::make_fresh;
use super::reviews::{review, to_review};
use super::trees::{Trees, open_seat, open_slot};
use super::trial::open_trial;
use crate::domain::{ExperimentId, Layout, Notice, Phase, StopReason, with_causes};
use crate::rules::{
    Bar, Budgets, Call, Capacity, Demand, Expected, FileTerms, LOST_RETRIES, OpenAttempt, Place, Plan, Running,
    SESSION_FULL, Situation, Start, Trial, Work, expected_call, expected_run, most_calls, schedule,
};
use crate::session::attempt::{Attempt, Attempted};
use crate::session::error::SessionError;
use crate::session::interrupts::Interrupt;
use crate::session::keep_logs::Keeper;
use crate::session::open::Session;
use crate::session::shared::Shared;
use crate::session::workspace::Workspace;
use crate::state::OpenExperiment;

/// What came of a job.
pub(super) enum Done {
    /// A call of an agent ended.
    Called { seat: u32, workspace: Box<Workspace>, ended: Result<Called, SessionError> },
    /// A run ended, with its guards.
    Ran { slot: u32, workspace: Box<Workspace>, ended: Result<Attempted, SessionError> },
    /// A review ended.
    Reviewed { id: ExperimentId, ended: Result<Attempted, SessionError> },
    /// The agent may be called again, or the outage has taken too long.
    Waited(Result<Option<StopReason>, SessionError>),
    /// A run that nobody waits for was ended.
    Stopped(Result<(), SessionError>),
}

type Job<'s> = Pin<Box<dyn Future<Output = Done> + 's>>;

/// A busy slot.
struct Busy {
    id: ExperimentId,
    work: Work,
    began: Instant,
}

impl Busy {
    /// The experiments whose changes are run.
    fn experiments(&self) -> Vec<ExperimentId> {
        match &self.work {
            Work::Run(id) => vec![*id],
            Work::Trial(trial) => trial.cars().to_vec(),
        }
    }
}

/// What is under way in slots and seats.
pub(super) struct Lanes<'s, 'a> {
    pub(super) shared: &'s Shared<'a>,
    terms: FileTerms,
    layout: Layout,
    trees: Trees,
    chains: Chains,
    jobs: FuturesUnordered<Job<'s>>,
    slots: BTreeMap<u32, Busy>,
    seats: BTreeMap<u32, ExperimentId>,
    /// The attempts that are being reviewed.
    reviews: BTreeSet<ExperimentId>,
    /// The attempts that wait for a slot, in the order in which they became ready.
    ready: Vec<ExperimentId>,
    keeper: Option<Keeper>,
    /// Whether an outage is being waited out.
    waits: bool,
    /// How many calls in a row were lost with their shims.
    lost: u32,
    /// Why the loop ends.
    ending: Option<StopReason>,
}

impl Session<'_> {
    /// Calls agents and runs what they make, in all seats and slots, until something ends the loop.
    pub(in crate::session) async fn turn_lanes(&mut self) -> Result<StopReason, SessionError> {
        let store = self.shared.store.get_mut();
        let Some(layout) = store.journal.layout.clone() else { return Ok(StopReason::NoAgent) };
        let first = store.history.next_sequence();
        let (mut tries, mut last) = (0, first);
        let reason = loop {
            let mut lanes = Lanes::new(&self.shared, &self.workspace.file_terms, &layout);
            let turned = lanes.turn(first).await;
            lanes.end_keeper(true)?;
            drop(lanes);
            match turned {
                // Somebody deletes trees while `ar` works on them: what is open is picked up as after a kill.
                Err(error) if error.may_pass() && tries < LOST_RETRIES => {
                    let store = &mut *self.shared.store();
                    store.begin_anew()?;
                    store.say(Notice::PickedUp(with_causes(&error)));
                    tries = if store.history.next_sequence() > last { 1 } else { tries + 1 };
                    last = store.history.next_sequence();
                }
                turned => break turned?,
            }
        };
        if reason != StopReason::Detached {
            self.shelve()?;
        }
        Ok(reason)
    }
}

impl<'s, 'a> Lanes<'s, 'a> {
    fn new(shared: &'s Shared<'a>, terms: &FileTerms, layout: &Layout) -> Self {
        Lanes {
            shared,
            terms: terms.clone(),
            layout: layout.clone(),
            trees: Trees::default(),
            chains: Chains::default(),
            jobs: FuturesUnordered::new(),
            slots: BTreeMap::new(),
            seats: BTreeMap::new(),
            reviews: BTreeSet::new(),
            ready: Vec::new(),
            keeper: None,
            waits: false,
            lost: 0,
            ending: None,
        }
    }

    async fn turn(&mut self, first: u32) -> Result<StopReason, SessionError> {
        self.recover().await?;
        let mut listener = self.shared.interrupts.listen();
        loop {
            let asked = self.shared.asked()?;
            if asked == Interrupt::Detach {
                return Ok(StopReason::Detached);
            }
            self.shared.hear_guards()?;
            if self.ending.is_none() && asked == Interrupt::None {
                self.ending = self.shared.rule_to_stop(first);
            }
            let demand = self.demand(asked);
            let may_ask = self.shared.calls_agent && demand == Demand::New;
            let trials = settle_line(&mut self.shared.store(), &mut self.chains, may_ask || self.waits)?;
            self.shared.tell()?;
            if asked != Interrupt::Now {
                self.start_reviews()?;
            }
            let plan = self.plan(demand, &trials);
            let bar = plan.bar;
            let is_over = plan.is_empty() && self.jobs.is_empty();
            if is_over {
                self.end_keeper(true)?;
                return Ok(self.reason(asked, bar));
            }
            self.carry_out(plan)?;
            self.shared.tell()?;
            tokio::select! {
                Some(done) = self.jobs.next() => self.take(done)?,
                () = listener.signal_or_look() => {}
            }
        }
    }

    /// What may still start.
    fn demand(&mut self, asked: Interrupt) -> Demand {
        if asked != Interrupt::None {
            return Demand::Nothing;
        }
        match &self.ending {
            None => {}
            Some(StopReason::MaxExperiments { .. }) => return Demand::Winners,
            Some(StopReason::Reached(reached)) if ["goal", SESSION_FULL].contains(&reached.rule) => {
                return Demand::Winners;
            }
            // A budget of the agent's is spent.
            Some(StopReason::Reached(reached)) if reached.is_done => return Demand::Open,
            Some(_) => return Demand::Nothing,
        }
        if !self.shared.calls_agent || self.waits {
            return Demand::Open;
        }
        if self.shared.store().journal.waits_for_reset() {
            self.wait_out();
            return Demand::Open;
        }
        Demand::New
    }

    /// Why the loop ends, now that there is nothing to do.
    fn reason(&mut self, asked: Interrupt, bar: Option<Bar>) -> StopReason {
        if asked != Interrupt::None {
            return self.shared.interrupted();
        }
        let store = self.shared.store();
        let no_time = || self.shared.times.no_time_for_experiment(&store).or(self.shared.times.no_time_for_run(&store));
        let is_full = bar == Some(Bar::Experiments);
        let limit = is_full.then(|| store.night().experiments_enough(&store.contract, &store.history)).flatten();
        self.ending.take().or(limit).or_else(no_time).unwrap_or(StopReason::NoAgent)
    }

    /// What is to be started now, by the rules.
    fn plan(&self, demand: Demand, trials: &[Trial]) -> Plan {
        let store = self.shared.store();
        let expected = Expected { run: expected_run(&store.history), call: expected_call(&store.history) };
        let calls = if store.journal.outage.is_some() { Some(1) } else { self.layout.calls };
        let running: Vec<Running> = self
            .slots
            .iter()
            .map(|(slot, busy)| Running {
                slot: *slot,
                work: busy.work.clone(),
                left: expected.run.saturating_sub(busy.began.elapsed()),
            })
            .collect();
        let attempts = self.attempts(store.journal.steps());
        schedule(&Situation {
            layout: Capacity { slots: self.layout.slots, ahead: self.layout.ahead, calls },
            demand,
            attempts: &attempts,
            running: &running,
            trials,
            expected,
            budgets: Budgets {
                experiments: store.night().experiments_left(&store.contract, &store.history),
                time: self.shared.times.end(&store).map(|end| end.left),
            },
        })
    }

    /// Where the open attempts are.
    fn attempts<'j>(&self, open: impl Iterator<Item = (Phase, &'j OpenExperiment)>) -> Vec<OpenAttempt> {
        let place = |phase, id| {
            let seat = self.seats.iter().find(|(_, at_work)| **at_work == id).map(|(seat, _)| *seat);
            match (seat, phase) {
                (Some(seat), _) => Place::Seat(seat),
                (None, Phase::Proposing) => Place::NeedsCall,
                (None, Phase::Committing) => Place::Ready,
                (None, Phase::Waiting | Phase::Reviewing) => Place::Winner,
                (None, _) => Place::Slot,
            }
        };
        let own = open.filter(|(_, open)| open.trial.is_none());
        let mut attempts: Vec<OpenAttempt> =
            own.map(|(phase, open)| OpenAttempt { id: open.id, place: place(phase, open.id) }).collect();
        // A seat is busy as long as its job goes on, also where its attempt is closed.
        let is_open = |id: ExperimentId| attempts.iter().any(|attempt| attempt.id == id);
        let closed: Vec<OpenAttempt> = self
            .seats
            .iter()
            .filter(|(_, id)| !is_open(**id))
            .map(|(seat, id)| OpenAttempt { id: *id, place: Place::Seat(*seat) })
            .collect();
        attempts.extend(closed);
        attempts.sort_by_key(|attempt| self.ready.iter().position(|id| *id == attempt.id));
        attempts
    }

    fn carry_out(&mut self, plan: Plan) -> Result<(), SessionError> {
        for slot in plan.stops {
            self.stop(slot);
        }
        for Start { slot, work } in plan.starts {
            match work {
                Work::Run(id) => self.start_run(slot, id)?,
                Work::Trial(trial) => self.start_trial(slot, &trial)?,
            }
        }
        for Call { seat, attempt } in plan.calls {
            self.call(seat, attempt)?;
        }
        Ok(())
    }

    /// Runs a proposal, merged onto the incumbent where it is stale.
    fn start_run(&mut self, slot: u32, id: ExperimentId) -> Result<(), SessionError> {
        self.shared.check_room()?;
        let open = open_attempt(&self.shared.store(), id)?;
        let mut attempt = Attempt::at(open, Phase::Committing);
        if !make_fresh(&mut attempt, &mut self.shared.store(), &self.terms)? {
            // Without a run it needs no slot.
            return Ok(());
        }
        self.ready.retain(|ready| *ready != id);
        self.start(slot, Work::Run(id), attempt)
    }

    fn start_trial(&mut self, slot: u32, trial: &Trial) -> Result<(), SessionError> {
        self.shared.check_room()?;
        let opened = open_trial(&mut self.shared.store(), &self.terms, &mut self.chains, trial)?;
        match opened {
            Some(attempt) => self.start(slot, Work::Trial(trial.clone()), attempt),
            None => Ok(()),
        }
    }

    fn start(&mut self, slot: u32, work: Work, mut attempt: Attempt) -> Result<(), SessionError> {
        let shared = self.shared;
        let mut workspace = self.slot(slot, &attempt)?;
        let id = attempt.open.id;
        {
            let store = &mut *shared.store();
            if attempt.open.refused.is_none() {
                attempt.open.beside.slot = Some(slot);
                attempt.open.beside.neighbours = self.slots.values().flat_map(Busy::experiments).collect();
                workspace.check_out(store, &attempt.open)?;
                attempt.prepare_run(&workspace, store)?;
            }
        }
        self.slots.insert(slot, Busy { id, work, began: Instant::now() });
        self.jobs.push(Box::pin(async move {
            let ended = match await_gpus(shared, slot).await {
                Ok(()) => attempt.finish(&mut workspace, shared, None).await,
                Err(error) => Err(error),
            };
            Done::Ran { slot, workspace: Box::new(workspace), ended }
        }));
        Ok(())
    }

    /// Picks up a run that an earlier process started.
    pub(super) fn resume(&mut self, slot: u32, mut attempt: Attempt) -> Result<(), SessionError> {
        let shared = self.shared;
        let mut workspace = self.slot(slot, &attempt)?;
        let id = attempt.open.id;
        let work = attempt.open.trial.clone().map_or(Work::Run(id), Work::Trial);
        self.slots.insert(slot, Busy { id, work, began: Instant::now() });
        self.jobs.push(Box::pin(async move {
            let ended = attempt.recover(&mut workspace, shared, None).await;
            let ended = ended.map(|attempted| attempted.unwrap_or(Attempted::Waiting));
            Done::Ran { slot, workspace: Box::new(workspace), ended }
        }));
        Ok(())
    }

    /// Has reviewed what waits for that.
    fn start_reviews(&mut self) -> Result<(), SessionError> {
        let shared = self.shared;
        let waiting = to_review(&shared.store());
        for id in waiting.into_iter().filter(|id| !self.reviews.contains(id)).collect::<Vec<_>>() {
            let mut attempt = Attempt::at(open_attempt(&shared.store(), id)?, Phase::Reviewing);
            self.reviews.insert(id);
            self.jobs.push(Box::pin(async move {
                let ended = review(&mut attempt, shared).await;
                Done::Reviewed { id, ended }
            }));
        }
        Ok(())
    }

    /// The working tree of a slot that is free.
    fn slot(&mut self, slot: u32, attempt: &Attempt) -> Result<Workspace, SessionError> {
        let commit = attempt.open.commit.clone().unwrap_or_else(|| self.shared.store().tip());
        let mut workspace = match self.trees.slots.remove(&slot) {
            Some(workspace) => workspace,
            None => open_slot(self.shared, &self.terms, slot, &commit)?,
        };
        workspace.stand(&mut self.shared.store(), &commit)?;
        Ok(workspace)
    }

    /// The working tree of a seat that is free.
    pub(super) fn seat(&mut self, seat: u32) -> Result<Workspace, SessionError> {
        let tip = self.shared.store().tip();
        let mut workspace = match self.trees.seats.remove(&seat) {
            Some(workspace) => workspace,
            None => open_seat(self.shared, &self.terms, seat, &tip)?,
        };
        workspace.stand(&mut self.shared.store(), &tip)?;
        Ok(workspace)
    }

    /// Takes a working tree back.
    pub(super) fn give_back(&mut self, seat: u32, workspace: Workspace) {
        self.trees.seats.insert(seat, workspace);
    }

    /// Adds an attempt to those that wait for a slot.
    pub(super) fn note_ready(&mut self, id: ExperimentId) {
        if !self.ready.contains(&id) {
            self.ready.push(id);
        }
    }

    /// Ends a run that nobody waits for.
    fn stop(&mut self, slot: u32) {
        let Some(busy) = self.slots.get(&slot) else { return };
        let (shared, id) = (self.shared, busy.id);
        if shared.overtake(id) {
            self.jobs.push(Box::pin(async move { Done::Stopped(shared.end_jobs(id).await) }));
        }
    }

    /// Calls an agent, for a new attempt or for one that is open. A call that was cut off is made again on what is best now.
    fn call(&mut self, seat: u32, attempt: Option<ExperimentId>) -> Result<(), SessionError> {
        let shared = self.shared;
        shared.check_room()?;
        if self.keeper.is_none() {
            self.keeper = Some(shared.log_keeper.borrow_mut().start(&shared.store()));
        }
        let mut workspace = self.seat(seat)?;
        let open = attempt.map(|id| open_attempt(&shared.store(), id)).transpose()?;
        let Some(open) = open.filter(OpenExperiment::is_made) else {
            let store = &mut *shared.store();
            let id = attempt.unwrap_or_else(|| store.allocate());
            let attempt = Attempt::open_as(id, Some(seat), &mut workspace, store)?;
            self.seats.insert(seat, id);
            self.jobs.push(Box::pin(async move {
                let ended = propose(attempt, &mut workspace, shared).await;
                Done::Called { seat, workspace: Box::new(workspace), ended }
            }));
            return Ok(());
        };
        let id = open.id;
        let mut attempt = Attempt::at(OpenExperiment { seat: Some(seat), ..open }, Phase::Proposing);
        attempt.enter(&mut shared.store(), Phase::Proposing)?;
        self.seats.insert(seat, id);
        self.jobs.push(Box::pin(async move {
            let ended = call_again(&mut attempt, &mut workspace, shared).await;
            Done::Called { seat, workspace: Box::new(workspace), ended }
        }));
        Ok(())
    }

    /// Waits until the agent may be called again.
    fn wait_out(&mut self) {
        let shared = self.shared;
        self.waits = true;
        self.jobs.push(Box::pin(async move { Done::Waited(shared.wait_out().await) }));
    }

    fn take(&mut self, done: Done) -> Result<(), SessionError> {
        match done {
            Done::Ran { slot, workspace, ended } => {
                self.slots.remove(&slot);
                self.trees.slots.insert(slot, *workspace);
                ended?;
                self.end_keeper(false)
            }
            Done::Called { seat, workspace, ended } => {
                let id = self.seats.remove(&seat);
                self.trees.seats.insert(seat, *workspace);
                let tip = self.shared.store().tip();
                self.shared.store().set_branch(&tip, &[], "put back")?;
                match ended? {
                    Called::Over => self.lost = 0,
                    Called::Outage if !self.waits => self.wait_out(),
                    Called::Outage | Called::Detached => {}
                    // What ends one call may end those in all seats.
                    Called::Lost if self.lost == LOST_RETRIES * most_calls(&self.layout) => {
                        self.ending = Some(StopReason::Agent { detail: "its shim was killed each time".into() });
                    }
                    Called::Lost => self.lost += 1,
                }
                id.into_iter().for_each(|id| self.note_ready(id));
                self.end_keeper(false)
            }
            Done::Waited(waited) => {
                self.waits = false;
                self.ending = waited?.or(self.ending.take());
                Ok(())
            }
            Done::Reviewed { id, ended } => {
                self.reviews.remove(&id);
                ended.map(drop)
            }
            Done::Stopped(stopped) => stopped,
        }
    }

    /// Notes what was done about the logs, once that is over; `at_once` waits for it.
    fn end_keeper(&mut self, at_once: bool) -> Result<(), SessionError> {
        let is_over = |keeper: &mut Keeper| at_once || keeper.as_ref().is_none_or(JoinHandle::is_finished);
        let Some(keeper) = self.keeper.take_if(is_over) else { return Ok(()) };
        let shared = self.shared;
        shared.log_keeper.borrow_mut().end(keeper, &shared.store(), &shared.events.borrow().log)?;
        let store = &mut *shared.store();
        store.watch_again(&store.folder.logs());
        Ok(())
    }
}
