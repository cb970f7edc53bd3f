//! Open experiments, read and described; journals that contradict records and commits; the tags of fresh runs beside
//! the record; and restoring what was deleted or replaced while the session was open: its folder, git's own files,
//! results.tsv.
//!
//! `git clean -fdx`, `git stash --all` or `rm -rf .autoresearch` are things that agents and training scripts do. All
//! that was there is in the refs and in this process, except for event logs and the logs of runs.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{AGENT, Store, note_changed};
use crate::agent::task_spec;
use crate::crash;
use crate::domain::{
    Ablated, CommitId, Contract, DiffStat, FORMAT_VERSION, Notice, Outcome, Record, Tag, VerifiedPair, list, one_line,
};
use crate::exec::Job;
use crate::git::{Proposal as Change, Repo};
use crate::ledger::LedgerFile;
use crate::machine::{Attempt, AttemptEntry, AttemptHead, Made, Recording};
use crate::rules::{Expenses, History, LadderState, OpenTrouble, has_words, judge_open};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::{Others, exclude_own, expected_tip, other_records, read_messages, session_tags};
use crate::state::{
    CARRIED, Calls, EventLog, HiddenFile, Journal, Memory, PROTECTED, Pauses, Presence, Results, SessionFolder,
    UNTRACKED,
};

/// Returns whether the open experiment is a new version whose record has not yet replaced the old one.
pub(crate) fn is_being_replaced(repo: &Repo, tag: &Tag, head: &AttemptHead) -> Result<bool, SessionError> {
    let Some(old) = head.replaces() else { return Ok(false) };
    Ok(repo.refs.ref_object(&tag.record_ref(head.id))?.as_deref() == Some(old))
}

/// Candidates for the description of a change.
pub(crate) struct Texts {
    /// The text from the proposal file or the user.
    pub(crate) own: Option<String>,
    /// The last line of the agent's output that can describe the change.
    pub(crate) fallback: Option<String>,
    /// The description of the previous version, if there is one.
    pub(crate) before: Option<String>,
}

impl Texts {
    /// The proposal's words, else the subject of a commit that the agent made, else a line of its output, else the words for
    /// the version before it, else the size of the change.
    pub(crate) fn choose(self, subject: Option<String>, describe: impl FnOnce() -> String) -> String {
        let given = [self.own, subject, self.fallback, self.before].into_iter().flatten();
        given.map(|text| one_line(&text)).find(|text| has_words(text)).unwrap_or_else(describe)
    }
}

/// The change where nobody has words for it: its files, and how much of them.
pub(crate) fn describe(change: &Change, stat: DiffStat) -> String {
    const SHOWN: usize = 3;
    let paths = change.paths();
    let mut text =
        paths.iter().take(SHOWN).map(|changed| changed.path.display().to_string()).collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        text += &format!(" and {} more", paths.len() - SHOWN);
    }
    one_line(&format!("{text}: {stat}"))
}

/// Adds what the agent said with a later version to what it said with the first: lists grow by what is new, and of the rest
/// the last word counts.
pub(crate) fn add_said(notices: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (notices.get_mut(&name), value) {
            (Some(Value::Array(known)), Value::Array(new)) => {
                for value in new {
                    if !known.contains(&value) {
                        known.push(value);
                    }
                }
            }
            (_, value) => {
                notices.insert(name, value);
            }
        }
    }
}

/// Returns the first contradiction in the journal's open attempts. `tip` is the commit that the next experiment builds on.
pub(crate) fn contradiction(repo: &Repo, history: &History, tip: &CommitId, journal: &Journal) -> Option<OpenTrouble> {
    let tag = history.baseline().map(|record| &record.tag);
    let is_replaced =
        |open: &Attempt| tag.is_some_and(|tag| is_being_replaced(repo, tag, open.head()).unwrap_or(false));
    let found = journal.found(history, tip, is_replaced).find_map(|(open, found)| {
        let is_rerun = matches!(open, Attempt::Rerun(_));
        let is_on = |commit: &CommitId, base: &CommitId| {
            // A train's commit is on top of its other cars, and that of a rerun is an earlier one.
            commit == base
                || open.trial().is_some()
                || is_rerun && history.knows(commit)
                || repo.objects.parents(commit).is_ok_and(|parents| parents == [base.clone()])
        };
        judge_open(found, |commit| repo.objects.has_commit(commit), is_on)
    });
    journal.attempts.trouble().or(found)
}

