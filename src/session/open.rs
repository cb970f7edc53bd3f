//! An open session: everything that the loop holds in its hands.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::contradiction::{contradiction, trouble_text};
use super::error::SessionError;
use super::events::{Events, Observer};
use super::expected::Expected;
use super::fetched::is_fetched;
use super::heal::rebuilt_journal;
use super::interrupts::{Interrupt, Interrupts};
use super::keep_logs::LogKeeper;
use super::opened::is_being_replaced;
use super::own_files::{INDEX_BEFORE, OWN_FILES, exclude_pattern, remove_file};
use super::plan::{Drive, Plan};
use super::protected::{Protected, forget_copies};
use super::reading::{expected_tip, read_history};
use super::store::{Said, Store, Written};
use super::surroundings::Place;
use super::times::Times;
use super::watchdog::listen;
use super::workspace::{UntrackedFiles, Workspace};
use crate::agent::{Memories, task_spec};
use crate::crash;
use crate::domain::{Contract, Directive, Event, ExperimentId, Notice, StopReason};
use crate::exec::Executor;
use crate::fs::{Unsynced, remove_left_over};
use crate::git::{Head, HeadTarget, Look};
use crate::rules::{History, folders_of};
use crate::state::{EventLog, Journal, Memory, PROTECTED, SESSIONS_FOLDER, Status, UNTRACKED, read_json};

/// An open session.
pub struct Session<'a> {
    pub(super) store: Store,
    pub(super) workspace: Workspace,
    pub(super) events: Events<'a>,
    pub(super) place: Place,
    pub(super) interrupts: Interrupts,
    /// Where agents, runs and guards run.
    pub(super) executor: Executor,
    pub(super) times: Times,
    /// Whether the loop turns, and writes the journal again when an experiment is over.
    pub(super) goes_on: bool,
    /// What the agent is told of earlier nights.
    pub(super) memories: Memories,
    /// Whether there is an agent that can be called.
    pub(super) calls_agent: bool,
    pub(super) log_keeper: LogKeeper,
}

