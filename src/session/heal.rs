//! Restoring what was deleted or replaced while the session was open: its folder, git's own files, results.tsv.
//!
//! `git clean -fdx`, `git stash --all` or `rm -rf .autoresearch` are things that agents and training scripts do. All that
//! was there is in the refs and in this process, except for the logs of earlier runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::error::{SessionError, list};
use super::others::{Others, other_records};
use super::own_files::OWN_FILES;
use super::reading::climbed;
use super::store::Store;
use crate::agent::task_spec;
use crate::crash;
use crate::domain::{CommitId, Contract, Event, Outcome, Phase, Record, count_of};
use crate::fs::{is_odd, move_away};
use crate::ledger::LedgerFile;
use crate::rules::History;
use crate::state::{Journal, Mended, OpenExperiment, SESSIONS_FOLDER, SessionFolder, Status};

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

impl Store {
    /// Says what was made again of a session whose journal was gone when it was opened.
    pub(super) fn say_rebuilt(&mut self, is_fetched: bool) -> Result<(), SessionError> {
        let mut detail = match is_fetched {
            true => format!("continued the fetched session {} from its records", self.contract.tag),
            false => format!("the journal in {} was missing; {REBUILT}", self.folder.root().display()),
        };
        let saved = self.repo.refs_under(&format!("{}/saved", self.contract.tag.ref_prefix()))?;
        if let (None, Some((name, _))) = (self.history.baseline(), saved.last()) {
            detail = format!("{detail}; a change that was set aside may be in {name}");
        }
        self.say(Event::Notice { detail });
        self.put_rows_back()?;
        self.put_lessons_back()
    }

