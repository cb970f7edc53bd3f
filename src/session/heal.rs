//! Putting back what somebody deleted under the session's hands: its folder and results.tsv.
//!
//! `git clean -fdx`, `git stash --all` or `rm -rf .autoresearch` are things that agents and training scripts do. All that
//! was there is in the refs and in this process, except for the logs of earlier runs.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::directing::climbed;
use super::error::{SessionError, list};
use super::open::Session;
use super::others::{Others, other_records};
use super::plan::OWN_FILES;
use super::watch::Watch;
use crate::agent::task_spec;
use crate::crash;
use crate::domain::{CommitId, Contract, Event, Outcome, Phase, Record, count_of};
use crate::git::PutBack;
use crate::ledger::LedgerFile;
use crate::rules::History;
use crate::state::{Journal, OpenExperiment, SessionFolder, Status};

/// What became of a session's folder that somebody deleted.
pub(super) const REBUILT: &str = "restored it from the records, without the logs of earlier runs";

/// How often it is tried to put back what somebody deletes at the same moment.
const TRIES: u32 = 5;

/// How long is waited before it is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// The journal of a session that has none any more, as far as its records tell. No experiment is open, unless the branch is
/// at the `tip` of the last one, which was not kept: then that one is recorded and not settled.
pub(super) fn rebuilt_journal(
    history: &History,
    contract: Option<&Contract>,
    tip: Option<&CommitId>,
    worktree: &Path,
    now: Timestamp,
) -> Journal {
    let records = history.records();
    let last = records.last().filter(|last| last.outcome != Outcome::Keep && Some(&last.commit) == tip);
    let settled = History::new(records[..records.len() - usize::from(last.is_some())].to_vec());
    let findings = settled.records().iter().map(|record| record.findings().len()).sum::<usize>();
    let (rung, flagged) = climbed(contract, &settled);
    let journal = Journal {
        status: Status::Stopped,
        iteration: history.experiments(),
        total_findings: u32::try_from(findings).unwrap_or(u32::MAX),
        stale_count: settled.since_keep(),
        unseen: true,
        spent: settled.spent(),
        rung,
        flagged,
        ..Journal::new(worktree, now)
    };
    let Some(last) = last else { return journal };
    let open = OpenExperiment {
        commit: Some(last.commit.clone()),
        description: last.description.clone(),
        direction: last.direction.clone(),
        ..OpenExperiment::new(last.id, last.base.clone(), last.started)
    };
    Journal { phase: Phase::Settling, open: Some(open), ..journal }
}

