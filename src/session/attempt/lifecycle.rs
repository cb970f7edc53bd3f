//! One experiment from its commit to its row: run, judge, record, settle, or roll back.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;

use super::{await_files, check_again, end_jobs, join_line, judge_trial, to_base, unselected};
use crate::crash;
use crate::domain::{
    CommitId, Conditions, DiffStat, Environment, ExperimentId, GpuOther, MetricValue, Outcome, Phase, Proof,
    Provenance, RECORD_VERSION, Record, RecordedChange, Run, Unparsed,
};
use crate::exec::Executor;
use crate::machine::{Attempt, AttemptEntry, Draft, Made, OpenRun};
use crate::rules::{
    AttemptFacts, FileTerms, HiddenCandidate, Measurement, Ran, ReworkCall, Step, Tested, Trial, Verdict, changed_text,
    describe_failure, is_confirmed, judge, judge_before_hidden, next_rework_on_slots, recover,
};
use crate::session::errors::SessionError;
use crate::session::files::{ignored_inputs, read_records};
use crate::session::handlers::{Workspace, name_of};
use crate::session::store::{Store, is_being_replaced, job_of, job_place};
use crate::session::wait::{Deadline, SessionContext, WaitEnd};

/// The result of driving an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attempted {
    /// It was recorded and settled.
    Recorded,
    /// It was interrupted and rolled back, without a record.
    RolledBack,
    /// Its run continues, and the caller did not want to wait longer.
    StillRunning,
    /// It is open, and waits: for a slot, for another call of the agent, or for a train.
    Waiting,
}

/// The next stage of an attempt.
pub(crate) enum Stage {
    /// Its run, which may be active already.
    Run(RunningChange),
    /// Its guards: its number would be kept.
    Guard(MeasuredChange),
    /// Its fresh runs: they decide whether its number is kept.
    Confirm(MeasuredChange),
    /// Its review: its number would be kept, and its guards passed.
    Review(MeasuredChange),
    /// Nothing: it is finished, or left open.
    Over(Attempted),
}

impl Stage {
    /// The stage at which an attempt goes on that has a job, or is about to have one.
    pub(crate) fn of(entry: AttemptEntry) -> Stage {
        let (phase, run) = (entry.attempt.phase(), entry.run());
        match entry.attempt {
            Attempt::Guard(draft) => Stage::Guard(MeasuredChange { draft, phase }),
            Attempt::Confirm(draft) => Stage::Confirm(MeasuredChange { draft, phase }),
            Attempt::Review(draft) => Stage::Review(MeasuredChange { draft, phase }),
            attempt => {
                let made = attempt.into_made();
                Stage::Run(RunningChange { made, phase, run, is_prepared: false })
            }
        }
    }

