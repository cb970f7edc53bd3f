//! The checks on a change: before it runs, on what its run left, on files that change while the run is active, and the
//! guards, commands that must pass before it is kept.

use std::path::{Path, PathBuf};

use super::{
    Attempted, MeasuredChange, RunningChange, Stage, await_files, is_tree_lost, metric_file_of, restore_after,
    roll_back, roll_back_version,
};
use crate::domain::{
    Actor, CommitId, Event, ExperimentId, Failure, FailureClass, Fingerprint, GuardRun, Notice, Outcome, Phase, Record,
    bytes_text,
};
use crate::exec::{ExecError, Executor, Exit, Job};
use crate::fs::{read_regular, read_tail, write_unsynced};
use crate::git::{ChangeKind, ChangedPath, Diff, EntryKind, Stored, TooLarge, TreeStamps, WorktreeSnapshot};
use crate::machine::{Attempt, AttemptHead, MOST_EVICTIONS, Made};
use crate::measure::{EXCERPT_LINES, last_lines};
use crate::rules::{
    Disturbance, FileEdit, FileTerms, Forbidden, LARGEST_ADDED, LOST_RETRIES, RunFound, WalledRole, fingerprint,
    is_same_change, measured_before,
};
use crate::score::source_id;
use crate::session::errors::SessionError;
use crate::session::files::{SETTINGS_FILE, is_own, refuse_spoilt, remove_file};
use crate::session::handlers::{TreeFact, Workspace, name_of};
use crate::session::store::{Interrupt, Store, TREE_BEFORE, clear_run_folder, guard_name, run_variables};
use crate::session::wait::{Deadline, Exited, SessionContext, WaitEnd, Waiter};
use crate::{crash, exec};

impl Workspace {
    /// Makes a commit the change of an attempt, with what tells it from others and, where that is so, why it is not run. Files
    /// that are `too_large` and what else was `found` are no part of the commit.
    pub(crate) fn check(
        &self,
        store: &Store,
        head: AttemptHead,
        commit: CommitId,
        too_large: &[TooLarge],
        found: &Forbidden,
    ) -> Result<Made, SessionError> {
        let diff = store.repo.objects.diff_text(&head.base, &commit)?;
        let change = fingerprint(store.repo.objects.tree_of(&commit)?, &diff);
        let edits = edits(store, &self.file_terms, &head.base, &commit)?;
        let mut found = found.clone();
        found.protected.extend(self.taken_ids(store, &commit, &edits)?);
        found.protected.extend(self.dropped_imports(store, &commit, &edits)?);
        let refused = match self.file_terms.refuse(&edits, &found) {
            None if !too_large.is_empty() => {
                let lines =
                    too_large.iter().map(|file| format!("{} has {}", file.path.display(), bytes_text(file.size)));
                Some(Failure::new(FailureClass::TooLarge, lines.collect::<Vec<_>>().join("\n")))
            }
            // One that comes so far was asked for another direction before.
            None if head.versions.is_empty()
                && let Some(direction) = repeated_direction(store, head.direction.as_deref()) =>
            {
                Some(Failure::new(FailureClass::Repeated, direction))
            }
            None if !store.contract.allow_repeats => {
                let measured = measured_before(&store.history, &change, &head.base);
                let measured = measured.map(|it| format!("experiment {}, {}: {}", it.id, it.outcome, it.reason));
                let excerpt = measured.or_else(|| {
                    let other = open_elsewhere(store, head.id, &change, &head.base)?;
                    Some(format!("experiment {other}, which is open"))
                });
                excerpt.map(|excerpt| Failure::new(FailureClass::Duplicate, excerpt))
            }
            refused => refused,
        };
        Ok(Made { head, commit, fingerprint: Some(change), refused, ..Made::default() })
    }

    /// The Python files of a change that no longer import what they imported from protected files at the start, each with
    /// the reason to refuse it.
    fn dropped_imports(&self, store: &Store, at: &CommitId, edits: &[FileEdit]) -> Result<Vec<String>, SessionError> {
        let mut dropped = Vec::new();
        let is_checked =
            |path: &&PathBuf| !store.contract.allow_import_changes && path.extension() == Some("py".as_ref());
        for path in edits.iter().map(|edit| &edit.path).filter(is_checked) {
            let read = |commit| store.repo.objects.read_at(commit, path, LARGEST_ADDED);
            if let (Stored::File(before), Stored::File(now)) = (read(&store.contract.start)?, read(at)?) {
                let [before, now] = [before, now].map(|text| String::from_utf8_lossy(&text).into_owned());
                dropped.extend(self.file_terms.refuse_imports(path, &before, &now));
            }
        }
        Ok(dropped)
    }

