//! Steps before the first call of the agent: opening the session, finishing attempts of an earlier invocation, measuring the
//! baseline.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures_util::future::join;
use serde_json::json;

use super::baseline_repeats::{check_baseline, forget_repeats, repeat_in_first_slot, repeat_in_other_slots};
use super::session::Session;
use crate::agent::{Proposal, task_spec};
use crate::crash;
use crate::domain::{
    Contract, ExperimentId, FailureClass, Gpu, GpuOther, Layout, Outcome, Phase, Record, RunRole, Trouble, list,
};
use crate::exec::{GpuHolder, GpuLocks, OpensWatch, boot_id, host_name};
use crate::fs::remove_left_over;
use crate::git::{Repo, Untracked};
use crate::ledger::LedgerFile;
use crate::machine::{Attempt, AttemptHead, Made, OpenRun, Origin};
use crate::rules::{
    FileTerms, Forbidden, GpuSlot, HiddenBook, History, Measurement, Night, RunFound, axes_without_number,
    baseline_runs, baseline_with, describe_failure, is_confirmed, may_be_code, refuse_incomparable,
};
use crate::session::attempt::{
    Attempted, RunningChange, Stage, await_files, end_first_jobs, end_further_runs, end_jobs,
};
use crate::session::errors::{CannotStart, FailedBaseline, SessionError, TryError, refuse};
use crate::session::files::{
    INDEX_BEFORE, exclude_own, exclude_pattern, expected_tip, read_history, refuse_elsewhere, remove_file, takes_seed,
};
use crate::session::handlers::{SETTINGS_BEFORE, SlotSetup};
use crate::session::plan::{Drive, Plan, Surveyed, entered_night, leave_former_branch};
use crate::session::store::{
    Interrupts, RUN, Store, contradiction, guard_name, is_being_replaced, job_of, journal_of_remains,
    require_hidden_baseline, run_name, trouble_text,
};
use crate::session::wait::{Alerted, Deadline, WaitEnd, guardian_lines, interval_of, report_unopened};
use crate::state::{
    Aside, CARRIED, HIDDEN, HiddenFile, Journal, Memory, Opener, OwnerLock, PROGRESS, PROGRESS_COPIES, PROTECTED,
    SEE_DOCTOR, SESSIONS_FOLDER, UNTRACKED, read_json,
};

