//! Fresh runs that decide on a change: those of a change that its first run selected and of the baseline, and with `--decide
//! once` the control of a gain, the run of the experiment to beat.

use super::{Attempted, MeasuredChange, RunningChange, Stage, decide_trial};
use crate::crash;
use crate::domain::{
    Event, ExperimentId, Failure, FailureClass, Notice, Number, Outcome, Phase, Record, Run, RunResult, RunRole,
};
use crate::machine::{Attempt, AttemptEntry, AttemptHead, Draft, Made, OpenRun};
use crate::rules::{
    Contender, FreshStep, HiddenCandidate, HiddenRun, HiddenVerdict, LOST_RETRIES, MAX_FRESH, Measurement, Tested,
    Verdict, baseline_with, control_due, controlled, describe_failure, fresh_runs, fresh_step, hidden_speaks_against,
    hidden_step, hidden_verdict, is_confirmed, is_research, is_timed, most_of_baseline, not_held, over_limit,
    with_runs,
};
use crate::session::errors::SessionError;
use crate::session::handlers::Workspace;
use crate::session::store::{Interrupt, RUN, Store};
use crate::session::wait::{Deadline, SessionContext, WaitEnd, await_gpus, gate_of_run};

/// What came of a fresh run.
enum FreshRunEnd {
    /// It counts, or another change has made it meanwhile; others may follow.
    Taken,
    /// It decides: it failed, or exceeded a limit.
    Decided,
    /// The change stays open without it.
    Left(Attempted),
}

/// The results of a change's further fresh runs, and whether they are where no agent can read them, instead of in the journal.
struct FreshResults {
    all: Vec<RunResult>,
    are_hidden: bool,
}

/// A fresh run that is needed, and the experiment that it is one of.
struct NeededRun {
    run: OpenRun,
    of: ExperimentId,
}

impl MeasuredChange {
    /// Returns whether further runs are to decide on its draft, which would be kept.
    pub(crate) fn is_to_confirm(&self, store: &Store) -> bool {
        self.is_to_have_fresh_runs(store) || self.to_control(store).is_some()
    }

    fn is_to_have_fresh_runs(&self, store: &Store) -> bool {
        let is_fresh = |run: &&Run| !run.void && matches!(run.role, Some(RunRole::Confirm | RunRole::Trial));
        let record = &self.draft.record;
        let first = usize::from(self.draft.made.head.first_run_counts());
        is_confirmed(&store.contract)
            && store.contract.keep_above.is_none()
            && !self.id().is_baseline()
            && record.outcome == Outcome::Keep
            && record.proof.fresh_runs.is_none()
            && record.runs.iter().filter(is_fresh).count() <= first
    }

