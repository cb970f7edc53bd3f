//! The guards: commands that must pass before a change is kept.

use std::path::Path;

use super::left_over::{await_files, restore_after};
use super::lifecycle::{Attempt, Attempted, Stage};
use crate::crash;
use crate::domain::{Actor, Event, Failure, FailureClass, GuardRun, Notice, Outcome, Phase, Record};
use crate::exec::{self, ExecError, Executor, Exit, Job};
use crate::fs::read_tail;
use crate::measure::{EXCERPT_LINES, last_lines};
use crate::rules::{LOST_RETRIES, RunFound, WalledRole};
use crate::session::errors::SessionError;
use crate::session::files::{refuse_spoilt, remove_file};
use crate::session::store::{
    Interrupt, RUN_FILES, Store, clear_run_folder, commit_of, draft_of, guard_name, run_variables,
};
use crate::session::tree::Workspace;
use crate::session::wait::{Deadline, Exited, Shared, WaitEnd, Waiter};
use crate::state::MOST_EVICTIONS;

/// The reason and the failure that are recorded for a change whose guard failed.
fn refused_by(guard: &GuardRun, draft: &Record) -> (String, Failure) {
    let reason = format!("{}, but the guard `{}` failed ({})", draft.reason, guard.command, guard.ended());
    (reason, Failure::new(FailureClass::GuardFailed, guard.excerpt.clone()))
}

impl Attempt {
    /// Runs the remaining guards on the experiment, whose number would be kept.
    pub(crate) async fn guard(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        deadline: Deadline,
    ) -> Result<Stage, SessionError> {
        match self.run_guards(workspace, shared, deadline).await? {
            WaitEnd::Done(()) | WaitEnd::Lost => self.after_guards(workspace, shared),
            WaitEnd::Detached => Ok(Stage::Over(Attempted::StillRunning)),
            WaitEnd::Interrupted if self.open.versions.is_empty() => {
                self.roll_back(workspace, &mut shared.store(), "was interrupted")?;
                Ok(Stage::Over(Attempted::RolledBack))
            }
            WaitEnd::Interrupted if self.roll_back_version(workspace, &mut shared.store())? => {
                Ok(Stage::Over(Attempted::RolledBack))
            }
            WaitEnd::Interrupted => {
                // The measurements of its earlier versions must not be lost.
                let mut draft = draft_of(&self.open)?;
                draft.outcome = Outcome::Discard;
                draft.reason += "; its guards were interrupted";
                self.record(workspace, &mut shared.store(), draft)
            }
        }
    }

