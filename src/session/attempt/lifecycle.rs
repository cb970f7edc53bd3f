//! One experiment from its commit to its row: run, judge, record, settle, or roll back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Map;

use super::change_checks::check_again;
use super::incumbent_check::before_rerun;
use super::left_over::{await_files, end_jobs};
use super::line::judge_trial;
use super::recording::join_line;
use crate::crash;
use crate::domain::{
    DiffStat, Environment, GpuOther, MetricValue, Outcome, Phase, RECORD_VERSION, Record, Run, Unparsed, Waits,
};
use crate::exec::Executor;
use crate::rules::{
    AttemptFacts, FileTerms, Measured, Ran, ReworkCall, Step, Trial, Verdict, changed_text, describe_failure, judge,
    next_rework_on_slots, recover,
};
use crate::session::errors::SessionError;
use crate::session::files::{ignored_inputs, read_records};
use crate::session::store::{REVIEW, Store, commit_of, draft_of, guard_name, is_being_replaced, job_place, run_name};
use crate::session::tree::{Workspace, name_of};
use crate::session::wait::{Deadline, SessionContext, WaitEnd};
use crate::state::{OpenAttempt, OpenExperiment, OpenRun};

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
    Run,
    /// Its guards: its number would be kept.
    Guard,
    /// Its fresh runs: they decide whether its number is kept.
    Confirm,
    /// Its review: its number would be kept, and its guards passed.
    Review,
    /// Nothing: it is finished, or left open.
    Over(Attempted),
}

/// An experiment that is not recorded yet. Each of its stages returns the next one.
pub(crate) struct Attempt {
    pub(crate) open: OpenExperiment,
    /// The step that it is in, as the journal has it.
    pub(crate) phase: Phase,
    /// The run that it is at.
    pub(crate) run: OpenRun,
    /// True if this process prepared its run, so that no other process can have started it.
    pub(crate) is_prepared: bool,
}

/// The run of a version that was reworked.
fn voided(run: &Run) -> Run {
    Run { void: true, ..run.clone() }
}

impl Attempt {
    /// An attempt at this step, whose run was never started.
    pub(crate) fn in_phase(open: OpenExperiment, phase: Phase) -> Attempt {
        Attempt::from_journal(OpenAttempt::new(phase, open))
    }

    /// The attempt as the journal has it.
    pub(crate) fn from_journal(attempt: OpenAttempt) -> Attempt {
        let run = attempt.run();
        let OpenAttempt { phase, open, .. } = attempt;
        Attempt { open, phase, run, is_prepared: false }
    }

    /// The attempt at a further run beside its first.
    pub(crate) fn for_extra_run(open: &OpenExperiment, run: OpenRun) -> Attempt {
        Attempt { run, ..Attempt::in_phase(open.clone(), Phase::Running) }
    }

    /// Enters a phase of it in the journal.
    pub(crate) fn enter(&mut self, store: &mut Store, phase: Phase) -> Result<(), SessionError> {
        self.phase = phase;
        store.journal.enter(phase, self.open.clone());
        self.enter_run(store)
    }

    /// Enters its run in the journal.
    pub(crate) fn enter_run(&self, store: &mut Store) -> Result<(), SessionError> {
        store.journal.enter_run(self.open.id, &self.run);
        store.write_journal()
    }

    /// Its newest job, by what the journal says.
    pub(crate) fn job(&self) -> String {
        match (self.phase, &self.open.draft) {
            (Phase::Guarding, Some(draft)) => guard_name(draft.guards.len() + 1),
            (Phase::Reviewing, _) => REVIEW.to_owned(),
            _ => run_name(&self.run),
        }
    }