    /// Runs it afresh until that decides on it. It stays open if the loop is to end meanwhile: the fresh runs that it has
    /// count when it is continued.
    pub(crate) async fn confirm(
        mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Stage, SessionError> {
        if !self.is_to_confirm(&shared.store()) {
            self.return_to_change(workspace, &mut shared.store())?;
            return self.conclude(workspace, shared);
        }
        if self.phase != Phase::Confirming {
            self.enter(&mut shared.store(), Attempt::Confirm)?;
            crash::point("confirming.entered");
        }
        let control = self.to_control(&shared.store());
        if let Some((of, _)) = control {
            let wanted = NeededRun { run: self.control_run(), of };
            return match self.fresh_run(workspace, shared, wanted, deadline).await? {
                FreshRunEnd::Left(attempted) => Ok(Stage::Over(attempted)),
                FreshRunEnd::Decided | FreshRunEnd::Taken => self.conclude(workspace, shared),
            };
        }
        self.settle_baseline(&mut shared.store())?;
        self.choose_artifacts(&shared.store())?;
        loop {
            let step = self.fresh_step(&shared.store());
            let wanted = match step {
                FreshStep::Await if self.await_baseline(shared).await? => continue,
                FreshStep::Await => return Ok(Stage::Over(Attempted::Waiting)),
                FreshStep::Decided(verdict) => {
                    self.return_to_change(workspace, &mut shared.store())?;
                    self.take_verdict(&mut shared.store(), verdict)?;
                    return self.conclude(workspace, shared);
                }
                FreshStep::Baseline(number) => {
                    NeededRun { run: OpenRun::new(RunRole::Baseline, number), of: ExperimentId::BASELINE }
                }
                FreshStep::Another(number) => NeededRun { run: self.draft.made.head.fresh_run(number), of: self.id() },
            };
            match self.fresh_run(workspace, shared, wanted, deadline).await? {
                FreshRunEnd::Left(attempted) => return Ok(Stage::Over(attempted)),
                FreshRunEnd::Decided => return self.conclude(workspace, shared),
                FreshRunEnd::Taken => {}
            }
        }
    }

    /// The next fresh run, by the journal and the records.
    fn fresh_step(&self, store: &Store) -> FreshStep {
        let Made { head, .. } = &self.draft.made;
        let left = store.journal.find(head.id);
        let results = self.results(store);
        let first_counts = head.first_run_counts();
        let role = head.fresh_run(1).role;
        let is_under_way = |run: &&OpenRun| {
            let is_further = (run.role == role || run.role == RunRole::Baseline) && !run.is_first();
            is_further && run.starts > 0 && run.result.is_none() && !self.is_noted(store, run)
        };
        let begun = left.and_then(|left| left.runs.iter().find(is_under_way)).map(|run| match run.role {
            RunRole::Baseline => FreshStep::Baseline(run.number),
            _ => FreshStep::Another(results.all.len() as u32 + 1),
        });
        let beside = store.journal.attempts.baseline_runs_beside(head.id);
        let draft = &self.draft.record;
        let contender =
            Contender { draft, results: &results.all, first_counts, begun: begun.as_ref(), beside: &beside };
        if results.are_hidden {
            let candidate = self.hidden_candidate(store);
            return hidden_step(&store.contract, (&store.history, &store.hidden), candidate, contender);
        }
        let records =
            store.history.kept_at(&head.base).map_or(store.history.records(), |base| store.history.as_of(base));
        fresh_step(&store.contract, &store.history, records, draft.change.diff, contender)
    }

    /// The results of its further fresh runs.
    fn results(&self, store: &Store) -> FreshResults {
        let are_hidden = store.contract.decides_on_hidden();
        let all = match are_hidden {
            true => store.hidden.further(self.id(), self.commit()),
            false => store.journal.find(self.id()).map(AttemptEntry::results).unwrap_or_default(),
        };
        FreshResults { all, are_hidden }
    }

    /// Returns whether a run's values are noted where no agent can read them.
    fn is_noted(&self, store: &Store, run: &OpenRun) -> bool {
        let baseline = store.history.baseline().map(|baseline| &baseline.commit);
        let (of, commit) = match run.role {
            RunRole::Baseline => (ExperimentId::BASELINE, baseline),
            _ => (self.id(), Some(self.commit())),
        };
        let is_it = |known: &HiddenRun| known.is(of, run.role, run.seed) && known.commit() == commit;
        store.contract.decides_on_hidden() && store.hidden.runs().iter().any(is_it)
    }

    /// The change, to be compared by hidden values.
    fn hidden_candidate<'a>(&'a self, store: &Store) -> HiddenCandidate<'a> {
        let Made { head, commit, .. } = &self.draft.made;
        let diff = self.draft.record.change.diff;
        HiddenCandidate { id: head.id, commit, base: store.history.kept_at(&head.base), diff }
    }

    /// Makes a fresh run, or picks up the one that is under way, and takes in what it gave.
    async fn fresh_run(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        wanted: NeededRun,
        deadline: Deadline,
    ) -> Result<FreshRunEnd, SessionError> {
        let id = self.id();
        let known = shared.store().journal.find(id).and_then(|left| left.started(&wanted.run).cloned());
        let mut fresh = RunningChange {
            made: self.subject(&shared.store(), wanted.of),
            phase: Phase::Confirming,
            run: known.unwrap_or(wanted.run),
            is_prepared: false,
        };
        let is_of_another = wanted.of != id;
        let measured = loop {
            let is_there = fresh.run.starts > 0 && {
                let folder = fresh.run_folder(&shared.store())?;
                shared.runs.await_files(&folder, RUN).await;
                shared.runs.found(&folder, RUN).is_there()
            };
            if !is_there {
                if self.is_to_pause(shared, fresh.run.role)? {
                    return Ok(FreshRunEnd::Left(Attempted::Waiting));
                }
                if fresh.run.tries() > LOST_RETRIES {
                    break Measurement::lost(fresh.run.tries());
                }
                gate_of_run(shared, &fresh.made.commit, !workspace.owner.is_one_of_many()).await?;
                if let Some(slot) = self.draft.made.head.beside.slot {
                    await_gpus(shared, slot).await?;
                }
                let folder = fresh.run_folder(&shared.store())?;
                shared.runs.stop(&folder, RUN).await?;
                let store = &mut *shared.store();
                // While it waited for its turn, another change may have begun it.
                let is_of_baseline = fresh.run.role == RunRole::Baseline;
                if is_of_baseline && self.fresh_step(store) != FreshStep::Baseline(fresh.run.number) {
                    return Ok(FreshRunEnd::Taken);
                }
                if is_of_another {
                    // Meanwhile no branch leads to the change.
                    store.keep_open(id, self.commit())?;
                }
                workspace.check_out(store, &fresh.made)?;
                fresh.prepare_run(workspace, store)?;
                crash::point("confirming.run_entered");
                let (done, most) = (self.fresh_runs(store), MAX_FRESH as u32);
                let of = fresh.run.role;
                store.note(Event::Confirming { id, role: of, seed: fresh.run.seed, done, most });
            }
            shared.publish()?;
            match fresh.measured(workspace, shared, deadline).await? {
                // Its code has given a number before.
                WaitEnd::Done(measured) if measured.is_cut_off() && fresh.run.tries() <= LOST_RETRIES => {
                    let store = &mut *shared.store();
                    store.note(Notice::RunRepeated { id, why: measured.ended.clone() });
                    fresh.forget_run(store)?;
                    fresh.is_prepared = false;
                }
                WaitEnd::Done(measured) => break *measured,
                WaitEnd::Lost => fresh.is_prepared = false,
                WaitEnd::Detached => return Ok(FreshRunEnd::Left(Attempted::StillRunning)),
                WaitEnd::Interrupted => {
                    let store = &mut *shared.store();
                    store.journal.forget_runs(id, |run| run.is(&fresh.run));
                    self.return_to_change(workspace, store)?;
                    store.write_journal()?;
                    return Ok(FreshRunEnd::Left(Attempted::Waiting));
                }
            }
        };
        crash::point("confirming.run_over");
        let is_sealed = fresh.is_sealed(&shared.store().contract);
        if measured.failure.is_none() && !is_sealed && fresh.set_artifacts_aside(workspace, shared).await?.is_none() {
            return Ok(FreshRunEnd::Left(Attempted::StillRunning));
        }
        // In the other order, a process that was killed in between would find the tree changed, and make the run again.
        let is_over = self.take_fresh(&mut shared.store(), fresh, measured)?;
        self.return_to_change(workspace, &mut shared.store())?;
        Ok(if is_over { FreshRunEnd::Decided } else { FreshRunEnd::Taken })
    }

    /// The change that a fresh run executes: its own, or that of a recorded experiment in its place.
    fn subject(&self, store: &Store, of: ExperimentId) -> Made {
        let own = &self.draft.made;
        match store.history.get(of) {
            Some(other) => Made {
                head: AttemptHead { base: own.commit.clone(), ..own.head.clone() },
                commit: other.commit.clone(),
                ..own.clone()
            },
            None => own.clone(),
        }
    }

    /// Brings the working tree back to the change after a run of another experiment, also one of a process that was killed.
    fn return_to_change(&self, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
        let Made { head, commit, .. } = &self.draft.made;
        if let Some(at) = workspace.repo.refs.head()?.commit().filter(|at| *at != commit).cloned() {
            let head = AttemptHead { base: at, ..head.clone() };
            workspace.check_out(store, &Made { head, ..self.draft.made.clone() })?;
        }
        if workspace.owner.follows_branch() {
            store.drop_open(self.id())?;
        }
        Ok(())
    }

    /// Returns whether it stays open as the loop is to end: a stop finishes the run that is under way, not all that were to
    /// follow. A loop that begins after the end of its night finishes it. A control is a part of its experiment, and only an
    /// interrupt stops it.
    fn is_to_pause(&self, shared: &SessionContext<'_>, role: RunRole) -> Result<bool, SessionError> {
        let (asked, id) = (shared.asked()?, self.id());
        let store = &mut *shared.store();
        if role == RunRole::Control {
            if matches!(asked, Interrupt::None | Interrupt::AfterExperiment) {
                return Ok(false);
            }
            store.note(Notice::LeftToControl(id));
            store.keep_open(id, self.commit())?;
            return Ok(true);
        }
        if asked == Interrupt::None && (shared.times.began_late() || shared.times.no_time_for_run(store).is_none()) {
            return Ok(false);
        }
        // Another clone, which has no journal, knows by this that the commit at the tip is no user's.
        store.keep_open(id, self.commit())?;
        store.note(Notice::LeftToConfirm { id, done: self.fresh_runs(store), most: MAX_FRESH as u32 });
        Ok(true)
    }

    /// Waits for the baseline while it lacks no run but those that are under way for other changes: until they are over, or given up.
    /// Returns false if it stays open without them, as the loop is to end or nobody needs it any more.
    async fn await_baseline(&self, shared: &SessionContext<'_>) -> Result<bool, SessionError> {
        let id = self.id();
        shared.emit(format!("experiment {id} waits for a run of the baseline that another experiment makes"))?;
        let mut listener = shared.interrupts.listen();
        while self.fresh_step(&shared.store()) == FreshStep::Await {
            if shared.overtaken.borrow().contains(&id) || self.is_to_pause(shared, RunRole::Baseline)? {
                return Ok(false);
            }
            shared.show_life()?;
            listener.signal_or_look().await;
        }
        Ok(true)
    }

    /// The number of fresh runs that it has.
    fn fresh_runs(&self, store: &Store) -> u32 {
        let FreshResults { all, are_hidden } = self.results(store);
        all.len() as u32 + u32::from(!are_hidden && self.draft.made.head.first_run_counts())
    }

    /// Takes in what a fresh run gave. Returns whether that decides on the change: it failed, or exceeded a limit.
    fn take_fresh(
        &mut self,
        store: &mut Store,
        fresh: RunningChange,
        measured: Measurement,
    ) -> Result<bool, SessionError> {
        if fresh.run.role == RunRole::Control {
            return self.take_control(store, &fresh, &measured).map(|()| false);
        }
        let commit = fresh.made.commit.clone();
        let is_own = fresh.run.role != RunRole::Baseline;
        if measured.failure.is_none() && store.contract.decides_on_hidden() {
            store.journal.forget_runs(self.id(), |known| known.is(&fresh.run));
            return store.write_journal().map(|()| false);
        }
        if let Some(Err(why)) = measured.hidden.clone().filter(|_| is_own) {
            return self.fail_hidden(store, why).map(|()| true);
        }
        let run = measured.counted_run(Some(&commit));
        let result = measured.result(&commit);
        if !is_own {
            return self.add_to_baseline(store, &fresh.run, result, run, &measured).map(|()| false);
        }
        let Some(failure) = &measured.failure else {
            let done = OpenRun { result: result.map(Box::new), ..fresh.run };
            store.journal.enter_run(self.id(), &done);
            store.write_journal()?;
            crash::point("confirming.run_taken");
            return self.choose_artifacts(store).map(|()| false);
        };
        // A confirmation that fails gives the experiment its class. The log of a hidden one may have values that no agent may read.
        let is_hidden = store.contract.decides_on_hidden();
        let seed = fresh.run.seed.map(|seed| format!(" with seed {seed}")).unwrap_or_default();
        let why = describe_failure(failure, &store.contract.metric.name, &measured.ended, measured.run.as_ref());
        let (why, failure) = match is_hidden {
            true => ("a fresh run failed".to_owned(), Failure::new(failure.class, "")),
            false => (format!("its fresh run{seed} failed: {why}"), failure.clone()),
        };
        self.fold(store, |draft| {
            let reason = format!("{}, but {why}", draft.reason);
            let mut draft = Record { outcome: Outcome::Crash, reason, failure: Some(failure), ..draft };
            if is_hidden {
                (draft.metric.value, draft.metric.raw) = (None, None);
                return draft;
            }
            draft.conditions.gpu_others.clone_from(&measured.gpu_others);
            draft.add_runs(run, measured.sandbox);
            draft.metric.put(None);
            draft
        });
        Ok(true)
    }

    /// Discards it, as the hidden evaluator gave no number for it.
    pub(super) fn fail_hidden(&mut self, store: &mut Store, why: String) -> Result<(), SessionError> {
        let verdict = self.hidden_verdict(store, Outcome::Discard);
        store.note_hidden_verdict(HiddenVerdict { failure: Some(why), ..verdict })?;
        self.fold(store, |draft| {
            let Verdict { outcome, reason } = not_held(&draft.reason);
            Record { outcome, reason, failure: Some(Failure::new(FailureClass::GuardFailed, "")), ..draft }
        });
        Ok(())
    }

    /// Discards it where its hidden value speaks against it, and notes the verdict.
    pub(super) fn decide_hidden(&mut self, store: &mut Store) -> Result<(), SessionError> {
        let candidate = self.hidden_candidate(store);
        let is_refused = store.contract.decides_on_hidden()
            && hidden_speaks_against(&store.contract, (&store.history, &store.hidden), candidate);
        let outcome = if is_refused { Outcome::Discard } else { Outcome::Keep };
        let verdict = self.hidden_verdict(store, outcome);
        store.note_hidden_verdict(verdict)?;
        if is_refused {
            let record = &mut *self.draft.record;
            Verdict { outcome: record.outcome, reason: record.reason } = not_held(&record.reason);
            self.draft.tested = self.draft.tested.take().map(|_| Tested::NotBetter(record.metric.number()));
        }
        Ok(())
    }

    /// The verdict on it by hidden values.
    fn hidden_verdict(&self, store: &Store, outcome: Outcome) -> HiddenVerdict {
        let candidate = self.hidden_candidate(store);
        hidden_verdict(&store.contract, (&store.history, &store.hidden), candidate, outcome)
    }

    /// Adds a run of the baseline to its record and its row; one that failed is there without a value.
    fn add_to_baseline(
        &self,
        store: &mut Store,
        fresh: &OpenRun,
        result: Option<RunResult>,
        run: Option<Run>,
        measured: &Measurement,
    ) -> Result<(), SessionError> {
        let Some(baseline) = store.history.baseline().cloned() else { return Ok(()) };
        let is_it = |known: &Run| known.role == Some(RunRole::Baseline) && known.seed == fresh.seed;
        // A process that was killed may have recorded it.
        let mut record = match result {
            _ if baseline.runs.iter().any(is_it) => baseline,
            Some(result) => baseline_with(&baseline, &[result]),
            None => {
                let mut baseline = baseline;
                let seed = fresh.seed.unwrap_or_default();
                // Of a lost run, only its start is known.
                let lost = Run {
                    command: store.contract.command.clone(),
                    role: Some(RunRole::Baseline),
                    seed: Some(seed),
                    started: store.now(),
                    commit: Some(baseline.commit.clone()),
                    ..Run::default()
                };
                baseline.runs.push(run.unwrap_or(lost));
                store.note(Notice::BaselineFailed { seed, why: measured.ended.clone() });
                baseline
            }
        };
        record.conditions.carried.extend(fresh.carried().cloned());
        store.amend_record(&record)?;
        crash::point("confirming.baseline_amended");
        store.replace_row(&record)?;
        crash::point("confirming.row_replaced");
        store.journal.forget_runs(self.id(), |known| known.is(fresh));
        store.write_journal()?;
        let (runs, value) = (fresh_runs(&record).len() as u32, record.metric.number());
        if let Some(value) = value.filter(|_| runs >= most_of_baseline(&store.contract)) {
            store.note(Notice::BaselineValue { value: format!("{value:#}"), runs });
            store.note_noise();
        }
        Ok(())
    }

    /// Ends what a process that was killed has begun with a run of the baseline: its record has it, its row may not.
    fn settle_baseline(&self, store: &mut Store) -> Result<(), SessionError> {
        let Some(baseline) = store.history.baseline().cloned() else { return Ok(()) };
        let runs = store.journal.find(self.id()).map(|left| left.runs.clone()).unwrap_or_default();
        let is_recorded = |open: &&OpenRun| {
            let is_it = |run: &Run| run.role == Some(RunRole::Baseline) && run.seed == open.seed;
            open.role == RunRole::Baseline && baseline.runs.iter().any(is_it)
                || !open.is_first() && self.is_noted(store, open)
        };
        let recorded: Vec<&OpenRun> = runs.iter().filter(is_recorded).collect();
        for run in recorded {
            store.replace_row(&baseline)?;
            store.journal.forget_runs(self.id(), |known| known.is(run));
            store.write_journal()?;
        }
        Ok(())
    }

    /// Takes the verdict by its fresh runs.
    fn take_verdict(&mut self, store: &mut Store, verdict: Verdict) -> Result<(), SessionError> {
        let Verdict { outcome, reason } = verdict;
        let FreshResults { all, are_hidden } = self.results(store);
        if store.contract.holdout.is_some() && !all.is_empty() {
            let verdict = self.hidden_verdict(store, outcome);
            store.note_hidden_verdict(verdict)?;
        }
        let unmet = over_limit(&store.contract, &all).filter(|_| !are_hidden);
        let unmet_limits = unmet.map(|(_, unmet)| unmet).unwrap_or_default();
        self.choose_artifacts(store)?;
        self.fold(store, |draft| Record { outcome, reason, unmet_limits, ..draft });
        if let Some(trial) = self.draft.made.head.trial().cloned() {
            decide_trial(&mut self.draft, store, &trial);
        }
        self.enter(store, Attempt::Confirm)
    }

    /// Records it as it is where no further fresh runs come: it is not confirmed.
    pub(crate) fn leave_unconfirmed(
        mut self,
        workspace: &mut Workspace,
        store: &mut Store,
    ) -> Result<(), SessionError> {
        let when = match is_confirmed(&store.contract) {
            true => format!("after {} of {MAX_FRESH} fresh runs", self.fresh_runs(store)),
            false => "before its control".to_owned(),
        };
        self.fold(store, |draft| Record {
            outcome: Outcome::Discard,
            reason: format!("not confirmed: {}, and the session ended {when}", draft.reason),
            ..draft
        });
        self.record(workspace, store).map(drop)
    }

    /// Moves its fresh runs from the journal into its record, with what comes of them. The journal is written with the next
    /// step.
    fn fold(&mut self, store: &mut Store, change: impl FnOnce(Record) -> Record) {
        let FreshResults { all, are_hidden } = self.results(store);
        let Draft { made, record, .. } = &mut self.draft;
        let left = store.journal.find(made.head.id);
        record.conditions.carried.extend(left.iter().flat_map(|left| &left.runs).flat_map(OpenRun::carried).cloned());
        let own = if are_hidden { &[][..] } else { &all };
        **record = change(with_runs(record, own, made.head.first_run_counts()));
        record.proof.fresh_runs = are_hidden.then_some(all.len() as u32);
        store.journal.forget_runs(made.head.id, |run| !run.is_first());
    }
}