    /// The new sources of a change whose id another source has, each with the reason to refuse it: neither could be cited, and
    /// a stored source is never removed.
    fn taken_ids(&self, store: &Store, commit: &CommitId, edits: &[FileEdit]) -> Result<Vec<String>, SessionError> {
        let Some(folder) = self.file_terms.sources() else { return Ok(Vec::new()) };
        let stored = store.repo.objects.files_below(commit, folder)?;
        let new = edits.iter().filter(|edit| edit.is_new && edit.path.starts_with(folder));
        let taken = new.filter_map(|edit| {
            let id = source_id(&edit.path)?;
            let other = stored.iter().find(|path| **path != edit.path && source_id(path).as_ref() == Some(&id))?;
            let (path, other) = (edit.path.display(), other.display());
            Some(format!("{path} has the id of {other}; give it another name"))
        });
        Ok(taken.collect())
    }

    /// The tracked files that are no longer as the commit has them that was checked out, with the look at the tree unless
    /// something else is checked out.
    pub(crate) fn changed_meanwhile(
        &self,
        commit: &CommitId,
    ) -> Result<(Vec<PathBuf>, Option<WorktreeSnapshot>), SessionError> {
        if self.repo.refs.head()?.commit() != Some(commit) {
            // Somebody has checked something else out.
            let change = self.repo.working_tree.propose(commit, &self.known_untracked()?)?;
            let tracked = change.paths().iter().filter(|changed| changed.kind != ChangeKind::Added);
            return Ok((tracked.map(|changed| changed.path.clone()).collect(), None));
        }
        let look = self.repo.working_tree.look()?;
        let changes = self.repo.working_tree.changes_seen(&look)?;
        Ok((changes.tracked_paths(), Some(look)))
    }
}

/// Checks a change again that another process has checked: who can write into the journal can take away that it was refused.
/// Returns the change if it is refused now.
pub(crate) fn check_again(
    store: &mut Store,
    terms: &FileTerms,
    attempt: &Attempt,
) -> Result<Option<Made>, SessionError> {
    let Some(made) = attempt.made().filter(|made| made.refused.is_none() && !made.head.id.is_baseline()) else {
        return Ok(None);
    };
    // The other terms may have changed since.
    let is_fixed = |failure: &Failure| matches!(failure.class, FailureClass::Protected | FailureClass::Scope);
    let edits = edits(store, terms, &made.head.base, &made.commit)?;
    let Some(refused) = terms.refuse(&edits, &Forbidden::default()).filter(is_fixed) else { return Ok(None) };
    store.note(Notice::NotToRun { id: made.head.id, why: refused.excerpt.replace('\n', ", ") });
    Ok(Some(Made { refused: Some(refused), ..made.clone() }))
}

/// The direction that a change names although it was tried and a new one was asked for.
pub(crate) fn repeated_direction(store: &Store, direction: Option<&str>) -> Option<String> {
    store.journal.ladder.repeated_direction(&store.history, direction)
}

/// The attempt that is open beside this one with the same change.
fn open_elsewhere(store: &Store, id: ExperimentId, change: &Fingerprint, base: &CommitId) -> Option<ExperimentId> {
    let mut others = store.journal.attempts().filter_map(Attempt::made).filter(|other| other.head.id != id);
    let is_same = |other: &&Made| {
        other.fingerprint.as_ref().is_some_and(|known| is_same_change((known, &other.head.base), (change, base)))
    };
    others.find(is_same).map(|other| other.head.id)
}

