//! The loop, over slots and seats: it carries out what the scheduler and the line of winners say.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::session::Session;
use crate::domain::{Bound, CommitId, ExperimentId, Phase, StopReason, with_causes};
use crate::machine::{Attempt, AttemptEntry};
use crate::rules::{
    AttemptPlace, Bar, Budgets, BusySlot, CallStart, Capacity, CheckReason, Demand, Durations, FileTerms, LOST_RETRIES,
    PendingAttempt, Situation, SlotWork, Start, Starts, Trial, check_due, expected_call, expected_run, schedule,
};
use crate::session::attempt::{
    Attempted, Called, Chains, Purpose, RunningChange, Stage, ask_for_text, call_again, end_jobs, find_entry,
    leave_as_idea, make_fresh, open_call, open_trial, pick_up, propose, review, settle_line, text_due, to_review,
};
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Store};
use crate::session::tree::{Tree, TreeOf, Trees, Workspace};
use crate::session::wait::{
    CallPermit, Deadline, PauseOutcome, SessionContext, WaitEnd, await_call_permit, await_gpus, take_in_guardians,
    wait_out,
};

/// The outcome of a job.
pub(crate) enum JobCompletion<'s> {
    /// A call of an agent ended.
    Called { seat: u32, tree: Tree<'s>, ended: Result<Called, SessionError> },
    /// A run ended, with its guards.
    Ran { slot: u32, tree: Tree<'s>, ended: Result<Attempted, SessionError> },
    /// The incumbent ran once again.
    Checked { slot: u32, tree: Tree<'s>, ended: Result<WaitEnd<()>, SessionError> },
    /// The wait before new calls is over.
    Cleared(Result<PauseOutcome, SessionError>),
    /// A review ended.
    Reviewed { id: ExperimentId, ended: Result<Attempted, SessionError> },
    /// The agent is available again, or the outage took too long.
    Waited(Result<Option<StopReason>, SessionError>),
    /// A run that nobody waits for was ended.
    Stopped(Result<(), SessionError>),
}

type Job<'s> = Pin<Box<dyn Future<Output = JobCompletion<'s>> + 's>>;

/// A busy slot.
struct Busy {
    id: ExperimentId,
    work: SlotWork,
    began: Instant,
}

impl Busy {
    /// The experiments whose changes are run.
    fn experiments(&self) -> Vec<ExperimentId> {
        match &self.work {
            SlotWork::Run(id) => vec![*id],
            SlotWork::Trial(trial) => trial.cars().to_vec(),
            SlotWork::Check(_) => Vec::new(),
        }
    }
}

/// The purpose of a loop.
#[derive(Debug, Clone, Copy)]
enum Scope {
    /// A night: calls, runs, pauses, checks and reviews, until something ends it; `first` is the place of its first
    /// experiment.
    Night { first: u32 },
    /// Finishes open attempts until this deadline, without agent calls or budgets.
    Open(Deadline),
}

/// The work under way in slots and seats.
pub(crate) struct Dispatcher<'s, 'a> {
    pub(crate) shared: &'s SessionContext<'a>,
    scope: Scope,
    pub(crate) terms: FileTerms,
    capacity: Capacity,
    pub(crate) trees: Trees<'s>,
    chains: Chains,
    jobs: FuturesUnordered<Job<'s>>,
    slots: BTreeMap<u32, Busy>,
    seats: BTreeMap<u32, ExperimentId>,
    /// The seat in which an agent is asked for text.
    text: Option<u32>,
    /// The permission to start new calls.
    permit: CallPermit,
    /// Duration of the last call in seconds, if it changed nothing.
    idle: Option<f64>,
    /// True if the next pause of the cadence may have begun in an earlier process.
    is_begun: bool,
    /// Number of crashes in a row when the incumbent was last checked.
    crashes_seen: u32,
    /// The sequence of the next record when the incumbent was last checked.
    checked_before: Option<u32>,
    /// The attempts that are being reviewed.
    reviews: BTreeSet<ExperimentId>,
    /// The attempts that wait for a slot, in the order in which they became ready.
    ready: Vec<ExperimentId>,
    /// Set while the loop waits for an outage to end.
    waits: bool,
    /// Number of calls in a row whose shims were killed.
    lost: u32,
    /// The outcome of the last attempt that left its slot.
    pub(crate) attempted: Option<Attempted>,
    /// The reason for the end of the loop.
    ending: Option<StopReason>,
    /// The error with which the loop ends, once the work under way is finished.
    failing: Option<SessionError>,
    /// Set once a job is still running without this process, which cannot wait for it.
    is_detached: bool,
}

impl Session<'_> {
    /// Calls agents and runs what they make, in all seats and slots, until something ends the loop.
    pub(crate) async fn run_loop(&mut self) -> Result<StopReason, SessionError> {
        let first = self.shared.store().history.next_sequence();
        let (mut tries, mut last) = (0, first);
        let reason = loop {
            let mut dispatcher = Dispatcher::new(&self.shared, &mut self.workspace, Scope::Night { first });
            let turned = dispatcher.run().await;
            let may_pass = dispatcher.trees.are_own() && turned.as_ref().is_err_and(SessionError::may_pass);
            drop(dispatcher);
            match turned {
                // Somebody deletes trees while `ar` works on them: what is open is picked up as after a kill.
                Err(error) if may_pass && tries < LOST_RETRIES => {
                    let store = &mut *self.shared.store();
                    store.begin_anew()?;
                    store.note(format!("picked up all open experiments again after an error: {}", with_causes(&error)));
                    tries = if store.history.next_sequence() > last { 1 } else { tries + 1 };
                    last = store.history.next_sequence();
                }
                turned => break turned?,
            }
        };
        if reason != StopReason::Detached {
            self.shelve(matches!(reason, StopReason::Interrupted { .. } | StopReason::Terminated))?;
        }
        Ok(reason)
    }

    /// Brings an attempt to its end whose run is in the journal already, and waits for that at most until `deadline`.
    pub(crate) async fn finish(
        &mut self,
        change: RunningChange,
        deadline: Deadline,
    ) -> Result<Attempted, SessionError> {
        let mut dispatcher = Dispatcher::new(&self.shared, &mut self.workspace, Scope::Open(deadline));
        dispatcher.run_at_once(change)?;
        let reason = dispatcher.run_until_idle().await?;
        Ok(dispatcher.last_outcome(&reason).unwrap_or(Attempted::Waiting))
    }

    /// Brings what an earlier process left open to its end, and waits for that at most until `deadline`. Returns what came of
    /// it, if anything.
    pub(crate) async fn finish_open(&mut self, deadline: Deadline) -> Result<Option<Attempted>, SessionError> {
        let mut dispatcher = Dispatcher::new(&self.shared, &mut self.workspace, Scope::Open(deadline));
        let reason = dispatcher.run().await?;
        Ok(dispatcher.last_outcome(&reason))
    }
}

impl<'s, 'a> Dispatcher<'s, 'a> {
    fn new(shared: &'s SessionContext<'a>, workspace: &'s mut Workspace, scope: Scope) -> Self {
        let store = shared.store();
        Dispatcher {
            shared,
            scope,
            terms: workspace.file_terms.clone(),
            capacity: Capacity::of(store.journal.layout.as_ref()),
            trees: Trees::of(workspace),
            chains: Chains::default(),
            jobs: FuturesUnordered::new(),
            slots: BTreeMap::new(),
            seats: BTreeMap::new(),
            text: None,
            permit: CallPermit::default(),
            idle: None,
            is_begun: true,
            // A check that an earlier process made is not made again, unless it gave no number.
            crashes_seen: match store.journal.checks.is_made(store.history.next_sequence()) {
                true => crashes(&store),
                false => crashes(&store).saturating_sub(1),
            },
            checked_before: None,
            reviews: BTreeSet::new(),
            ready: Vec::new(),
            waits: false,
            lost: 0,
            attempted: None,
            ending: None,
            failing: None,
            is_detached: false,
        }
    }

    async fn run(&mut self) -> Result<StopReason, SessionError> {
        self.recover().await?;
        self.run_until_idle().await
    }

    /// Does what the rules say until nothing is left to do. Once another process took over the session, waits for the jobs,
    /// which end for that reason.
    async fn run_until_idle(&mut self) -> Result<StopReason, SessionError> {
        let ended = self.main_loop().await;
        if let Err(SessionError::TakenOver { .. }) = ended {
            while self.jobs.next().await.is_some() {}
        }
        ended
    }

    async fn main_loop(&mut self) -> Result<StopReason, SessionError> {
        let mut listener = self.shared.interrupts.listen();
        loop {
            let asked = self.shared.asked()?;
            if asked == Interrupt::Detach || self.is_detached {
                return Ok(StopReason::Detached);
            }
            take_in_guardians(self.shared)?;
            if let Scope::Night { first } = self.scope
                && self.ending.is_none()
                && asked == Interrupt::None
            {
                self.ending = self.shared.rule_to_stop(first);
            }
            self.crashes_seen = self.crashes_seen.min(crashes(&self.shared.store()));
            let demand = self.demand(asked);
            let may_ask = self.shared.calls_agent && demand == Demand::New;
            let trials = settle_line(&mut self.shared.store(), &mut self.chains, may_ask || self.waits)?;
            self.shared.publish()?;
            let is_alone = self.slots.values().filter_map(|busy| busy.work.check()).any(CheckReason::holds_up_others);
            if asked != Interrupt::Now && !is_alone && self.failing.is_none() {
                self.start_reviews()?;
            }
            let mut plan = self.plan(demand, &trials);
            let bar = plan.bar;
            let is_over = plan.is_empty() && self.jobs.is_empty();
            if is_over {
                return match self.failing.take() {
                    Some(error) => Err(error),
                    None => Ok(self.reason(asked, bar)),
                };
            }
            self.defer_new_calls(&mut plan);
            self.carry_out(plan)?;
            self.shared.publish()?;
            tokio::select! {
                Some(done) = self.jobs.next() => self.handle_completion(done)?,
                () = listener.signal_or_look() => {}
            }
        }
    }

    /// The outcome of the last attempt when the loop ended for this reason.
    fn last_outcome(self, reason: &StopReason) -> Option<Attempted> {
        if *reason == StopReason::Detached { Some(Attempted::StillRunning) } else { self.attempted }
    }

    fn is_night(&self) -> bool {
        matches!(self.scope, Scope::Night { .. })
    }

    /// The deadline for a run, its guards and its review.
    fn deadline(&self) -> Deadline {
        match self.scope {
            Scope::Night { .. } => None,
            Scope::Open(deadline) => deadline,
        }
    }

    /// The work that may still start.
    fn demand(&mut self, asked: Interrupt) -> Demand {
        if asked == Interrupt::Now || self.failing.is_some() {
            return Demand::Nothing;
        }
        if !self.is_night() {
            return Demand::Open;
        }
        let is_ending = asked != Interrupt::None || self.ending.is_some();
        // *In place* one attempt is open at most, and its rework is a part of it.
        let may_rework = self.shared.store().journal.has_change_to_rework()
            && !matches!(self.ending, Some(StopReason::Agent { .. }));
        if is_ending && may_rework && !self.trees.are_own() && self.shared.calls_agent {
            return Demand::Started;
        }
        if asked != Interrupt::None {
            return Demand::Nothing;
        }
        match &self.ending {
            None => {}
            Some(StopReason::MaxExperiments { .. }) => return Demand::Winners,
            Some(StopReason::Reached(reached))
                if matches!(reached.rule, Bound::Goal | Bound::Refusals | Bound::SessionMaxExperiments) =>
            {
                return Demand::Winners;
            }
            // A budget of the agent's is spent.
            Some(StopReason::Reached(reached)) if reached.is_done => return Demand::Open,
            Some(_) => return Demand::Nothing,
        }
        if !self.shared.calls_agent || self.waits {
            return Demand::Open;
        }
        if self.shared.store().journal.pauses.waits_for_reset() {
            self.wait_out();
            return Demand::Open;
        }
        Demand::New
    }

    /// The reason for the end of a loop that has nothing left to do.
    fn reason(&mut self, asked: Interrupt, bar: Option<Bar>) -> StopReason {
        if asked != Interrupt::None {
            return self.shared.interrupts.reason(&self.shared.store().folder);
        }
        let store = self.shared.store();
        let no_time = || self.shared.times.no_time_for_experiment(&store).or(self.shared.times.no_time_for_run(&store));
        let is_full = bar == Some(Bar::Experiments);
        let limit = is_full
            .then(|| store.journal.expenses.night(&store.contract).experiments_enough(&store.contract, &store.history))
            .flatten();
        self.ending.take().or(limit).or_else(no_time).unwrap_or(StopReason::NoAgent)
    }

    /// The work to start now, by the rules.
    fn plan(&self, demand: Demand, trials: &[Trial]) -> Starts {
        let store = self.shared.store();
        let expected = Durations { run: expected_run(&store.history), call: expected_call(&store.history) };
        let calls = if store.journal.pauses.outage().is_some() { Some(1) } else { self.capacity.calls };
        let running: Vec<BusySlot> = self
            .slots
            .iter()
            .map(|(slot, busy)| BusySlot {
                slot: *slot,
                work: busy.work.clone(),
                left: expected.run.saturating_sub(busy.began.elapsed()),
            })
            .collect();
        let attempts = self.attempts(store.journal.attempts());
        schedule(&Situation {
            layout: Capacity { calls, ..self.capacity },
            demand,
            attempts: &attempts,
            running: &running,
            trials,
            check_due: self.check_due(&store),
            expected,
            budgets: match self.scope {
                Scope::Night { .. } => Budgets {
                    experiments: store
                        .journal
                        .expenses
                        .night(&store.contract)
                        .experiments_left(&store.contract, &store.history),
                    time: self.shared.times.end(&store).map(|end| end.left),
                },
                Scope::Open(_) => Budgets::default(),
            },
        })
    }

    /// The open attempts with their places.
    fn attempts<'j>(&self, open: impl Iterator<Item = &'j Attempt>) -> Vec<PendingAttempt> {
        let place = |phase, id| {
            let seat = self.seats.iter().find(|(_, at_work)| **at_work == id).map(|(seat, _)| *seat);
            match (seat, phase) {
                (Some(seat), _) => AttemptPlace::Seat(seat),
                // A refused attempt keeps its earlier phase while it is in a slot.
                _ if self.slots.values().any(|busy| busy.id == id) => AttemptPlace::Slot,
                (None, Phase::Proposing) => AttemptPlace::NeedsCall,
                (None, Phase::Committing) => AttemptPlace::Ready,
                (None, Phase::Waiting | Phase::Reviewing) => AttemptPlace::Winner,
                (None, _) => AttemptPlace::Slot,
            }
        };
        let own = open.filter(|open| open.trial().is_none()).map(|open| (open.phase(), open.id()));
        let mut attempts: Vec<PendingAttempt> =
            own.map(|(phase, id)| PendingAttempt { id, place: place(phase, id) }).collect();
        // A seat is busy until its job ends, even if its attempt is closed.
        let is_open = |id: ExperimentId| attempts.iter().any(|attempt| attempt.id == id);
        let closed: Vec<PendingAttempt> = self
            .seats
            .iter()
            .filter(|(_, id)| !is_open(**id))
            .map(|(seat, id)| PendingAttempt { id: *id, place: AttemptPlace::Seat(*seat) })
            .collect();
        attempts.extend(closed);
        attempts.sort_by_key(|attempt| self.ready.iter().position(|id| *id == attempt.id));
        attempts
    }

    fn carry_out(&mut self, plan: Starts) -> Result<(), SessionError> {
        for slot in plan.stops {
            self.stop(slot);
        }
        for Start { slot, work } in plan.starts {
            match work {
                SlotWork::Run(id) => self.start_run(slot, id)?,
                SlotWork::Trial(trial) => self.start_trial(slot, &trial)?,
                SlotWork::Check(reason) => self.start_check(slot, reason)?,
            }
        }
        for call in plan.calls {
            self.call(call)?;
        }
        Ok(())
    }

    /// Returns whether a call is for a new change, or for an attempt without a change so far.
    fn is_new(&self, call: &CallStart) -> bool {
        let store = self.shared.store();
        let is_made = |id| store.journal.attempt(id).is_some_and(Attempt::is_made);
        !call.attempt.is_some_and(is_made)
    }

    /// Removes new calls from a plan until the wait before them is over, and starts that wait.
    fn defer_new_calls(&mut self, plan: &mut Starts) {
        if !plan.calls.iter().any(|call| self.is_new(call)) {
            if self.permit == CallPermit::Given {
                self.permit = CallPermit::None;
            }
            return;
        }
        let purpose = self.purpose();
        if self.permit == CallPermit::Given && purpose.is_some() {
            return;
        }
        plan.calls.retain(|call| !self.is_new(call));
        if self.permit == CallPermit::None
            && let Some(purpose) = purpose
        {
            self.permit = CallPermit::Awaited;
            let shared = self.shared;
            let idle = self.idle.take();
            let is_paced = idle.is_none() && purpose == Purpose::Change;
            let paced = is_paced.then(|| std::mem::take(&mut self.is_begun));
            self.jobs
                .push(Box::pin(async move { JobCompletion::Cleared(await_call_permit(shared, idle, paced).await) }));
        }
    }

    /// The purpose of the next new call, or `None` during a call for text. A call for text uses up no experiment number as
    /// long as no later number is assigned meanwhile. At a pivot, the change needs the proposals of that call.
    fn purpose(&self) -> Option<Purpose> {
        match self.text {
            Some(_) => None,
            None => {
                let store = self.shared.store();
                Some(text_due(&store.contract, &store.journal).unwrap_or(Purpose::Change))
            }
        }
    }

    /// The reason for a rerun of the incumbent. One begun by this process is not due again before the next record.
    fn check_due(&self, store: &Store) -> Option<CheckReason> {
        let is_new = self.checked_before != Some(store.history.next_sequence());
        let is_scheduled = is_new && store.journal.checks.is_due(&store.history, store.contract.recheck);
        check_due(crashes(store), self.crashes_seen, is_scheduled)
    }

    /// Runs the incumbent once again.
    fn start_check(&mut self, slot: u32, reason: CheckReason) -> Result<(), SessionError> {
        let shared = self.shared;
        shared.check_disk_space()?;
        let tip = shared.store().tip();
        let Some(mut tree) =
            self.trees.lend(&mut shared.store(), &shared.slots, &self.terms, TreeOf::Slot(slot), &tip)?
        else {
            return Ok(());
        };
        let named = self.trees.are_own().then_some(slot);
        self.crashes_seen = crashes(&shared.store());
        self.checked_before = Some(shared.store().history.next_sequence());
        self.slots
            .insert(slot, Busy { id: ExperimentId::BASELINE, work: SlotWork::Check(reason), began: Instant::now() });
        self.jobs.push(Box::pin(async move {
            let ended = match await_gpus(shared, slot).await {
                Ok(()) => shared.check_incumbent(&mut tree, named, reason).await,
                Err(error) => Err(error),
            };
            JobCompletion::Checked { slot, tree, ended }
        }));
        Ok(())
    }

    /// Runs a proposal, merged onto the incumbent where it is stale.
    fn start_run(&mut self, slot: u32, id: ExperimentId) -> Result<(), SessionError> {
        self.shared.check_disk_space()?;
        let Stage::Run(mut change) = Stage::of(find_entry(&self.shared.store(), id)?) else { return Ok(()) };
        if !make_fresh(&mut change, &mut self.shared.store(), &self.terms)? {
            // Without a run it needs no slot.
            return Ok(());
        }
        self.ready.retain(|ready| *ready != id);
        self.start(slot, SlotWork::Run(id), change)
    }

    fn start_trial(&mut self, slot: u32, trial: &Trial) -> Result<(), SessionError> {
        self.shared.check_disk_space()?;
        let opened = open_trial(&mut self.shared.store(), &self.terms, &mut self.chains, trial)?;
        match opened {
            Some(change) => self.start(slot, SlotWork::Trial(trial.clone()), change),
            None => Ok(()),
        }
    }

    fn start(&mut self, slot: u32, work: SlotWork, mut change: RunningChange) -> Result<(), SessionError> {
        let shared = self.shared;
        let Some(mut tree) = self.slot(slot, &change.made.commit)? else { return Ok(()) };
        let (id, deadline) = (change.id(), self.deadline());
        {
            let store = &mut *shared.store();
            if change.made.refused.is_none() {
                let beside = &mut change.made.head.beside;
                beside.slot = self.trees.are_own().then_some(slot);
                beside.neighbours = self.slots.values().flat_map(Busy::experiments).collect();
                tree.check_out(store, &change.made)?;
                change.prepare_run(&tree, store)?;
            }
        }
        self.slots.insert(slot, Busy { id, work, began: Instant::now() });
        self.jobs.push(Box::pin(async move {
            let ended = match await_gpus(shared, slot).await {
                Ok(()) => Stage::Run(change).finish(&mut tree, shared, deadline).await,
                Err(error) => Err(error),
            };
            JobCompletion::Ran { slot, tree, ended }
        }));
        Ok(())
    }

    /// Runs a change whose run is in the journal already, in the tree in which it was made; a change that comes too late for
    /// that becomes an idea.
    fn run_at_once(&mut self, change: RunningChange) -> Result<(), SessionError> {
        let shared = self.shared;
        let Some(mut tree) = self.slot(0, &change.made.commit)? else { return Ok(()) };
        let late = shared.times.no_time_for_run(&shared.store());
        // Leaving a rework as an idea would lose the version before it.
        if let Some(reason) = late.filter(|_| self.is_night() && change.made.before.is_none()) {
            leave_as_idea(&change.made, &mut tree, &mut shared.store())?;
            self.trees.give_back(tree);
            self.ending = Some(reason);
            return Ok(());
        }
        let (id, deadline) = (change.id(), self.deadline());
        self.slots.insert(0, Busy { id, work: SlotWork::Run(id), began: Instant::now() });
        self.jobs.push(Box::pin(async move {
            let ended = Stage::Run(change).finish(&mut tree, shared, deadline).await;
            JobCompletion::Ran { slot: 0, tree, ended }
        }));
        Ok(())
    }

    /// Picks up a run that an earlier process started.
    pub(crate) fn resume(&mut self, entry: AttemptEntry) -> Result<(), SessionError> {
        let shared = self.shared;
        let attempt = &entry.attempt;
        let slot = attempt.head().beside.slot.unwrap_or(0);
        // A tree that is lent is there.
        let tree_is_gone = {
            let store = shared.store();
            self.trees.are_own() && !store.repo.has_kept(&store.folder.slot(slot))
        };
        let commit = attempt.commit().cloned().unwrap_or_else(|| shared.store().tip());
        let (id, deadline) = (attempt.id(), self.deadline());
        let work = attempt.trial().cloned().map_or(SlotWork::Run(id), SlotWork::Trial);
        let Some(mut tree) = self.slot(slot, &commit)? else { return Ok(()) };
        self.slots.insert(slot, Busy { id, work, began: Instant::now() });
        self.jobs.push(Box::pin(async move {
            let ended = pick_up(entry, &mut tree, shared, deadline, tree_is_gone).await;
            JobCompletion::Ran { slot, tree, ended }
        }));
        Ok(())
    }

    /// Has reviewed what waits for that.
    fn start_reviews(&mut self) -> Result<(), SessionError> {
        let shared = self.shared;
        let waiting = to_review(&shared.store());
        // *In place* the review is a part of what the slot does.
        let is_begun = |id: &ExperimentId| self.reviews.contains(id) || self.slots.values().any(|busy| busy.id == *id);
        for id in waiting.into_iter().filter(|id| !is_begun(id)).collect::<Vec<_>>() {
            let Stage::Review(change) = Stage::of(find_entry(&shared.store(), id)?) else { continue };
            self.reviews.insert(id);
            self.jobs.push(Box::pin(async move {
                let ended = review(change, shared).await;
                JobCompletion::Reviewed { id, ended }
            }));
        }
        Ok(())
    }

    /// The working tree of a slot that is free.
    fn slot(&mut self, slot: u32, commit: &CommitId) -> Result<Option<Tree<'s>>, SessionError> {
        self.trees.lend(&mut self.shared.store(), &self.shared.slots, &self.terms, TreeOf::Slot(slot), commit)
    }

    /// The working tree of a seat that is free.
    pub(crate) fn seat(&mut self, seat: u32) -> Result<Option<Tree<'s>>, SessionError> {
        let tip = self.shared.store().tip();
        self.trees.lend(&mut self.shared.store(), &self.shared.slots, &self.terms, TreeOf::Seat(seat), &tip)
    }

    /// Takes a working tree back.
    pub(crate) fn give_back(&mut self, tree: Tree<'s>) {
        self.trees.give_back(tree);
    }

    /// Adds an attempt to those that wait for a slot.
    pub(crate) fn note_ready(&mut self, id: ExperimentId) {
        if !self.ready.contains(&id) {
            self.ready.push(id);
        }
    }

    /// Ends a run that nobody waits for.
    fn stop(&mut self, slot: u32) {
        let Some(busy) = self.slots.get(&slot) else { return };
        let (shared, id) = (self.shared, busy.id);
        if shared.overtaken.borrow_mut().insert(id) {
            self.jobs.push(Box::pin(async move { JobCompletion::Stopped(end_jobs(shared, id).await) }));
        }
    }

    /// Calls an agent, for a new attempt or for one that is open. A call that was cut off is made again on what is best now.
    fn call(&mut self, CallStart { seat, attempt }: CallStart) -> Result<(), SessionError> {
        let shared = self.shared;
        let entry = attempt.map(|id| find_entry(&shared.store(), id)).transpose()?;
        let made = entry.filter(|entry| entry.attempt.is_made());
        let purpose = if made.is_some() { Some(Purpose::Change) } else { self.purpose() };
        let Some(purpose) = purpose else { return Ok(()) };
        shared.check_disk_space()?;
        let Some(mut tree) = self.seat(seat)? else { return Ok(()) };
        shared.keep_logs()?;
        // *In place* the journal names no seat.
        let named = self.trees.are_own().then_some(seat);
        let Some(mut entry) = made else {
            let store = &mut *shared.store();
            let id = attempt.unwrap_or_else(|| store.allocate());
            let head = open_call(id, named, &mut tree, store)?;
            self.seats.insert(seat, id);
            self.permit = CallPermit::None;
            if purpose != Purpose::Change {
                self.text = Some(seat);
            }
            self.jobs.push(Box::pin(async move {
                let ended = match purpose {
                    Purpose::Change => propose(head, &mut tree, shared).await,
                    Purpose::Summary | Purpose::Proposal(_) => ask_for_text(&head, &mut tree, shared, purpose).await,
                };
                JobCompletion::Called { seat, tree, ended }
            }));
            return Ok(());
        };
        entry.attempt.head_mut().seat = named;
        shared.store().enter(entry.attempt.clone())?;
        self.seats.insert(seat, entry.attempt.id());
        self.jobs.push(Box::pin(async move {
            let ended = call_again(entry.attempt, &mut tree, shared).await;
            JobCompletion::Called { seat, tree, ended }
        }));
        Ok(())
    }

    /// Waits until the agent may be called again.
    fn wait_out(&mut self) {
        let shared = self.shared;
        self.waits = true;
        self.shared.store().note_activity();
        self.jobs.push(Box::pin(async move { JobCompletion::Waited(wait_out(shared).await) }));
    }

    fn handle_completion(&mut self, done: JobCompletion<'s>) -> Result<(), SessionError> {
        match done {
            JobCompletion::Ran { slot, tree, ended } => {
                self.slots.remove(&slot);
                self.trees.give_back(tree);
                let attempted = ended?;
                self.is_detached |= attempted == Attempted::StillRunning;
                self.attempted = Some(attempted);
                Ok(())
            }
            JobCompletion::Checked { slot, tree, ended } => {
                self.slots.remove(&slot);
                self.trees.give_back(tree);
                match ended {
                    // Active runs finish first.
                    Err(error @ SessionError::BestLost { .. }) => self.failing = Some(error),
                    // The shim is not tried again: the next crashes ask for another run.
                    ended => self.is_detached |= matches!(ended?, WaitEnd::Detached),
                }
                Ok(())
            }
            JobCompletion::Cleared(paced) => {
                self.permit = CallPermit::None;
                match paced? {
                    PauseOutcome::Ready => self.permit = CallPermit::Given,
                    PauseOutcome::Rested => {
                        self.permit = CallPermit::Given;
                        self.shared.store().note_activity();
                    }
                    PauseOutcome::Waited => self.shared.store().note_activity(),
                    PauseOutcome::Ends(reason) => self.ending = Some(reason),
                }
                Ok(())
            }
            JobCompletion::Called { seat, tree, ended } => {
                let id = self.seats.remove(&seat);
                self.text.take_if(|at| *at == seat);
                self.trees.give_back(tree);
                self.restore_branch("put back")?;
                match ended? {
                    Called::Over => self.lost = 0,
                    // One pause serves all calls that end before it is over.
                    Called::Idle { seconds } if self.permit != CallPermit::Awaited => self.idle = Some(seconds),
                    Called::Idle { .. } => {}
                    Called::Prepared(attempt) => {
                        self.lost = 0;
                        return self.run_at_once(*attempt);
                    }
                    Called::Outage if !self.waits => self.wait_out(),
                    Called::Outage => {}
                    Called::Detached => self.is_detached = true,
                    // One cause may kill the calls in all seats at once.
                    Called::Lost if self.lost == LOST_RETRIES * self.shared.store().journal.most_calls() => {
                        self.ending = Some(StopReason::Agent { detail: "its shim was killed each time".into() });
                    }
                    Called::Lost => self.lost += 1,
                }
                id.into_iter().for_each(|id| self.note_ready(id));
                Ok(())
            }
            JobCompletion::Waited(waited) => {
                self.waits = false;
                self.ending = waited?.or(self.ending.take());
                Ok(())
            }
            JobCompletion::Reviewed { id, ended } => {
                self.reviews.remove(&id);
                ended.map(drop)
            }
            JobCompletion::Stopped(stopped) => stopped,
        }
    }

    /// Puts the session's branch back to the incumbent where no working tree follows it.
    pub(crate) fn restore_branch(&self, why: &str) -> Result<(), SessionError> {
        if !self.trees.are_own() {
            return Ok(());
        }
        let tip = self.shared.store().tip();
        self.shared.store().set_branch(&tip, &[], why)
    }
}

/// Number of latest runs in a row that crashed.
fn crashes(store: &Store) -> u32 {
    u32::try_from(store.history.crashed_runs().count()).unwrap_or(u32::MAX)
}