impl Session<'_> {
    /// Puts the session's folder, the refs of its records and results.tsv back if somebody deleted them, and says so. Nothing
    /// else may write into the folder before it was looked after in this way.
    pub(super) fn heal(&mut self) -> Result<(), SessionError> {
        if self.store.taken_back {
            return Ok(());
        }
        // Only who is at work puts something in their place.
        let mut said = match self.store.expected.watch {
            Some(_) => Vec::from_iter(self.put_git_files_right()?),
            None => Vec::new(),
        };
        let was_deleted = !self.store.folder.is_whole(&self.store.lock);
        if was_deleted {
            let mut tries = 1;
            while let Err(error) = self.put_folder_back(&mut said) {
                if tries == TRIES {
                    return Err(error);
                }
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            said.push(format!("{} was deleted; {REBUILT}", self.store.folder.root().display()));
        }
        said.extend(self.put_files_right(|_| true)?);
        // Who goes on changing them is not followed while this is said.
        let watch = self.store.expected.watch.take();
        for detail in said {
            self.emit(Event::Notice { detail })?;
        }
        if was_deleted {
            if let Some(Watch { who, memories, .. }) = &watch {
                self.put_memories_back(who, memories)?;
            }
            self.put_ideas_back()?;
        }
        self.store.expected.watch = watch;
        self.watch_again(&self.store.folder.logs());
        if self.store.ledger.was_there()
            && let Some(kept) = self.store.ledger.move_odd_away()?
        {
            let detail = format!("results.tsv was not a file or far too large; moved it to {}", kept.display());
            self.emit(Event::Notice { detail })?;
        }
        if self.store.ledger.is_missing() {
            self.put_rows_back()?;
        }
        Ok(())
    }

    /// The journal comes early, since only it knows of the experiment that is open, behind what tells the new files of that
    /// experiment from others, and the contract last: while it is missing the folder is not whole.
    fn put_folder_back(&mut self, said: &mut Vec<String>) -> Result<(), SessionError> {
        let moved = self.store.folder.move_folders_away()?;
        if !moved.is_empty() {
            said.push(format!("moved folders that stood in place of ar's files: {}", list(&moved)));
        }
        self.store.folder.create()?;
        self.store.folder.lock_again(&mut self.store.lock)?;
        // Nothing but this process knows what the log said.
        let runs = self.store.folder.runs();
        said.extend(self.put_files_right(|path| path.starts_with(&runs))?);
        self.write_untracked()?;
        self.workspace.protected.write(&self.store.folder)?;
        let now = self.now();
        // What is counted of an experiment and not yet written down would be counted again after a kill.
        self.store.written.journal.write(&self.store.folder.state(), now)?;
        crash::point("heal.journal_written");
        said.extend(self.put_files_right(|_| true)?);
        self.store.memory().create(self.store.history.records())?;
        crash::point("heal.memory_made");
        self.store.folder.store_contract(&self.store.contract, &task_spec(&self.store.contract))?;
        crash::point("heal.contract_stored");
        Ok(self.store.repo.exclude(OWN_FILES)?)
    }

    /// Sees to it that each record has its row.
    pub(super) fn put_rows_back(&mut self) -> Result<(), SessionError> {
        let records = self.recorded()?;
        let was_there = !self.store.ledger.is_missing();
        if records.is_empty() {
            return Ok(());
        }
        let rows: Vec<&Record> = records.iter().collect();
        let (path, metric) = (self.store.ledger.path().to_owned(), self.store.contract.metric.name.clone());
        let (dialect, folder) = (self.store.ledger.dialect(), self.store.folder.state());
        let Some(rebuilt) = LedgerFile::rebuild(&path, &metric, dialect, &rows, &folder)? else { return Ok(()) };
        crash::point("heal.rows_written");
        self.store.ledger = LedgerFile::open(&path, &metric, self.store.contract.ledger)?;
        let found = &rebuilt.found;
        let count = found.missing.len().max(found.torn.len()) + found.repeated.len();
        let rows = count_of(u32::try_from(count).unwrap_or(u32::MAX), "row");
        let detail = match rebuilt.copy {
            Some(copy) if was_there => {
                format!("repaired {rows} of results.tsv from the records; the old file is {}", copy.display())
            }
            _ => format!("results.tsv was deleted; restored {rows} from the records, without foreign rows"),
        };
        self.emit(Event::Notice { detail })
    }

    /// Says what was made again of a session whose journal was gone when it was opened.
    pub(super) fn tell_rebuilt(&mut self, is_fetched: bool) -> Result<(), SessionError> {
        self.remember_untracked()?;
        let mut detail = match is_fetched {
            true => format!("continued the fetched session {} from its records", self.store.contract.tag),
            false => format!("the journal in {} was missing; {REBUILT}", self.store.folder.root().display()),
        };
        let saved = self.store.repo.refs_under(&format!("{}/saved", self.store.contract.tag.ref_prefix()))?;
        if let (None, Some((name, _))) = (self.store.history.baseline(), saved.last()) {
            detail = format!("{detail}; a change that was set aside may be in {name}");
        }
        self.emit(Event::Notice { detail })?;
        self.put_rows_back()?;
        self.put_lessons_back()
    }

    /// Puts back the refs of records that somebody deleted, those that are not among the refs that are `there`, sorted by name,
    /// and says so.
    pub(super) fn put_records_back(&mut self, there: &[(String, String)]) -> Result<(), SessionError> {
        let mut gone = Vec::new();
        for record in self.store.history.records() {
            let name = self.store.contract.tag.record_ref(record.id);
            if there.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                self.write_record(record)?;
                gone.push(name);
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.emit(Event::Notice { detail: format!("restored deleted refs of records: {}", gone.join(", ")) })
    }

    /// Puts back the untracked files that were there when the agent was called and that it deleted, as far as their content
    /// is kept, and names all of them.
    pub(super) fn put_untracked_back(&mut self) -> Result<(), SessionError> {
        let Some(known) = &self.workspace.untracked.known else { return Ok(()) };
        let PutBack { back, not_kept, copy_gone } = self.store.repo.put_missing_back(known)?;
        for (paths, fate) in [
            (back, "restored"),
            (not_kept, "too large to restore"),
            (copy_gone, "not restored, because git's copies were deleted too"),
        ] {
            if !paths.is_empty() {
                let detail =
                    format!("untracked files were deleted while the agent was active, {fate}: {}", list(&paths));
                self.emit(Event::Notice { detail })?;
            }
        }
        Ok(())
    }

    /// The records of all sessions with this one's metric in the order in which they were made, without those that are open:
    /// their rows come when they are settled. None before this session has one, unless the ledger was there: one that was
    /// put aside before stays there.
    fn recorded(&mut self) -> Result<Vec<Record>, SessionError> {
        let settled = |records: &[Record], journal: Option<&Journal>| {
            let open = journal.and_then(|journal| journal.open.as_ref()).map(|open| open.id);
            records.iter().filter(|record| Some(record.id) != open).cloned().collect::<Vec<_>>()
        };
        let mut records = settled(self.store.history.records(), Some(&self.store.journal));
        if records.is_empty() && !self.store.ledger.was_there() {
            return Ok(records);
        }
        let Others { sessions, troubles } = other_records(&self.store.repo, &self.store.contract.tag)?;
        for trouble in troubles {
            self.tell_trouble(trouble)?;
        }
        let made_up =
            self.store.expected.watch.as_ref().map(|watch| self.made_up_refs(watch)).transpose()?.unwrap_or_default();
        for (tag, mut others) in sessions {
            others.retain(|record| !made_up.contains(&tag.record_ref(record.id)));
            let folder = SessionFolder::new(&self.store.repo.main_worktree(), &tag);
            // One that cannot be read is its own doctor's affair.
            let journal = Journal::read(&folder.state()).ok().flatten();
            records.extend(settled(&others, journal.as_ref()));
        }
        records.retain(|record| record.metric.name == self.store.contract.metric.name);
        records.sort_by_key(|record| record.finished);
        Ok(records)
    }
}
