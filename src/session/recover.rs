//! Finishing what somebody left open: carrying out the steps that [`rules::recover`](crate::rules::recover) lists.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::attempt::{Attempt, Attempted};
use super::error::SessionError;
use super::jobs::{AGENT, RUN, guard_name};
use super::open::Session;
use super::opened::draft_of;
use super::reading::no_experiment;
use super::supervise::Deadline;
use crate::crash;
use crate::domain::Phase;
use crate::exec;
use crate::rules::{Found, Measured, Step, recover};
use crate::state::OpenExperiment;

/// How long a shim has to put back the files of its job: it looks each second.
const FILES_BACK: Duration = Duration::from_secs(10);

/// How often it is looked meanwhile.
const LOOK: Duration = Duration::from_millis(20);

impl Session<'_> {
    /// Finishes the open experiment, if there is one. A baseline that is not recorded yet is left to
    /// [`Session::measure_baseline`].
    pub(super) async fn recover(&mut self, deadline: Deadline) -> Result<Option<Attempted>, SessionError> {
        self.end_unseen().await?;
        let Some(mut open) = self.store.journal.open.clone() else { return Ok(None) };
        self.await_files(&open).await;
        let found = self.found(&open)?;
        if open.id == 0 && !found.recorded {
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
        Ok(Found {
            phase: self.store.journal.phase,
            has_draft: open.draft.is_some(),
            recorded: self.store.history.get(open.id).is_some(),
            run: self.executor.found(&self.store.folder.run(open.id), &job),
            runs: open.runs,
        })
    }

    /// Ends what is left of an experiment's jobs, and waits until it is gone.
    pub(super) async fn end_jobs(&mut self, id: u32) -> Result<(), SessionError> {
        let folder = self.store.folder.run(id);
        for name in self.store.jobs() {
            self.executor.stop(&folder, &name).await?;
        }
        self.remove_left_locks(id, AGENT).await
    }
}