/// The files that change from `base` to `commit`.
pub(crate) fn edits(
    store: &Store,
    terms: &FileTerms,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Vec<FileEdit>, SessionError> {
    let is_read = terms.counts_lines() || terms.counts_totals();
    let diff = is_read.then(|| store.repo.objects.diff(base, commit)).transpose()?;
    let counted = diff.as_ref().filter(|_| terms.counts_lines()).map(Diff::file_stats).unwrap_or_default();
    let lines = |path: &Path| {
        let stat = counted.iter().find(|(counted, _)| counted == path);
        stat.map_or(0, |(_, stat)| stat.added.saturating_add(stat.deleted))
    };
    let totals = diff.as_ref().map(Diff::file_totals).unwrap_or_default();
    let total = |path: &Path| totals.iter().find(|(known, _)| known == path).map_or(0, |(_, total)| *total);
    let changed = store.repo.objects.changed_between(base, commit)?;
    let edits = changed.into_iter().map(|ChangedPath { path, kind, entry, size }| FileEdit {
        lines: lines(&path),
        total: total(&path),
        path,
        is_new: kind == ChangeKind::Added,
        is_opaque: kind != ChangeKind::Deleted && entry != EntryKind::File,
        size,
    });
    Ok(edits.collect())
}

impl Workspace {
    /// Prepares the tree just before a run of `commit`: removes what earlier runs left in a slot, and restores protected files.
    pub(crate) fn make_ready(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        if self.owner.is_disposable() {
            self.clear_slot(store)?;
        }
        if let Some(file) = metric_file_of(&store.contract) {
            self.clear_folder_at(store, id, commit, &file)?;
        }
        self.restore_protected(store, id, commit)
    }

    /// Compares the tree after a run with the tree before it. The run has failed where protected files are not as they were.
    pub(crate) fn compare_after_run(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
        failure: &mut Option<Failure>,
    ) -> Result<Disturbance, SessionError> {
        let touched = self.protected_touched(store);
        if let Some(protected) = self.check_protected(store, id, commit, Actor::Run)? {
            *failure = Some(protected);
        }
        let mut changed = self.changed_during_run(store, commit)?;
        self.settle_settings(store)?;
        if is_changed(failure.as_ref()) {
            changed.extend(metric_file_of(&store.contract));
        }
        Ok(Disturbance { changed, touched })
    }

    /// Notes, just before a run starts, what the file system says of all tracked files, unless it was read after the call; also
    /// in `folder`, if the run outlives this process.
    pub(crate) fn note_tree(
        &mut self,
        store: &Store,
        commit: &CommitId,
        folder: Option<&Path>,
    ) -> Result<(), SessionError> {
        let before = match self.after_call.take().and_then(|stamps| stamps.if_current(store)) {
            Some(before) => before,
            None => self.repo.working_tree.tracked_stamps(commit)?,
        };
        if let Some(path) = folder.map(|folder| folder.join(TREE_BEFORE)) {
            // After a power cut no run is left to compare with it.
            write_unsynced(&path, &before.to_bytes())?;
        }
        self.tree_before = Some(before);
        Ok(())
    }

    /// Reads what another process noted before the run in `folder`; nothing where that is lost.
    pub(crate) fn recall_tree(&mut self, folder: &Path) {
        let noted = read_regular(&folder.join(TREE_BEFORE)).ok();
        self.tree_before = noted.and_then(|bytes| TreeStamps::parse(&bytes));
    }

    /// Returns the tracked files that changed during the run, even if they were changed back. Omits `ar`'s own files and the
    /// settings.
    fn changed_during_run(&mut self, store: &Store, commit: &CommitId) -> Result<Vec<PathBuf>, SessionError> {
        let (mut changed, look) = self.changed_meanwhile(commit)?;
        if let Some(before) = self.tree_before.take() {
            changed.extend(self.repo.working_tree.touched_since(&before, look.as_ref())?);
        }
        self.look = look.map(|look| TreeFact::now(store, look));
        // The user may edit the settings at any time.
        changed.retain(|path| !is_own(path) && path != Path::new(SETTINGS_FILE));
        Ok(changed)
    }
}

impl RunningChange {
    /// Leaves out files that the baseline's run changed as well: they count for no later run. Neither do lock files of a
    /// project that was changed since the start. Names those that the baseline's first run changes.
    pub(crate) fn counted(
        &self,
        store: &mut Store,
        terms: &FileTerms,
        disturbance: Disturbance,
    ) -> Result<Disturbance, SessionError> {
        let exempt = store.history.baseline().map(|baseline| &baseline.conditions.changed_while_running);
        let is_lock = disturbance.paths().iter().any(|path| terms.project_of_lock(path).is_some());
        let objects = &store.repo.objects;
        let since_start = match is_lock {
            true => objects.changed_between(&store.contract.start, &self.made.commit)?,
            false => Vec::new(),
        };
        let follows = |path: &Path| {
            terms.project_of_lock(path).is_some_and(|project| since_start.iter().any(|edit| edit.path == project))
        };
        let counted =
            disturbance.without(|path| exempt.is_some_and(|exempt| exempt.contains(&name_of(path))) || follows(path));
        let changed = counted.paths();
        if self.id().is_baseline() && self.run.is_first() && !changed.is_empty() {
            store.note(Notice::ExemptChanged(changed));
        }
        Ok(counted)
    }
}

/// Returns whether a run has no value because its metric file changed afterwards.
pub(crate) fn is_changed(failure: Option<&Failure>) -> bool {
    failure.is_some_and(|failure| failure.class == FailureClass::Changed)
}

/// The reason and the failure that are recorded for a change whose guard failed.
fn refused_by(guard: &GuardRun, draft: &Record) -> (String, Failure) {
    let reason = format!("{}, but the guard `{}` failed ({})", draft.reason, guard.command, guard.ended());
    (reason, Failure::new(FailureClass::GuardFailed, guard.excerpt.clone()))
}

impl MeasuredChange {
    /// Runs the remaining guards on the experiment, whose number would be kept.
    pub(crate) async fn guard(
        mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Stage, SessionError> {
        match self.run_guards(workspace, shared, deadline).await? {
            WaitEnd::Done(()) | WaitEnd::Lost => self.after_guards(workspace, shared),
            WaitEnd::Detached => Ok(Stage::Over(Attempted::StillRunning)),
            WaitEnd::Interrupted if self.draft.made.head.versions.is_empty() => {
                roll_back(&self.draft.made, workspace, &mut shared.store(), "was interrupted")?;
                Ok(Stage::Over(Attempted::RolledBack))
            }
            WaitEnd::Interrupted if roll_back_version(&self.draft.made, workspace, &mut shared.store())? => {
                Ok(Stage::Over(Attempted::RolledBack))
            }
            WaitEnd::Interrupted => {
                // The measurements of its earlier versions must not be lost.
                self.draft.record.outcome = Outcome::Discard;
                self.draft.record.reason += "; its guards were interrupted";
                self.record(workspace, &mut shared.store())
            }
        }
    }

    /// Runs the guards that the record does not contain, in order, up to one that fails or is lost too often. The record then
    /// contains the consequence for the change.
    pub(crate) async fn run_guards(
        &mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<()>, SessionError> {
        let commands = shared.store().contract.guards.clone();
        if commands.is_empty() {
            return Ok(WaitEnd::Done(()));
        }
        if self.phase != Phase::Guarding {
            // Results from before would be taken for theirs.
            (1..=commands.len()).try_for_each(|number| self.forget_guard(&shared.store(), number))?;
            self.enter(&mut shared.store(), Attempt::Guard)?;
            crash::point("guarding.entered");
        }
        let (mut lost, mut evicted) = (0, 0);
        while let Some(command) = commands.get(self.draft.record.proof.guards.len())
            && self.draft.record.proof.guards.last().is_none_or(|guard| guard.passed)
        {
            let number = self.draft.record.proof.guards.len() + 1;
            let exit = match self.wait_for_guard(workspace, shared, number, command, deadline).await? {
                WaitEnd::Done(Err(ExecError::NoWall { detail, .. })) if lost < LOST_RETRIES => {
                    lost += 1;
                    shared.store().note(Notice::NotStarted { id: self.id(), why: detail });
                    self.forget_guard(&shared.store(), number)?;
                    continue;
                }
                WaitEnd::Done(Err(error @ ExecError::Evicted { .. })) if evicted < MOST_EVICTIONS => {
                    evicted += 1;
                    shared.store().note(Notice::Evicted { id: self.id(), why: error.to_string() });
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
                    let record = &mut self.draft.record;
                    record.outcome = Outcome::Discard;
                    record.reason += &format!(", but the guard `{command}` was lost {} times", lost + 1);
                    record.failure = Some(Failure::new(FailureClass::Lost, ""));
                    return Ok(WaitEnd::Lost);
                }
            };
            crash::point("guarding.guard_over");
            lost = 0;
            let guard = self.judge_guard(workspace, &mut shared.store(), number, command, &exit)?;
            shared.emit(Event::GuardFinished { id: self.id(), guard: guard.clone() })?;
            self.draft.record.proof.guards.push(guard);
            // Made by this one, in the name of the next. It is no guard's as long as the journal has not this one's.
            self.forget_guard(&shared.store(), number + 1)?;
            self.enter(&mut shared.store(), Attempt::Guard)?;
            crash::point("guarding.guard_noted");
        }
        let record = &mut self.draft.record;
        if let Some(guard) = record.proof.guards.last().filter(|guard| !guard.passed) {
            let (reason, failure) = refused_by(guard, record);
            (record.outcome, record.reason, record.failure) = (Outcome::Discard, reason, Some(failure));
        }
        Ok(WaitEnd::Done(()))
    }

    /// Starts a guard unless it is active or finished, and waits for it.
    async fn wait_for_guard(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        number: usize,
        command: &str,
        deadline: Deadline,
    ) -> Result<WaitEnd<Exited>, SessionError> {
        let folder = shared.store().folder.create_run(self.id())?;
        let name = guard_name(number);
        await_files(shared, self.id(), &name).await;
        let mut job = match shared.runs.found(&folder, &name) {
            RunFound::Pending | RunFound::Going | RunFound::Over => {
                shared.store().begin_detection(Actor::Guard, self.id())?;
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
            restore_after(shared, self.id(), &name).await?;
        }
        // One that fails may have missed what somebody is deleting at this moment.
        let has_failed = matches!(&ended, WaitEnd::Done(Ok(exit)) if exit.exit != Some(0));
        let is_vanishing =
            has_failed && workspace.owner.is_disposable() && workspace.is_vanishing(self.commit()).await?;
        if ended.is_over() && (is_vanishing || is_tree_lost(workspace)) {
            let store = &mut *shared.store();
            self.forget_next_guard(store)?;
            workspace.check_out_again(store, self.commit())?;
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
        let commit = self.commit().clone();
        workspace.restore_protected(store, self.id(), &commit)?;
        // A guard judges the change, without what its run or an earlier guard wrote.
        workspace.check_out(store, &self.draft.made)?;
        workspace.restore_tracked_protected(store, self.id(), &commit)?;
        let name = guard_name(number);
        clear_run_folder(&store.folder, self.id(), store.contract.guards.len(), &mut store.notices)?;
        let log = folder.join(format!("{name}.log"));
        remove_file(&log)?;
        store.begin_detection(Actor::Guard, self.id())?;
        let job = executor.start(&Job {
            name,
            command: command.to_owned(),
            cwd: workspace.root().to_owned(),
            env: workspace.with_variables(run_variables(
                command,
                &store.contract.tag,
                self.id(),
                self.commit(),
                &store.folder.state(),
                folder,
            )),
            folder: folder.to_owned(),
            log,
            timeout: store.contract.timeout,
            grace: store.contract.grace,
            // No command that may write the log: it is the run's.
            wall: workspace.wall(store, folder, "", &WalledRole::Run),
            ..Job::default()
        })?;
        let timeout = store.contract.timeout.as_secs_f64();
        store.note(Event::GuardStarted { id: self.id(), command: command.to_owned(), timeout });
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
        let log = read_tail(&store.folder.run(self.id()).join(format!("{}.log", guard_name(number))), 0)?;
        let mut excerpt = last_lines(&log, EXCERPT_LINES);
        let changed = workspace.check_protected(store, self.id(), self.commit(), Actor::Guard)?;
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

    /// Removes the results of the guard that is next, so that it runs again.
    pub(crate) fn forget_next_guard(&self, store: &Store) -> Result<(), SessionError> {
        self.forget_guard(store, self.draft.record.proof.guards.len() + 1)
    }

    /// Removes the files of a finished guard, so that it runs again.
    fn forget_guard(&self, store: &Store, number: usize) -> Result<(), SessionError> {
        let name = guard_name(number);
        let folder = store.folder.run(self.id());
        ["exit.json", "started.json", "job.json"]
            .iter()
            .try_for_each(|kind| remove_file(&folder.join(format!("{name}.{kind}"))))
    }
}
