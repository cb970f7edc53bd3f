//! The session's side of its guardians: the signs of life that they look for, its line in the register, and what they said
//! about it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::events::{Events, Observer};
use super::shared::Shared;
use crate::domain::{Cadence, Clock, Contract, Notice, Tag, with_causes};
use crate::git::Repo;
use crate::ledger::LedgerFile;
use crate::rules::{GuardianAction, interval};
use crate::session::errors::SessionError;
use crate::session::files::{read_history, refuse_elsewhere, stored_contract};
use crate::session::store::{Expected, Interrupts, JournalFile, Notices, ReceivedMessages, Store, Walls};
use crate::state::{
    EventLog, GuardianFiles, Journal, PROTECTED, Register, SessionFolder, StateError, UNTRACKED, user_folder,
};

/// Within how many seconds a session shows itself again.
pub(crate) fn interval_of(contract: &Contract) -> u64 {
    let pause = match contract.cadence {
        Some(Cadence::Fixed(pause)) => pause,
        Some(Cadence::Adaptive | Cadence::Novelty) => Duration::MAX,
        None => Duration::ZERO,
    };
    interval(&[contract.timeout, contract.agent_timeout, pause])
}

/// Enters a session in the register of this user; gives why that failed. A missing folder counts only if `is_told`.
pub(crate) fn register(root: &Path, tag: &Tag, now: Timestamp, is_told: bool) -> Option<Notice> {
    match user_folder() {
        Some(user) => {
            Register::new(&user).enter(root, tag, now).err().map(|error| Notice::NoRegister(with_causes(&error)))
        }
        // Each `ar try` would say it again.
        None => is_told.then(|| Notice::NoRegister("neither HOME nor XDG_STATE_HOME is set".into())),
    }
}

/// Copies what guardians said since the last time into the log, and begins anew where they said so. Returns whether there
/// was anything.
fn copy_guardian_lines(store: &mut Store, log: &EventLog) -> Result<bool, SessionError> {
    let Some(files) = guardian_files(store.repo.main_worktree(), &store.contract.tag) else { return Ok(false) };
    let lines = match files.lines() {
        Ok(lines) => lines,
        Err(error) => {
            store.note_once(format!("cannot read the messages of `ar guard`: {}", with_causes(&error)));
            return Ok(false);
        }
    };
    let Some(first) = store.journal.first_new_guardian_line(lines.len()) else { return Ok(false) };
    store.heal()?;
    for line in lines.iter().skip(first).flatten() {
        log.guard(line)?;
        if line.action == GuardianAction::Redirect {
            store.note(format!("flagged for review, starting over in an untried direction: {}", line.detail));
            let before = store.journal.ladder.redirect(&store.contract, &store.history);
            store.note_steps(before, "a guardian nudged it in vain and had it start over");
        }
    }
    store.journal.guardian_lines = lines.len();
    store.expected.expect_again(&store.folder.logs());
    store.write_journal()?;
    Ok(true)
}

/// Takes in what guardians said since the last time.
pub(crate) fn take_in_guardians(shared: &Shared<'_>) -> Result<(), SessionError> {
    let log = shared.events.borrow().log.clone();
    let heard = copy_guardian_lines(&mut shared.store(), &log)?;
    if heard { shared.publish() } else { Ok(()) }
}

/// Copies what guardians reported about a session that no process holds, and informs `observer` and the command of
/// `--on-event`. A process that holds a session does this itself.
///
/// # Errors
///
/// A file or ref needed for this cannot be read or written.
pub async fn hear_guardians(repo: &Repo, tag: &Tag, clock: Clock, observer: Observer<'_>) -> Result<(), SessionError> {
    let root = repo.main_worktree();
    let folder = SessionFolder::new(&root, tag);
    let state = folder.state();
    let Some(files) = guardian_files(root.clone(), tag) else { return Ok(()) };
    // If the lines are unreadable, the code that needs them reports it.
    let notices = files.lines().map_or(0, |lines| lines.len());
    let is_new = |journal: &Journal| journal.first_new_guardian_line(notices).is_some();
    let Some(journal) = Journal::read(&state).ok().flatten().filter(is_new) else { return Ok(()) };
    let lock = match folder.lock(repo.git_dir(), journal.tree_owner().has_user()) {
        Ok(lock) => lock,
        Err(StateError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if refuse_elsewhere(&folder, false).is_err() {
        return Ok(());
    }
    let (Some(journal), Some(contract)) = (Journal::read(&state)?, stored_contract(repo, tag)?) else { return Ok(()) };
    let metric = &contract.metric.name;
    let ledger = LedgerFile::open(&LedgerFile::place(&root, metric), metric, contract.ledger)?;
    let log = EventLog::new(&folder.logs());
    let mut store = Store {
        written: JournalFile::new(journal.clone()),
        history: read_history(repo, tag)?,
        repo: Repo::discover(repo.worktree())?.into(),
        expected: Expected::of(&state, &[UNTRACKED, PROTECTED]),
        journal,
        folder,
        contract,
        ledger,
        clock,
        lock,
        notices: Notices::default(),
        messages: ReceivedMessages::default(),
        walls: Walls::default(),
        activity: 0,
        rolled_back: false,
    };
    copy_guardian_lines(&mut store, &log)?;
    let mut events = Events::new(observer, log);
    for event in store.notices.take() {
        events.emit(&event, &store)?;
    }
    events.finish_alerts(&Interrupts::default(), clock).await;
    events.publish_hook_trouble(&store);
    Ok(())
}

/// Counts the lines of guardians about a session. Lines from before a journal begins do not concern it.
pub(crate) fn guardian_lines(repo: &Repo, tag: &Tag) -> usize {
    // If the lines are unreadable, the code that copies them reports it.
    guardian_files(repo.main_worktree(), tag).and_then(|files| files.lines().ok()).map_or(0, |lines| lines.len())
}

/// The files of guardians about a session; none without a home folder.
fn guardian_files(root: PathBuf, tag: &Tag) -> Option<GuardianFiles> {
    Some(GuardianFiles::new(&user_folder()?, &root, tag))
}
