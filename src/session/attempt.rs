//! One experiment from its commit to its row: advance, run, measure, decide, guard, record, settle.

use std::sync::Arc;

use serde_json::{Map, json};

use super::error::SessionError;
use super::ignored::ignored_inputs;
use super::open::Session;
use super::opened::commit_of;
use super::store::Store;
use super::supervise::{Deadline, Ending};
use crate::crash;
use crate::domain::{
    CHANGED_WHILE_RUNNING, CommitId, DiffStat, Event, FORMAT_VERSION, IGNORED_CHANGED, IGNORED_INPUTS, MetricValue,
    Notice, Outcome, Phase, Record, Run, Unparsed, list,
};
use crate::git::Look;
use crate::rules::{LOST_RETRIES, Measured, Verdict, describe_failure, judge};
use crate::state::OpenExperiment;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attempted {
    /// It was recorded and settled.
    Recorded,
    /// It was interrupted and rolled back; nothing was recorded.
    RolledBack,
    /// Its run goes on, and the caller did not want to wait longer.
    StillRunning,
}

/// Where an experiment is between its commit and its end.
pub(super) enum Stage {
    /// Its run goes on, or is about to.
    Run(Box<OpenExperiment>),
    /// Its number would be kept, and its guards run.
    Guard(Box<OpenExperiment>),
    /// The agent works on it again.
    Rework(Box<OpenExperiment>),
    /// It is over, or left open.
    Over(Attempted),
}

