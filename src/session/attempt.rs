//! One experiment from its commit to its row: run, judge, guard, rework, record, settle.

use std::sync::Arc;

use serde_json::{Map, json};

use super::calling::{Calling, Work};
use super::error::SessionError;
use super::ignored::ignored_inputs;
use super::interrupts::Interrupt;
use super::open::Session;
use super::opened::{Texts, add_said, commit_of, draft_of, is_being_replaced};
use super::reading::read_records;
use super::store::Store;
use super::supervise::{Deadline, Ending};
use crate::crash;
use crate::domain::{
    CHANGED_WHILE_RUNNING, DiffStat, Event, FORMAT_VERSION, IGNORED_CHANGED, IGNORED_INPUTS, MetricValue, Outcome,
    Phase, Record, Run, Unparsed, Version, list,
};
use crate::git::{Look, SaveAs};
use crate::rules::{Again, LOST_RETRIES, Measured, Verdict, again, describe_failure, judge};
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
}

impl Attempt {
    /// The attempt at an open experiment.
    pub(super) fn at(open: OpenExperiment) -> Attempt {
        Attempt { open }
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

    /// Waits for its run, which is started if it was not, and reaches the verdict on it.
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
        let diff = if base == commit { DiffStat::default() } else { session.store.repo.diff_stat(base, commit)? };
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
            version: FORMAT_VERSION,
            id: self.open.id,
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

    /// What follows from the draft of the open experiment: the agent is called again for it, or it is recorded.
    pub(super) fn conclude(&mut self, session: &mut Session<'_>) -> Result<Stage, SessionError> {
        let draft = draft_of(&self.open)?;
        if session.calls_agent && again(draft.failure.as_ref(), &draft.versions).is_some() {
            return Ok(Stage::Rework);
        }
        self.record(session, draft)
    }

    /// Calls the agent again for the open experiment, whose last version is in the working tree, and commits what it made
    /// of that. Where it comes to nothing, the experiment is over with what it has.
    async fn rework(&mut self, session: &mut Session<'_>) -> Result<Stage, SessionError> {
        let draft = draft_of(&self.open)?;
        if !session.calls_agent {
            return self.end_with_draft(session, "there is no agent to rework it");
        }
        if session.times.no_time_for_run(&session.store).is_some() {
            return self.end_with_draft(session, "there is no time left to rework it");
        }
        if session.store.journal.phase != Phase::Proposing {
            self.begin_rework(session, &draft)?;
        }
        let mut lost = 0;
        let Work { exit, usage, proposal, said, described, .. } = loop {
            // What its run or its guards changed is no part of it.
            session.workspace.put_back(&mut session.store, &draft.commit, &draft.commit)?;
            crash::point("rework.put_back");
            session.workspace.move_branch(
                &mut session.store,
                &self.open.base,
                &[&draft.commit],
                "an experiment being reworked",
            )?;
            crash::point("rework.branch_moved");
            session.check_room()?;
            session.workspace.remember_untracked_beside(&mut session.store, &self.open.base, &draft.commit)?;
            if session.store.journal.waits_for_reset() {
                return self.wait_to_rework(session, &draft).await;
            }
            match Calling::of(self, session)?.ask(session, None).await? {
                Ending::Done(Some(work)) => break *work,
                Ending::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                Ending::Interrupted => return self.end_with_draft(session, "its rework was interrupted"),
                Ending::Done(None) => return self.wait_to_rework(session, &draft).await,
                // The call is made again, as after a kill of this process.
                Ending::Lost if lost < LOST_RETRIES => {
                    lost += 1;
                    session.workspace.put_back(&mut session.store, &draft.commit, &self.open.base)?;
                }
                Ending::Lost => return self.end_with_draft(session, "the agent reworking it was killed"),
            }
        };
        let open = &mut self.open;
        open.agent = open.agent.take().map(|agent| agent.with(exit.seconds, usage));
        open.direction = proposal.direction.clone().or(open.direction.take());
        open.proposal_error = proposal.error.clone().or(open.proposal_error.take());
        add_said(&mut open.proposal, proposal.more());
        let known = session.workspace.known_untracked(&mut session.store)?;
        let tree = session.store.repo.propose(&self.open.base, &known)?.tree();
        let mut versions = vec![&self.open.base];
        versions.extend(self.open.versions.iter().map(|version| &version.commit));
        let mut is_new = true;
        for version in versions {
            is_new = is_new && session.store.repo.tree_of(version)? != tree;
        }
        let before = Some(self.open.description.clone());
        let texts = Texts { own: proposal.description, fallback: described, before };
        let committed = if is_new { self.commit_change(session, &known, texts)? } else { None };
        crash::point("rework.change_committed");
        session.emit(Event::AgentFinished {
            id: self.open.id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.unwrap_or_default(),
        })?;
        match committed {
            Some(_) => Ok(Stage::Run),
            None => self.end_with_draft(session, "the agent changed nothing more"),
        }
    }

    /// Waits out an outage of the agent that was to work on the open experiment again.
    async fn wait_to_rework(&mut self, session: &mut Session<'_>, draft: &Record) -> Result<Stage, SessionError> {
        let given_up = session.wait_out().await?;
        match (given_up, session.asked()?) {
            (_, Interrupt::Detach) => Ok(Stage::Over(Attempted::StillRunning)),
            (Some(_), _) => self.end_with_draft(session, "the agent reworking it did not come back"),
            (None, Interrupt::None) => {
                session.workspace.put_back(&mut session.store, &draft.commit, &self.open.base)?;
                Ok(Stage::Rework)
            }
            (None, _) => self.end_with_draft(session, "its rework was interrupted"),
        }
    }

    /// Keeps the version that was measured, and enters in the journal that another one is to come.
    fn begin_rework(&mut self, session: &mut Session<'_>, draft: &Record) -> Result<(), SessionError> {
        let subject = format!("experiment {}, version {}", self.open.id, self.open.versions.len() + 1);
        let save = SaveAs { subject, ..session.store.save_as(&self.open.base) };
        let reference = session.store.repo.save_commit(&save, &draft.commit)?;
        crash::point("rework.version_saved");
        if let Some(again) = again(draft.failure.as_ref(), &draft.versions) {
            let Again { time, limit, .. } = again;
            session.emit(Event::CalledAgain { id: self.open.id, reason: draft.reason.clone(), time, limit })?;
        }
        (self.open.commit, self.open.runs, self.open.refused) = (None, 0, None);
        self.open.versions.push(Version::of(draft, reference));
        session.workspace.remember_beside_protected(&mut session.store)?;
        self.enter(session, Phase::Proposing)?;
        crash::point("rework.entered");
        Ok(())
    }

    /// Records what the last version that was measured came to; what was made of it since is kept under a saved ref.
    fn end_with_draft(&mut self, session: &mut Session<'_>, why: &str) -> Result<Stage, SessionError> {
        let mut draft = draft_of(&self.open)?;
        if let Some(commit) = self.open.commit.clone().filter(|commit| *commit != draft.commit) {
            let what = format!("what was last made of experiment {}", self.open.id);
            session.workspace.take_back_commit(&mut session.store, &self.open, &commit, &what)?;
        }
        draft.reason = format!("{}; {why}", draft.reason);
        // Calls that came to nothing took time and tokens too.
        draft.agent = self.open.agent.clone();
        self.open.commit = Some(draft.commit.clone());
        self.record(session, draft)
    }

    /// Saves what an agent left unfinished and puts branch and working tree back. Of an experiment that has no version yet
    /// nothing is left to do.
    pub(super) fn put_unfinished_away(&self, session: &mut Session<'_>) -> Result<(), SessionError> {
        match &self.open.draft {
            // The version that it was to work on is kept already.
            Some(draft) if !session.workspace.has_worked(&mut session.store, &self.open)? => {
                session.workspace.move_branch(&mut session.store, &self.open.base, &[&draft.commit], "unfinished")?;
                session.workspace.put_back(&mut session.store, &self.open.base, &draft.commit)?;
            }
            _ => session.workspace.reset_to(&mut session.store, &self.open.base, self.open.id)?,
        }
        if self.open.draft.is_some() { session.store.write_journal() } else { session.enter_idle() }
    }

    /// Takes an experiment back that is not brought to its end, and says `why`: its commit is kept under a saved ref, the
    /// branch and the working tree are as before it.
    pub(super) fn roll_back(&self, session: &mut Session<'_>, why: &str) -> Result<(), SessionError> {
        let what = format!("experiment {} {why}; its change", self.open.id);
        session.workspace.take_back_commit(&mut session.store, &self.open, &commit_of(&self.open)?, &what)?;
        // The call that made it is made again.
        session.store.journal.iteration = session.store.journal.iteration.saturating_sub(1);
        session.enter_idle()
    }

    /// Takes the open experiment back if it is the next version of a recorded one, and nothing was measured since: the record
    /// stands as it was. Says whether it is.
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

    /// Makes the experiment count, its ref first, and settles it.
    pub(super) fn record(&self, session: &mut Session<'_>, record: Record) -> Result<Stage, SessionError> {
        let look = session.workspace.look.take();
        session.store.record(self.open.clone(), &record)?;
        settle_tree(session, &record, look.as_ref())?;
        let look = match (look, record.outcome) {
            (Some(look), Outcome::Keep) => Some(look),
            (Some(look), _) if session.store.repo.look_outlasts(&look, &record.commit, &record.base)? => Some(look),
            _ => None,
        };
        session.enter_idle_after(look)?;
        Ok(Stage::Over(Attempted::Recorded))
    }

    /// Follows a record that stands: the row, then the branch and the working tree, then the memory files.
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
