//! The loop, over slots and seats: it carries out what the scheduler and the line of winners say.

use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::session::Session;
use crate::domain::{Bound, CommitId, ExperimentId, StopReason, with_causes};
use crate::machine::{Attempt, AttemptEntry, Lanes, NextCheck};
use crate::rules::{
    Bar, Budgets, CallStart, Capacity, CheckReason, Demand, Durations, FileTerms, LOST_RETRIES, Situation, SlotWork,
    Start, Starts, Trial, expected_call, expected_run, schedule,
};
use crate::session::attempt::{
    Attempted, Called, Chains, Purpose, RunningChange, Stage, ask_for_text, call_again, end_jobs, find_entry,
    leave_as_idea, make_fresh, open_call, open_second_look, open_trial, pick_up, propose, review, settle_line,
    text_due, to_review,
};
use crate::session::errors::SessionError;
use crate::session::handlers::{Tree, TreeOf, Trees, Workspace};
use crate::session::store::{Interrupt, Store};
use crate::session::wait::{
    Deadline, PauseOutcome, SessionContext, WaitEnd, await_call_permit, await_gpus, take_in_guardians, wait_out,
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

/// The purpose of a loop.
#[derive(Debug, Clone, Copy)]
enum Scope {
    /// A night: calls, runs, pauses, checks and reviews, until something ends it; `first` is the place of its first
    /// experiment.
    Night { first: u32 },
    /// Finishes open attempts until this deadline, without agent calls or budgets.
    Open(Deadline),
}

/// The loop at work.
pub(crate) struct Dispatcher<'s, 'a> {
    pub(crate) shared: &'s SessionContext<'a>,
    scope: Scope,
    pub(crate) terms: FileTerms,
    pub(crate) trees: Trees<'s>,
    chains: Chains,
    jobs: FuturesUnordered<Job<'s>>,
    /// What those jobs are.
    pub(crate) lanes: Lanes,
    began: Instant,
    pub(crate) end: LoopOutcome,
}

/// What is known of how a loop ends.
#[derive(Default)]
pub(crate) struct LoopOutcome {
    /// The outcome of the last attempt that left its slot.
    pub(crate) attempted: Option<Attempted>,
    /// The reason for it.
    reason: Option<StopReason>,
    /// The error with which it ends, once the work under way is finished.
    error: Option<SessionError>,
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
                    store.repo.objects.rewrite_all_lost()?;
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
        let checks = {
            let store = shared.store();
            NextCheck::new(crashes(&store), store.journal.checks.is_made(store.history.next_sequence()))
        };
        Dispatcher {
            shared,
            scope,
            terms: workspace.file_terms.clone(),
            trees: Trees::of(workspace),
            chains: Chains::default(),
            jobs: FuturesUnordered::new(),
            lanes: Lanes::new(checks),
            began: Instant::now(),
            end: LoopOutcome::default(),
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
            if asked == Interrupt::Detach || self.end.is_detached {
                return Ok(StopReason::Detached);
            }
            take_in_guardians(self.shared)?;
            if let Scope::Night { first } = self.scope
                && self.end.reason.is_none()
                && asked == Interrupt::None
            {
                self.end.reason = self.shared.rule_to_stop(first);
            }
            self.lanes.checks.look(crashes(&self.shared.store()));
            let demand = self.demand(asked);
            let may_ask = self.shared.calls_agent && demand == Demand::New;
            let may_ask = may_ask || self.lanes.calls.is_out();
            let trials = settle_line(&mut self.shared.store(), &mut self.chains, may_ask)?;
            if self.may_look_again(demand) {
                open_second_look(&mut self.shared.store(), &self.terms)?;
            }
            self.shared.publish()?;
            if asked != Interrupt::Now && !self.lanes.is_held_up() && self.end.error.is_none() {
                self.start_reviews()?;
            }
            let mut plan = self.plan(demand, &trials);
            let bar = plan.bar;
            let is_over = plan.is_empty() && self.jobs.is_empty();
            if is_over {
                return match self.end.error.take() {
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
        if *reason == StopReason::Detached { Some(Attempted::StillRunning) } else { self.end.attempted }
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
        if asked == Interrupt::Now || self.end.error.is_some() {
            return Demand::Nothing;
        }
        if !self.is_night() {
            return Demand::Open;
        }
        let is_ending = asked != Interrupt::None || self.end.reason.is_some();
        // *In place* one attempt is open at most, and its rework is a part of it.
        let may_rework = self.shared.store().journal.has_change_to_rework()
            && !matches!(self.end.reason, Some(StopReason::Agent { .. }));
        if is_ending && may_rework && !self.trees.are_own() && self.shared.calls_agent {
            return Demand::Started;
        }
        if asked != Interrupt::None {
            return Demand::Nothing;
        }
        match &self.end.reason {
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
        if !self.shared.calls_agent || self.lanes.calls.is_out() {
            return Demand::Open;
        }
        if self.shared.store().journal.pauses.waits_for_reset() {
            self.wait_out();
            return Demand::Open;
        }
        Demand::New
    }

    /// Returns whether a second look may begin: not in the tree of an open attempt, and only where it may end in time.
    fn may_look_again(&self, demand: Demand) -> bool {
        let store = self.shared.store();
        let is_free = self.trees.are_own() || store.journal.attempts().next().is_none();
        let is_in_time = || self.shared.times.no_time_for_experiment(&store).is_none();
        let may_start = matches!(demand, Demand::New | Demand::Open) && self.end.reason.is_none();
        may_start && self.is_night() && self.shared.calls_agent && is_free && is_in_time()
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
        self.end.reason.take().or(limit).or_else(no_time).unwrap_or(StopReason::NoAgent)
    }

    /// The work to start now, by the rules.
    fn plan(&self, demand: Demand, trials: &[Trial]) -> Starts {
        let store = self.shared.store();
        let expected = Durations { run: expected_run(&store.history), call: expected_call(&store.history) };
        let capacity = Capacity::of(store.journal.layout.as_ref());
        let calls = if store.journal.pauses.outage().is_some() { Some(1) } else { capacity.calls };
        let running = self.lanes.busy(expected.run, self.began.elapsed());
        let attempts = self.lanes.places(store.journal.attempts());
        schedule(&Situation {
            layout: Capacity { calls, ..capacity },
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
                        .experiments_left(&store.contract, &store.history)
                        .map(|left| left + store.journal.second_looks()),
                    time: self.shared.times.end(&store).map(|end| end.left),
                },
                Scope::Open(_) => Budgets::default(),
            },
        })
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
        let is_wanted = plan.calls.iter().any(|call| self.is_new(call));
        let purpose = self.purpose();
        if self.lanes.calls.may_start(is_wanted) && purpose.is_some() || !is_wanted {
            return;
        }
        plan.calls.retain(|call| !self.is_new(call));
        if let Some(purpose) = purpose
            && let Some(wait) = self.lanes.calls.begin_wait(purpose != Purpose::Change)
        {
            let shared = self.shared;
            self.jobs.push(Box::pin(async move { JobCompletion::Cleared(await_call_permit(shared, wait).await) }));
        }
    }

    /// The purpose of the next new call, or `None` during a call for text. A call for text uses up no experiment number as
    /// long as no later number is assigned meanwhile. At a pivot, the change needs the proposals of that call.
    fn purpose(&self) -> Option<Purpose> {
        let store = self.shared.store();
        let purpose = || text_due(&store.contract, &store.journal).unwrap_or(Purpose::Change);
        (!self.lanes.calls.has_text()).then(purpose)
    }

    /// The reason for a rerun of the incumbent.
    fn check_due(&self, store: &Store) -> Option<CheckReason> {
        let is_scheduled = || store.journal.checks.is_due(&store.history, store.contract.recheck);
        self.lanes.checks.due(crashes(store), store.history.next_sequence(), is_scheduled)
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
        {
            let store = shared.store();
            self.lanes.checks.begin(crashes(&store), store.history.next_sequence());
        }
        self.begin_run(slot, ExperimentId::BASELINE, SlotWork::Check(reason));
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
        if change.made.head.is_second_look() && change.made.head.base != self.shared.store().tip() {
            // After a keep it is not due any more.
            return self.shared.store().close_open(id);
        }
        if !make_fresh(&mut change, &mut self.shared.store(), &self.terms)? {
            // Without a run it needs no slot.
            return Ok(());
        }
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
                beside.neighbours = self.lanes.experiments();
                tree.check_out(store, &change.made)?;
                change.prepare_run(&tree, store)?;
                if tree.owner.follows_branch() {
                    store.drop_open(change.id())?;
                }
            }
        }
        self.begin_run(slot, id, work);
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
            self.end.reason = Some(reason);
            return Ok(());
        }
        let (id, deadline) = (change.id(), self.deadline());
        self.begin_run(0, id, SlotWork::Run(id));
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
        self.begin_run(slot, id, work);
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
        for id in waiting {
            let Stage::Review(change) = Stage::of(find_entry(&shared.store(), id)?) else { continue };
            if !self.lanes.begin_review(id) {
                continue;
            }
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

    fn begin_run(&mut self, slot: u32, id: ExperimentId, work: SlotWork) {
        self.lanes.begin_run(slot, id, work, self.began.elapsed());
    }

    /// Ends a run that nobody waits for.
    fn stop(&mut self, slot: u32) {
        let Some(id) = self.lanes.in_slot(slot) else { return };
        let shared = self.shared;
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
            self.lanes.begin_call(seat, id, purpose != Purpose::Change);
            self.lanes.calls.started();
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
        self.lanes.begin_call(seat, entry.attempt.id(), false);
        self.jobs.push(Box::pin(async move {
            let ended = call_again(entry.attempt, &mut tree, shared).await;
            JobCompletion::Called { seat, tree, ended }
        }));
        Ok(())
    }

    /// Waits until the agent may be called again.
    fn wait_out(&mut self) {
        let shared = self.shared;
        if !self.lanes.calls.wait_out(true) {
            return;
        }
        shared.store().note_activity();
        self.jobs.push(Box::pin(async move { JobCompletion::Waited(wait_out(shared).await) }));
    }

    fn handle_completion(&mut self, done: JobCompletion<'s>) -> Result<(), SessionError> {
        match done {
            JobCompletion::Ran { slot, tree, ended } => {
                self.lanes.end_run(slot);
                self.trees.give_back(tree);
                let attempted = ended?;
                self.end.is_detached |= attempted == Attempted::StillRunning;
                self.end.attempted = Some(attempted);
                Ok(())
            }
            JobCompletion::Checked { slot, tree, ended } => {
                self.lanes.end_run(slot);
                self.trees.give_back(tree);
                match ended {
                    // Active runs finish first.
                    Err(error @ SessionError::BestLost { .. }) => self.end.error = Some(error),
                    // The shim is not tried again: the next crashes ask for another run.
                    ended => self.end.is_detached |= matches!(ended?, WaitEnd::Detached),
                }
                Ok(())
            }
            JobCompletion::Cleared(paced) => {
                let paced = paced?;
                self.lanes.calls.end_wait(matches!(paced, PauseOutcome::Ready | PauseOutcome::Rested));
                match paced {
                    PauseOutcome::Ready => {}
                    PauseOutcome::Rested | PauseOutcome::Waited => self.shared.store().note_activity(),
                    PauseOutcome::Ends(reason) => self.end.reason = Some(reason),
                }
                Ok(())
            }
            JobCompletion::Called { seat, tree, ended } => {
                let id = self.lanes.end_call(seat);
                self.trees.give_back(tree);
                self.restore_branch("put back")?;
                let called = ended?;
                let most_calls = self.shared.store().journal.most_calls();
                let is_counted = matches!(called, Called::Over | Called::Prepared(_) | Called::Lost);
                let is_lost = matches!(called, Called::Lost);
                if is_counted && self.lanes.calls.note_lost(is_lost, most_calls) {
                    self.end.reason = Some(StopReason::Agent { detail: "its shim was killed each time".into() });
                }
                match called {
                    Called::Over | Called::Lost => {}
                    Called::Idle { seconds } => self.lanes.calls.was_idle(seconds),
                    Called::Prepared(change) => return self.run_at_once(*change),
                    Called::Outage => self.wait_out(),
                    Called::Detached => self.end.is_detached = true,
                }
                id.into_iter().for_each(|id| self.lanes.await_slot(id));
                Ok(())
            }
            JobCompletion::Waited(waited) => {
                self.lanes.calls.wait_out(false);
                self.end.reason = waited?.or(self.end.reason.take());
                Ok(())
            }
            JobCompletion::Reviewed { id, ended } => {
                self.lanes.end_review(id);
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
