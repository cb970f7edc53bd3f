//! One experiment from its commit to its row: run, judge, record, settle, or roll back.

use std::sync::Arc;

use serde_json::{Map, json};

use super::error::SessionError;
use super::ignored::ignored_inputs;
use super::open::Session;
use super::opened::{commit_of, draft_of, is_being_replaced};
use super::reading::read_records;
use super::store::Store;
use super::supervise::{Deadline, Ending};
use crate::crash;
use crate::domain::{
    CHANGED_WHILE_RUNNING, DiffStat, Event, IGNORED_CHANGED, IGNORED_INPUTS, MetricValue, Notice, Outcome, Phase,
    RECORD_VERSION, Record, Run, Unparsed, list,
};
use crate::git::Look;
use crate::rules::{Measured, Verdict, again, describe_failure, judge};
use crate::state::OpenExperiment;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attempted {
    /// It was recorded and settled.
    Recorded,
    /// It was interrupted and rolled back, without a record.
    RolledBack,
    /// Its run continues, and the caller did not want to wait longer.
    StillRunning,
}

/// What comes next for an attempt.
pub(super) enum Stage {
    /// Its run, which may be active already.
    Run,
    /// Its guards: its number would be kept.
    Guard,
    /// Another call of the agent for it.
    Rework,
    /// Nothing: it is finished, or left open.
    Over(Attempted),
}

/// An experiment that is not recorded yet. Each of its stages returns the next one.
pub(super) struct Attempt {
    pub(super) open: OpenExperiment,
    /// Whether this process made its run ready, so that nobody else can have started it.
    pub(super) is_prepared: bool,
}

impl Attempt {
    /// The attempt at an open experiment.
    pub(super) fn at(open: OpenExperiment) -> Attempt {
        Attempt { open, is_prepared: false }
    }

    /// Enters a phase of it in the journal.
    pub(super) fn enter(&self, session: &mut Session<'_>, phase: Phase) -> Result<(), SessionError> {
        session.store.enter(phase, self.open.clone())
    }

    /// Brings it from the step that the journal names to its end.
    pub(super) async fn finish(
        &mut self,
        session: &mut Session<'_>,
        deadline: Deadline,
    ) -> Result<Attempted, SessionError> {
        let mut stage = match session.store.journal.phase {
            Phase::Guarding => Stage::Guard,
            Phase::Proposing => Stage::Rework,
            _ => Stage::Run,
        };
        loop {
            if matches!(stage, Stage::Guard | Stage::Rework) {
                session.workspace.look = None;
            }
            stage = match stage {
                Stage::Run => self.run(session, deadline).await?,
                Stage::Guard => self.guard(session, deadline).await?,
                Stage::Rework => self.rework(session).await?,
                Stage::Over(attempted) => return Ok(attempted),
            };
        }
    }

    /// Starts its run unless it is active, waits for it, and reaches the verdict on it.
    async fn run(&mut self, session: &mut Session<'_>, deadline: Deadline) -> Result<Stage, SessionError> {
        if let Some(failure) = self.open.refused.clone() {
            let measured = Measured::refused(failure.clone());
            if self.open.draft.is_some() {
                let why = describe_failure(&failure, &session.store.contract.metric.name, &measured.ended);
                return self.end_with_draft(session, &format!("its next version was not run, as {why}"));
            }
            let record = self.judge(session, measured)?;
            return self.record(session, record);
        }
        let measured = match self.measured(session, deadline).await? {
            Ending::Done(measured) => *measured,
            Ending::Lost => Measured::lost(self.open.runs),
            Ending::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
            Ending::Interrupted if self.roll_back_version(session)? => {
                return Ok(Stage::Over(Attempted::RolledBack));
            }
            Ending::Interrupted if self.open.draft.is_some() => {
                return self.end_with_draft(session, "the run of its next version was interrupted");
            }
            Ending::Interrupted => {
                self.roll_back(session, "was interrupted")?;
                return Ok(Stage::Over(Attempted::RolledBack));
            }
        };
        session.look_around(self.open.id).await;
        let record = self.judge(session, measured)?;
        let is_guarded = record.outcome == Outcome::Keep && !session.store.contract.guards.is_empty();
        self.open.draft = Some(Box::new(record));
        if is_guarded { Ok(Stage::Guard) } else { self.conclude(session) }
    }