impl Session<'_> {
    /// Finishes what is open, measures the baseline if there is none, and adopts a change if asked to.
    ///
    /// # Errors
    ///
    /// The user's change was refused, and the rest of it stays in the working tree: an agent's change would contain it.
    pub(crate) async fn begin(&mut self, drive: Drive) -> Result<Attempted, SessionError> {
        let (next_sequence, open_id, phase) = {
            let store = self.shared.store();
            let (open_id, phase) = store.journal.first().map(|first| (first.id(), first.phase())).unzip();
            (store.history.next_sequence(), open_id, phase)
        };
        let attempted = self.begin_with(drive, phase).await?;
        let store = self.shared.store.get_mut();
        let is_new = |record: &&Record| record.sequence() >= next_sequence || Some(record.id) == open_id;
        let newest = store.history.records().last().filter(is_new);
        let is_refused = |record: &&Record| record.failure.as_ref().is_some_and(|failure| failure.class.is_refusal());
        if let Some(refused) = newest.filter(is_refused)
            && self.workspace.owner.has_user()
        {
            let tracked = self.workspace.repo.working_tree.changes()?.tracked;
            let left: Vec<PathBuf> = tracked.into_iter().map(|(path, _)| path).collect();
            if !left.is_empty() {
                return Err(TryError::RefusedStays { tag: store.contract.tag.clone(), id: refused.id, left }.into());
            }
        }
        Ok(attempted)
    }

    /// Does so; `open` is the step of the attempt that was opened first, if any is open.
    async fn begin_with(&mut self, drive: Drive, open: Option<Phase>) -> Result<Attempted, SessionError> {
        self.end_unseen().await?;
        // The loop itself picks up attempts on slots and interrupted calls.
        let is_first = |phase: &Phase| drive.adopts() || *phase != Phase::Proposing;
        if !self.workspace.owner.is_one_of_many() && open.as_ref().is_some_and(is_first) {
            match self.finish_open(None).await? {
                None | Some(Attempted::Recorded) => {}
                Some(attempted) => return Ok(attempted),
            }
        }
        if drive.adopts() {
            let store = self.shared.store.get_mut();
            let tip = store.repo.refs.branch(&store.contract.tag.branch_ref())?;
            if store.history.baseline().is_some() && tip.is_some_and(|tip| tip != store.tip()) {
                let attempt = self.commit_working_tree(Proposal::default())?;
                return self.finish(attempt, None).await;
            }
            self.workspace.set_aside(self.shared.store.get_mut(), Proposal::default())?;
        }
        self.first_try(None).await
    }

    /// The baseline, if there is none, and then the change that was set aside for it.
    pub(crate) async fn first_try(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        if self.shared.store().history.baseline().is_none() {
            let measured = self.measure_baseline(deadline).await?;
            if measured != Attempted::Recorded {
                return Ok(measured);
            }
        }
        let store = self.shared.store.get_mut();
        leave_former_branch(&store.repo, &store.contract)?;
        self.attempt_aside(deadline).await
    }

    /// Ends a run that nothing tells of, since the journal was lost.
    pub(crate) async fn end_unseen(&mut self) -> Result<(), SessionError> {
        if !self.shared.store().journal.presence.is_unseen() {
            return Ok(());
        }
        let next = self.shared.store().history.next_id();
        end_jobs(&self.shared, next).await?;
        let store = self.shared.store.get_mut();
        store.journal.presence.see();
        store.write_journal()
    }

    /// Measures the baseline, or continues to measure it. A baseline without a number cancels the session: a misspelt metric
    /// must not become part of an approved contract.
    async fn measure_baseline(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let open = self.shared.store().journal.attempts.open.first().cloned();
        let stage = match open {
            Some(left) => {
                let (made, job) = (left.attempt.made().cloned(), job_of(&left));
                await_files(&self.shared, left.attempt.id(), &job).await;
                if let Some(made) = made.filter(|_| !self.baseline_run().is_there()) {
                    end_first_jobs(&self.shared, ExperimentId::BASELINE).await?;
                    self.workspace.check_out(self.shared.store.get_mut(), &made)?;
                }
                Stage::of(left)
            }
            None => {
                let store = self.shared.store.get_mut();
                self.workspace.clear_aside(store)?;
                let start = store.contract.start.clone();
                if self.workspace.owner.is_disposable() {
                    // Processes that were killed may have left it half made.
                    self.workspace.switch_to(store, &start)?;
                }
                let head = AttemptHead::new(ExperimentId::BASELINE, start.clone(), store.now());
                let mut head = AttemptHead { description: "baseline".into(), ..head };
                head.beside.slot = self.workspace.owner.is_one_of_many().then_some(0);
                Stage::Run(RunningChange::new(Made { head, commit: start, ..Made::default() }))
            }
        };
        let stage = match stage {
            Stage::Run(mut change) => {
                change.made.before = None;
                self.run_baseline(change, deadline).await?
            }
            stage => stage,
        };
        let mut baseline = match stage {
            Stage::Guard(baseline) => baseline,
            Stage::Over(attempted) => return Ok(attempted),
            Stage::Run(_) | Stage::Confirm(_) | Stage::Review(_) => return Ok(Attempted::Waiting),
        };
        match baseline.run_guards(&mut self.workspace, &self.shared, deadline).await? {
            WaitEnd::Done(()) | WaitEnd::Lost => {}
            WaitEnd::Detached => return Ok(Attempted::StillRunning),
            WaitEnd::Interrupted => {
                self.roll_back()?;
                return Ok(Attempted::RolledBack);
            }
        }
        let record = &mut baseline.draft.record;
        if record.failure.is_some() {
            let refused = record.proof.guards.last().filter(|guard| !guard.passed);
            // One that was lost is not among them.
            let number = record.proof.guards.len() + usize::from(refused.is_none());
            if let Some(guard) = refused {
                record.reason = format!("the guard `{}` failed ({})", guard.command, guard.ended());
            }
            let log = format!("{}.log", guard_name(number));
            return Err(self.refuse_baseline(*baseline.draft.record, &log, Vec::new(), Vec::new()));
        }
        let store = self.shared.store.get_mut();
        record.conditions.ignores_seeds =
            !takes_seed(&store.repo, Some(&store.contract.start), Some(&store.contract.command));
        // The contract travels with the refs.
        record.unknown_fields.insert("contract".into(), json!(store.contract));
        baseline.record(&mut self.workspace, store)?;
        self.shared.publish()?;
        Ok(Attempted::Recorded)
    }

    /// The run of the baseline as it is found.
    fn baseline_run(&self) -> RunFound {
        self.shared.runs.found(&self.shared.store().folder.run(ExperimentId::BASELINE), RUN)
    }

    /// Prepares the run of the baseline, unless it goes on or is over.
    async fn prepare_baseline(&mut self, attempt: &mut RunningChange) -> Result<(), SessionError> {
        let is_entered = attempt.run.starts > 0 && attempt.phase != Phase::Committing;
        if attempt.run.starts == 0 {
            forget_repeats(&self.shared).await?;
        }
        if !is_entered || self.baseline_run() == RunFound::Gone {
            attempt.prepare_run(&self.workspace, self.shared.store.get_mut())?;
        }
        Ok(())
    }

    /// Ends the further runs of the baseline, and rolls the session back.
    async fn roll_back_runs(&mut self) -> Result<Stage, SessionError> {
        end_further_runs(&self.shared, ExperimentId::BASELINE).await?;
        self.roll_back()?;
        Ok(Stage::Over(Attempted::RolledBack))
    }

    /// Waits for the run of the baseline, which is started if it was not, and drafts its record, for its guards to follow.
    async fn run_baseline(&mut self, mut attempt: RunningChange, deadline: Deadline) -> Result<Stage, SessionError> {
        self.prepare_baseline(&mut attempt).await?;
        let (terms, first) = (self.workspace.file_terms.clone(), attempt.made.clone());
        let is_over = self.baseline_run() == RunFound::Over;
        let opens = if is_over || self.workspace.owner.has_user() { None } else { watch_opens(&self.shared.store())? };
        let most = {
            let store = self.shared.store();
            baseline_runs(&store.contract, store.journal.layout.as_ref().map(|layout| layout.slots))
        };
        let beside = repeat_in_other_slots(&self.shared, &terms, &first, most, !is_over);
        let (measured, beside) = join(attempt.measured(&mut self.workspace, &self.shared, deadline), beside).await;
        let measured = match measured? {
            WaitEnd::Done(measured) => *measured,
            WaitEnd::Lost => Measurement::lost(attempt.run.tries()),
            WaitEnd::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
            WaitEnd::Interrupted => return self.roll_back_runs().await,
        };
        // List printed names only if the metric is missing: in other failed runs, apparent values are parts of error
        // messages.
        let misnamed = measured.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::NoMetric);
        let printed = if misnamed { measured.metrics.names().cloned().collect() } else { Vec::new() };
        self.shared.note_environment(attempt.id()).await;
        let artifacts = match measured.failure {
            None => attempt.set_artifacts_aside(&mut self.workspace, &self.shared).await?,
            Some(_) => Some(Vec::new()),
        };
        let Some(artifacts) = artifacts else { return Ok(Stage::Over(Attempted::StillRunning)) };
        let opened = self.opened_again(opens.map(OpensWatch::finish).unwrap_or_default(), &terms, &first).await?;
        if let Some(refused) = refuse_opened(&opened) {
            self.roll_back()?;
            return Err(refused);
        }
        let mut beside = beside?;
        if measured.failure.is_none() {
            match repeat_in_first_slot(&mut self.workspace, &self.shared, &first, most).await? {
                WaitEnd::Done(more) => beside.extend(more),
                WaitEnd::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                WaitEnd::Interrupted | WaitEnd::Lost => return self.roll_back_runs().await,
            }
        }
        beside.sort_by_key(|(number, _)| *number);
        let environment = self.shared.environment();
        let store = self.shared.store.get_mut();
        let unmet = measured.unmet_limits(&store.contract);
        let changed = measured.changed();
        let mut baseline = attempt.judge(&self.workspace, store, measured, environment)?;
        let record = &mut *baseline.draft.record;
        if record.outcome == Outcome::Crash {
            return Err(self.refuse_baseline(*baseline.draft.record, "run.log", printed, changed));
        }
        if let Err(refused) = refuse_incomparable(&store.contract, Some(record)) {
            self.roll_back()?;
            return Err(refused.into());
        }
        record.give_artifacts(artifacts, attempt.artifacts_run());
        if let Err((log, changed)) = add_repeats(record, store, beside, &changed) {
            return Err(self.refuse_baseline(*baseline.draft.record, &log, Vec::new(), changed));
        }
        if !unmet.is_empty() {
            store.note(format!("the baseline itself breaks the limits: {}", unmet.join(", ")));
        }
        store.journal.enter_run(attempt.id(), &attempt.run);
        Ok(Stage::Guard(baseline))
    }

    /// Reruns the baseline without counting it. Returns those of the opened files that were opened again: an editor, git or
    /// another session opens files too, but hardly the same ones twice.
    async fn opened_again(
        &self,
        opened: Vec<PathBuf>,
        terms: &FileTerms,
        first: &Made,
    ) -> Result<Vec<PathBuf>, SessionError> {
        if opened.is_empty() {
            return Ok(opened);
        }
        let watch = OpensWatch::start(self.shared.store().repo.worktree(), &opened);
        check_baseline(&self.shared, terms, first).await?;
        Ok(watch.map(OpensWatch::finish).unwrap_or_default())
    }

    /// Takes the session back because of its baseline, whose `log` tells more; `printed` are the names that it printed, and
    /// `changed` the files that it changed.
    fn refuse_baseline(
        &mut self,
        record: Record,
        log: &str,
        printed: Vec<String>,
        changed: Vec<PathBuf>,
    ) -> SessionError {
        if let Err(error) = self.roll_back() {
            return error;
        }
        let store = self.shared.store.get_mut();
        let missing = axes_without_number(&store.contract, record.failure.as_ref(), &record.metrics);
        SessionError::Baseline(Box::new(FailedBaseline {
            class: record.failure.as_ref().map(|failure| failure.class),
            metric: store.contract.metric.name.clone(),
            reason: record.reason,
            read_from: store.contract.metric.source.clone(),
            printed,
            changed,
            missing: missing.into_iter().map(str::to_owned).collect(),
            log: store.folder.run(ExperimentId::BASELINE).join(log),
            excerpt: record.failure.map(|failure| failure.excerpt).unwrap_or_default(),
        }))
    }

    /// Takes the opening of the session back, with everything as it was before: also a change that was taken out of the
    /// working tree is there again, staged.
    pub(crate) fn roll_back(&mut self) -> Result<(), SessionError> {
        let store = self.shared.store.get_mut();
        let start = store.contract.start.clone();
        let left = store.journal.left_in_tree(&start).cloned();
        // Without a run, only the user has touched the working tree.
        if let Some(left) = left {
            self.workspace.restore(store, &start, &left)?;
        }
        self.workspace.take_out(store)?;
        self.abandon()
    }

    /// Makes the change that was set aside, if there is one, the next experiment.
    async fn attempt_aside(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let store = self.shared.store.get_mut();
        let Some(aside) = store.journal.adopt_aside() else { return Ok(Attempted::Recorded) };
        let Aside { commit, description, direction, proposal, .. } = aside;
        let origin = Origin::Person { replaces: None };
        let head = AttemptHead::new(store.allocate(), store.tip(), store.now());
        let head = AttemptHead { description, direction, proposal, origin, ..head };
        let made = self.workspace.check(store, head, commit, &[], &Forbidden::default())?;
        remove_file(&store.folder.state().join(INDEX_BEFORE))?;
        crash::point("aside.index_forgotten");
        let mut change = RunningChange::new(made);
        change.enter(store, Attempt::Ready)?;
        crash::point("aside.opened");
        self.workspace.check_out(store, &change.made)?;
        crash::point("aside.checked_out");
        change.prepare_run(&self.workspace, store)?;
        self.finish(change, deadline).await
    }
}