impl<'a> Session<'a> {
    /// Opens the session of a plan: its files, its branch, its lock.
    pub fn open(plan: Plan, observer: Observer<'a>, interrupts: Interrupts) -> Result<Self, SessionError> {
        let Plan { repo, folder, contract, file_terms, ledger, clock, drive, continued, notices, left_out } = plan;
        listen(&repo, &interrupts, &folder);
        if contract.no_sign {
            repo.objects.sign_nothing();
        } else if matches!(drive, Drive::Loop { .. }) || !continued {
            repo.objects.check_signing()?;
        }
        repo.defer_syncs();
        let is_fetched = continued && is_fetched(&repo, &contract.tag)?;
        repo.exclude(OWN_FILES)?;
        let left_out: Vec<String> = left_out.iter().filter_map(|file| exclude_pattern(file, repo.worktree())).collect();
        if fs::symlink_metadata(repo.main_worktree().join(SESSIONS_FOLDER)).is_ok_and(|own| own.is_symlink()) {
            // The pattern of a folder is none of a link to one.
            repo.exclude(&["/.autoresearch"])?;
        }
        repo.exclude(&left_out.iter().map(String::as_str).collect::<Vec<_>>())?;
        crash::point("open.excluded");
        folder.create()?;
        let lock = folder.lock(repo.git_dir())?;
        crash::point("open.locked");
        folder.drop_old_stop_request(&lock);
        let mut history = read_history(&repo, &contract.tag)?;
        let state = folder.state();
        remove_left_over(&state)?;
        if !continued {
            forget(&state)?;
        }
        let mut journal = Journal::read(&state)?;
        if let Some(journal) = &mut journal {
            let tip = expected_tip(&contract, history.incumbent().map(|record| &record.commit));
            if let Some(trouble) = contradiction(&repo, &history, &tip, journal) {
                return Err(SessionError::Contradiction(trouble_text(trouble)));
            }
            if let Some(open) = &journal.open
                && is_being_replaced(&repo, &contract.tag, open)?
            {
                history.forget(open.id);
            }
            // Each experiment took a call.
            journal.iteration = journal.iteration.max(history.experiments());
        }
        let memory = Memory::new(&state);
        memory.create(history.records())?;
        crash::point("open.memory_made");
        folder.store_contract(&contract, &task_spec(&contract))?;
        crash::point("open.contract_stored");
        let log = EventLog::new(&folder.logs());
        let place = Place::of(repo.worktree());
        let untracked = read_json(&state.join(UNTRACKED))?;
        let lost = continued && journal.is_none();
        let journal = match journal {
            Some(journal) => journal,
            None => {
                let tip = repo.refs.branch(&contract.tag.branch_ref())?;
                let mut journal = match continued {
                    true => rebuilt_journal(&history, Some(&contract), tip.as_ref(), repo.worktree(), clock.now()),
                    false => Journal::new(repo.worktree(), clock.now()),
                };
                journal.write(&state, clock.now())?;
                journal
            }
        };
        let (protected, told) =
            Protected::of(&repo, &folder, &file_terms, &contract.start, &folders_of(&contract.protect))?;
        let calls_agent = matches!(drive, Drive::Loop { .. }) && contract.agent.is_some();
        let mut session = Session {
            calls_agent,
            store: Store {
                written: Written { journal: journal.clone(), unsynced: Unsynced::default() },
                journal,
                repo,
                folder,
                contract,
                history,
                ledger,
                clock,
                lock,
                expected: Expected::of(&state, &[UNTRACKED, PROTECTED]),
                said: Said::default(),
                taken_back: false,
            },
            workspace: Workspace {
                protected,
                file_terms,
                untracked: UntrackedFiles { known: untracked, is_current: false },
                look: None,
            },
            events: Events::new(observer, log),
            place,
            goes_on: false,
            memories: Memories::default(),
            interrupts,
            executor: Executor::local(),
            times: Times::default(),
            log_keeper: LogKeeper::default(),
        };
        if let Err(error) = session.take_over(drive) {
            if !continued {
                // The first error is the one that has to be mended.
                let _ = session.abandon();
            }
            let _ = session.tell();
            return Err(error);
        }
        let tip = session.store.tip();
        session.emit(Event::SessionStarted {
            tag: session.store.contract.tag.clone(),
            tip,
            experiments: session.store.history.experiments(),
            continued,
        })?;
        if let Some(changed) = session.place.changed(&session.store.history) {
            session.emit(changed)?;
        }
        if lost {
            session.workspace.remember_untracked(&mut session.store)?;
            session.store.say_rebuilt(is_fetched)?;
        } else if session.store.journal.open.is_none() && session.store.ledger.is_torn()? {
            session.store.put_rows_back()?;
        }
        session.store.put_ideas_back()?;
        notices.into_iter().map(Notice::Planned).chain(told).for_each(|notice| session.store.say(notice));
        session.tell()?;
        Ok(session)
    }

    fn take_over(&mut self, drive: Drive) -> Result<(), SessionError> {
        self.take_branch(drive)?;
        crash::point("open.branch_taken");
        self.store.journal.worktree = self.store.repo.worktree().to_owned();
        self.store.journal.status = Status::Running;
        self.store.journal.ended = None;
        match drive {
            Drive::Loop { .. } => self.store.journal.wait_later(self.store.contract.agent.as_deref()),
            // Nobody calls the agent.
            Drive::WorkingTree { .. } | Drive::Ending => self.store.journal.outage = None,
        }
        let commits_next = drive == (Drive::WorkingTree { resume: false }) && self.store.history.baseline().is_some();
        if !commits_next {
            self.store.write_journal()?;
        }
        crash::point("open.journal_written");
        Ok(self.events.log.heartbeat(self.store.now(), &json!({"process": std::process::id()}))?)
    }

    /// The terms.
    pub fn contract(&self) -> &Contract {
        &self.store.contract
    }

    /// What the next experiment is told.
    pub fn directive(&self) -> Directive {
        self.store.directive()
    }