/// The trouble in words.
pub(crate) fn trouble_text(trouble: OpenTrouble) -> &'static str {
    match trouble {
        OpenTrouble::Unnamed => "the journal has an open experiment and says that none is",
        OpenTrouble::Number => "the journal's open experiment has a number that the records do not leave room for",
        OpenTrouble::NoCommit => "the journal names no commit for the experiment that runs",
        OpenTrouble::NoDraft => "the journal does not say what its open experiment measured",
        OpenTrouble::LostCommit => "the journal's open experiment is on a commit that is not in the repository",
        OpenTrouble::LostBase => "the journal's open experiment was made on a commit that is not in the repository",
        OpenTrouble::OtherBase => "the journal's open experiment was made on another commit than the best one",
        OpenTrouble::OtherParent => {
            "the commit of the journal's open experiment is not on the commit that it was made on"
        }
        OpenTrouble::OtherCommit => "the journal's open experiment is recorded, and with another commit",
    }
}

/// The message of a tag, if there is one, by which somebody goes on.
///
/// # Errors
///
/// Another version of this program wrote it.
pub(crate) fn read_tag<T: DeserializeOwned>(
    repo: &Repo,
    name: &str,
    version: impl Fn(&T) -> u32,
) -> Result<Option<T>, SessionError> {
    let tag = repo.refs.record(name)?;
    // A ref that is no tag is somebody else's.
    if tag.is_none() && !repo.refs.has_ref(name)? {
        return Ok(None);
    }
    let found = tag.and_then(|tag| serde_json::from_str::<T>(&tag.message).ok());
    let found = found.filter(|found| version(found) == FORMAT_VERSION).ok_or_else(|| {
        refuse(CannotStart, format!("{name} is not a tag that this program can add to"))
            .hint(format!("look at it with `git show {name}`; a newer ar may have written it"))
    })?;
    Ok(Some(found))
}

/// The smallest seed that neither a run of the session had nor any larger one, those of comparisons with other sessions among
/// them. The runs of the loop itself have seeds up to 5.
pub(crate) fn first_fresh_seed(repo: &Repo, tag: &Tag, history: &History) -> Result<u64, SessionError> {
    const IN_THE_LOOP: u64 = 5;
    let mut seeds: Vec<u64> =
        history.records().iter().flat_map(|record| &record.runs).filter_map(|run| run.seed).collect();
    let ablated: Vec<Ablated> = read_messages(repo, tag, "ablated")?;
    seeds.extend(ablated.iter().flat_map(|ablated| &ablated.values).map(|run| run.seed));
    for other in session_tags(repo)? {
        let mut pairs: Vec<VerifiedPair> = read_messages(repo, &other, "verified")?;
        let hidden = HiddenFile::new(&SessionFolder::new(repo.main_worktree(), &other).state()).read()?;
        pairs.extend(hidden.pairs().iter().map(|pair| pair.visible.clone()));
        if other == *tag {
            let runs = hidden.ablated().iter().flat_map(|it| it.visible.iter().chain(&it.found.values));
            seeds.extend(runs.map(|run| run.seed));
        }
        for pair in pairs.iter().filter(|pair| other == *tag || pair.a.is_of(tag)) {
            seeds.extend(pair.values_a.iter().chain(&pair.values_b).map(|(seed, _)| *seed));
        }
    }
    Ok(seeds.into_iter().max().unwrap_or_default().max(IN_THE_LOOP).saturating_add(1))
}

/// Number of tries to restore a folder that a process may be deleting at the same moment.
const TRIES: u32 = 5;

/// Pause before the next try.
const PAUSE: Duration = Duration::from_millis(20);