/// Watches which code of the user's working tree is opened while the baseline runs in other trees.
fn watch_opens(store: &Store) -> Result<Option<OpensWatch>, SessionError> {
    let files = store.repo.objects.files_at(&store.contract.start, may_be_code)?;
    // If the system provides no watch, the other checks must suffice.
    Ok(OpensWatch::start(store.repo.worktree(), &files).ok())
}

/// Has commits signed as the terms say. Refuses a loop or a start whose commits could not be.
pub(super) fn prepare_signing(plan: &Plan) -> Result<(), SessionError> {
    if plan.contract.no_sign {
        plan.repo.objects.sign_nothing();
    } else if matches!(plan.drive, Drive::Loop { .. }) || !plan.continued {
        plan.repo.objects.check_signing()?;
    }
    Ok(())
}

/// Has git ignore `ar`'s own files, and those that are no part of any change.
pub(super) fn exclude_files(repo: &Repo, ledger: &LedgerFile, left_out: &[PathBuf]) -> Result<(), SessionError> {
    exclude_own(repo, &[ledger.name()])?;
    let left_out: Vec<String> = left_out.iter().filter_map(|file| exclude_pattern(file, repo.worktree())).collect();
    if fs::symlink_metadata(repo.main_worktree().join(SESSIONS_FOLDER)).is_ok_and(|own| own.is_symlink()) {
        // A `dir/` pattern does not match a symlink.
        repo.exclude(&["/.autoresearch"])?;
    }
    Ok(repo.exclude(&left_out.iter().map(String::as_str).collect::<Vec<_>>())?)
}

