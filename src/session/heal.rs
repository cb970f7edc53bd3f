//! Putting back what somebody deleted under the session's hands: its folder and results.tsv.
//!
//! `git clean -fdx`, `git stash --all` or `rm -rf .autoresearch` are things that agents and training scripts do. All that
//! was there is in the refs and in this process, except for the logs of earlier runs.

use std::path::Path;

use jiff::Timestamp;

use super::directing::climbed;
use super::error::{SessionError, list};
use super::open::Session;
use super::plan::OWN_FILES;
use super::reading::{read_history, session_tags};
use crate::agent::task_spec;
use crate::domain::{Contract, Event, Record, count_of};
use crate::ledger::LedgerFile;
use crate::rules::History;
use crate::state::{Journal, Status};

/// What became of a session's folder that somebody deleted.
pub(super) const REBUILT: &str = "it is put back from the records, except for the logs of earlier runs";

/// The journal of a session that has none any more, as far as its records tell: no experiment is open.
pub(super) fn rebuilt_journal(
    history: &History,
    contract: Option<&Contract>,
    worktree: &Path,
    now: Timestamp,
) -> Journal {
    let (rung, flagged) = climbed(contract, history);
    let findings = history.records().iter().map(|record| record.findings().count()).sum::<usize>();
    Journal {
        status: Status::Stopped,
        iteration: history.experiments(),
        total_findings: u32::try_from(findings).unwrap_or(u32::MAX),
        stale_count: history.since_keep(),
        rung,
        flagged,
        ..Journal::new(worktree, now)
    }
}

impl Session<'_> {
    /// Puts the session's folder and results.tsv back if somebody deleted them, and says so. Nothing else may write into
    /// the folder before it was looked after in this way.
    pub(super) fn heal(&mut self) -> Result<(), SessionError> {
        if self.taken_back {
            return Ok(());
        }
        if !self.folder.is_whole(&self.lock) {
            self.folder.create()?;
            self.folder.lock_again(&mut self.lock)?;
            self.folder.store_contract(&self.contract, &task_spec(&self.contract))?;
            self.memory.create(self.history.records())?;
            self.write_untracked()?;
            self.write_journal()?;
            self.repo.exclude(OWN_FILES)?;
            let detail = format!("{} was deleted; {REBUILT}", self.folder.root().display());
            self.emit(Event::Notice { detail })?;
        }
        let records = if self.ledger.is_missing() { self.recorded()? } else { Vec::new() };
        if !records.is_empty() {
            let rows: Vec<&Record> = records.iter().collect();
            LedgerFile::rebuild(self.ledger.path(), &self.contract.metric.name, self.ledger.dialect(), &rows)?;
            let detail = format!(
                "results.tsv was deleted; {} of it {} put back from the records",
                count_of(records.len() as u32, "row"),
                if records.len() == 1 { "is" } else { "are" }
            );
            self.emit(Event::Notice { detail })?;
        }
        Ok(())
    }

    /// Puts back the untracked files that were there when the agent was called and that it deleted, as far as their content
    /// is kept, and names all of them.
    pub(super) fn put_untracked_back(&mut self) -> Result<(), SessionError> {
        let Some(known) = &self.untracked else { return Ok(()) };
        let (back, lost) = self.repo.put_missing_back(known)?;
        for (paths, fate) in [(back, "put back"), (lost, "too large to be put back")] {
            if !paths.is_empty() {
                let detail =
                    format!("untracked files were deleted while the agent was at work, {fate}: {}", list(&paths));
                self.emit(Event::Notice { detail })?;
            }
        }
        Ok(())
    }

    /// The records of all sessions with this one's metric in the order in which they were made, without the experiment
    /// that is open here. None before this session has one: a ledger that was put aside before it stays there.
    fn recorded(&self) -> Result<Vec<Record>, SessionError> {
        let mut records = self.history.records().to_vec();
        records.retain(|record| self.journal.open.as_ref().is_none_or(|open| open.id != record.id));
        if records.is_empty() {
            return Ok(records);
        }
        for tag in session_tags(&self.repo)? {
            if tag != self.contract.tag {
                records.extend_from_slice(read_history(&self.repo, &tag)?.records());
            }
        }
        records.retain(|record| record.metric.name == self.contract.metric.name);
        records.sort_by_key(|record| record.finished);
        Ok(records)
    }
}