/// Rebuilds the journal of a session that has none any more, as far as its records and its log tell, and writes nothing. No
/// experiment is open, unless the branch is at the last one, which was not kept: then that one is recorded and not settled. Or
/// it is at one that is not recorded, see [`left_at_tip`]. The session was last seen at the last sign of life in its log, else
/// at the end of its last experiment, else `now`.
///
/// # Errors
///
/// The branch cannot be read.
pub(crate) fn journal_of_remains(
    repo: &Repo,
    folder: &SessionFolder,
    contract: Option<&Contract>,
    history: &History,
    now: Timestamp,
) -> Result<Journal, SessionError> {
    let (records, log) = (history.records(), EventLog::new(&folder.logs()));
    let tip = repo.refs.branch(&folder.tag().branch_ref())?;
    let finished = records.iter().map(|record| record.origin.finished).max();
    let last_seen = log.last_seen().or(finished).unwrap_or(now);
    let last = records.last().filter(|last| last.outcome != Outcome::Keep && Some(&last.commit) == tip.as_ref());
    let settled = History::new(records[..records.len() - usize::from(last.is_some())].to_vec());
    let findings = settled.records().iter().map(|record| record.findings().len()).sum::<usize>();
    let is_by_hand = match records.last().filter(|last| !last.id.is_baseline()) {
        Some(last) => last.is_by_hand(),
        None => contract.is_some_and(|contract| contract.agent.is_none()),
    };
    let mut journal = Journal {
        presence: Presence::rebuilt(log.last_end(), is_by_hand, last_seen),
        calls: Calls::of_experiments(history.experiments()),
        results: Results::of_records(findings, finished),
        expenses: Expenses::of_records(&settled),
        layout: history.layout().cloned(),
        ladder: LadderState::of_records(contract, &settled),
        pauses: Pauses::of_records(history),
        ..Journal::new(repo.worktree(), last_seen)
    };
    let Some(last) = last else {
        let left = contract.map_or(Ok(None), |contract| left_at_tip(repo, folder, contract, history))?;
        journal.attempts.open.extend(left.map(|left| AttemptEntry::new(Attempt::Call(left))));
        return Ok(journal);
    };
    let head = AttemptHead {
        description: last.description.clone(),
        direction: last.direction.clone(),
        ..AttemptHead::new(last.id, last.base.clone(), last.origin.started)
    };
    let made = Made { head, commit: last.commit.clone(), ..Made::default() };
    let (rows_from, artifacts_of) = (0, None);
    let recording = Recording { made, records: vec![last.clone()], rows_from, artifacts_of, has_rows: true };
    journal.attempts.open.push(AttemptEntry::new(Attempt::Recording(recording)));
    Ok(journal)
}

/// The experiment that was open when the journal of a session *in place* was lost: an agent was called for it, or another clone
/// left it open, and the branch is at a commit on the incumbent that no record has. How far it was is unknown, so its change is saved and it is made again.
///
/// # Errors
///
/// The branch or its commits cannot be read.
pub(crate) fn left_at_tip(
    repo: &Repo,
    folder: &SessionFolder,
    contract: &Contract,
    history: &History,
) -> Result<Option<AttemptHead>, SessionError> {
    let (next, base) = (history.next_id(), expected_tip(contract, history.incumbent().map(|record| &record.commit)));
    let tip = repo.refs.branch(&folder.tag().branch_ref())?;
    let is_open = || Ok::<_, SessionError>(tip.is_some() && repo.refs.branch(&folder.tag().open_ref(next))? == tip);
    let began = match Job::lifetime(&folder.run(next), AGENT).filter(|_| history.layout().is_none()) {
        Some((began, _)) => began,
        None if history.layout().is_none() && is_open()? => SystemTime::now(),
        None => return Ok(None),
    };
    let tip = tip.filter(|tip| *tip != base && !history.knows(tip) && history.baseline().is_some());
    let is_left = tip.map_or(Ok(false), |tip| repo.objects.leads_to(&base, &tip))?;
    let began = Timestamp::try_from(began).ok().filter(|_| is_left);
    Ok(began.map(|began| AttemptHead::new(next, base, began)))
}

impl Store {
    /// Says what was made again of a session whose journal was gone when it was opened.
    pub(crate) fn note_rebuilt(&mut self, is_fetched: bool) -> Result<(), SessionError> {
        let saved = self.repo.refs.refs_under(&format!("{}/saved", self.contract.tag.ref_prefix()))?;
        let is_new = self.history.baseline().is_none();
        let saved = saved.into_iter().next_back().filter(|_| is_new).map(|(name, _)| name).unwrap_or_default();
        self.note(match is_fetched {
            true => Notice::FetchedContinued { tag: self.contract.tag.clone(), saved },
            false => Notice::JournalRebuilt { folder: self.folder.root().to_owned(), saved },
        });
        self.ensure_rows()?;
        self.put_lessons_back()
    }