    /// Runs the guards that the draft does not contain, in order, up to one that fails or is lost too often. The draft then
    /// contains the consequence for the change.
    pub(crate) async fn run_guards(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<()>, SessionError> {
        let commands = shared.store().contract.guards.clone();
        if commands.is_empty() {
            return Ok(WaitEnd::Done(()));
        }
        let mut draft = draft_of(&self.open)?;
        if self.phase != Phase::Guarding {
            // What was there before would be taken for what they said.
            (1..=commands.len()).try_for_each(|number| self.forget_guard(&shared.store(), number))?;
            self.enter(&mut shared.store(), Phase::Guarding)?;
            crash::point("guarding.entered");
        }
        let (mut lost, mut evicted) = (0, 0);
        while let Some(command) = commands.get(draft.guards.len())
            && draft.guards.last().is_none_or(|guard| guard.passed)
        {
            let number = draft.guards.len() + 1;
            let exit = match self.wait_for_guard(workspace, shared, number, command, deadline).await? {
                WaitEnd::Done(Err(ExecError::NoWall { detail, .. })) if lost < LOST_RETRIES => {
                    lost += 1;
                    shared.store().note(Notice::NotStarted { id: self.open.id, why: detail });
                    self.forget_guard(&shared.store(), number)?;
                    continue;
                }
                WaitEnd::Done(Err(error @ ExecError::Evicted { .. })) if evicted < MOST_EVICTIONS => {
                    evicted += 1;
                    shared.store().note(Notice::Evicted { id: self.open.id, why: error.to_string() });
                    self.forget_guard(&shared.store(), number)?;
                    continue;
                }
                WaitEnd::Done(exit) => exit?,
                WaitEnd::Detached => return Ok(WaitEnd::Detached),
                WaitEnd::Interrupted => return Ok(WaitEnd::Interrupted),
                WaitEnd::Lost if lost < LOST_RETRIES => {
                    lost += 1;
                    self.forget_guard(&shared.store(), number)?;
                    continue;
                }
                WaitEnd::Lost => {
                    // Its verdict is unknown, so the change is not kept.
                    draft.outcome = Outcome::Discard;
                    draft.reason += &format!(", but the guard `{command}` was lost {} times", lost + 1);
                    draft.failure = Some(Failure::new(FailureClass::Lost, ""));
                    self.open.draft = Some(Box::new(draft));
                    return Ok(WaitEnd::Lost);
                }
            };
            crash::point("guarding.guard_over");
            lost = 0;
            let guard = self.judge_guard(workspace, &mut shared.store(), number, command, &exit)?;
            shared.emit(Event::GuardFinished { id: self.open.id, guard: guard.clone() })?;
            draft.guards.push(guard);
            self.open.draft = Some(Box::new(draft.clone()));
            // Made by this one, in the name of the next. It is no guard's as long as the journal has not this one's.
            self.forget_guard(&shared.store(), number + 1)?;
            self.enter(&mut shared.store(), Phase::Guarding)?;
            crash::point("guarding.guard_noted");
        }
        if let Some(guard) = draft.guards.last().filter(|guard| !guard.passed) {
            let (reason, failure) = refused_by(guard, &draft);
            (draft.outcome, draft.reason, draft.failure) = (Outcome::Discard, reason, Some(failure));
        }
        self.open.draft = Some(Box::new(draft));
        Ok(WaitEnd::Done(()))
    }

    /// Starts a guard unless it is active or finished, and waits for it.
    async fn wait_for_guard(
        &self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        number: usize,
        command: &str,
        deadline: Deadline,
    ) -> Result<WaitEnd<Exited>, SessionError> {
        let folder = shared.store().folder.create_run(self.open.id)?;
        let name = guard_name(number);
        await_files(shared, self).await;
        let mut job = match shared.runs.found(&folder, &name) {
            RunFound::Pending | RunFound::Going | RunFound::Over => {
                shared.store().begin_detection(Actor::Guard, self.open.id)?;
                shared.publish()?;
                shared.runs.attach(&folder, &name)?
            }
            RunFound::Gone | RunFound::Unstarted => {
                shared.check_disk_space()?;
                self.start_guard(workspace, &mut shared.store(), &shared.runs, number, command, &folder)?
            }
        };
        let ended = shared.wait(&mut job, deadline, || Ok(Interrupt::None)).await?;
        if ended.is_over() {
            restore_after(shared, self.open.id, &name).await?;
        }
        if ended.is_over() && self.has_lost_tree(workspace, &mut shared.store())? {
            return Ok(WaitEnd::Lost);
        }
        Ok(ended)
    }

    fn start_guard(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        executor: &Executor,
        number: usize,
        command: &str,
        folder: &Path,
    ) -> Result<exec::Running, SessionError> {
        let commit = commit_of(&self.open)?;
        workspace.restore_protected(store, self.open.id, &commit)?;
        // A guard judges the change, without what its run or an earlier guard wrote.
        workspace.check_out(store, &self.open)?;
        workspace.restore_tracked_protected(store, self.open.id, &commit)?;
        let name = guard_name(number);
        clear_run_folder(&store.folder, self.open.id, store.contract.guards.len(), &mut store.notices)?;
        let log = folder.join(format!("{name}.log"));
        remove_file(&log)?;
        store.begin_detection(Actor::Guard, self.open.id)?;
        let job = executor.start(&Job {
            name,
            command: command.to_owned(),
            cwd: workspace.root().to_owned(),
            env: workspace.with_variables(run_variables(
                command,
                &store.contract.tag,
                self.open.id,
                &commit_of(&self.open)?,
                &store.folder.state(),
                folder,
            )),
            folder: folder.to_owned(),
            log,
            log_limit: None,
            stdin: None,
            timeout: store.contract.timeout,
            silence: None,
            grace: store.contract.grace,
            tied: false,
            watched: None,
            gpu_sharers: None,
            wall: workspace.wall(store, folder, command, &WalledRole::Run),
            answers: false,
            ticket: None,
        })?;
        let timeout = store.contract.timeout.as_secs_f64();
        store.note(Event::GuardStarted { id: self.open.id, command: command.to_owned(), timeout });
        Ok(job)
    }

    /// The result of a finished guard.
    fn judge_guard(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        number: usize,
        command: &str,
        exit: &Exit,
    ) -> Result<GuardRun, SessionError> {
        let is_well = exit.exit == Some(0) && !exit.timed_out;
        if let Err(full) = refuse_spoilt(&store.repo, &store.folder, &format!("the guard `{command}`"), !is_well) {
            // It runs again when there is space.
            self.forget_guard(store, number)?;
            return Err(full);
        }
        let log = read_tail(&store.folder.run(self.open.id).join(format!("{}.log", guard_name(number))), 0)?;
        let mut excerpt = last_lines(&log, EXCERPT_LINES);
        let changed = workspace.check_protected(store, self.open.id, &commit_of(&self.open)?, Actor::Guard)?;
        if let Some(failure) = &changed {
            excerpt = format!("{}\n{excerpt}", failure.excerpt).trim_end().to_owned();
        }
        let passed = is_well && changed.is_none();
        Ok(GuardRun {
            command: command.to_owned(),
            exit: exit.exit,
            signal: exit.signal,
            timed_out: exit.timed_out,
            seconds: exit.seconds,
            passed,
            excerpt: if passed { String::new() } else { excerpt },
        })
    }

    /// Removes the results of its run, or of the guard that is next, so that it runs again.
    pub(crate) fn forget_run(&self, store: &Store) -> Result<(), SessionError> {
        if self.phase == Phase::Guarding {
            return self.forget_guard(store, draft_of(&self.open)?.guards.len() + 1);
        }
        let folder = self.run_folder(store)?;
        RUN_FILES.iter().try_for_each(|name| remove_file(&folder.join(name)))
    }

    /// Removes the files of a finished guard, so that it runs again.
    fn forget_guard(&self, store: &Store, number: usize) -> Result<(), SessionError> {
        let name = guard_name(number);
        let folder = store.folder.run(self.open.id);
        ["exit.json", "started.json", "job.json"]
            .iter()
            .try_for_each(|kind| remove_file(&folder.join(format!("{name}.{kind}"))))
    }
}
