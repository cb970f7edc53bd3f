//! Experiment 0: the starting commit as it is.

use serde_json::json;

use super::attempt::{Attempt, Attempted};
use super::error::SessionError;
use super::jobs::{RUN, guard_name};
use super::open::Session;
use super::opened::draft_of;
use super::supervise::{Deadline, Ending};
use crate::domain::{FailureClass, Notice, Outcome, Phase};
use crate::rules::{Measured, RunFound};
use crate::state::OpenExperiment;

impl Session<'_> {
    /// Measures the baseline, or goes on measuring it. A baseline without a number takes the session back: a metric that
    /// is misspelt must not become part of an approved contract.
    pub(super) async fn measure_baseline(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let start = self.store.contract.start.clone();
        let open = match self.store.journal.open.clone() {
            Some(open) => {
                self.await_files(&open).await;
                if !matches!(self.executor.found(&self.store.folder.run(0), RUN), RunFound::Going | RunFound::Over) {
                    self.end_jobs(0).await?;
                    self.workspace.check_out(&mut self.store, &open)?;
                }
                open
            }
            None => {
                self.workspace.clear_aside(&mut self.store)?;
                OpenExperiment {
                    commit: Some(start.clone()),
                    description: "baseline".into(),
                    ..OpenExperiment::new(0, start.clone(), self.store.now())
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
                log: self.store.folder.run(0).join(format!("{}.log", guard_name(record.guards.len().max(1)))),
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
        let is_entered = attempt.open.runs > 0 && self.store.journal.phase != Phase::Committing;
        if !is_entered || self.executor.found(&self.store.folder.run(0), RUN) == RunFound::Gone {
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
                log: self.store.folder.run(0).join("run.log"),
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
}