/// Adds further runs to the record of the baseline, of whose first run these files `changed`. Where one of them failed, the record
/// says so; gives the log of that one, and the files that changed during it.
fn add_repeats(
    record: &mut Record,
    store: &Store,
    beside: Vec<(u32, Measurement)>,
    changed: &[PathBuf],
) -> Result<(), (String, Vec<PathBuf>)> {
    let mut results = Vec::new();
    let first = record.metric.number();
    for (number, mut measured) in beside {
        if let (Some(value), Some(first)) = (&mut measured.value, &first)
            && let Some(like) = value.like(first)
        {
            *value = like;
        }
        // Files that the counted run changes too are the command's own doing.
        let disturbance = measured.disturbance.clone().without(|path| changed.iter().any(|known| known == path));
        if let Some(failure) = measured.failure.clone().or_else(|| disturbance.failure()) {
            let ended = &measured.ended;
            let why = match failure.class {
                FailureClass::Changed | FailureClass::Protected => {
                    format!("files changed during the run ({ended})")
                }
                _ => describe_failure(&failure, &record.metric.name, ended, measured.run.as_ref()),
            };
            let slots = store.journal.layout.as_ref().map_or(1, |layout| layout.slots);
            record.reason = match slots {
                1 => format!("with seed {number}, {why}"),
                slots => format!("in slot {}, {why}", (number - 1) % slots),
            };
            record.failure = Some(failure);
            let log = format!("{}/run.log", run_name(&OpenRun::new(RunRole::Baseline, number)));
            return Err((log, disturbance.paths()));
        }
        let is_new = |other: &&GpuOther| !record.conditions.gpu_others.iter().any(|known| known.is(other));
        let beside: Vec<GpuOther> = measured.gpu_others.iter().filter(is_new).cloned().collect();
        record.conditions.gpu_others.extend(beside);
        if store.contract.decides_on_hidden() {
            continue;
        }
        match measured.result(&record.commit).filter(|_| is_confirmed(&store.contract)) {
            Some(result) => results.push(result),
            None => record.add_runs(measured.counted_run(Some(&record.commit)), measured.sandbox),
        }
    }
    if !results.is_empty() {
        *record = baseline_with(record, &results);
    }
    Ok(())
}

