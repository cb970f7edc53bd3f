//! Experiment 0: the starting commit as it is.

use serde_json::json;

use super::attempt::Attempted;
use super::error::SessionError;
use super::jobs::{RUN, guard_name};
use super::open::Session;
use super::opened::draft_of;
use super::supervise::{Deadline, Ending};
use crate::domain::{FailureClass, Notice, Outcome, Phase};
use crate::rules::{LOST_RETRIES, Measured, RunFound};
use crate::state::OpenExperiment;

impl Session<'_> {
    /// Measures the baseline, or goes on measuring it. A baseline without a number takes the session back: a metric that
    /// is misspelt must not become part of an approved contract.
    pub(super) async fn measure_baseline(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let start = self.store.contract.start.clone();
        let mut open = match self.store.journal.open.clone() {
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
        if self.store.journal.phase != Phase::Guarding {
            open = match self.run_baseline(OpenExperiment { draft: None, ..open }, deadline).await? {
                Ok(open) => open,
                Err(attempted) => return Ok(attempted),
            };
        }
        match self.run_guards(&mut open, deadline).await? {
            Ending::Done(()) | Ending::Lost => {}
            Ending::Detached => return Ok(Attempted::StillRunning),
            Ending::Interrupted => {
                self.take_back()?;
                return Ok(Attempted::RolledBack);
            }
        }
        let mut record = draft_of(&open)?;
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
        self.record_and_settle(open, record)?;
        Ok(Attempted::Recorded)
    }

    /// Waits for the run of the baseline, which is started if it was not, and gives the experiment with its draft; or how
    /// the waiting ended.
    async fn run_baseline(
        &mut self,
        mut open: OpenExperiment,
        deadline: Deadline,
    ) -> Result<Result<OpenExperiment, Attempted>, SessionError> {
        let is_entered = open.runs > 0 && self.store.journal.phase != Phase::Committing;
        if !is_entered || self.executor.found(&self.store.folder.run(0), RUN) == RunFound::Gone {
            open = self.prepare_run(open)?;
        }
        let measured = loop {
            let running = self.take_run(&open).await?;
            match self.watch_run(running, &open, deadline).await? {
                Ending::Done(measured) => break *measured,
                Ending::Lost if open.runs <= LOST_RETRIES => open = self.run_again(open)?,
                Ending::Lost => break Measured::lost(open.runs),
                Ending::Detached => return Ok(Err(Attempted::StillRunning)),
                Ending::Interrupted => {
                    self.take_back()?;
                    return Ok(Err(Attempted::RolledBack));
                }
            }
        };
        // Of a run that failed, what looks like a number is a part of its complaint.
        let misnamed = measured.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::NoMetric);
        let printed = if misnamed { measured.metrics.names().to_vec() } else { Vec::new() };
        let unmet = measured.unmet_limits(&self.store.contract);
        self.look_around(open.id).await;
        let record = self.judge(&open, measured)?;
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
        open.draft = Some(Box::new(record));
        Ok(Ok(open))
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
