//! An open session, everything that the loop holds in its hands; and `ar run`: what comes before the loop, and what
//! becomes of the session after it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, mem};

use serde_json::json;

use super::begin::{OpenedRecords, exclude_files, forget, prepare_signing, slot_setup};
use super::late_reviews::{review_left, undo_late_review};
use crate::crash;
use crate::domain::{Asked, Contract, Directive, Event, ExperimentId, Notice, StopReason, TreeOwner, moment_text};
use crate::exec::{ExecError, boot_id};
use crate::git::{Cut, GitError, Head, HeadTarget, Repo};
use crate::rules::{History, Night, expected_run, folders_of, is_confirmed, runs_of_keep, slot_variables};
use crate::session::attempt::{Attempted, end_late_review, settle_left_artifacts};
use crate::session::errors::{ErrorKind, SessionError};
use crate::session::files::is_fetched;
use crate::session::handlers::{
    Carrying, Protected, UntrackedFiles, Workspace, convert_as_at_start, forget_copies, open_seat, remove_trees,
};
use crate::session::plan::{Drive, Plan, UserCommits, go_home};
use crate::session::store::{Interrupt, Interrupts, end_idle, end_programs_in, end_wait, forget_solved, listen};
use crate::session::wait::{
    Began, Driven, Events, Machine, Observer, Resumed, SessionContext, escalate_agent, escalate_error, register,
    take_in_guardians,
};
use crate::state::{EventLog, Level, OwnerLock, SESSIONS_FOLDER, SessionFolder};

/// An open session.
pub struct Session<'a> {
    pub(crate) shared: SessionContext<'a>,
    pub(crate) workspace: Workspace,
}

impl<'a> Session<'a> {
    /// Opens the session of a plan: its files, its branch, its lock.
    pub async fn open(plan: Plan, observer: Observer<'a>, interrupts: Interrupts) -> Result<Self, SessionError> {
        let new = if plan.continued { None } else { NewFolder::of(&plan) };
        let (folder, git_dir, clock) = (plan.folder.clone(), plan.repo.git_dir().to_owned(), plan.clock);
        let (is_loop, asked) = (matches!(plan.drive, Drive::Loop { .. }), interrupts.clone());
        let opened = Session::open_in(plan, observer, interrupts).await;
        if let Err(error) = &opened
            && error.kind() == ErrorKind::Interrupted
            && is_loop
            && asked.asked() == Interrupt::Now
        {
            // Without it, a guardian takes the session for one that was killed.
            let _ = end_idle(&folder, &git_dir, clock, &asked.reason(&folder));
        }
        if let (Err(error), Some(new)) = (&opened, new)
            && error.kind() != ErrorKind::Held
        {
            new.remove_unused();
        }
        opened
    }

    async fn open_in(mut plan: Plan, observer: Observer<'a>, interrupts: Interrupts) -> Result<Self, SessionError> {
        listen(&plan.repo, &interrupts, &plan.folder);
        prepare_signing(&plan)?;
        plan.repo.defer_syncs();
        let is_fetched = plan.continued && is_fetched(&plan.repo, &plan.contract.tag)?;
        exclude_files(&plan.repo, &plan.ledger, &plan.left_out)?;
        crash::point("open.excluded");
        plan.folder.create()?;
        let tree_of = TreeOwner::of(plan.layout.as_ref());
        let lock = lock_of(&mut plan, tree_of)?;
        crash::point("open.locked");
        plan.repo.clear_own_locks()?;
        let slots = slot_setup(&plan.repo, &plan.contract, plan.layout.as_ref(), &plan.gpus)?;
        let mut stored = OpenedRecords::read(&plan, &interrupts).await?;
        let untracked = stored.write(&plan)?;
        convert_as_at_start(&mut plan.repo, &plan.folder, &plan.walls)?;
        let Plan { repo, folder, contract, file_terms, .. } = &plan;
        let place = Machine::of(repo.worktree());
        let (protected, told) =
            Protected::of(repo, folder, file_terms, &contract.start, &folders_of(&contract.protect))?;
        let events = Events::new(observer, EventLog::new(&folder.logs()));
        let calls_agent = matches!(plan.drive, Drive::Loop { .. }) && contract.agent.is_some();
        let (file_terms, drive, continued) = (file_terms.clone(), plan.drive, plan.continued);
        let root = repo.worktree().canonicalize().unwrap_or_else(|_| repo.worktree().to_owned());
        let spared =
            plan.left_out.iter().filter_map(|path| path.strip_prefix(&root).ok()).map(Path::to_owned).collect();
        let (home, notices) = (plan.home.take(), mem::take(&mut plan.notices));
        let (lost, night) = (continued && !stored.has_journal, stored.night.take());
        let store = stored.into_store(plan, lock);
        let workspace = Workspace {
            carrying: Carrying::sparing(spared),
            variables: slot_variables(0, None),
            untracked: UntrackedFiles { known: untracked, listed: None },
            ..Workspace::new(Rc::clone(&store.repo), TreeOwner::User, file_terms, protected)
        };
        let shared = SessionContext::new(store, events, place, interrupts, slots, calls_agent);
        let mut session = Session { shared, workspace };
        let begun = session.enter(home, tree_of, drive, night).await;
        let begun = begun.and_then(|()| session.begin_publishing(continued, lost, is_fetched));
        if let Err(error) = begun {
            if !continued && session.shared.store().refuse_taken_over().is_ok() {
                // The first error is the one that has to be mended.
                let _ = session.abandon();
            }
            let _ = session.shared.publish();
            return Err(error);
        }
        let store = session.shared.store.get_mut();
        let is_told = !continued || store.journal.presence.is_loop();
        let unregistered = register(store.repo.main_worktree(), &store.contract.tag, store.now(), is_told);
        unregistered.into_iter().for_each(|notice| store.note(notice));
        notices.into_iter().map(Notice::from).chain(told).for_each(|notice| store.note(notice));
        session.shared.publish()?;
        take_in_guardians(&session.shared)?;
        Ok(session)
    }