    /// Takes an attempt from this stage to its end.
    pub(crate) async fn finish(
        self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Attempted, SessionError> {
        let mut stage = self;
        loop {
            stage = match stage {
                Stage::Run(change) => change.run_and_judge(workspace, shared, deadline).await?,
                Stage::Guard(change) => change.guard(workspace, shared, deadline).await?,
                Stage::Confirm(change) => change.confirm(workspace, shared, deadline).await?,
                Stage::Review(change) => change.review(workspace, shared, deadline).await?,
                Stage::Over(attempted) => {
                    shared.publish()?;
                    return Ok(attempted);
                }
            };
        }
    }
}

/// A change until the verdict on its run. For a run that an attempt has beside its first, `made` is what that run executes.
#[derive(Debug, Clone)]
pub(crate) struct RunningChange {
    pub(crate) made: Made,
    /// The step that the journal has of it.
    pub(crate) phase: Phase,
    /// The run that it is at.
    pub(crate) run: OpenRun,
    /// True if this process prepared its run, so that no other process can have started it.
    pub(crate) is_prepared: bool,
}

/// A change with its number, until it is recorded.
#[derive(Debug, Clone)]
pub(crate) struct MeasuredChange {
    pub(crate) draft: Draft,
    /// The step that the journal has of it.
    pub(crate) phase: Phase,
}

/// The run of a version that was reworked.
fn voided(run: &Run) -> Run {
    Run { void: true, ..run.clone() }
}

/// Gathers the facts for recovery from the journal, the records and the run's folder.
pub(crate) fn facts_of(entry: &AttemptEntry, store: &Store, executor: &Executor) -> AttemptFacts {
    let (job, attempt) = (job_of(entry), &entry.attempt);
    let (folder, name) = job_place(&store.folder.run(attempt.id()), &job);
    AttemptFacts {
        tree_is_gone: false,
        is_trial: attempt.trial().is_some(),
        phase: attempt.phase(),
        has_draft: attempt.measured().is_some() || !attempt.recording().is_empty(),
        recorded: store.history.get(attempt.id()).is_some(),
        run: executor.found(&folder, name),
        runs: entry.run().tries(),
    }
}

/// Goes on with a run, a guard or a review that an earlier process left open. `tree_is_gone` says whether the linked
/// working tree of it was missing.
pub(crate) async fn pick_up(
    entry: AttemptEntry,
    tree: &mut Workspace,
    shared: &SessionContext<'_>,
    deadline: Deadline,
    tree_is_gone: bool,
) -> Result<Attempted, SessionError> {
    let job = job_of(&entry);
    await_files(shared, entry.attempt.id(), &job).await;
    let found = AttemptFacts { tree_is_gone, ..facts_of(&entry, &shared.store(), shared.executor_of(&job)) };
    let terms = tree.file_terms.clone();
    let ended = take_steps(entry, Some(tree), shared, &terms, deadline, found).await?;
    Ok(ended.unwrap_or(Attempted::Waiting))
}

/// Takes the steps that remain of an attempt since an earlier process was killed. `tree` is the working tree of its newest job,
/// where it has one. Returns how it ended, if it did.
pub(crate) async fn take_steps(
    entry: AttemptEntry,
    mut tree: Option<&mut Workspace>,
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    deadline: Deadline,
    found: AttemptFacts,
) -> Result<Option<Attempted>, SessionError> {
    let (steps, id) = (recover(found), entry.attempt.id());
    let may_run = |step: &Step| *step == Step::AwaitSlot || *step == Step::Finish && tree.is_some();
    let is_to_check = !found.recorded && steps.iter().any(may_run);
    let mut left = LeftAttempt { attempt: entry.attempt.clone(), run: entry.run(), stage: Stage::of(entry) };
    let refused = if is_to_check { check_again(&mut shared.store(), terms, &left.attempt)? } else { None };
    if let Some(refused) = refused {
        end_jobs(shared, id).await?;
        left.stage = Stage::of(AttemptEntry::new(Attempt::Ready(refused.clone())));
        left.attempt = Attempt::Ready(refused);
    }
    let mut ended = None;
    for step in steps {
        let tree = tree.as_deref_mut();
        let attempted = match (step, tree) {
            (Step::EndJobs, _) => end_jobs(shared, id).await.map(|()| None)?,
            (Step::Finish, Some(tree)) => Some(left.take_stage().finish(tree, shared, deadline).await?),
            (step, tree) => {
                let environment = shared.environment();
                left.take_step(step, tree, &mut shared.store(), environment)?
            }
        };
        ended = attempted.or(ended);
        shared.publish()?;
        crash::point("recover.step_done");
    }
    Ok(ended)
}

/// An attempt that an earlier process left open, and the stage at which it goes on.
struct LeftAttempt {
    attempt: Attempt,
    /// The run that it is at.
    run: OpenRun,
    stage: Stage,
}

impl LeftAttempt {
    fn take_stage(&mut self) -> Stage {
        std::mem::replace(&mut self.stage, Stage::Over(Attempted::Waiting))
    }