    /// The experiments so far.
    pub fn history(&self) -> &History {
        &self.store.history
    }

    /// Makes HEAD the session's branch, and the branch if it is not there. With an experiment open that is a matter of
    /// its recovery.
    fn take_branch(&mut self, drive: Drive) -> Result<(), SessionError> {
        if self.store.journal.open.as_ref().is_some_and(|open| !open.id.is_baseline()) {
            return Ok(());
        }
        let branch = self.store.contract.tag.branch_ref();
        let tip = self.store.tip();
        match self.store.repo.refs.branch(&branch)? {
            None => self.store.repo.refs.create_branch(&branch, &tip, "autoresearch: start")?,
            // Between experiments only `ar try` takes commits of others: as the change that it is to measure.
            Some(found) if found != tip && matches!(drive, Drive::Loop { .. }) => {
                let subject = self.store.repo.objects.subject(&found)?;
                return Err(SessionError::UnrecordedTip {
                    branch: self.store.contract.tag.branch(),
                    tip: found.short(8).to_owned(),
                    subject,
                    base: tip.short(12).to_owned(),
                });
            }
            Some(_) => {}
        }
        crash::point("open.branch_made");
        match self.store.repo.refs.head()? {
            Head::Branch { name, .. } if name == branch => {}
            Head::Branch { commit, .. } | Head::Detached { commit } if commit == tip => {
                self.store.repo.refs.point_head(&HeadTarget::Branch(branch))?;
            }
            Head::Branch { commit, .. } | Head::Detached { commit } => {
                self.workspace.put_back(&mut self.store, &tip, &commit)?;
                self.store.repo.refs.point_head(&HeadTarget::Branch(branch))?;
            }
            Head::Unborn { .. } => self.store.repo.refs.point_head(&HeadTarget::Branch(branch))?,
        }
        Ok(())
    }

    /// Tells what happened, and before that what the store has to say.
    pub(super) fn emit(&mut self, event: impl Into<Event>) -> Result<(), SessionError> {
        self.store.heal()?;
        self.store.say(event);
        self.tell_said()
    }

    /// Tells what the store has to say.
    pub(super) fn tell(&mut self) -> Result<(), SessionError> {
        self.store.heal()?;
        self.tell_said()
    }

    fn tell_said(&mut self) -> Result<(), SessionError> {
        let said = self.store.take_said();
        let told = said.iter().try_for_each(|event| self.events.emit(event, &self.store));
        if said.iter().any(|event| !matches!(event, Event::RunProgress { .. })) {
            self.store.watch_again(&self.store.folder.logs());
        }
        told
    }

    /// What was asked for so far, by signals and by `ar stop`. What is new is told.
    pub(super) fn asked(&mut self) -> Result<Interrupt, SessionError> {
        let before = self.events.told;
        let asked = self.interrupts.hear(&mut self.store, &mut self.events.told);
        if asked > before && asked != Interrupt::Detach {
            self.tell()?;
        }
        Ok(asked)
    }

    /// Why the loop ends that was asked to stop.
    pub(super) fn interrupted(&self) -> StopReason {
        self.interrupts.reason(&self.store.folder)
    }

    /// Waits until the command of `--on-event` was told of all that happened, 10 s at most.
    pub async fn finish_alerts(&mut self) {
        self.events.finish_alerts(&self.interrupts, self.store.clock).await;
        if self.events.has_hook_trouble() {
            let _ = self.tell();
            self.events.tell_hook_trouble(&self.store);
            self.store.watch_again(&self.store.folder.logs());
        }
    }

    /// Compresses the large logs of the experiments that are over and drops those that are too much.
    ///
    /// # Errors
    ///
    /// What was done cannot be written to the event log.
    pub fn keep_logs(&mut self) -> Result<(), SessionError> {
        self.log_keeper.keep(&self.store, &self.events.log)
    }