    /// Puts the session's folder, the refs of its records and results.tsv back if somebody deleted them, and says so. Nothing
    /// else may write into the folder before it was looked after in this way.
    pub(super) fn heal(&mut self) -> Result<(), SessionError> {
        if self.taken_back {
            return Ok(());
        }
        // Only who is at work puts something in their place.
        let mut said = match self.expected.watch {
            Some(_) => Vec::from_iter(self.put_git_files_right()?),
            None => Vec::new(),
        };
        let was_deleted = !self.folder.is_whole(&self.lock);
        if was_deleted {
            let mut tries = 1;
            while let Err(error) = self.put_folder_back(&mut said) {
                if tries == TRIES {
                    return Err(error);
                }
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            said.push(format!("{} was deleted; {REBUILT}", self.folder.root().display()));
        }
        said.extend(self.put_files_right(|_| true)?);
        said.into_iter().for_each(|detail| self.say(Event::Notice { detail }));
        if was_deleted {
            if let Some(watch) = self.expected.watch.take() {
                let back = self.put_memories_back(watch.who, &watch.memories);
                self.expected.watch = Some(watch);
                back?;
            }
            self.put_ideas_back()?;
        }
        self.watch_again(&self.folder.logs());
        if self.ledger.was_there()
            && let Some(kept) = self.ledger.move_odd_away()?
        {
            let detail = format!("results.tsv was not a file or far too large; moved it to {}", kept.display());
            self.say(Event::Notice { detail });
        }
        if self.ledger.is_missing() {
            self.put_rows_back()?;
        }
        Ok(())
    }

    /// The journal comes early, since only it knows of the experiment that is open, behind what tells the new files of that
    /// experiment from others, and the contract last: while it is missing the folder is not whole.
    fn put_folder_back(&mut self, said: &mut Vec<String>) -> Result<(), SessionError> {
        let moved = self.folder.move_folders_away()?;
        if !moved.is_empty() {
            said.push(format!("moved folders that stood in place of ar's files: {}", list(&moved)));
        }
        self.folder.create()?;
        self.folder.lock_again(&mut self.lock)?;
        // Nothing but this process knows what the log said.
        let runs = self.folder.runs();
        said.extend(self.put_files_right(|path| path.starts_with(&runs))?);
        self.write_files_again()?;
        let now = self.now();
        // What is counted of an experiment and not yet written down would be counted again after a kill.
        self.written.journal.write(&self.folder.state(), now)?;
        crash::point("heal.journal_written");
        said.extend(self.put_files_right(|_| true)?);
        self.memory().create(self.history.records())?;
        crash::point("heal.memory_made");
        self.folder.store_contract(&self.contract, &task_spec(&self.contract))?;
        crash::point("heal.contract_stored");
        Ok(self.repo.exclude(OWN_FILES)?)
    }

    /// Sees to it that each record has its row.
    pub(super) fn put_rows_back(&mut self) -> Result<(), SessionError> {
        let records = self.recorded()?;
        let was_there = !self.ledger.is_missing();
        if records.is_empty() {
            return Ok(());
        }
        let rows: Vec<&Record> = records.iter().collect();
        let (path, metric) = (self.ledger.path().to_owned(), self.contract.metric.name.clone());
        let (dialect, folder) = (self.ledger.dialect(), self.folder.state());
        let Some(rebuilt) = LedgerFile::rebuild(&path, &metric, dialect, &rows, &folder)? else { return Ok(()) };
        crash::point("heal.rows_written");
        self.ledger = LedgerFile::open(&path, &metric, self.contract.ledger)?;
        let found = &rebuilt.found;
        let count = found.missing.len().max(found.torn.len()) + found.repeated.len();
        let rows = count_of(u32::try_from(count).unwrap_or(u32::MAX), "row");
        let detail = match rebuilt.copy {
            Some(copy) if was_there => {
                format!("repaired {rows} of results.tsv from the records; the old file is {}", copy.display())
            }
            _ => format!("results.tsv was deleted; restored {rows} from the records, without foreign rows"),
        };
        self.say(Event::Notice { detail });
        Ok(())
    }

    /// Puts back the refs of records that somebody deleted, those that are not among the refs that are `there`, sorted by name,
    /// and says so.
    pub(super) fn put_records_back(&mut self, there: &[(String, String)]) -> Result<(), SessionError> {
        let mut gone = Vec::new();
        for record in self.history.records() {
            let name = self.contract.tag.record_ref(record.id);
            if there.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                self.write_record(record)?;
                gone.push(name);
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.say(Event::Notice { detail: format!("restored deleted refs of records: {}", gone.join(", ")) });
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
        let mut records = settled(self.history.records(), Some(&self.journal));
        if records.is_empty() && !self.ledger.was_there() {
            return Ok(records);
        }
        let Others { sessions, troubles } = other_records(&self.repo, &self.contract.tag)?;
        for trouble in troubles {
            self.say_trouble(trouble);
        }
        let made_up =
            self.expected.watch.as_ref().map(|watch| self.made_up_refs(watch)).transpose()?.unwrap_or_default();
        for (tag, mut others) in sessions {
            others.retain(|record| !made_up.contains(&tag.record_ref(record.id)));
            let folder = SessionFolder::new(&self.repo.main_worktree(), &tag);
            // One that cannot be read is its own doctor's affair.
            let journal = Journal::read(&folder.state()).ok().flatten();
            records.extend(settled(&others, journal.as_ref()));
        }
        records.retain(|record| record.metric.name == self.contract.metric.name);
        records.sort_by_key(|record| record.finished);
        Ok(records)
    }

    /// Puts the folder of all sessions back where somebody put a link in its place; gives what is to be said about that.
    pub(super) fn undo_link(&mut self) -> Result<Option<String>, SessionError> {
        let Some(watch) = &self.expected.watch else { return Ok(None) };
        let failed = |source| SessionError::Io { action: "move", path: SESSIONS_FOLDER.into(), source };
        let led = watch.own.put_back().map_err(failed)?;
        Ok(led.map(|led| {
            format!("restored {SESSIONS_FOLDER}, replaced while {} was active; see {}", watch.who, led.display())
        }))
    }

    /// Puts git's own files back that are no files any more, and moves other pipes in git's folder away; gives what is to be
    /// said about that.
    pub(super) fn put_git_files_right(&mut self) -> Result<Option<String>, SessionError> {
        let mended = match &mut self.expected.watch {
            Some(watch) => watch.git.put_back(is_odd)?,
            None => Vec::new(),
        };
        let kept = mended.into_iter().filter_map(|mended| match mended {
            Mended::PutBack(_, kept) => Some(kept),
            Mended::Deleted(_) | Mended::Left(_) => None,
        });
        let mut moved: Vec<PathBuf> = kept.collect();
        moved.extend(move_all(self.repo.odd_git_files())?);
        Ok(moved_text(&moved))
    }

    /// Does the same, and moves odd ignore and attribute files of the working tree away.
    pub(super) fn put_odd_files_right(&mut self) -> Result<Vec<String>, SessionError> {
        let mut all = Vec::from_iter(self.put_git_files_right()?);
        all.extend(moved_text(&move_all(self.repo.odd_worktree_files(Some(&self.tip())))?));
        Ok(all)
    }
}

fn move_all(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, SessionError> {
    let moved = |path: PathBuf| move_away(&path).map_err(|source| SessionError::Io { action: "move", path, source });
    paths.into_iter().map(moved).collect()
}

fn moved_text(moved: &[PathBuf]) -> Option<String> {
    (!moved.is_empty()).then(|| format!("moved what replaced files that git reads to {}", list(moved)))
}