    /// Takes a step that needs no waiting. Steps of a slot's tree are skipped without one: whoever uses the tree brings it to the
    /// commit first.
    fn take_step(
        &mut self,
        step: Step,
        tree: Option<&mut Workspace>,
        store: &mut Store,
        environment: Arc<Environment>,
    ) -> Result<Option<Attempted>, SessionError> {
        let attempt = &mut self.attempt;
        match (step, tree) {
            (Step::Reset, Some(tree)) => tree.reset_after_call(store, attempt.head(), attempt.measured())?,
            (Step::BringBack, Some(tree)) => {
                if let (Some(users), Some(draft)) = (tree.users(), attempt.measured()) {
                    users.restore_version(store, draft)?;
                }
            }
            (Step::CheckOut, Some(tree)) => {
                let made = match attempt {
                    Attempt::Rerun(made) => Some(to_base(made)),
                    attempt => attempt.made().cloned(),
                };
                made.iter().try_for_each(|made| tree.check_out(store, made))?;
            }
            (Step::ForgetRun, _) => match &self.stage {
                Stage::Run(change) => change.forget_run(store)?,
                Stage::Guard(change) => change.forget_next_guard(store)?,
                Stage::Confirm(change) => change.with_run(self.run.clone()).forget_run(store)?,
                Stage::Review(_) | Stage::Over(_) => {}
            },
            (Step::Run, Some(tree)) => {
                if let Stage::Run(change) = &mut self.stage {
                    change.prepare_run(tree, store)?;
                }
            }
            (Step::RecordLost, Some(tree)) => {
                if let Stage::Run(change) = self.take_stage() {
                    let lost = Measurement::lost(change.run.tries());
                    let draft = change.judge(tree, store, lost, environment)?;
                    draft.record(tree, store)?;
                    return Ok(Some(Attempted::Recorded));
                }
            }
            (Step::AwaitCall, _) => {
                attempt.head_mut().seat = None;
                store.enter(attempt.clone())?;
            }
            (Step::AwaitSlot, _) if matches!(attempt, Attempt::Ready(Made { refused: Some(_), .. })) => {
                store.enter(attempt.clone())?;
            }
            (Step::Record, tree) => {
                store.finish_recording(attempt.clone(), tree.and_then(Workspace::users))?;
                return Ok(Some(Attempted::Recorded));
            }
            (Step::Close, Some(tree)) => tree.enter_idle(store, attempt.id(), None)?,
            (Step::Close, None) => store.close_open(attempt.id())?,
            (
                Step::AwaitSlot
                | Step::EndJobs
                | Step::Finish
                | Step::Reset
                | Step::BringBack
                | Step::CheckOut
                | Step::Run
                | Step::RecordLost,
                _,
            ) => {}
        }
        Ok(None)
    }
}

impl RunningChange {
    /// A change whose first run was never started.
    pub(crate) fn new(made: Made) -> Self {
        let run = made.head.first_run();
        RunningChange { made, phase: Phase::Idle, run, is_prepared: false }
    }

    /// A further run beside the first one.
    pub(crate) fn for_extra_run(made: Made, run: OpenRun) -> Self {
        RunningChange { made, phase: Phase::Running, run, is_prepared: false }
    }

    pub(crate) fn id(&self) -> ExperimentId {
        self.made.head.id
    }

    /// Enters a step of it in the journal.
    pub(crate) fn enter(&mut self, store: &mut Store, step: fn(Made) -> Attempt) -> Result<(), SessionError> {
        let attempt = step(self.made.clone());
        self.phase = attempt.phase();
        store.journal.enter(attempt);
        self.enter_run(store)
    }

    /// Enters its run in the journal.
    pub(crate) fn enter_run(&self, store: &mut Store) -> Result<(), SessionError> {
        store.journal.enter_run(self.id(), &self.run);
        store.write_journal()
    }