impl Session<'_> {
    /// Starts a run again that was lost with its machine or its shim, or ended by somebody who was killed before all was
    /// taken back.
    pub(super) fn run_again(&mut self, open: OpenExperiment) -> Result<OpenExperiment, SessionError> {
        self.emit(Notice::RunRestarted(open.id))?;
        self.workspace.check_out(&mut self.store, &open)?;
        self.prepare_run(open)
    }

    /// Brings the open experiment from the step that the journal names to its end.
    pub(super) async fn finish_attempt(
        &mut self,
        open: OpenExperiment,
        deadline: Deadline,
    ) -> Result<Attempted, SessionError> {
        let open = Box::new(open);
        let mut stage = match self.store.journal.phase {
            Phase::Guarding => Stage::Guard(open),
            Phase::Proposing => Stage::Rework(open),
            _ => Stage::Run(open),
        };
        loop {
            if matches!(stage, Stage::Guard(_) | Stage::Rework(_)) {
                self.workspace.look = None;
            }
            stage = match stage {
                Stage::Run(open) => self.run_version(*open, deadline).await?,
                Stage::Guard(open) => self.guard(open, deadline).await?,
                Stage::Rework(open) => self.rework(open).await?,
                Stage::Over(attempted) => return Ok(attempted),
            };
        }
    }

    /// Waits for the run of the open experiment, which is started if it was not, and reaches the verdict on it. A run that
    /// is lost with its machine or its shim says nothing about the idea, and is started again.
    async fn run_version(&mut self, mut open: OpenExperiment, deadline: Deadline) -> Result<Stage, SessionError> {
        if let Some(failure) = open.refused.clone() {
            let measured = Measured::refused(failure.clone());
            if open.draft.is_some() {
                let why = describe_failure(&failure, &self.store.contract.metric.name, &measured.ended);
                return self.end_with_draft(open, &format!("its next version was not run, as {why}"));
            }
            let record = self.judge(&open, measured)?;
            self.record_and_settle(open, record)?;
            return Ok(Stage::Over(Attempted::Recorded));
        }
        let measured = loop {
            let running = self.take_run(&open).await?;
            match self.watch_run(running, &open, deadline).await? {
                Ending::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                Ending::Interrupted if self.roll_back_version(&open)? => {
                    return Ok(Stage::Over(Attempted::RolledBack));
                }
                Ending::Interrupted if open.draft.is_some() => {
                    return self.end_with_draft(open, "the run of its next version was interrupted");
                }
                Ending::Interrupted => {
                    self.roll_back(&open, "was interrupted")?;
                    return Ok(Stage::Over(Attempted::RolledBack));
                }
                Ending::Lost if open.runs <= LOST_RETRIES => open = self.run_again(open)?,
                Ending::Lost => break Measured::lost(open.runs),
                Ending::Done(measured) => break *measured,
            }
        };
        self.look_around(open.id).await;
        let record = self.judge(&open, measured)?;
        let is_guarded = record.outcome == Outcome::Keep && !self.store.contract.guards.is_empty();
        open.draft = Some(Box::new(record));
        let open = Box::new(open);
        if is_guarded { Ok(Stage::Guard(open)) } else { self.conclude(open) }
    }

    /// Reaches the verdict on a measured run and writes it up.
    pub(super) fn judge(&self, open: &OpenExperiment, measured: Measured) -> Result<Record, SessionError> {
        let commit = &commit_of(open)?;
        let Store { contract, history, .. } = &self.store;
        let metric = &contract.metric;
        let diff = self.diff_stat(open, commit)?;
        let (Verdict { outcome, mut reason }, unmet_limits) = judge(contract, history, open.id, diff, &measured);
        let mut more = Map::new();
        if !measured.changed.is_empty() {
            reason = format!("{reason}; {} changed while it ran", list(&measured.changed));
            more.insert(CHANGED_WHILE_RUNNING.into(), json!(measured.changed));
        }
        let inputs = ignored_inputs(&self.store.repo, &self.store.contract.command)?;
        if measured.run.is_some() && !inputs.is_empty() {
            more.insert(IGNORED_INPUTS.into(), json!(inputs));
        }
        let ignored = &self.store.journal.last_call.ignored;
        if open.agent.is_some() && !ignored.is_empty() {
            more.insert(IGNORED_CHANGED.into(), json!(ignored));
        }
        let value = measured.value.as_ref().filter(|_| measured.failure.is_none());
        let mut runs = open.draft.as_ref().map(|earlier| earlier.runs.clone()).unwrap_or_default();
        runs.extend(measured.run.map(|run| Run { value: value.map(|number| number.value), ..run }));
        Ok(Record {
            version: FORMAT_VERSION,
            id: open.id,
            tag: self.store.contract.tag.clone(),
            commit: commit.clone(),
            base: open.base.clone(),
            description: open.description.clone(),
            direction: open.direction.clone(),
            outcome,
            failure: measured.failure.clone(),
            reason,
            unmet_limits,
            outside_cause: measured.outside_cause,
            metric: MetricValue {
                name: metric.name.clone(),
                direction: metric.direction,
                value: value.map(|number| number.value),
                raw: value.map(|number| number.raw.clone()),
            },
            metrics: measured.metrics,
            memory_gb: measured.memory_gb,
            runs,
            guards: Vec::new(),
            versions: open.versions.clone(),
            diff,
            fingerprint: open.fingerprint.clone(),
            environment: Arc::clone(&self.place.environment),
            started: open.started,
            finished: self.store.now(),
            agent: open.agent.clone(),
            imported: None,
            proposal: Some(&open.proposal).filter(|said| !said.is_empty()).and_then(|said| Unparsed::of(said).ok()),
            proposal_error: open.proposal_error.clone(),
            more,
        })
    }

    fn diff_stat(&self, open: &OpenExperiment, commit: &CommitId) -> Result<DiffStat, SessionError> {
        if open.base == *commit {
            return Ok(DiffStat::default());
        }
        Ok(self.store.repo.diff_stat(&open.base, commit)?)
    }

    /// Makes the experiment count, its ref first, and settles it.
    pub(super) fn record_and_settle(&mut self, open: OpenExperiment, record: Record) -> Result<(), SessionError> {
        let look = self.workspace.look.take();
        self.store.record(open, &record)?;
        self.settle_tree(&record, look.as_ref())?;
        let look = match (look, record.outcome) {
            (Some(look), Outcome::Keep) => Some(look),
            (Some(look), _) if self.store.repo.look_outlasts(&look, &record.commit, &record.base)? => Some(look),
            _ => None,
        };
        self.enter_idle_after(look)
    }

    /// Follows a record that stands: the row, then the branch and the working tree, then the memory files.
    pub(super) fn settle(&mut self, open: &OpenExperiment, record: &Record) -> Result<(), SessionError> {
        self.store.settle_row(open, record)?;
        self.settle_tree(record, None)
    }

    /// What comes behind the row.
    fn settle_tree(&mut self, record: &Record, look: Option<&Look>) -> Result<(), SessionError> {
        let target = if record.outcome == Outcome::Keep { &record.commit } else { &record.base };
        let why = format!("{} experiment {}", record.outcome, record.id);
        self.workspace.move_branch(&mut self.store, target, &[&record.commit, &record.base], &why)?;
        crash::point("settling.branch_moved");
        self.workspace.put_back_after(&mut self.store, look, target, &record.commit)?;
        crash::point("settling.put_back");
        let before = self.store.journal.rung;
        self.store.remember(record)?;
        crash::point("settling.remembered");
        self.store.learn_from(record, before)?;
        let incumbent = self.store.history.best();
        self.emit(Event::ExperimentFinished { record: Box::new(record.clone()), incumbent })?;
        self.store.say_directive(before);
        self.tell()
    }

    /// Takes an experiment back that is not brought to its end, and says `why`: its commit is kept under a saved ref, the
    /// branch and the working tree are as before it.
    pub(super) fn roll_back(&mut self, open: &OpenExperiment, why: &str) -> Result<(), SessionError> {
        let what = format!("experiment {} {why}; its change", open.id);
        self.workspace.take_back_commit(&mut self.store, open, &commit_of(open)?, &what)?;
        // The call that made it is made again.
        self.store.journal.iteration = self.store.journal.iteration.saturating_sub(1);
        self.enter_idle()
    }
}
