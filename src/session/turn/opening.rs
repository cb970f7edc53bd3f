//! The steps that open a session before its first job: what git may do, what is stored of it, and what its journal says.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::agent::task_spec;
use crate::crash;
use crate::domain::{Contract, Gpu, Layout, Trouble};
use crate::exec::{GpuHolder, GpuLocks, boot_id, host_name};
use crate::fs::remove_left_over;
use crate::git::{Repo, Untracked};
use crate::ledger::LedgerFile;
use crate::rules::{GpuSlot, History, Night};
use crate::session::errors::{LayoutError, SessionError};
use crate::session::files::{
    INDEX_BEFORE, exclude_own, exclude_pattern, expected_tip, read_history, refuse_elsewhere, remove_file,
};
use crate::session::plan::{Drive, Plan, Surveyed, entered_night};
use crate::session::store::contradiction::contradiction;
use crate::session::store::{
    Expected, Interrupts, Notices, ReceivedMessages, Remains, Store, Written, is_being_replaced, rebuilt_journal,
    trouble_text,
};
use crate::session::tree::{SETTINGS_BEFORE, SlotSetup};
use crate::session::wait::{Alerted, guardian_lines, interval_of, report_unopened};
use crate::state::{
    CARRIED, EventLog, Journal, Memory, OpenAttempt, Opener, OwnerLock, PROTECTED, SEE_DOCTOR, SESSIONS_FOLDER,
    UNTRACKED, read_json,
};

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

/// The resources of the slots, with the right to use their GPUs, if they have any.
pub(crate) fn slot_setup(
    repo: &Repo,
    contract: &Contract,
    layout: Option<&Layout>,
    gpus: &[GpuSlot],
) -> Result<SlotSetup, SessionError> {
    let chosen: Vec<Gpu> = gpus.iter().flat_map(|slot| slot.gpus.iter().cloned()).collect();
    let (repository, session) = (repo.main_worktree(), contract.tag.clone());
    let holder = GpuHolder { repository, session, process: std::process::id() };
    let locks =
        if chosen.is_empty() { None } else { Some(GpuLocks::take(&chosen, &holder).map_err(LayoutError::from)?) };
    let surveyed = layout.map(|layout| Surveyed::new(repo, contract, layout));
    let has_linked_environment = surveyed.is_some_and(|surveyed| surveyed.has_linked_environment());
    Ok(SlotSetup { gpus: gpus.to_vec(), _locks: locks, has_linked_environment })
}

/// The records and the journal with which a session is opened.
pub(super) struct Stored {
    history: History,
    journal: Journal,
    /// True if the journal was there, and not made now.
    pub(super) has_journal: bool,
    /// The night that a loop enters.
    pub(super) night: Option<Night>,
}

impl Stored {
    /// Reads the records, and reads or makes the journal. Refuses a journal that contradicts the records.
    pub(super) async fn read(plan: &Plan, interrupts: &Interrupts) -> Result<Stored, SessionError> {
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
        let mut stored = Stored { history, journal, has_journal, night };
        if has_journal {
            stored.journal.show(&state, clock.now())?;
            stored.refuse_contradiction(plan, interrupts).await?;
            if let Some(OpenAttempt { open, .. }) = stored.journal.first()
                && is_being_replaced(repo, &contract.tag, open)?
            {
                stored.history.forget(open.id);
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
        Memory::new(&state).create(self.history.records())?;
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
        Store {
            written: Written::new(journal.clone()),
            journal,
            expected: Expected::of(&plan.folder.state(), &[UNTRACKED, PROTECTED, CARRIED]),
            repo: Rc::new(plan.repo),
            folder: plan.folder,
            contract: plan.contract,
            history: self.history,
            ledger: plan.ledger,
            clock: plan.clock,
            lock,
            notices: Notices::default(),
            messages: ReceivedMessages::default(),
            walls: plan.walls,
            activity: 0,
            rolled_back: false,
        }
    }
}

/// Makes the journal of a new session, or rebuilds a lost one from what remains of its session.
fn made_journal(plan: &Plan, history: &History) -> Result<Journal, SessionError> {
    let Plan { repo, folder, contract, clock, .. } = plan;
    let tip = repo.refs.branch(&contract.tag.branch_ref())?;
    let made = if plan.continued {
        let (end, worktree) = (EventLog::new(&folder.logs()).last_end(), repo.worktree());
        let remains = Remains { contract: Some(contract), end, worktree };
        rebuilt_journal(history, &remains, tip.as_ref(), clock.now())
    } else {
        Journal::new(repo.worktree(), clock.now())
    };
    Ok(Journal { guardian_lines: guardian_lines(repo, &contract.tag), layout: plan.layout.clone(), ..made })
}

/// Removes the state files that make a session; the contract goes first, and without it there is none.
pub(super) fn forget(state: &Path) -> Result<(), SessionError> {
    for name in
        ["contract.json", "progress.json", UNTRACKED, PROTECTED, CARRIED, "task_spec.md", INDEX_BEFORE, SETTINGS_BEFORE]
    {
        remove_file(&state.join(name))?;
        crash::point("abandon.file_removed");
    }
    Ok(())
}
