//! What comes before the first call of the agent: finishing what an earlier invocation left open, by the steps that
//! [`rules::recover`](crate::rules::recover) lists; the baseline; and a change that was set aside for it.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::attempt::{Attempt, Attempted};
use super::error::SessionError;
use super::interrupts::Interrupt;
use super::jobs::{AGENT, RUN, guard_name};
use super::open::Session;
use super::opened::draft_of;
use super::own_files::remove_file;
use super::plan::Drive;
use super::reading::no_experiment;
use super::supervise::{Deadline, Ending};
use crate::agent::Proposal;
use crate::crash;
use crate::domain::{ExperimentId, FailureClass, Notice, Outcome, Phase};
use crate::exec;
use crate::rules::{Forbidden, Found, Measured, RunFound, Step, recover};
use crate::state::{Aside, OpenExperiment};

/// How long a shim has to put back the files of its job: it looks each second.
const FILES_BACK: Duration = Duration::from_secs(10);

/// How often those files are looked for meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// How long a lock is waited for that somebody may hold.
const LOCKS_PATIENCE: Duration = Duration::from_secs(30);

/// How often a lock is looked for meanwhile.
const LOCKS_LOOK: Duration = Duration::from_millis(100);

impl Session<'_> {
    /// What comes before the first call of the agent.
    pub(super) async fn begin(&mut self, drive: Drive) -> Result<Attempted, SessionError> {
        if let Some(attempted) = self.recover(None).await?
            && attempted != Attempted::Recorded
        {
            return Ok(attempted);
        }
        if drive == (Drive::Loop { adopt: true }) {
            self.workspace.set_aside(&mut self.store, Proposal::default())?;
        }
        if self.store.history.baseline().is_none() {
            let measured = self.measure_baseline(None).await?;
            if measured != Attempted::Recorded {
                return Ok(measured);
            }
        }
        self.attempt_aside(None).await
    }

    /// Finishes each attempt that is open, the oldest first. A baseline that is not recorded yet is left to
    /// [`Session::measure_baseline`].
    pub(super) async fn recover(&mut self, deadline: Deadline) -> Result<Option<Attempted>, SessionError> {
        self.end_unseen().await?;
        let mut last = None;
        while let Some(open) = self.store.journal.open.clone() {
            let id = open.id;
            last = self.recover_attempt(open, deadline).await?.or(last);
            let is_left = self.store.journal.open.as_ref().is_some_and(|open| open.id == id);
            if is_left || last.as_ref().is_some_and(|attempted| *attempted != Attempted::Recorded) {
                break;
            }
        }
        Ok(last)
    }

    /// Finishes an attempt that was left open.
    async fn recover_attempt(
        &mut self,
        mut open: OpenExperiment,
        deadline: Deadline,
    ) -> Result<Option<Attempted>, SessionError> {
        self.await_files(&open).await;
        let found = self.found(&open)?;
        if open.id.is_baseline() && !found.recorded {
            return Ok(None);
        }
        if !found.recorded && self.workspace.check_again(&mut self.store, &mut open)? {
            self.end_jobs(open.id).await?;
        }
        let mut attempt = Attempt::at(open);
        let mut attempted = None;
        for step in recover(found) {
            match step {
                Step::EndJobs => {
                    self.end_jobs(attempt.open.id).await?;
                    if self.store.journal.phase == Phase::Proposing {
                        self.workspace.put_untracked_back(&mut self.store)?;
                    }
                }
                Step::Reset => {
                    self.workspace.spare_newer(&mut self.store, attempt.open.id)?;
                    self.workspace.reset_to(&mut self.store, &attempt.open.base.clone(), attempt.open.id)?;
                }
                Step::CheckOut => self.workspace.check_out(&mut self.store, &attempt.open)?,
                Step::BringBack => {
                    self.workspace.put_back(&mut self.store, &draft_of(&attempt.open)?.commit, &attempt.open.base)?
                }
                Step::Run => attempt.prepare_run(self)?,
                Step::Finish => attempted = Some(attempt.finish(self, deadline).await?),
                Step::Record => {
                    attempt.record(self, draft_of(&attempt.open)?)?;
                    attempted = Some(Attempted::Recorded);
                }
                Step::RecordLost => {
                    let record = attempt.judge(self, Measured::lost(attempt.open.runs))?;
                    attempt.record(self, record)?;
                    attempted = Some(Attempted::Recorded);
                }
                Step::Settle => {
                    let record = self.store.history.get(attempt.open.id).cloned();
                    let missing =
                        || no_experiment(&self.store.history, &self.store.contract.tag, attempt.open.id.to_string());
                    let record = record.ok_or_else(missing)?;
                    attempt.settle(self, &record)?;
                    attempted = Some(Attempted::Recorded);
                }
                Step::GiveUp => attempt.give_up(self)?,
                Step::Close => self.enter_idle()?,
            }
            crash::point("recover.step_done");
        }
        Ok(attempted)
    }

    /// Ends a run that nothing tells of, since the journal was lost.
    pub(super) async fn end_unseen(&mut self) -> Result<(), SessionError> {
        if self.store.journal.unseen {
            self.end_jobs(self.store.history.next_id()).await?;
            self.store.journal.unseen = false;
            self.store.write_journal()?;
        }
        Ok(())
    }

    /// Waits until the shim of a job that goes on has put back the files by which it is found, where somebody deleted
    /// them just now; ends the job when it does not.
    pub(super) async fn await_files(&self, open: &OpenExperiment) {
        let (folder, job) = (self.store.folder.run(open.id), self.open_job(open));
        let has_files = || ["job", "started"].iter().all(|kind| exec::job_file(&folder, &job, kind).is_file());
        let begun = Instant::now();
        while exec::is_going_on(&folder, &job) && !(exec::is_held(&folder) && has_files()) {
            if begun.elapsed() > FILES_BACK {
                return exec::end_left_over(&folder, &job).await;
            }
            sleep(LOOK).await;
        }
    }

    /// The job that the journal says is the newest of the open experiment.
    fn open_job(&self, open: &OpenExperiment) -> String {
        match (self.store.journal.phase, &open.draft) {
            (Phase::Guarding, Some(draft)) => guard_name(draft.guards.len() + 1),
            _ => RUN.to_owned(),
        }
    }

    /// What the journal says of the open experiment, and what is really there.
    fn found(&self, open: &OpenExperiment) -> Result<Found, SessionError> {
        let job = self.open_job(open);
        let recorded = self.store.history.get(open.id).is_some();
        let tip = self.store.repo.refs.branch(&self.store.contract.tag.branch_ref())?;
        Ok(Found {
            phase: self.store.journal.phase,
            has_draft: open.draft.is_some(),
            recorded,
            is_stale: !recorded && open.base != self.store.tip(),
            is_elsewhere: self.store.journal.given.is_some() && open.commit.is_some() && tip != open.commit,
            run: self.executor.found(&self.store.folder.run(open.id), &job),
            runs: open.runs,
        })
    }

    /// Ends what is left of an experiment's jobs, and waits until it is gone.
    pub(super) async fn end_jobs(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        let folder = self.store.folder.run(id);
        for name in self.store.jobs() {
            self.executor.stop(&folder, &name).await?;
        }
        self.remove_left_locks(id, AGENT).await
    }

    /// Measures the baseline, or goes on measuring it. A baseline without a number takes the session back: a metric that
    /// is misspelt must not become part of an approved contract.
    pub(super) async fn measure_baseline(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let start = self.store.contract.start.clone();
        let folder = self.store.folder.run(ExperimentId::BASELINE);
        let open = match self.store.journal.open.clone() {
            Some(open) => {
                self.await_files(&open).await;
                if !matches!(self.executor.found(&folder, RUN), RunFound::Going | RunFound::Over) {
                    self.end_jobs(ExperimentId::BASELINE).await?;
                    self.workspace.check_out(&mut self.store, &open)?;
                }
                open
            }
            None => {
                self.workspace.clear_aside(&mut self.store)?;
                OpenExperiment {
                    commit: Some(start.clone()),
                    description: "baseline".into(),
                    ..OpenExperiment::new(ExperimentId::BASELINE, start.clone(), self.store.now())
                }
            }
        };
        let mut attempt = Attempt::at(open);
        if self.store.journal.phase != Phase::Guarding {
            attempt.open.draft = None;
            if let Some(attempted) = self.run_baseline(&mut attempt, deadline).await? {
                return Ok(attempted);
            }
        }
        match attempt.run_guards(self, deadline).await? {
            Ending::Done(()) | Ending::Lost => {}
            Ending::Detached => return Ok(Attempted::StillRunning),
            Ending::Interrupted => {
                self.take_back()?;
                return Ok(Attempted::RolledBack);
            }
        }
        let mut record = draft_of(&attempt.open)?;
        if let Some(failure) = &record.failure {
            self.take_back()?;
            let refused = record.guards.last().filter(|guard| !guard.passed);
            return Err(SessionError::BaselineFailed {
                class: Some(failure.class),
                metric: self.store.contract.metric.name.as_str().into(),
                reason: match refused {
                    Some(guard) => format!("the guard `{}` failed ({})", guard.command, guard.ended()).into(),
                    None => record.reason.as_str().into(),
                },
                printed: Vec::new(),
                log: folder.join(format!("{}.log", guard_name(record.guards.len().max(1)))),
                excerpt: failure.excerpt.as_str().into(),
            });
        }
        // Whoever has the refs has the terms.
        record.more.insert("contract".into(), json!(self.store.contract));
        attempt.record(self, record)?;
        Ok(Attempted::Recorded)
    }

    /// Waits for the run of the baseline, which is started if it was not, and drafts its record. Returns how the attempt ended,
    /// where it did.
    async fn run_baseline(
        &mut self,
        attempt: &mut Attempt,
        deadline: Deadline,
    ) -> Result<Option<Attempted>, SessionError> {
        let folder = self.store.folder.run(ExperimentId::BASELINE);
        let is_entered = attempt.open.runs > 0 && self.store.journal.phase != Phase::Committing;
        if !is_entered || self.executor.found(&folder, RUN) == RunFound::Gone {
            attempt.prepare_run(self)?;
        }
        let measured = match attempt.measured(self, deadline).await? {
            Ending::Done(measured) => *measured,
            Ending::Lost => Measured::lost(attempt.open.runs),
            Ending::Detached => return Ok(Some(Attempted::StillRunning)),
            Ending::Interrupted => {
                self.take_back()?;
                return Ok(Some(Attempted::RolledBack));
            }
        };
        // Of a run that failed, what looks like a number is a part of its complaint.
        let misnamed = measured.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::NoMetric);
        let printed = if misnamed { measured.metrics.names().to_vec() } else { Vec::new() };
        let unmet = measured.unmet_limits(&self.store.contract);
        self.look_around(attempt.open.id).await;
        let record = attempt.judge(self, measured)?;
        if record.outcome == Outcome::Crash {
            self.take_back()?;
            return Err(SessionError::BaselineFailed {
                class: record.failure.as_ref().map(|failure| failure.class),
                metric: self.store.contract.metric.name.as_str().into(),
                reason: record.reason.into(),
                printed,
                log: folder.join("run.log"),
                excerpt: record.failure.map(|failure| failure.excerpt.into()).unwrap_or_default(),
            });
        }
        if !unmet.is_empty() {
            self.emit(Notice::LimitsBroken(unmet))?;
        }
        attempt.open.draft = Some(Box::new(record));
        Ok(None)
    }

    /// Takes the opening of the session back, with everything as it was before: also a change that was taken out of the
    /// working tree is there again, staged.
    pub(super) fn take_back(&mut self) -> Result<(), SessionError> {
        let start = self.store.contract.start.clone();
        // Without a run nobody but the user has touched the working tree.
        if self.store.journal.open.is_some() {
            // An earlier call that was killed may have put the change that was set aside back already.
            let aside = self.store.journal.aside.as_ref().map(|aside| aside.commit.clone());
            self.workspace.put_back(&mut self.store, &start, aside.as_ref().unwrap_or(&start))?;
        }
        self.workspace.take_out(&mut self.store)?;
        self.abandon()
    }

    /// Makes the change that was set aside, if there is one, the next experiment.
    pub(super) async fn attempt_aside(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let Some(aside) = self.store.journal.aside.take() else { return Ok(Attempted::Recorded) };
        let Aside { commit, description, direction, proposal, .. } = aside;
        let open = OpenExperiment::new(self.store.history.next_id(), self.store.tip(), self.store.now());
        let mut open = OpenExperiment { description, direction, proposal, ..open };
        self.workspace.check(&self.store, &mut open, &commit, &[], &Forbidden::default())?;
        open.commit = Some(commit);
        self.store.journal.iteration += 1;
        remove_file(&self.store.index_before())?;
        crash::point("aside.index_forgotten");
        self.store.enter(Phase::Committing, open.clone())?;
        crash::point("aside.opened");
        self.workspace.check_out(&mut self.store, &open)?;
        crash::point("aside.checked_out");
        let mut attempt = Attempt::at(open);
        attempt.prepare_run(self)?;
        attempt.finish(self, deadline).await
    }

    /// Removes the locks that git processes of a job of the open experiment left behind, which is over with all its processes:
    /// they were made while it was at work, and nobody can hold them. One that somebody may hold is waited for.
    ///
    /// # Errors
    ///
    /// One is still there when the patience is over.
    pub(super) async fn remove_left_locks(&mut self, id: ExperimentId, job: &str) -> Result<(), SessionError> {
        let folder = self.store.folder.run(id);
        let written = |kind| fs::metadata(exec::job_file(&folder, job, kind)).and_then(|meta| meta.modified()).ok();
        let Some(started) = written("job") else { return Ok(()) };
        // What was made later is somebody else's.
        let over = written("exit").filter(|over| *over >= started);
        let (begun, mut removed) = (Instant::now(), Vec::new());
        let folders = self.store.repo.folders();
        loop {
            let is_held = |locks: &[PathBuf]| exec::may_be_held(locks, &folders);
            let left = self.store.repo.remove_left_locks(started, over, is_held)?;
            removed.extend(left.removed);
            let Some(lock) = left.held.first() else { break };
            if begun.elapsed() >= LOCKS_PATIENCE {
                return Err(self.store.repo.locked(lock).into());
            }
            if matches!(self.asked()?, Interrupt::Now | Interrupt::Detach) {
                break;
            }
            sleep(LOCKS_LOOK).await;
        }
        if removed.is_empty() {
            return Ok(());
        }
        self.emit(Notice::LocksRemoved { of: job_words(job), locks: removed })
    }
}

fn job_words(job: &str) -> &'static str {
    match job {
        AGENT => "agent",
        RUN => "run",
        _ => "guard",
    }
}