    /// Enters the working tree, the branch and the night of the session. What an earlier process left there ends first.
    async fn enter(
        &mut self,
        home: Option<String>,
        tree_of: TreeOwner,
        drive: Drive,
        night: Option<Night>,
    ) -> Result<(), SessionError> {
        end_late_review(&self.shared).await?;
        go_home(&mut self.workspace, self.shared.store.get_mut(), home)?;
        self.take_own_tree(tree_of)?;
        undo_late_review(&mut self.workspace, self.shared.store.get_mut(), drive)?;
        self.take_over(drive, night)
    }

    /// Tells where the session stands, and puts back what of its files was lost.
    fn begin_publishing(&mut self, continued: bool, lost: bool, is_fetched: bool) -> Result<(), SessionError> {
        let store = self.shared.store.get_mut();
        store.heal()?;
        let (limit, open) = (store.contract.keep_artifacts, store.journal.open_ids());
        settle_left_artifacts(&store.folder, &store.history, limit, &open, &mut store.notices);
        let (tag, tip, experiments) = (store.contract.tag.clone(), store.tip(), store.history.experiments());
        store.note(Event::SessionStarted { tag, tip, experiments, continued });
        if let Some(changed) = self.shared.machine.get_mut().changed(&store.history) {
            store.note(changed);
        }
        if lost {
            self.workspace.remember_untracked(store)?;
            store.note_rebuilt(is_fetched)?;
        } else if open.is_empty() && store.ledger.is_torn()? {
            store.ensure_rows()?;
        }
        store.restore_ideas()
    }

    /// Goes from the user's working tree to one of `ar`'s own, if there are slots: the baseline is measured in the first slot.
    /// Later that is a seat's, since a slot whose tree is missing has lost its run.
    fn take_own_tree(&mut self, owner: TreeOwner) -> Result<(), SessionError> {
        if owner != self.workspace.owner {
            let terms = &self.workspace.file_terms;
            let tip = self.shared.store().tip();
            let is_begun = self.shared.store().history.baseline().is_some();
            self.workspace = match is_begun {
                true => open_seat(&mut self.shared.store(), terms, 0, &tip)?,
                false => self.shared.slots.open(&mut self.shared.store(), terms, 0, &tip)?,
            };
            crash::point("open.tree_made");
        }
        Ok(())
    }

    fn take_over(&mut self, drive: Drive, night: Option<Night>) -> Result<(), SessionError> {
        self.take_branch(drive)?;
        crash::point("open.branch_taken");
        let store = self.shared.store.get_mut();
        if drive != Drive::Ending {
            forget_solved(store);
        }
        let (worktree, agent) = (store.repo.worktree(), store.contract.agent.as_deref());
        // A loop that is refused before enters no night.
        store.journal.take_over(drive.driver(), night, worktree, boot_id(), agent);
        let commits_next = drive == (Drive::WorkingTree { resume: false }) && store.history.baseline().is_some();
        if !commits_next {
            store.write_journal()?;
        }
        crash::point("open.journal_written");
        Ok(self.shared.events.get_mut().log.heartbeat(store.now(), &json!({"process": std::process::id()}))?)
    }

    /// The terms.
    pub fn contract(&self) -> Contract {
        self.shared.store().contract.clone()
    }

    /// The directive for the next experiment.
    pub fn directive(&self) -> Directive {
        self.shared.store().journal.ladder.directive()
    }