    /// Reaches the verdict on a measured run and writes it up.
    pub(super) fn judge(&self, session: &Session<'_>, measured: Measured) -> Result<Record, SessionError> {
        let commit = &commit_of(&self.open)?;
        let Store { contract, history, .. } = &session.store;
        let metric = &contract.metric;
        let base = &self.open.base;
        let diff =
            if base == commit { DiffStat::default() } else { session.store.repo.objects.diff(base, commit)?.stat() };
        let (Verdict { outcome, mut reason }, unmet_limits) = judge(contract, history, self.open.id, diff, &measured);
        let mut more = Map::new();
        if !measured.changed.is_empty() {
            reason = format!("{reason}; {} changed while it ran", list(&measured.changed));
            more.insert(CHANGED_WHILE_RUNNING.into(), json!(measured.changed));
        }
        let inputs = ignored_inputs(&session.store.repo, &session.store.contract.command)?;
        if measured.run.is_some() && !inputs.is_empty() {
            more.insert(IGNORED_INPUTS.into(), json!(inputs));
        }
        let ignored = &session.store.journal.last_call.ignored;
        if self.open.agent.is_some() && !ignored.is_empty() {
            more.insert(IGNORED_CHANGED.into(), json!(ignored));
        }
        let value = measured.value.as_ref().filter(|_| measured.failure.is_none());
        let mut runs = self.open.draft.as_ref().map(|earlier| earlier.runs.clone()).unwrap_or_default();
        runs.extend(measured.run.map(|run| Run { value: value.map(|number| number.value), ..run }));
        Ok(Record {
            version: RECORD_VERSION,
            id: self.open.id,
            sequence: None,
            tag: session.store.contract.tag.clone(),
            commit: commit.clone(),
            base: self.open.base.clone(),
            description: self.open.description.clone(),
            direction: self.open.direction.clone(),
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
            versions: self.open.versions.clone(),
            diff,
            fingerprint: self.open.fingerprint.clone(),
            environment: Arc::clone(&session.place.environment),
            started: self.open.started,
            finished: session.store.now(),
            agent: self.open.agent.clone(),
            imported: None,
            proposal: Some(&self.open.proposal)
                .filter(|said| !said.is_empty())
                .and_then(|said| Unparsed::of(said).ok()),
            proposal_error: self.open.proposal_error.clone(),
            more,
        })
    }

    /// Calls the agent again, or records the experiment, as its draft requires.
    pub(super) fn conclude(&mut self, session: &mut Session<'_>) -> Result<Stage, SessionError> {
        let draft = draft_of(&self.open)?;
        if session.calls_agent && again(draft.failure.as_ref(), &draft.versions).is_some() {
            return Ok(Stage::Rework);
        }
        self.record(session, draft)
    }

    /// Saves what an agent left unfinished and restores branch and working tree. Without a version yet, this closes the
    /// experiment.
    pub(super) fn put_unfinished_away(&self, session: &mut Session<'_>) -> Result<(), SessionError> {
        match &self.open.draft {
            // The version that it was to rework is saved already.
            Some(draft) if !session.workspace.has_worked(&mut session.store, &self.open)? => {
                session.workspace.move_branch(&mut session.store, &self.open.base, &[&draft.commit], "unfinished")?;
                session.workspace.put_back(&mut session.store, &self.open.base, &draft.commit)?;
            }
            _ => session.workspace.reset_to(&mut session.store, &self.open.base, self.open.id)?,
        }
        if self.open.draft.is_some() { session.store.write_journal() } else { session.enter_idle() }
    }

