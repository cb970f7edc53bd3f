//! What all experiments of a session share, and who alone writes it: refs, contract, journal, rows and memory files.

use super::watch::{Seen, Watch};
use crate::domain::{Clock, Contract};
use crate::git::Repo;
use crate::ledger::LedgerFile;
use crate::rules::History;
use crate::state::{Journal, Memory, OwnerLock, SessionFolder, Unsynced};

/// The one writer of what is shared: the repository's refs, the session's folder and `results.tsv`.
pub(super) struct Store {
    pub(super) repo: Repo,
    pub(super) folder: SessionFolder,
    pub(super) lock: OwnerLock,
    pub(super) contract: Contract,
    pub(super) history: History,
    pub(super) journal: Journal,
    pub(super) written: Written,
    pub(super) ledger: LedgerFile,
    pub(super) clock: Clock,
    pub(super) expected: Expected,
    /// Whether the opening of the session was taken back.
    pub(super) taken_back: bool,
}

/// The journal's file.
pub(super) struct Written {
    /// The journal as it was last written.
    pub(super) journal: Journal,
    /// What must be on the disk before the journal is written the next time, beside what the repository knows of.
    pub(super) unsynced: Unsynced,
}

/// Refs, rows and files as they were last known, by which changes of others are found.
#[derive(Default)]
pub(super) struct Expected {
    /// What was there before the agent or the run that is active.
    pub(super) watch: Option<Watch>,
    /// What was seen when somebody was active the last time.
    pub(super) seen: Seen,
}

impl Store {
    /// The memory files.
    pub(super) fn memory(&self) -> Memory {
        Memory::new(&self.folder.state())
    }
}