/// The error for runs that opened files of the user's working tree instead of their slot's, if they did.
fn refuse_opened(opened: &[PathBuf]) -> Option<SessionError> {
    let text = format!("a run opened files of this working tree instead of its slot's: {}", list(opened));
    let refused = refuse(CannotStart, text).hint(
        "find what leads there, such as an installed package, a configuration file or a cache; if it was an \
         editor or a language server, close it and start again",
    );
    (!opened.is_empty()).then(|| refused.into())
}

/// The resources of the slots, with the right to use their GPUs, if they have any.
pub(crate) fn slot_setup(
    repo: &Repo,
    contract: &Contract,
    layout: Option<&Layout>,
    gpus: &[GpuSlot],
) -> Result<SlotSetup, SessionError> {
    let chosen: Vec<Gpu> = gpus.iter().flat_map(|slot| slot.gpus.iter().cloned()).collect();
    let (repository, session) = (repo.main_worktree().to_owned(), contract.tag.clone());
    let holder = GpuHolder { repository, session, process: std::process::id() };
    let locks = if chosen.is_empty() { None } else { Some(GpuLocks::take(&chosen, &holder)?) };
    let surveyed = layout.map(|layout| Surveyed::new(repo, contract, layout));
    let has_linked_environment = surveyed.is_some_and(|surveyed| surveyed.has_linked_environment());
    Ok(SlotSetup { gpus: gpus.to_vec(), _locks: locks, has_linked_environment })
}