impl MeasuredChange {
    /// The experiment that is to run again before its draft is kept, with the number that it stands for.
    fn to_control(&self, store: &Store) -> Option<(ExperimentId, Number)> {
        let Store { contract, history, journal, .. } = store;
        let Draft { made, record: draft, .. } = &self.draft;
        if draft.outcome != Outcome::Keep || draft.proof.control.is_some() {
            return None;
        }
        // One that has begun is awaited, whatever the settings say now.
        let has_begun = journal.find(made.head.id).is_some_and(|left| left.runs.iter().any(is_control));
        let compares = !is_confirmed(contract) && contract.keep_above.is_none();
        if !(contract.control || has_begun) || !compares || made.head.trial().is_some() || is_research(contract) {
            return None;
        }
        let rival = history.get(history.kept_at(&made.head.base)?)?;
        let (claimed, before) = draft.metric.number().zip(history.number_to_beat(rival))?;
        // A simplification may claim no gain. Beside others, the number may have moved since it was judged.
        if contract.simpler_wins.is_some() && !draft.metric.direction.better(claimed.value, before.value) {
            return None;
        }
        let winners = journal.attempts().filter(|other| other.id() != made.head.id).filter_map(Attempt::measured);
        let is_due = || control_due(is_timed(&draft.metric), history.records().iter().chain(winners));
        (has_begun || is_due()).then_some((rival.id, before))
    }