    /// Brings it from the step that the journal names to its end.
    pub(crate) async fn finish(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Attempted, SessionError> {
        let mut stage = match self.phase {
            Phase::Guarding => Stage::Guard,
            Phase::Confirming => Stage::Confirm,
            Phase::Reviewing => Stage::Review,
            _ => Stage::Run,
        };
        loop {
            stage = match stage {
                Stage::Run => self.run(workspace, shared, deadline).await?,
                Stage::Guard => self.guard(workspace, shared, deadline).await?,
                Stage::Confirm => self.confirm(workspace, shared, deadline).await?,
                Stage::Review => self.review(workspace, shared, deadline).await?,
                Stage::Over(attempted) => {
                    shared.publish()?;
                    return Ok(attempted);
                }
            };
        }
    }

    /// Goes on with a run, a guard or a review that an earlier process left open. `tree_is_gone` says whether the linked
    /// working tree of it was missing.
    pub(crate) async fn pick_up(
        &mut self,
        tree: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
        tree_is_gone: bool,
    ) -> Result<Attempted, SessionError> {
        await_files(shared, self).await;
        let found = AttemptFacts { tree_is_gone, ..self.found(&shared.store(), shared.executor_of(&self.job())) };
        let terms = tree.file_terms.clone();
        let ended = self.recover(Some(tree), shared, &terms, deadline, found).await?;
        Ok(ended.unwrap_or(Attempted::Waiting))
    }

    /// Takes the steps that remain of it since an earlier process was killed. `tree` is the working tree of its newest job, where
    /// it has one. Returns how it ended, if it did.
    pub(crate) async fn recover(
        &mut self,
        mut tree: Option<&mut Workspace>,
        shared: &SessionContext<'_>,
        terms: &FileTerms,
        deadline: Deadline,
        found: AttemptFacts,
    ) -> Result<Option<Attempted>, SessionError> {
        let steps = recover(found);
        let may_run = |step: &Step| *step == Step::AwaitSlot || *step == Step::Finish && tree.is_some();
        let is_to_check = !found.recorded && steps.iter().any(may_run);
        if is_to_check && check_again(&mut shared.store(), terms, &mut self.open)? {
            end_jobs(shared, self.open.id).await?;
        }
        let mut ended = None;
        for step in steps {
            let tree = tree.as_deref_mut();
            let attempted = match (step, tree) {
                (Step::EndJobs, _) => end_jobs(shared, self.open.id).await.map(|()| None)?,
                (Step::Finish, Some(tree)) => Some(self.finish(tree, shared, deadline).await?),
                (step, tree) => {
                    let environment = shared.environment();
                    self.apply_recovery_step(step, tree, &mut shared.store(), environment)?
                }
            };
            ended = attempted.or(ended);
            shared.publish()?;
            crash::point("recover.step_done");
        }
        Ok(ended)
    }

    /// Takes a step that needs no waiting. Steps of a slot's tree are skipped without one: whoever uses the tree brings it to the
    /// commit first.
    fn apply_recovery_step(
        &mut self,
        step: Step,
        tree: Option<&mut Workspace>,
        store: &mut Store,
        environment: Arc<Environment>,
    ) -> Result<Option<Attempted>, SessionError> {
        match (step, tree) {
            (Step::Reset, Some(tree)) => tree.reset_after_call(store, &self.open)?,
            (Step::BringBack, Some(tree)) => {
                if let Some(users) = tree.users() {
                    users.restore_version(store, &draft_of(&self.open)?)?;
                }
            }
            (Step::CheckOut, Some(tree)) if self.phase == Phase::Checking => {
                tree.check_out(store, &before_rerun(&self.open)?)?;
            }
            (Step::CheckOut, Some(tree)) => tree.check_out(store, &self.open)?,
            (Step::ForgetRun, _) => self.forget_run(store)?,
            (Step::Run, Some(tree)) => self.prepare_run(tree, store)?,
            (Step::RecordLost, Some(tree)) => {
                let record = self.judge(tree, store, Measured::lost(self.run.tries()), environment)?;
                self.record(tree, store, record)?;
                return Ok(Some(Attempted::Recorded));
            }
            (Step::AwaitCall, _) => {
                self.open.seat = None;
                self.enter(store, self.phase)?;
            }
            (Step::AwaitSlot, _) if self.open.refused.is_some() => self.enter(store, Phase::Committing)?,
            (Step::Record, tree) => {
                store.finish_recording(&self.open, tree.and_then(Workspace::users))?;
                return Ok(Some(Attempted::Recorded));
            }
            (Step::Close, Some(tree)) => tree.enter_idle(store, self.open.id, None)?,
            (Step::Close, None) => store.close_open(self.open.id)?,
            (
                Step::EndJobs
                | Step::Finish
                | Step::Reset
                | Step::BringBack
                | Step::CheckOut
                | Step::Run
                | Step::RecordLost
                | Step::AwaitSlot,
                _,
            ) => {}
        }
        Ok(None)
    }

    /// Gathers the facts for recovery from the journal, the records and the run's folder.
    pub(crate) fn found(&self, store: &Store, executor: &Executor) -> AttemptFacts {
        let job = self.job();
        let (folder, name) = job_place(&store.folder.run(self.open.id), &job);
        AttemptFacts {
            tree_is_gone: false,
            is_trial: self.open.trial.is_some(),
            phase: self.phase,
            has_draft: self.open.draft.is_some() || !self.open.recording.is_empty(),
            recorded: store.history.get(self.open.id).is_some(),
            run: executor.found(&folder, name),
            runs: self.run.tries(),
        }
    }

    /// Starts its run unless it is active, waits for it, and reaches the verdict on it.
    async fn run(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Stage, SessionError> {
        if let Some(failure) = self.open.refused.clone() {
            let measured = Measured::refused(failure.clone());
            if self.open.draft.is_some() {
                let store = &mut *shared.store();
                let why = describe_failure(&failure, &store.contract.metric.name, &measured.ended, None);
                return self.end_with_draft(workspace, store, &format!("its next version was not run, as {why}"));
            }
            let record = self.judge(workspace, &shared.store(), measured, shared.environment())?;
            return self.record(workspace, &mut shared.store(), record);
        }
        let measured = match self.measured(workspace, shared, deadline).await? {
            WaitEnd::Done(measured) => *measured,
            WaitEnd::Lost => Measured::lost(self.run.tries()),
            WaitEnd::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
            WaitEnd::Interrupted if self.left_the_queue(&shared.store())? => {
                self.wait_for_slot(&mut shared.store())?;
                return Ok(Stage::Over(Attempted::Waiting));
            }
            WaitEnd::Interrupted if self.roll_back_version(workspace, &mut shared.store())? => {
                return Ok(Stage::Over(Attempted::RolledBack));
            }
            WaitEnd::Interrupted if self.open.draft.is_some() => {
                let why = "the run of its next version was interrupted";
                return self.end_with_draft(workspace, &mut shared.store(), why);
            }
            WaitEnd::Interrupted => {
                self.roll_back(workspace, &mut shared.store(), "was interrupted")?;
                return Ok(Stage::Over(Attempted::RolledBack));
            }
        };
        shared.note_environment(self.open.id).await;
        let mut record = self.judge(workspace, &shared.store(), measured, shared.environment())?;
        if record.outcome == Outcome::Keep {
            match self.set_artifacts_aside(workspace, shared).await? {
                Some(artifacts) => record.give_artifacts(artifacts, self.artifacts_run()),
                None => return Ok(Stage::Over(Attempted::StillRunning)),
            }
        }
        let is_new = !matches!(self.open.trial, Some(Trial::Afresh(_)));
        let is_guarded = is_new && record.outcome == Outcome::Keep && !shared.store().contract.guards.is_empty();
        self.open.draft = Some(Box::new(record));
        if is_guarded { Ok(Stage::Guard) } else { self.after_guards(workspace, shared) }
    }

    /// Has fresh runs confirm a number that would be kept where they decide; else concludes.
    pub(crate) fn after_guards(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Stage, SessionError> {
        if self.is_to_confirm(&shared.store()) { Ok(Stage::Confirm) } else { self.conclude(workspace, shared) }
    }

    /// Reaches the verdict on a measured run. Returns also the limits that count against it.
    fn verdict(
        &mut self,
        store: &Store,
        diff: DiffStat,
        measured: &Measured,
    ) -> Result<(Verdict, Vec<String>), SessionError> {
        if let Some(trial) = self.open.trial.clone() {
            return judge_trial(self, store, &trial, measured);
        }
        let Store { contract, history, .. } = store;
        // Beside others, the incumbent may be another one by now.
        let made_on = history.kept_at(&self.open.base);
        let records = made_on.map_or(history.records(), |base| history.as_of(base));
        Ok(judge(contract, (history, records), self.open.id, diff, measured))
    }

    /// Reaches the verdict on a measured run and writes it up.
    pub(crate) fn judge(
        &mut self,
        workspace: &Workspace,
        store: &Store,
        measured: Measured,
        environment: Arc<Environment>,
    ) -> Result<Record, SessionError> {
        let environment = match measured.node.clone() {
            None => environment,
            Some(Environment { host, gpu, gpus, driver, .. }) => {
                Arc::new(Environment { host, gpu, gpus, driver, ..(*environment).clone() })
            }
        };
        let commit = &commit_of(&self.open)?;
        let base = &self.open.base;
        let diff = if base == commit { DiffStat::default() } else { store.repo.objects.diff(base, commit)?.stat() };
        let (Verdict { outcome, mut reason }, unmet_limits) = self.verdict(store, diff, &measured)?;
        let changed = measured.changed();
        if !changed.is_empty() {
            reason = format!("{reason}; {}", changed_text(&changed));
        }
        if !measured.gpu_others.is_empty() {
            reason = format!("{reason}; {}", GpuOther::clause(&measured.gpu_others));
        }
        let ignored_inputs = match &measured.run {
            Some(_) => ignored_inputs(&workspace.repo, &store.contract.command)?,
            None => BTreeMap::new(),
        };
        let ignored_changed = match &self.open.agent {
            Some(_) => store.journal.calls.last().ignored.iter().cloned().collect(),
            None => BTreeSet::new(),
        };
        let run = measured.counted_run(workspace.owner.is_one_of_many().then_some(commit));
        let earlier = self.open.draft.as_ref();
        let value = measured.value.as_ref().filter(|_| measured.failure.is_none());
        let mut record = Record {
            version: RECORD_VERSION,
            id: self.open.id,
            sequence: None,
            tag: store.contract.tag.clone(),
            commit: commit.clone(),
            base: self.open.base.clone(),
            description: self.open.description.clone(),
            direction: self.open.direction.clone(),
            outcome,
            failure: measured.failure.clone(),
            reason,
            unmet_limits,
            outside_cause: measured.outside_cause,
            metric: MetricValue::of(&store.contract.metric, value),
            metrics: measured.metrics,
            units: if self.open.id.is_baseline() { measured.units } else { BTreeMap::new() },
            memory_gb: measured.memory_gb,
            runs: earlier.map(|earlier| earlier.runs.iter().map(voided).collect()).unwrap_or_default(),
            sandbox: earlier.and_then(|earlier| earlier.sandbox),
            control: None,
            guards: Vec::new(),
            review: None,
            artifacts: Vec::new(),
            artifacts_run: None,
            versions: self.open.versions.clone(),
            diff,
            fingerprint: self.open.fingerprint.clone(),
            environment,
            started: self.open.started,
            finished: store.now(),
            agent: self.open.agent.clone(),
            imported: None,
            proposal: Some(&self.open.proposal)
                .filter(|said| !said.is_empty())
                .and_then(|said| Unparsed::of(said).ok()),
            proposal_error: self.open.proposal_error.clone(),
            changed_while_running: changed.iter().map(|path| name_of(path)).collect(),
            gpu_others: measured.gpu_others,
            carried: self.run.carried().cloned().collect(),
            ignored_changed,
            ignored_inputs,
            layout: None,
            waits: Waits::default(),
            beside: self.open.beside.clone(),
            unknown_fields: Map::new(),
        };
        record.add_runs(run, measured.sandbox);
        Ok(record)
    }

    /// Returns the kind of further agent call that this draft leads to, if any.
    pub(crate) fn next_rework(&self, draft: &Record) -> Option<ReworkCall> {
        let ran = match &self.open.trial {
            Some(_) => Ran::Trial,
            None if !self.open.beside.replays.is_empty() => Ran::Merged,
            None => Ran::Own,
        };
        next_rework_on_slots(ran, draft.failure.as_ref(), &draft.versions)
    }

    /// Has the experiment reviewed, calls the agent again, or records it, as its draft requires.
    pub(crate) fn conclude(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Stage, SessionError> {
        let draft = draft_of(&self.open)?;
        if self.awaits_review(&shared.store(), &draft) {
            return Ok(Stage::Review);
        }
        if shared.calls_agent && self.next_rework(&draft).is_some() {
            self.begin_rework(workspace, &mut shared.store(), &draft)?;
            return Ok(Stage::Over(Attempted::Waiting));
        }
        self.record(workspace, &mut shared.store(), draft)
    }

    /// Saves what an agent left unfinished and restores branch and working tree. Without a version yet, this closes the
    /// experiment.
    pub(crate) fn save_unfinished(&self, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
        workspace.settle_settings(store)?;
        match &self.open.draft {
            // The version that it was to rework is saved already.
            Some(draft) if !workspace.has_worked(store, &self.open)? => {
                workspace.move_head(store, &self.open.base, &[&draft.commit], "unfinished")?;
                workspace.restore(store, &self.open.base, &draft.commit)?;
            }
            _ => workspace.reset_to(store, &self.open.base, self.open.id)?,
        }
        if let Some(draft) = &self.open.draft {
            workspace.restore_version(store, draft)?;
        }
        if self.open.is_made() { store.write_journal() } else { workspace.enter_idle(store, self.open.id, None) }
    }

    /// Rolls the experiment back and reports `why`: its commit stays under a saved ref, branch and working tree are as before
    /// it.
    pub(crate) fn roll_back(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        why: &str,
    ) -> Result<(), SessionError> {
        workspace.settle_settings(store)?;
        if self.open.trial.is_none() {
            let what = format!("experiment {} {why}; its change", self.open.id);
            workspace.undo_commit(store, &self.open, &commit_of(&self.open)?, &what)?;
        }
        // The agent is called again for it.
        store.journal.calls.rollback_count();
        workspace.enter_idle(store, self.open.id, None)
    }

    /// Keeps a change that comes too late to be run as an idea; branch and working tree are as before it.
    pub(crate) fn leave_as_idea(&self, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
        workspace.settle_settings(store)?;
        let commit = commit_of(&self.open)?;
        store.keep_as_idea(&self.open, &commit)?;
        crash::point("rollback.change_saved");
        workspace.restore_base(store, &self.open, &commit)?;
        workspace.enter_idle(store, self.open.id, None)
    }

    /// Rolls the experiment back if it is the next version of a recorded one without a measurement since: the record stays as
    /// it was. Returns whether it is.
    pub(crate) fn roll_back_version(&self, workspace: &mut Workspace, store: &mut Store) -> Result<bool, SessionError> {
        if !is_being_replaced(&store.repo, &store.contract.tag, &self.open)? {
            return Ok(false);
        }
        let stands = |record: &Record| self.open.versions.last().is_some_and(|version| version.commit == record.commit);
        let records = read_records(&store.repo, &store.contract.tag)?.into_iter().flatten();
        let Some(record) = records.into_iter().find(stands) else { return Ok(false) };
        self.roll_back(workspace, store, "was interrupted")?;
        store.history.push(record);
        Ok(true)
    }

    /// Records the experiment, unless it has to wait for the incumbent.
    pub(crate) fn record(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        record: Record,
    ) -> Result<Stage, SessionError> {
        let Some(record) = join_line(self, store, record)? else { return Ok(Stage::Over(Attempted::Waiting)) };
        let record = Record { beside: self.open.beside.clone(), ..record };
        store.record(self.open.clone(), vec![record], workspace.users())?;
        Ok(Stage::Over(Attempted::Recorded))
    }
}