    /// Does that after one experiment by itself.
    ///
    /// # Errors
    ///
    /// As [`Session::keep_logs`].
    pub fn keep_newest_logs(&mut self) -> Result<(), SessionError> {
        self.log_keeper.keep_newest(&self.store, &self.events.log)
    }

    /// Refuses an experiment that there may be no room for.
    pub(super) fn check_room(&mut self) -> Result<(), SessionError> {
        self.log_keeper.make_room(&self.store, &self.events.log)
    }

    /// Notes the lock files and the tools as they are now that a run is over.
    pub(super) async fn look_around(&mut self, id: ExperimentId) {
        if self.store.heal().is_ok() {
            let (root, folder) = (self.store.repo.worktree().to_owned(), self.store.folder.root().to_owned());
            let command = self.store.contract.command.clone();
            let is_loop = self.times.are_counted();
            self.place.look_around(&self.executor, &root, (&folder, id), &command, is_loop).await;
        }
    }

    /// Closes the open experiment in the journal and notes which untracked files are there.
    pub(super) fn enter_idle(&mut self) -> Result<(), SessionError> {
        self.enter_idle_after(None)
    }

    /// Does the same after a look at the working tree.
    pub(super) fn enter_idle_after(&mut self, look: Option<Look>) -> Result<(), SessionError> {
        self.workspace.remember_untracked_of(&mut self.store, look)?;
        crash::point("idle.untracked_remembered");
        self.store.journal.close();
        match self.goes_on {
            // The next step says the same at once; until then the record's ref says that the experiment is over.
            true => self.store.written.journal = self.store.journal.clone(),
            false => self.store.write_journal()?,
        }
        self.workspace.untracked.is_current = self.goes_on;
        crash::point("idle.entered");
        self.store.repo.objects.settle_objects()?;
        self.store.pack_records();
        self.tell()
    }

    /// Notes that nobody is at work any more, and why.
    pub(super) fn stop(&mut self, reason: StopReason) -> Result<(), SessionError> {
        self.store.journal.status = if reason == StopReason::Detached { Status::Detached } else { Status::Stopped };
        self.store.journal.wait_later(self.store.contract.agent.as_deref());
        if matches!(reason, StopReason::Outage { .. }) || !self.store.journal.waits_for_reset() {
            // Who starts it again has seen to it.
            self.store.journal.outage = None;
        }
        if !matches!(reason, StopReason::Detached | StopReason::Error { .. }) {
            self.store.sum_up()?;
        }
        self.store.journal.ended = Some(reason.in_short());
        self.store.write_journal()?;
        crash::point("stop.journal_written");
        self.store.name_all_changed_logs();
        self.store.repo.objects.outlast_gc(&self.place.environment.host)?;
        let experiments = self.store.history.experiments();
        self.emit(Event::SessionStopped { reason, experiments })
    }

    /// Takes back the opening of a session without experiments: HEAD and branches are as before. Logs stay.
    pub(super) fn abandon(&mut self) -> Result<(), SessionError> {
        self.store.taken_back = true;
        let start = self.store.contract.start.clone();
        let before = match &self.store.contract.started_from {
            Some(branch) => HeadTarget::Branch(branch.clone()),
            None => HeadTarget::Detached(start.clone()),
        };
        crash::point("abandon.begun");
        self.store.repo.refs.point_head(&before)?;
        crash::point("abandon.head_put_back");
        let branch = self.store.contract.tag.branch_ref();
        if self.store.repo.refs.branch(&branch)?.is_some() {
            self.store.repo.refs.delete_branch(&branch, &start)?;
        }
        crash::point("abandon.branch_deleted");
        forget_copies(&self.store.repo, &self.store.folder);
        forget(&self.store.folder.state())
    }
}

/// Removes the state files that make a session; the contract goes first, and without it there is none.
fn forget(state: &Path) -> Result<(), SessionError> {
    for name in ["contract.json", "progress.json", UNTRACKED, PROTECTED, "task_spec.md", INDEX_BEFORE] {
        remove_file(&state.join(name))?;
        crash::point("abandon.file_removed");
    }
    Ok(())
}