    /// Rolls the experiment back and reports `why`: its commit stays under a saved ref, branch and working tree are as before
    /// it.
    pub(super) fn roll_back(&self, session: &mut Session<'_>, why: &str) -> Result<(), SessionError> {
        let what = format!("experiment {} {why}; its change", self.open.id);
        session.workspace.take_back_commit(&mut session.store, &self.open, &commit_of(&self.open)?, &what)?;
        // The agent is called again for it.
        session.store.journal.iteration = session.store.journal.iteration.saturating_sub(1);
        session.enter_idle()
    }

    /// Closes an attempt whose base is not the best one any more; its commit is kept under a saved ref.
    pub(super) fn give_up(&self, session: &mut Session<'_>) -> Result<(), SessionError> {
        if let Some(commit) = &self.open.commit {
            let save_as = session.store.save_as(&self.open.base);
            let saved = session.store.repo.working_tree.save_commit(&save_as, commit)?;
            let what = format!("experiment {} was not made on the best one any more; its change", self.open.id);
            session.store.say(Notice::ChangeIsIn { what, saved });
        }
        let tip = session.store.tip();
        session.workspace.reset_to(&mut session.store, &tip, self.open.id)?;
        session.enter_idle()
    }

    /// Rolls the experiment back if it is the next version of a recorded one without a measurement since: the record stays as
    /// it was. Returns whether it is.
    pub(super) fn roll_back_version(&self, session: &mut Session<'_>) -> Result<bool, SessionError> {
        if !is_being_replaced(&session.store.repo, &session.store.contract.tag, &self.open)? {
            return Ok(false);
        }
        let stands = |record: &Record| self.open.versions.last().is_some_and(|version| version.commit == record.commit);
        let records = read_records(&session.store.repo, &session.store.contract.tag)?.into_iter().flatten();
        let Some(record) = records.into_iter().find(stands) else { return Ok(false) };
        self.roll_back(session, "was interrupted")?;
        session.store.history.push(record);
        Ok(true)
    }

    /// Records the experiment, its ref first, and settles it.
    pub(super) fn record(&self, session: &mut Session<'_>, record: Record) -> Result<Stage, SessionError> {
        let record = Record { sequence: Some(session.store.history.next_sequence()), ..record };
        let look = session.workspace.look.take();
        session.store.record(self.open.clone(), &record)?;
        settle_tree(session, &record, look.as_ref())?;
        let look = match (look, record.outcome) {
            (Some(look), Outcome::Keep) => Some(look),
            (Some(look), _)
                if session.store.repo.working_tree.look_outlasts(&look, &record.commit, &record.base)? =>
            {
                Some(look)
            }
            _ => None,
        };
        session.enter_idle_after(look)?;
        Ok(Stage::Over(Attempted::Recorded))
    }

    /// Settles a record: the row, then branch and working tree, then the memory files.
    pub(super) fn settle(&self, session: &mut Session<'_>, record: &Record) -> Result<(), SessionError> {
        session.store.settle_row(&self.open, record)?;
        settle_tree(session, record, None)
    }
}

/// Settles what comes after the row.
fn settle_tree(session: &mut Session<'_>, record: &Record, look: Option<&Look>) -> Result<(), SessionError> {
    let target = if record.outcome == Outcome::Keep { &record.commit } else { &record.base };
    let why = format!("{} experiment {}", record.outcome, record.id);
    session.workspace.move_branch(&mut session.store, target, &[&record.commit, &record.base], &why)?;
    crash::point("settling.branch_moved");
    session.workspace.put_back_after(&mut session.store, look, target, &record.commit)?;
    crash::point("settling.put_back");
    let before = session.store.journal.rung;
    session.store.remember(record)?;
    crash::point("settling.remembered");
    session.store.learn_from(record, before)?;
    let incumbent = session.store.history.best();
    session.emit(Event::ExperimentFinished { record: Box::new(record.clone()), incumbent })?;
    session.store.say_directive(before);
    session.tell()
}
