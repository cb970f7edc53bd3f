//! One experiment from its commit to its row: advance, run, measure, decide, guard, record, settle.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, json};

use super::error::{SessionError, list};
use super::open::Session;
use super::reading::record_message;
use super::recover::commit_of;
use super::running::{Deadline, Ended, Measured};
use crate::crash;
use crate::domain::{
    CHANGED_WHILE_RUNNING, CommitId, DiffStat, Event, FORMAT_VERSION, IGNORED_CHANGED, IGNORED_INPUTS, MetricValue,
    Number, Outcome, Phase, Record, Run, Stall, Unparsed,
};
use crate::git::Look;
use crate::ledger::Entry;
use crate::rules::{LOST_RETRIES, Rivals, Verdict, decide, decide_by_simplicity, describe_failure, turn_of, unmet};
use crate::state::{FINDINGS, ITERATIONS, Iteration, OpenExperiment};

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
    /// Moves the branch to `to`, whatever happened to it and to HEAD meanwhile. A commit at its tip that is none of
    /// `known` is somebody's, and is kept under a saved ref.
    pub(super) fn move_branch(&mut self, to: &CommitId, known: &[&CommitId], why: &str) -> Result<(), SessionError> {
        let tip = self.reclaim_branch(to)?;
        if tip == *to {
            return Ok(());
        }
        if !known.contains(&&tip) {
            let reference = self.store.repo.save_commit(&self.save_as(&tip), &tip)?;
            let detail = format!("the branch had moved to {}; saved that commit as {reference}", tip.short(8));
            self.emit(Event::Notice { detail })?;
        }
        let branch = self.store.contract.tag.branch_ref();
        Ok(self.store.repo.advance(&branch, &tip, to, &format!("autoresearch: {why}"))?)
    }

    /// Starts a run again that was lost with its machine or its shim, or ended by somebody who was killed before all was
    /// taken back.
    pub(super) fn run_again(&mut self, open: OpenExperiment) -> Result<OpenExperiment, SessionError> {
        let detail = format!("restarted the run of experiment {}, which was lost", open.id);
        self.emit(Event::Notice { detail })?;
        self.check_out(&open)?;
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
                Ended::StillRunning => return Ok(Stage::Over(Attempted::StillRunning)),
                Ended::Interrupted if self.roll_back_version(&open)? => {
                    return Ok(Stage::Over(Attempted::RolledBack));
                }
                Ended::Interrupted if open.draft.is_some() => {
                    return self.end_with_draft(open, "the run of its next version was interrupted");
                }
                Ended::Interrupted => {
                    self.roll_back(&open, "was interrupted")?;
                    return Ok(Stage::Over(Attempted::RolledBack));
                }
                Ended::Lost if open.runs <= LOST_RETRIES => open = self.run_again(open)?,
                Ended::Lost => break Measured::lost(open.runs),
                Ended::Over(measured) => break *measured,
            }
        };
        self.look_around().await;
        let record = self.judge(&open, measured)?;
        let is_guarded = record.outcome == Outcome::Keep && !self.store.contract.guards.is_empty();
        open.draft = Some(Box::new(record));
        let open = Box::new(open);
        if is_guarded { Ok(Stage::Guard(open)) } else { self.conclude(open) }
    }

    /// Reaches the verdict on a measured run and writes it up.
    pub(super) fn judge(&self, open: &OpenExperiment, measured: Measured) -> Result<Record, SessionError> {
        let commit = &commit_of(open)?;
        let metric = &self.store.contract.metric;
        let diff = self.diff_stat(open, commit)?;
        let verdict = match (&measured.value, &measured.failure) {
            (Some(value), None) => {
                let best = self.store.history.best();
                let incumbent = best.as_ref().map(|(id, number)| (*id, number));
                let simpler = self.decide_by_simplicity(value, diff);
                simpler.unwrap_or_else(|| decide(metric, value, incumbent, self.store.contract.min_delta))
            }
            (_, Some(failure)) => {
                Verdict { outcome: Outcome::Crash, reason: describe_failure(failure, &metric.name, &measured.ended) }
            }
            (None, None) => unreachable!("a run has a number or a failure"),
        };
        let Verdict { mut outcome, mut reason } = verdict;
        let unmet = self.unmet_limits(&measured);
        if outcome == Outcome::Keep && open.id != 0 && !unmet.is_empty() {
            outcome = Outcome::Discard;
            reason = format!("{reason}, but {}", unmet.join(", "));
        }
        if let Some(cause) = &measured.outside_cause {
            reason = format!("{reason}; {cause}");
        }
        let mut more = Map::new();
        if !measured.changed.is_empty() {
            reason = format!("{reason}; {} changed while it ran", list(&measured.changed));
            more.insert(CHANGED_WHILE_RUNNING.into(), json!(measured.changed));
        }
        let inputs = self.ignored_inputs()?;
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
            unmet_limits: if open.id == 0 || measured.failure.is_some() { Vec::new() } else { unmet },
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
            finished: self.now(),
            agent: open.agent.clone(),
            imported: None,
            proposal: Some(&open.proposal).filter(|said| !said.is_empty()).and_then(|said| Unparsed::of(said).ok()),
            proposal_error: open.proposal_error.clone(),
            more,
        })
    }

    /// The verdict on a number that is about the incumbent's, where the terms say that the simpler program wins.
    fn decide_by_simplicity(&self, measured: &Number, diff: DiffStat) -> Option<Verdict> {
        let margin = self.store.contract.simpler_wins?;
        let ((id, incumbent), best) = self.store.history.best().zip(self.store.history.best_kept())?;
        let rivals = Rivals { id, incumbent: &incumbent, best: &best };
        decide_by_simplicity(&self.store.contract.metric, measured, rivals, margin, diff)
    }

    /// The limits that a measured run does not keep to, in words.
    pub(super) fn unmet_limits(&self, measured: &Measured) -> Vec<String> {
        unmet(&self.store.contract.limits, |name| match name {
            "memory_gb" => measured.memory_gb,
            name if name == self.store.contract.metric.name => measured.value.as_ref().map(|number| number.value),
            name => measured.metrics.get(name),
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
        // The row of one that is replaced may stand anywhere.
        let rows_from = if open.replaces.is_some() { 0 } else { self.store.ledger.length()? };
        let draft = Some(Box::new(record.clone()));
        let open = OpenExperiment { draft, rows_from, ..open };
        let (reference, message) = self.record_text(&record)?;
        let (tag, unsynced) =
            self.store.repo.prepare_record(&reference, &record.commit, &message, open.replaces.as_deref())?;
        self.store.written.unsynced.append(unsynced);
        self.enter(Phase::Recording, open.clone())?;
        crash::point("recording.entered");
        self.store.repo.place_record(tag)?;
        crash::point("recording.recorded");
        self.store.history.push(record.clone());
        self.write_row(&open, &record)?;
        self.settle_tree(&record, look.as_ref())?;
        let look = match (look, record.outcome) {
            (Some(look), Outcome::Keep) => Some(look),
            (Some(look), _) if self.store.repo.look_outlasts(&look, &record.commit, &record.base)? => Some(look),
            _ => None,
        };
        self.enter_idle_after(look)
    }

    /// Makes the ref of a record.
    pub(super) fn write_record(&self, record: &Record) -> Result<(), SessionError> {
        let (reference, message) = self.record_text(record)?;
        Ok(self.store.repo.write_record(&reference, &record.commit, &message)?)
    }

    /// The ref of a record, and what its tag says.
    fn record_text(&self, record: &Record) -> Result<(String, String), SessionError> {
        let reference = self.store.contract.tag.record_ref(record.id);
        match record_message(record) {
            Ok(message) => Ok((reference, message)),
            Err(source) => Err(SessionError::BadRecord { reference, source }),
        }
    }

    /// Follows a record that stands: the row, then the branch and the working tree, then the memory files.
    pub(super) fn settle(&mut self, open: &OpenExperiment, record: &Record) -> Result<(), SessionError> {
        // The row is behind where the file ended when the step was entered; one of the same commit before is another session's.
        if !self.store.ledger.has_row(&record.commit, open.rows_from)? {
            self.write_row(open, record)?;
        }
        self.settle_tree(record, None)
    }

    /// Appends the row of an experiment, or puts it in the place of that of the version which it replaces.
    fn write_row(&mut self, open: &OpenExperiment, record: &Record) -> Result<(), SessionError> {
        match open.versions.last().filter(|_| open.replaces.is_some()) {
            Some(old) => self.store.ledger.replace(&old.commit, &Entry::of(record), &self.store.folder.state())?,
            None => self.store.ledger.append(&Entry::of(record))?,
        }
        crash::point("settling.row_appended");
        Ok(())
    }

    /// What comes behind the row.
    fn settle_tree(&mut self, record: &Record, look: Option<&Look>) -> Result<(), SessionError> {
        let target = if record.outcome == Outcome::Keep { &record.commit } else { &record.base };
        let why = format!("{} experiment {}", record.outcome, record.id);
        self.move_branch(target, &[&record.commit, &record.base], &why)?;
        crash::point("settling.branch_moved");
        self.put_back_after(look, target, &record.commit)?;
        crash::point("settling.put_back");
        let before = self.store.journal.rung;
        self.remember(record)?;
        crash::point("settling.remembered");
        self.learn_from(record, before)?;
        let incumbent = self.store.history.best();
        self.emit(Event::ExperimentFinished { record: Box::new(record.clone()), incumbent })?;
        self.tell_directive(before)
    }

    /// Updates the memory files and the counters with an experiment that is over.
    fn remember(&mut self, record: &Record) -> Result<(), SessionError> {
        if record.id == 0 {
            return Ok(());
        }
        self.store.journal.idle_calls = 0;
        // One that is measured once more has counted before.
        let has_counted = self.store.journal.open.as_ref().is_some_and(|open| open.replaces.is_some());
        if record.outcome == Outcome::Keep || !has_counted {
            self.store.journal.stale_count =
                if record.outcome == Outcome::Keep { 0 } else { self.store.journal.stale_count + 1 };
            if let Some(turn) = turn_of(record, self.store.history.best().map(|(_, number)| number.value)) {
                self.climb(turn);
            }
        }
        if let Some(direction) = &record.direction {
            self.store.memory().add_direction(direction, record.id)?;
        }
        self.note_findings(record.id, &record.findings())?;
        crash::point("settling.direction_noted");
        let of_record = Iteration::of(record, self.store.journal.iteration, self.store.journal.stale_count);
        let stall = self.store.journal.last_call.question.as_ref().map(|_| Stall::Question);
        self.store.memory().log_iteration(&Iteration { stall, ..of_record })?;
        self.store.written.unsynced.add(self.store.folder.state().join(ITERATIONS));
        Ok(())
    }

    /// Keeps what an experiment found, or a call of the agent that made none.
    pub(super) fn note_findings(&mut self, id: u32, findings: &[String]) -> Result<(), SessionError> {
        if findings.is_empty() {
            return Ok(());
        }
        self.store.journal.total_findings += u32::try_from(findings.len()).unwrap_or(u32::MAX);
        self.store.memory().add_findings(self.now(), id, findings)?;
        self.store.written.unsynced.add(self.store.folder.state().join(FINDINGS));
        Ok(())
    }

    /// Takes an experiment back that is not brought to its end, and says `why`: its commit is kept under a saved ref, the
    /// branch and the working tree are as before it.
    pub(super) fn roll_back(&mut self, open: &OpenExperiment, why: &str) -> Result<(), SessionError> {
        let what = format!("experiment {} {why}; its change", open.id);
        self.take_back_commit(open, &commit_of(open)?, &what)?;
        // The call that made it is made again.
        self.store.journal.iteration = self.store.journal.iteration.saturating_sub(1);
        self.enter_idle()
    }

    /// Keeps a commit of the open experiment under a saved ref, which a notice says of `what`, and puts branch and working
    /// tree back to before it.
    pub(super) fn take_back_commit(
        &mut self,
        open: &OpenExperiment,
        commit: &CommitId,
        what: &str,
    ) -> Result<(), SessionError> {
        if *commit != open.base {
            let reference = self.store.repo.save_commit(&self.save_as(&open.base), commit)?;
            self.emit(Event::Notice { detail: format!("{what} is in {reference}") })?;
        }
        crash::point("rollback.change_saved");
        self.move_branch(&open.base, &[commit], "taken back")?;
        crash::point("rollback.branch_moved");
        self.put_back(&open.base, commit)?;
        crash::point("rollback.put_back");
        Ok(())
    }

    /// The folder of the open experiment's runs.
    pub(super) fn run_folder(&self, id: u32) -> Result<PathBuf, SessionError> {
        Ok(self.store.folder.create_run(id)?)
    }
}