/// The records and the journal with which a session is opened.
pub(super) struct OpenedRecords {
    history: History,
    journal: Journal,
    /// True if the journal was there, and not made now.
    pub(super) has_journal: bool,
    /// The night that a loop enters.
    pub(super) night: Option<Night>,
    /// The runs and verdicts that no agent may read.
    hidden: HiddenBook,
}

impl OpenedRecords {
    /// Reads the records, and reads or makes the journal. Refuses a journal that contradicts the records.
    pub(super) async fn read(plan: &Plan, interrupts: &Interrupts) -> Result<OpenedRecords, SessionError> {
        let Plan { repo, folder, contract, clock, .. } = plan;
        let history = read_history(repo, &contract.tag)?;
        let state = folder.state();
        remove_left_over(&state)?;
        if !plan.continued {
            forget(&state)?;
        }
        // Another host may have opened it since it was planned.
        refuse_elsewhere(folder, plan.take_over)?;
        let found = folder.journal()?;
        let has_journal = found.is_some();
        let mut journal = found.map_or_else(|| made_journal(plan, &history), Ok)?;
        let night = plan.tonight.as_ref().map(|tonight| entered_night(&journal, tonight, contract, &history, *clock));
        let opener = Opener { host: host_name(), boot: boot_id(), process: std::process::id() };
        journal.count_absence(clock.now());
        journal.presence.wake(plan.drive.driver(), interval_of(contract), opener);
        let hidden = opened_hidden(plan, &history)?;
        let mut stored = OpenedRecords { history, journal, has_journal, night, hidden };
        if has_journal {
            stored.journal.show(&state, clock.now())?;
            stored.refuse_contradiction(plan, interrupts).await?;
            if let Some(open) = stored.journal.first()
                && is_being_replaced(repo, &contract.tag, open.head())?
            {
                stored.history.forget(open.id());
            }
            // Each experiment took a call.
            stored.journal.calls.at_least(stored.history.experiments());
        }
        Ok(stored)
    }