    /// The control, which gets the seed of the run that it controls.
    fn control_run(&self) -> OpenRun {
        OpenRun { seed: self.draft.record.runs.last().and_then(|run| run.seed), ..OpenRun::new(RunRole::Control, 1) }
    }

    /// Takes in what a control gave: its record has it, and the number to beat with it.
    fn take_control(
        &mut self,
        store: &mut Store,
        control: &RunningChange,
        measured: &Measurement,
    ) -> Result<(), SessionError> {
        if let Some((id, before)) = self.to_control(store) {
            let now = measured.value.clone().filter(|_| measured.failure.is_none()).ok_or_else(|| {
                let name = &store.contract.metric.name;
                let failure = measured.failure.as_ref();
                failure.map(|it| describe_failure(it, name, &measured.ended, measured.run.as_ref())).unwrap_or_default()
            });
            let mut record: Record = controlled((*self.draft.record).clone(), (id, &before), now);
            record.add_runs(measured.counted_run(Some(&control.made.commit)), measured.sandbox);
            record.conditions.carried.extend(control.run.carried().cloned());
            *self.draft.record = record;
        }
        store.journal.forget_runs(self.id(), is_control);
        self.enter(store, Attempt::Confirm)
    }
}

fn is_control(run: &OpenRun) -> bool {
    run.role == RunRole::Control
}