    /// Puts the session's folder, the refs of its records and results.tsv back if somebody deleted them, and says so. Nothing
    /// else may write into the folder before it was looked after in this way. Fails if another process took over the session.
    pub(crate) fn heal(&mut self) -> Result<(), SessionError> {
        if self.rolled_back {
            return Ok(());
        }
        self.refuse_taken_over()?;
        // Only who is at work puts something in their place; HEAD is emptied by a crash of the machine, too.
        if self.expected.watch.is_some() || self.repo.refs.torn_head().is_some() {
            self.expected.restore_git_files(&self.repo, &mut self.notices)?;
        }
        let large = self.expected.changed_large();
        note_changed("files too large to restore were changed", &self.expected.actors(), large, &mut self.notices);
        let was_deleted = !self.folder.is_whole(&self.lock);
        if was_deleted {
            let has_logs = self.folder.logs().is_dir();
            let mut tries = 1;
            while let Err(error) = self.put_folder_back() {
                if tries == TRIES {
                    return Err(error);
                }
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            match has_logs {
                true => self.note(format!("a part of {} was deleted; restored it", self.folder.root().display())),
                false => self.note(Notice::FolderRestored(self.folder.root().to_owned())),
            }
        }
        self.expected.restore_files(&mut self.notices)?;
        self.restore_memory()?;
        if was_deleted {
            self.restore_memories()?;
            self.restore_ideas()?;
        }
        if let Some(kept) = self.ledger.move_irregular_away()? {
            self.note(Notice::LedgerMoved { file: self.ledger.name(), kept });
        }
        if self.ledger.is_missing() {
            self.ensure_rows()?;
        }
        Ok(())
    }

    /// The journal comes early, since only it knows of the experiment that is open, behind what tells the new files of that
    /// experiment from others, and the contract last: while it is missing the folder is not whole.
    fn put_folder_back(&mut self) -> Result<(), SessionError> {
        let moved = self.folder.move_folders_away()?;
        if !moved.is_empty() {
            self.note(format!("moved folders that stood in place of ar's files: {}", list(&moved)));
        }
        self.folder.create()?;
        self.folder.lock_again(&mut self.lock)?;
        let state = self.folder.state();
        self.expected
            .files
            .restore(|path| [UNTRACKED, PROTECTED, CARRIED].iter().any(|name| path == state.join(name)))?;
        let now = self.now();
        // Write the journal first: after a kill, unwritten counts of an experiment would be counted again.
        self.written.journal.write(&state, now)?;
        crash::point("heal.journal_written");
        self.restore_memory()?;
        Memory::new(&state).create(Some(&self.contract), &self.history)?;
        crash::point("heal.memory_made");
        self.folder.store_contract(&self.contract, &task_spec(&self.contract))?;
        crash::point("heal.contract_stored");
        self.expected.expect_again(self.folder.root());
        exclude_own(&self.repo, &[self.ledger.name()])
    }

    /// Sees to it that each record has its row.
    pub(crate) fn ensure_rows(&mut self) -> Result<(), SessionError> {
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
        let rows = found.missing.len().max(found.torn.len()) + found.repeated.len();
        let file = self.ledger.name();
        self.note(match rebuilt.copy {
            Some(old) if was_there => Notice::RowsRepaired { file, rows, old },
            _ => Notice::RowsRestored { file, rows },
        });
        Ok(())
    }

    /// The records of all sessions with this one's metric in the order in which they were made, without those that are open:
    /// their rows come when they are settled. None before this session has one, unless the ledger was there: one that was
    /// put aside before stays there.
    fn recorded(&mut self) -> Result<Vec<Record>, SessionError> {
        let settled = |records: &[Record], journal: Option<&Journal>| {
            let is_open = |id| journal.is_some_and(|journal| journal.attempt(id).is_some());
            records.iter().filter(|record| !is_open(record.id)).cloned().collect::<Vec<_>>()
        };
        let mut records = settled(self.history.records(), Some(&self.journal));
        if records.is_empty() && !self.ledger.was_there() {
            return Ok(records);
        }
        let Others { sessions, troubles } = other_records(&self.repo, &self.contract.tag)?;
        troubles.into_iter().for_each(|trouble| self.note_once(trouble));
        let made_up = self.expected.watch.as_ref().map(|watch| watch.made_up_refs(self.refs()));
        let made_up = made_up.transpose()?.unwrap_or_default();
        for (tag, mut others) in sessions {
            others.retain(|record| !made_up.contains(&tag.record_ref(record.id)));
            let folder = SessionFolder::new(self.repo.main_worktree(), &tag);
            // One that cannot be read is its own doctor's affair.
            let journal = Journal::read(&folder.state()).ok().flatten();
            records.extend(settled(&others, journal.as_ref()));
        }
        records.retain(|record| record.metric.name == self.contract.metric.name);
        records.sort_by_key(|record| record.origin.finished);
        Ok(records)
    }
}