    /// The experiments so far.
    pub fn history(&self) -> History {
        self.shared.store().history.clone()
    }

    /// Makes HEAD the session's branch, and the branch if it is not there. With an experiment open that is a matter of
    /// its recovery.
    fn take_branch(&mut self, drive: Drive) -> Result<(), SessionError> {
        let store = self.shared.store.get_mut();
        if store.journal.first().is_some_and(|first| !first.id().is_baseline()) {
            return Ok(());
        }
        let branch = store.contract.tag.branch_ref();
        let tip = store.tip();
        if !self.workspace.owner.follows_branch() {
            return match store.repo.refs.branch(&branch)? {
                None => Ok(store.refs().create_branch(&tip, "start")?),
                Some(_) => store.set_branch(&tip, &[], "resumed"),
            };
        }
        match store.repo.refs.branch(&branch)? {
            None => store.refs().create_branch(&tip, "start")?,
            // Between experiments only `ar try` takes commits of others: as the change that it is to measure.
            Some(found) if found != tip && matches!(drive, Drive::Loop { .. }) && !drive.adopts() => {
                let is_on_top = store.repo.objects.leads_to(&tip, &found)?;
                let commits = UserCommits { tip: found, incumbent: tip, is_on_top };
                return Err(commits.refuse(&store.repo, &store.contract.tag, Some(&store.journal))?);
            }
            Some(_) => {}
        }
        crash::point("open.branch_made");
        match self.workspace.repo.refs.head()? {
            Head::Branch { name, .. } if name == branch => return Ok(()),
            Head::Branch { commit, .. } | Head::Detached { commit } if commit != tip => {
                self.workspace.restore(store, &tip, &commit)?;
            }
            Head::Branch { .. } | Head::Detached { .. } | Head::Unborn { .. } => {}
        }
        self.workspace.point_head(&HeadTarget::Branch(branch))
    }

    /// Waits until the command of `--on-event` was told of all that happened, 10 s at most.
    pub async fn finish_alerts(&mut self) {
        let SessionContext { store, events, interrupts, .. } = &mut self.shared;
        let (store, events) = (store.get_mut(), events.get_mut());
        events.finish_alerts(interrupts, store.clock).await;
        if events.has_hook_trouble() && store.refuse_taken_over().is_ok() {
            let _ = self.shared.publish();
            let SessionContext { store, events, .. } = &mut self.shared;
            let store = store.get_mut();
            events.get_mut().publish_hook_trouble(store);
            store.expected.expect_again(&store.folder.logs());
        }
    }

    /// Compresses large logs of experiments that are over, and deletes logs beyond the limits.
    ///
    /// # Errors
    ///
    /// The event log cannot be written.
    pub fn keep_logs(&self) -> Result<(), SessionError> {
        self.shared.keep_logs()
    }

    /// Notes that nobody is at work any more, and why.
    pub(crate) fn stop(&mut self, reason: StopReason) -> Result<(), SessionError> {
        let store = self.shared.store.get_mut();
        store.refuse_taken_over()?;
        if reason != StopReason::Detached {
            end_wait(store, &reason);
        }
        store.journal.end_loop(&reason, store.contract.agent.as_deref());
        if !matches!(reason, StopReason::Detached | StopReason::Error { .. }) {
            let summed_up = store.journal.results.summed_up();
            store.sum_up(summed_up)?;
            store.journal.results.sum_up(store.history.next_sequence());
        }
        // An error may have left a run active, which writes there.
        let back = match &reason {
            StopReason::Detached => Ok(()),
            StopReason::Error { .. } if store.journal.has_open() => Ok(()),
            _ => self.workspace.end_carrying(store),
        };
        if self.workspace.owner.is_disposable() && !matches!(reason, StopReason::Detached | StopReason::Error { .. }) {
            remove_trees(store)?;
        }
        let written = store.write_journal();
        crash::point("stop.journal_written");
        let outlasts = store.repo.objects.outlast_gc(&self.shared.machine.get_mut().environment.host);
        // On a full disk the event is what is left.
        let healed = store.heal();
        let experiments = store.history.experiments();
        store.note(Event::SessionStopped { reason, experiments });
        let told = self.shared.publish_notices();
        written.and(Ok(outlasts?)).and(back).and(healed).and(told)
    }