    /// Starts its run unless it is active, waits for it, and reaches the verdict on it.
    async fn run_and_judge(
        mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Stage, SessionError> {
        if let Some(failure) = self.made.refused.clone() {
            let measured = Measurement::refused(failure.clone());
            if let Some(before) = self.made.before.take() {
                let store = &mut *shared.store();
                let why = describe_failure(&failure, &store.contract.metric.name, &measured.ended, None);
                let why = format!("its next version was not run, as {why}");
                return end_with_version(self.made, *before, workspace, store, &why);
            }
            let measured = self.judge(workspace, &shared.store(), measured, shared.environment())?;
            return measured.record(workspace, &mut shared.store());
        }
        let measured = match self.measured(workspace, shared, deadline).await? {
            WaitEnd::Done(measured) => *measured,
            WaitEnd::Lost => Measurement::lost(self.run.tries()),
            WaitEnd::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
            WaitEnd::Interrupted if self.left_the_queue(&shared.store())? => {
                self.wait_for_slot(&mut shared.store())?;
                return Ok(Stage::Over(Attempted::Waiting));
            }
            WaitEnd::Interrupted => return self.take_back(workspace, &mut shared.store()),
        };
        shared.note_environment(self.id()).await;
        let visible = measured.result(&self.made.commit);
        let mut measured = self.judge(workspace, &shared.store(), measured, shared.environment())?;
        let is_to_keep = measured.draft.record.outcome == Outcome::Keep;
        let decides_once = {
            let contract = &shared.store().contract;
            contract.holdout.is_some() && !is_confirmed(contract) && !self.id().is_baseline()
        };
        if let Some(visible) = visible.filter(|_| is_to_keep && decides_once) {
            match self.look_hidden(workspace, shared, deadline, (&mut measured, visible)).await? {
                WaitEnd::Done(()) => {}
                WaitEnd::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                WaitEnd::Interrupted => return self.take_back(workspace, &mut shared.store()),
                WaitEnd::Lost => {
                    self.run_again(workspace, &mut shared.store())?;
                    return Ok(Stage::Run(self));
                }
            }
        }
        let is_keep = measured.draft.record.outcome == Outcome::Keep;
        if is_keep {
            match self.set_artifacts_aside(workspace, shared).await? {
                Some(artifacts) => measured.draft.record.give_artifacts(artifacts, self.artifacts_run()),
                None => return Ok(Stage::Over(Attempted::StillRunning)),
            }
        }
        shared.store().journal.enter_run(self.id(), &self.run);
        let is_new = !matches!(measured.draft.made.head.trial(), Some(Trial::Afresh(_)));
        let is_guarded = is_new && is_keep && !shared.store().contract.guards.is_empty();
        if is_guarded { Ok(Stage::Guard(measured)) } else { measured.after_guards(workspace, shared) }
    }

    /// Takes back a change whose run was interrupted; the version before it is recorded where there is one.
    fn take_back(mut self, workspace: &mut Workspace, store: &mut Store) -> Result<Stage, SessionError> {
        if roll_back_version(&self.made, workspace, store)? {
            return Ok(Stage::Over(Attempted::RolledBack));
        }
        if let Some(before) = self.made.before.take() {
            let why = "the run of its next version was interrupted";
            return end_with_version(self.made, *before, workspace, store, why);
        }
        roll_back(&self.made, workspace, store, "was interrupted")?;
        Ok(Stage::Over(Attempted::RolledBack))
    }

    /// Reaches the verdict on a measured run. Returns also the limits that count against it, and the outcome of a trial.
    fn verdict(&self, store: &Store, diff: DiffStat, measured: &Measurement) -> (Verdict, Vec<String>, Option<Tested>) {
        let head = &self.made.head;
        if let Some(trial) = head.trial() {
            return judge_trial(store, trial, diff, measured);
        }
        let Store { contract, history, .. } = store;
        if let Some(verdict) = unselected(contract, measured).filter(|_| head.is_second_look()) {
            return (verdict, Vec::new(), None);
        }
        // Beside others, the incumbent may be another one by now.
        let made_on = history.kept_at(&head.base);
        if contract.decides_on_hidden() && is_confirmed(contract) {
            let candidate = HiddenCandidate { id: head.id, commit: &self.made.commit, base: made_on, diff };
            let (verdict, unmet) = judge_before_hidden(contract, (history, &store.hidden), candidate, measured);
            return (verdict, unmet, None);
        }
        let records = made_on.map_or(history.records(), |base| history.as_of(base));
        let (verdict, unmet) = judge(contract, (history, records), head.id, diff, measured);
        (verdict, unmet, None)
    }

    /// Reaches the verdict on a measured run and writes it up.
    pub(crate) fn judge(
        &self,
        workspace: &Workspace,
        store: &Store,
        measured: Measurement,
        environment: Arc<Environment>,
    ) -> Result<MeasuredChange, SessionError> {
        let environment = environment_at(environment, measured.node.clone());
        let (head, commit, base) = (&self.made.head, &self.made.commit, &self.made.head.base);
        let diff = if base == commit { DiffStat::default() } else { store.repo.objects.diff(base, commit)?.stat() };
        let (Verdict { outcome, mut reason }, unmet_limits, tested) = self.verdict(store, diff, &measured);
        let changed = measured.changed();
        let of_changed = (!changed.is_empty()).then(|| changed_text(&changed));
        let of_others = (!measured.gpu_others.is_empty()).then(|| GpuOther::clause(&measured.gpu_others));
        of_changed.into_iter().chain(of_others).for_each(|clause| reason += &format!("; {clause}"));
        let inputs = measured.run.as_ref().map(|_| ignored_inputs(&workspace.repo, &store.contract.command));
        let ignored = head.agent.as_ref().map(|_| store.journal.calls.last().ignored.iter().cloned().collect());
        let run = measured.counted_run(workspace.owner.is_one_of_many().then_some(commit));
        let earlier = self.made.before.as_deref();
        let value = measured.value.as_ref().filter(|_| measured.failure.is_none());
        let mut record = Record {
            version: RECORD_VERSION,
            id: head.id,
            sequence: None,
            tag: store.contract.tag.clone(),
            commit: commit.clone(),
            base: base.clone(),
            description: head.description.clone(),
            direction: head.direction.clone(),
            outcome,
            failure: measured.failure.clone(),
            reason,
            unmet_limits,
            outside_cause: measured.outside_cause,
            metric: MetricValue::of(&store.contract.metric, value),
            metrics: measured.metrics,
            units: if head.id.is_baseline() { measured.units } else { BTreeMap::new() },
            memory_gb: measured.memory_gb,
            runs: earlier.map(|earlier| earlier.runs.iter().map(voided).collect()).unwrap_or_default(),
            proof: Proof { sandbox: earlier.and_then(|earlier| earlier.proof.sandbox), ..Proof::default() },
            change: RecordedChange {
                versions: head.versions.clone(),
                diff,
                fingerprint: self.made.fingerprint.clone(),
            },
            origin: Provenance {
                environment,
                started: head.started,
                finished: store.now(),
                agent: head.agent.clone(),
                imported: None,
                proposal: Some(&head.proposal).filter(|said| !said.is_empty()).and_then(|said| Unparsed::of(said).ok()),
                proposal_error: head.proposal_error.clone(),
            },
            conditions: Conditions {
                changed_while_running: changed.iter().map(|path| name_of(path)).collect(),
                gpu_others: measured.gpu_others,
                carried: self.run.carried().cloned().collect(),
                ignored_changed: ignored.unwrap_or_default(),
                ignored_inputs: inputs.transpose()?.unwrap_or_default(),
                ..Conditions::default()
            },
            beside: head.beside.clone(),
            unknown_fields: Map::new(),
        };
        record.add_runs(run, measured.sandbox);
        Ok(MeasuredChange { draft: Draft { tested, ..Draft::new(self.made.clone(), record) }, phase: self.phase })
    }
}

/// The environment of a run on another node.
fn environment_at(environment: Arc<Environment>, node: Option<Environment>) -> Arc<Environment> {
    let Some(Environment { host, gpu, gpus, driver, .. }) = node else { return environment };
    Arc::new(Environment { host, gpu, gpus, driver, ..(*environment).clone() })
}

impl MeasuredChange {
    pub(crate) fn id(&self) -> ExperimentId {
        self.draft.made.head.id
    }

