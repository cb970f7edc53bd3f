//! `ar run`: what comes before the loop, and what becomes of the session after it.

use serde_json::json;

use super::session::Session;
use super::verifying::review_left;
use crate::domain::{Asked, Notice, StopReason, moment_text};
use crate::exec::ExecError;
use crate::git::{Cut, GitError, Repo};
use crate::rules::{MAX_FRESH, expected_run, is_confirmed};
use crate::session::attempt::Attempted;
use crate::session::errors::SessionError;
use crate::session::plan::{Drive, Plan};
use crate::session::store::{Interrupt, end_programs_in};
use crate::session::wait::{Began, Driven, Resumed, escalate_agent, escalate_error};
use crate::state::Level;

impl Session<'_> {
    /// Finishes what is open, measures the baseline if there is none, adopts a change if asked to, and calls the agent
    /// until something ends the loop.
    pub async fn run(&mut self, drive: Drive) -> Result<Driven, SessionError> {
        let driven = self.run_on(drive, None).await;
        self.finish_alerts().await;
        driven
    }

    /// Plans to open the session again after a wait for an answer, while this process still has it.
    ///
    /// # Errors
    ///
    /// Those of [`Plan::new`].
    pub fn plan_again(&self) -> Result<Plan, SessionError> {
        let (root, asked, clock, own) = {
            let store = self.shared.store();
            let asked = Asked { tag: Some(store.contract.tag.clone()), ..Asked::default() };
            (store.repo.worktree().to_owned(), asked, store.clock, store.lock.said().to_owned())
        };
        Plan::beside(Repo::discover(&root)?, &asked.into(), Drive::RESUMED, clock, Some(&own))
    }

    /// Goes on with the loop of a session that was opened again after a wait for an answer.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn run_again(&mut self, resumed: Resumed) -> Result<Driven, SessionError> {
        let driven = self.run_on(Drive::RESUMED, Some(resumed)).await;
        self.finish_alerts().await;
        driven
    }

    /// Handles an error on reopening like an error that ends the loop.
    ///
    /// # Errors
    ///
    /// Returns that error if the loop stops for it.
    pub async fn cannot_go_on(&mut self, error: SessionError) -> Result<Driven, SessionError> {
        let driven = self.ended_by(error).await;
        if let Ok(Driven::Stopped(reason)) = &driven {
            self.stop(reason.clone())?;
        }
        self.finish_alerts().await;
        driven
    }

    async fn run_on(&mut self, drive: Drive, resumed: Option<Resumed>) -> Result<Driven, SessionError> {
        let store = self.shared.store.get_mut();
        let (times, ends) = match resumed {
            Some(Resumed(times)) => (times, None),
            None => Began::begin(store),
        };
        end_programs_in(&store.repo, times.end(store).map(|end| end.left));
        self.shared.times = times;
        if let Some(ends) = ends {
            // The next time of that name may be tomorrow's.
            self.shared.emit(format!("this invocation stops at {}", moment_text(ends)))?;
        }
        let begun = self.begin(drive).await;
        let reason = match self.or_roll_back(begun) {
            Err(error) if self.shared.store().rolled_back => return Err(error),
            Err(error) => match self.ended_by(error).await? {
                Driven::Stopped(reason) => reason,
                again @ Driven::Again(_) => return Ok(again),
            },
            Ok(Attempted::Recorded | Attempted::Waiting) => {
                self.tell_costs()?;
                let reviewed = match self.run_loop().await {
                    Ok(reason) if reason != StopReason::Detached => {
                        review_left(&self.shared, &mut self.workspace).await.map(|()| reason)
                    }
                    turned => turned,
                };
                let verified = match reviewed {
                    Ok(reason) => self.verify_night(reason).await,
                    error => error,
                };
                let driven = match verified {
                    Ok(reason) => escalate_agent(&self.shared, &reason).await.unwrap_or(Driven::Stopped(reason)),
                    Err(error) => self.ended_by(error).await?,
                };
                match driven {
                    Driven::Stopped(reason) => reason,
                    again @ Driven::Again(_) => return Ok(again),
                }
            }
            Ok(Attempted::StillRunning) => StopReason::Detached,
            Ok(Attempted::RolledBack) => self.shared.interrupts.reason(&self.shared.store().folder),
        };
        if !self.shared.store().rolled_back {
            self.stop(reason.clone())?;
        }
        Ok(Driven::Stopped(reason))
    }

    /// Tells what a keep costs, where fresh runs decide.
    fn tell_costs(&self) -> Result<(), SessionError> {
        let costs = {
            let store = self.shared.store();
            let is_told = is_confirmed(&store.contract) && self.shared.calls_agent;
            let run = expected_run(&store.history).as_secs_f64();
            let runs = MAX_FRESH as u32 + 1;
            is_told.then(|| Notice::KeepCosts { runs, seconds: f64::from(runs) * run })
        };
        costs.map_or(Ok(()), |costs| self.shared.emit(costs))
    }

    /// Takes a session back that fails before it has a baseline: nothing of it may stay. On a full disk it does, to be
    /// continued, as a way back cannot be written either.
    pub(crate) fn or_roll_back<T>(&mut self, result: Result<T, SessionError>) -> Result<T, SessionError> {
        // Jobs of an engine that is away run on.
        let is_away = |error: &SessionError| matches!(error, SessionError::Exec(ExecError::EngineAway { .. }));
        let fails = result.as_ref().is_err_and(|error| !error.is_disk_full() && !is_away(error));
        let store = self.shared.store.get_mut();
        let fails = fails && store.refuse_taken_over().is_ok();
        if fails && store.history.baseline().is_none() && !store.rolled_back {
            // The first error is the one that has to be mended.
            let _ = self.roll_back().and_then(|()| self.shared.publish());
        }
        result
    }

    /// Decides what the loop does after `error`. Returns the error itself if it stops the loop.
    async fn ended_by(&mut self, error: SessionError) -> Result<Driven, SessionError> {
        // Whose session it is comes first, as nothing may be written into that of another process.
        self.shared.store().refuse_taken_over()?;
        if let Some(reason) = self.cut_short(&error) {
            return Ok(Driven::Stopped(reason));
        }
        if let Some(driven) = escalate_error(&self.shared, &error).await {
            return Ok(driven);
        }
        self.shared.store().refuse_taken_over()?;
        Err(self.stopped_by(error))
    }

    /// Records the error that stopped the loop, if that can still be written.
    fn stopped_by(&mut self, error: SessionError) -> SessionError {
        let detail = error.to_string();
        // Undo foreign changes first: once the watch is dropped, they cannot be told from this process's own.
        let _ = self.shared.publish();
        let store = self.shared.store.get_mut();
        (store.expected.watch, store.expected.at_work) = (None, Vec::new());
        let log = &self.shared.events.get_mut().log;
        let _ = log.work(store.now(), Level::Error, "error", &json!({"detail": detail}));
        store.forget_unwritten();
        let _ = self.stop(StopReason::Error { detail });
        SessionError::Stopped(Box::new(error))
    }

    /// The reason for the stop, if `error` says that a program was terminated for it. The open experiment stays open, since a
    /// rollback would need the same program.
    fn cut_short(&mut self, error: &SessionError) -> Option<StopReason> {
        let SessionError::Git(GitError::Cut { cut, .. }) = error else { return None };
        self.shared.store().forget_unwritten();
        match cut {
            Cut::Asked => Some(match self.shared.asked() {
                Ok(Interrupt::Detach) => StopReason::Detached,
                _ => self.shared.interrupts.reason(&self.shared.store().folder),
            }),
            Cut::TimeOver => self.shared.times.end(self.shared.store.get_mut()).map(|end| end.reason),
            Cut::Late => None,
        }
    }
}