    /// Takes back the opening of a session without experiments: branches are as before, and so is HEAD where `ar` works in
    /// place. Logs stay.
    pub(crate) fn abandon(&mut self) -> Result<(), SessionError> {
        let store = self.shared.store.get_mut();
        store.rolled_back = true;
        let start = store.contract.start.clone();
        let before = match (&store.contract.follows, &store.contract.started_from) {
            (Some(follows), _) => HeadTarget::Branch(follows.tag.branch_ref()),
            (None, Some(branch)) => HeadTarget::Branch(branch.clone()),
            (None, None) => HeadTarget::Detached(start.clone()),
        };
        crash::point("abandon.begun");
        self.workspace.end_carrying(store)?;
        match store.journal.tree_owner().follows_branch() {
            // A lock by which the start failed keeps HEAD from being written again.
            true if self.workspace.repo.refs.head().is_ok_and(|head| head.target() == before) => {}
            true => self.workspace.point_head(&before)?,
            // The user's working tree stays where it is: at home, if it was switched there, with its files.
            false => remove_trees(store)?,
        }
        crash::point("abandon.head_put_back");
        store.refs().delete_branch(&start)?;
        crash::point("abandon.branch_deleted");
        forget_copies(&store.repo, &store.folder);
        forget(&store.folder.state())?;
        let baseline = ExperimentId::BASELINE;
        store.notices.or_unsettled(baseline, store.folder.forget_artifacts(baseline));
        Ok(())
    }
}

/// The folder of a session that is about to begin, where there is none yet.
struct NewFolder {
    folder: SessionFolder,
    git_dir: PathBuf,
    owner: TreeOwner,
    /// True if the folder of all sessions is missing too.
    is_first: bool,
}

impl NewFolder {
    fn of(plan: &Plan) -> Option<NewFolder> {
        let is_missing = |path: &Path| fs::symlink_metadata(path).is_err();
        is_missing(plan.folder.root()).then(|| NewFolder {
            folder: plan.folder.clone(),
            git_dir: plan.repo.git_dir().to_owned(),
            owner: TreeOwner::of(plan.layout.as_ref()),
            is_first: is_missing(&plan.repo.main_worktree().join(SESSIONS_FOLDER)),
        })
    }

    /// Removes the folder after a start that failed before its first run; not if another process holds it by now.
    fn remove_unused(self) {
        let Ok(lock) = self.folder.lock(&self.git_dir, self.owner.has_user()) else { return };
        let has_run = fs::read_dir(self.folder.runs()).is_ok_and(|mut runs| runs.next().is_some());
        if has_run || self.folder.has_contract() {
            return;
        }
        // A folder that stays is in nobody's way.
        let _ = fs::remove_dir_all(self.folder.root());
        drop(lock);
        if self.is_first
            && let Some(sessions) = self.folder.root().parent()
        {
            let _ = fs::remove_dir(sessions);
        }
    }
}

impl Session<'_> {
    /// Finishes what is open, measures the baseline if there is none, adopts a change if asked to, and calls the agent
    /// until something ends the loop.
    pub async fn run(&mut self, drive: Drive) -> Result<Driven, SessionError> {
        let driven = self.run_on(drive, None).await;
        self.finish_alerts().await;
        driven
    }

    /// Plans to open the session again after a wait for an answer. The plan has its lock, which outlasts this value.
    ///
    /// # Errors
    ///
    /// Those of [`Plan::new`].
    pub fn plan_again(&self) -> Result<Plan, SessionError> {
        let (root, asked, clock, lock) = {
            let store = self.shared.store();
            let asked = Asked { tag: Some(store.contract.tag.clone()), ..Asked::default() };
            (store.repo.worktree().to_owned(), asked, store.clock, store.lock.clone())
        };
        Plan::beside(Repo::discover(&root)?, &asked.into(), Drive::RESUMED, clock, Some(lock))
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
                        review_left(&self.shared, &mut self.workspace, None).await.map(|_| reason)
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
            if reason != StopReason::Detached {
                let runs = self.shared.store().folder.runs();
                self.shared.runs.cancel_put_back(&runs).await;
            }
        }
        Ok(Driven::Stopped(reason))
    }

    /// Tells what a keep costs, where fresh runs decide, and whether the metric is too noisy.
    fn tell_costs(&self) -> Result<(), SessionError> {
        {
            let store = &mut *self.shared.store();
            if is_confirmed(&store.contract) && self.shared.calls_agent {
                let run = expected_run(&store.history).as_secs_f64();
                let (first, later) = runs_of_keep(&store.contract, &store.history);
                store.note(Notice::KeepCosts { first, later, run });
            }
            store.note_noise();
        }
        self.shared.publish()
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

/// Takes the lock of the session, or goes on with the one that this process has.
fn lock_of(plan: &mut Plan, tree: TreeOwner) -> Result<OwnerLock, SessionError> {
    if let Some(mut lock) = plan.lock.take() {
        // What this process was asked before still holds.
        plan.folder.lock_again(&mut lock)?;
        return Ok(lock);
    }
    let lock = plan.folder.lock(plan.repo.git_dir(), tree.has_user())?;
    plan.folder.drop_old_stop_request(&lock);
    Ok(lock)
}