    pub(crate) fn commit(&self) -> &CommitId {
        &self.draft.made.commit
    }

    /// Its change at a run of its own.
    pub(crate) fn with_run(&self, run: OpenRun) -> RunningChange {
        RunningChange { phase: self.phase, ..RunningChange::for_extra_run(self.draft.made.clone(), run) }
    }

    /// Enters a step of it in the journal.
    pub(crate) fn enter(&mut self, store: &mut Store, step: fn(Draft) -> Attempt) -> Result<(), SessionError> {
        let attempt = step(self.draft.clone());
        self.phase = attempt.phase();
        store.enter(attempt)
    }

    /// Has fresh runs confirm a number that would be kept where they decide; else concludes.
    pub(crate) fn after_guards(
        self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Stage, SessionError> {
        if self.is_to_confirm(&shared.store()) { Ok(Stage::Confirm(self)) } else { self.conclude(workspace, shared) }
    }

    /// Has the experiment reviewed, calls the agent again, or records it, as its draft requires.
    pub(crate) fn conclude(
        self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Stage, SessionError> {
        if self.awaits_review(&shared.store()) {
            return Ok(Stage::Review(self));
        }
        if shared.calls_agent
            && let Some(call) = next_rework(&self.draft)
        {
            self.begin_rework(workspace, &mut shared.store(), call)?;
            return Ok(Stage::Over(Attempted::Waiting));
        }
        self.record(workspace, &mut shared.store())
    }

    /// Records the experiment, unless it has to wait for the incumbent.
    pub(crate) fn record(self, workspace: &mut Workspace, store: &mut Store) -> Result<Stage, SessionError> {
        let Some(Draft { made, record, .. }) = join_line(self.draft, store)? else {
            return Ok(Stage::Over(Attempted::Waiting));
        };
        let record = Record { beside: made.head.beside.clone(), ..*record };
        store.record(made, vec![record], workspace.users())?;
        Ok(Stage::Over(Attempted::Recorded))
    }
}

/// Returns the kind of further agent call that a draft leads to, if any.
pub(crate) fn next_rework(draft: &Draft) -> Option<ReworkCall> {
    let head = &draft.made.head;
    if draft.record.proof.fresh_runs.is_some() {
        // A run failed whose log no agent may read.
        return None;
    }
    let ran = match head.beside.replays.as_slice() {
        _ if head.first_run_counts() => Ran::Trial,
        [] => Ran::Own,
        _ => Ran::Merged,
    };
    next_rework_on_slots(ran, draft.record.failure.as_ref(), &draft.record.change.versions)
}

/// Rolls an experiment back and reports `why`: its commit stays under a saved ref, branch and working tree are as before it.
pub(crate) fn roll_back(
    made: &Made,
    workspace: &mut Workspace,
    store: &mut Store,
    why: &str,
) -> Result<(), SessionError> {
    let id = made.head.id;
    workspace.settle_settings(store)?;
    if made.head.is_second_look() {
        workspace.restore_base(store, made)?;
    } else if made.head.trial().is_none() {
        workspace.undo_commit(store, made, &format!("experiment {id} {why}; its change"))?;
    }
    if !made.head.is_second_look() {
        // The agent is called again for it.
        store.journal.calls.rollback_count();
    }
    workspace.enter_idle(store, id, None)
}

/// Keeps a change that comes too late to be run as an idea; branch and working tree are as before it.
pub(crate) fn leave_as_idea(made: &Made, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
    workspace.settle_settings(store)?;
    store.keep_as_idea(&made.head, &made.commit)?;
    crash::point("rollback.change_saved");
    workspace.restore_base(store, made)?;
    workspace.enter_idle(store, made.head.id, None)
}

/// Rolls an experiment back if it is the next version of a recorded one without a measurement since: the record stays as it
/// was. Returns whether it is.
pub(crate) fn roll_back_version(
    made: &Made,
    workspace: &mut Workspace,
    store: &mut Store,
) -> Result<bool, SessionError> {
    let head = &made.head;
    if !is_being_replaced(&store.repo, &store.contract.tag, head)? {
        return Ok(false);
    }
    let stands = |record: &Record| head.versions.last().is_some_and(|version| version.commit == record.commit);
    let records = read_records(&store.repo, &store.contract.tag)?.into_iter().flatten();
    let Some(record) = records.into_iter().find(stands) else { return Ok(false) };
    roll_back(made, workspace, store, "was interrupted")?;
    store.history.push(record);
    Ok(true)
}

/// Records the last version that was measured, and saves a later one under a ref.
pub(crate) fn end_with_version(
    made: Made,
    version: Record,
    workspace: &mut Workspace,
    store: &mut Store,
    why: &str,
) -> Result<Stage, SessionError> {
    if made.commit != version.commit {
        workspace.undo_commit(store, &made, &format!("what was last made of experiment {}", made.head.id))?;
    }
    let mut record = Record { reason: format!("{}; {why}", version.reason), ..version };
    // Calls without a result took time and tokens, too.
    record.origin.agent.clone_from(&made.head.agent);
    let made = Made { commit: record.commit.clone(), ..made };
    MeasuredChange { draft: Draft::new(made, record), phase: Phase::Idle }.record(workspace, store)
}