    /// Refuses a journal that says otherwise than the records, and reports that.
    async fn refuse_contradiction(&self, plan: &Plan, interrupts: &Interrupts) -> Result<(), SessionError> {
        let Plan { repo, folder, contract, clock, .. } = plan;
        let history = &self.history;
        let tip = expected_tip(contract, history.incumbent().map(|record| &record.commit));
        let Some(trouble) = contradiction(repo, history, &tip, &self.journal) else { return Ok(()) };
        let of = Alerted { contract, history, root: repo.worktree(), logs: folder.logs(), clock: *clock };
        let report = (trouble_text(trouble), SEE_DOCTOR);
        report_unopened(folder, &of, interrupts.listen(), Trouble::Contradiction, report).await;
        Err(SessionError::Contradiction(trouble_text(trouble)))
    }

    /// Writes the state files that are missing, and the contract. Returns the untracked files that were known.
    pub(super) fn write(&mut self, plan: &Plan) -> Result<Option<Untracked>, SessionError> {
        let state = plan.folder.state();
        Memory::new(&state).create(Some(&plan.contract), &self.history)?;
        crash::point("open.memory_made");
        let untracked = read_json(&state.join(UNTRACKED))?;
        if !self.has_journal {
            self.journal.write(&state, plan.clock.now())?;
        }
        crash::point("open.journal_made");
        // From here on it is a session: its journal says whether it has slots.
        plan.folder.store_contract(&plan.contract, &task_spec(&plan.contract))?;
        crash::point("open.contract_stored");
        Ok(untracked)
    }

    /// The store of the session, with the layout of this invocation.
    pub(super) fn into_store(self, plan: Plan, lock: OwnerLock) -> Store {
        let uuids = |slot: &GpuSlot| slot.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(",");
        let gpus = plan.gpus.iter().map(uuids).collect();
        let journal = Journal { layout: plan.layout, gpus, ..self.journal };
        let Plan { repo, folder, contract, ledger, clock, walls, hidden_places, .. } = plan;
        let store = Store::new(Rc::new(repo), (folder, lock), contract, self.history, journal, ledger, clock);
        Store { walls, hidden: self.hidden, hidden_places, ..store }
    }
}

/// Makes the journal of a new session, or rebuilds a lost one from what remains of its session.
fn made_journal(plan: &Plan, history: &History) -> Result<Journal, SessionError> {
    let Plan { repo, folder, contract, clock, .. } = plan;
    let made = if plan.continued {
        journal_of_remains(repo, folder, Some(contract), history, clock.now())?
    } else {
        Journal::new(repo.worktree(), clock.now())
    };
    Ok(Journal { guardian_lines: guardian_lines(repo, &contract.tag), layout: plan.layout.clone(), ..made })
}

/// The hidden values of a session, in files that a wall can cover.
///
/// # Errors
///
/// Those of the baseline are missing, without which nothing can be decided.
fn opened_hidden(plan: &Plan, history: &History) -> Result<HiddenBook, SessionError> {
    let Plan { folder, contract, .. } = plan;
    if contract.holdout.is_none() && contract.hide.is_empty() {
        return Ok(HiddenBook::default());
    }
    let file = HiddenFile::new(&folder.state());
    let hidden = file.read()?;
    require_hidden_baseline(contract, history, &file, &hidden)?;
    file.create()?;
    Ok(hidden)
}

/// Removes the state files that make a session; the contract goes first, and without it there is none.
pub(super) fn forget(state: &Path) -> Result<(), SessionError> {
    for name in [
        "contract.json",
        PROGRESS,
        PROGRESS_COPIES,
        UNTRACKED,
        PROTECTED,
        CARRIED,
        HIDDEN,
        "task_spec.md",
        INDEX_BEFORE,
        SETTINGS_BEFORE,
    ] {
        remove_file(&state.join(name))?;
        crash::point("abandon.file_removed");
    }
    Ok(())
}
