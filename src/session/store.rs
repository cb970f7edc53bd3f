//! What all experiments of a session share, and who alone writes it: refs, contract, journal, rows and memory files.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;

use super::error::SessionError;
use super::expected::{Expected, Kept};
use super::jobs::{AGENT, CHECK, REVIEW, RUN, RUN_FILES, guard_name};
use super::own_files::INDEX_BEFORE;
use super::reading::{expected_tip, record_message};
use super::room::{refuse_full, refuse_spoilt};
use super::words::HeardWords;
use crate::crash;
use crate::domain::{
    Clock, CommitId, Contract, Event, ExperimentId, Layout, Notice, Number, Outcome, Phase, Record, Rung, Stall,
    with_causes,
};
use crate::exec::JobFiles;
use crate::fs::{FileStamp, Unsynced, move_odd_away, write_atomic};
use crate::git::{PreparedRecord, Proposal as Change, Repo, SaveAs, Saved};
use crate::ledger::{Entry, LedgerFile};
use crate::rules::{History, doubtful_gain, most_calls, stall};
use crate::state::{
    FINDINGS, ITERATIONS, Iteration, Journal, Memory, OpenExperiment, OwnerLock, PROGRESS, SessionFolder, json_text,
};

/// What the folder of a run holds beside the files of the run and of the jobs.
const MORE: [&str; 5] = ["lock", "prompt.md", "proposal.json", "review.md", "review.json"];

/// After how many experiments the refs are packed: so many files are listed in half a millisecond, and packing them takes
/// some.
const PACK_EVERY: u32 = 64;

/// The reason of a flag by the ladder.
pub(super) const NO_KEEP: &str = "no keep for so long that you should look";

/// The one writer of what is shared: the repository's refs, the session's folder and `results.tsv`.
pub(super) struct Store {
    pub(super) repo: Rc<Repo>,
    pub(super) folder: SessionFolder,
    pub(super) lock: OwnerLock,
    pub(super) contract: Contract,
    pub(super) history: History,
    pub(super) journal: Journal,
    pub(super) written: Written,
    pub(super) ledger: LedgerFile,
    pub(super) clock: Clock,
    pub(super) expected: Expected,
    pub(super) said: Said,
    pub(super) words: HeardWords,
    /// How often somebody may have begun to change working trees: jobs, and people while the loop waits.
    pub(super) activity: u64,
    /// Whether the opening of the session was taken back.
    pub(super) taken_back: bool,
}

/// The journal's file.
pub(super) struct Written {
    /// The journal as it was last written.
    pub(super) journal: Journal,
    /// What must be on the disk before the journal is written the next time, beside what the repository knows of.
    pub(super) unsynced: Unsynced,
    /// When it was last written.
    pub(super) at: Instant,
}

/// What the store and the workspace did and nobody was told of yet.
#[derive(Default)]
pub(super) struct Said {
    events: Vec<Event>,
    /// What was said to be wrong with something that the loop does not depend on.
    troubles: Vec<Notice>,
}

impl Store {
    /// The memory files.
    pub(super) fn memory(&self) -> Memory {
        Memory::new(&self.folder.state())
    }

    /// Notes what is to be told.
    pub(super) fn say(&mut self, what: impl Into<Event>) {
        self.said.events.push(what.into());
    }

    /// Notes something wrong that the loop does not depend on, once and not before each experiment.
    pub(super) fn say_once(&mut self, trouble: Notice) {
        if !self.said.troubles.contains(&trouble) {
            self.said.troubles.push(trouble.clone());
            self.say(trouble);
        }
    }

    /// Gives what is to be told, in order.
    pub(super) fn take_said(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.said.events)
    }

    /// Whether there is something to be told.
    pub(super) fn said_something(&self) -> bool {
        !self.said.events.is_empty()
    }

    /// Notes that somebody may change working trees from now on: what was seen of them before holds no longer.
    pub(super) fn note_activity(&mut self) {
        self.activity += 1;
    }

    /// Writes a state file, and keeps its content for the case that somebody deletes it.
    pub(super) fn write_file(&mut self, name: &str, value: &impl Serialize) -> Result<(), SessionError> {
        let path = self.folder.state().join(name);
        let content = json_text(&path, value)?;
        write_atomic(&path, &content)?;
        self.watch_again(&path);
        let stamp = FileStamp::of(&path);
        self.expected.files.insert(path, Kept { content, stamp });
        Ok(())
    }

    /// Whether a state file is there as this process wrote it.
    pub(super) fn has_file(&self, name: &str) -> bool {
        let path = self.folder.state().join(name);
        self.expected.files.get(&path).is_some_and(|kept| kept.stamp.is_some() && FileStamp::of(&path) == kept.stamp)
    }

    /// Writes the state files again that only this process has.
    pub(super) fn write_files_again(&mut self) -> Result<(), SessionError> {
        for (path, kept) in &mut self.expected.files {
            write_atomic(path, &kept.content)?;
            kept.stamp = FileStamp::of(path);
        }
        Ok(())
    }

    /// The commit that the branch should be at between two experiments.
    pub(super) fn tip(&self) -> CommitId {
        expected_tip(&self.contract, self.history.incumbent().map(|record| &record.commit))
    }

    /// Under which name uncommitted changes relative to `expected` are saved.
    pub(super) fn save_as(&self, expected: &CommitId) -> SaveAs {
        SaveAs {
            folder: format!("{}/saved", self.contract.tag.ref_prefix()),
            expected: expected.clone(),
            subject: "uncommitted changes, saved before the working tree was restored".into(),
        }
    }

    /// Says that changes were saved, if they were.
    pub(super) fn say_saved(&mut self, saved: Option<Saved>) {
        if let Some(saved) = saved {
            let paths = saved.paths.iter().map(|path| path.display().to_string()).collect();
            self.say(Event::ChangesSaved { reference: saved.reference, paths });
        }
    }

    /// The number of the next attempt: no record and no attempt that is open has it.
    pub(super) fn allocate(&mut self) -> ExperimentId {
        let given = self.journal.open_attempts().map(|open| open.id).chain(self.journal.given);
        let id = given.map(ExperimentId::next).fold(self.history.next_id(), Ord::max);
        let by_hand = self.journal.presence.is_by_hand();
        self.journal.expenses.allot(id, by_hand);
        id
    }

    /// Gives up the number of an attempt that comes to nothing, so that the next one gets it; a gap stays where a later one was
    /// given meanwhile.
    pub(super) fn give_up_number(&mut self, id: ExperimentId) {
        self.journal.given =
            self.journal.given.take_if(|given| *given == id).map(ExperimentId::previous).or(self.journal.given);
    }

    /// The time of day.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes the journal as it is. Where that fails, what the session cannot solve is noted elsewhere.
    pub(super) fn write_journal(&mut self) -> Result<(), SessionError> {
        self.replace_journal().inspect_err(|_| self.note_escalation())
    }

    fn replace_journal(&mut self) -> Result<(), SessionError> {
        self.heal()?;
        let now = self.clock.now();
        let mut unsynced = std::mem::take(&mut self.written.unsynced);
        unsynced.append(self.repo.unsynced());
        self.journal.write_after(unsynced, &self.folder.state(), now)?;
        (self.written.journal, self.written.at) = (self.journal.clone(), Instant::now());
        self.watch_again(&self.folder.state().join(PROGRESS));
        Ok(())
    }

    /// Takes the journal as it was last written, but for what the session cannot solve. What it does not say has not happened,
    /// and is done when the session goes on.
    pub(super) fn forget_unwritten(&mut self) {
        let escalation = std::mem::take(&mut self.journal.escalation);
        self.journal = Journal { escalation, ..self.written.journal.clone() };
    }

    /// Enters a step of an attempt in the journal.
    pub(super) fn enter(&mut self, phase: Phase, open: OpenExperiment) -> Result<(), SessionError> {
        self.journal.enter(phase, open);
        self.write_journal()
    }

    /// The ref of a record, and what its tag says.
    fn record_text(&self, record: &Record) -> Result<(String, String), SessionError> {
        let reference = self.contract.tag.record_ref(record.id);
        match record_message(record) {
            Ok(message) => Ok((reference, message)),
            Err(source) => Err(SessionError::BadRecord { reference, source }),
        }
    }

    /// Writes the tag of a record, which the journal that is written next makes durable. Its ref must be a new one, or lead to
    /// the object that it `replaces`.
    pub(super) fn prepare_record(
        &mut self,
        record: &Record,
        replaces: Option<&str>,
    ) -> Result<PreparedRecord, SessionError> {
        let (reference, message) = self.record_text(record)?;
        let (tag, unsynced) = self.repo.refs.prepare_record(&reference, &record.commit, &message, replaces)?;
        self.written.unsynced.append(unsynced);
        Ok(tag)
    }

    /// Makes the ref of a record.
    pub(super) fn write_record(&self, record: &Record) -> Result<(), SessionError> {
        let (reference, message) = self.record_text(record)?;
        Ok(self.repo.refs.write_record(&reference, &record.commit, &message)?)
    }

    /// Puts a record in the place of the one with its number, in one step.
    pub(super) fn amend_record(&mut self, record: &Record) -> Result<(), SessionError> {
        let former = self.repo.refs.ref_object(&self.contract.tag.record_ref(record.id))?;
        let tag = self.prepare_record(record, former.as_deref())?;
        self.write_journal()?;
        self.repo.refs.place_record(tag)?;
        self.history.amend(record.clone());
        Ok(())
    }

    /// The slots of the session, where no record tells of them yet.
    pub(super) fn unrecorded_layout(&self) -> Option<Layout> {
        self.journal.layout.clone().filter(|layout| self.history.layout() != Some(layout))
    }

    /// Writes the row of a record that stands, unless it is there: behind where the file ended when the step was entered. One
    /// of the same commit before that is another session's.
    pub(super) fn settle_row(&mut self, open: &OpenExperiment, record: &Record) -> Result<(), SessionError> {
        if self.ledger.has_row(&record.commit, open.rows_from)? { Ok(()) } else { self.write_row(open, record) }
    }

    /// Appends the row of an experiment, or puts it in the place of that of the version which it replaces.
    pub(super) fn write_row(&mut self, open: &OpenExperiment, record: &Record) -> Result<(), SessionError> {
        match open.versions.last().filter(|_| open.replaces.is_some()) {
            Some(old) => self.ledger.replace(&old.commit, &Entry::of(record), &self.folder.state())?,
            None => self.ledger.append(&Entry::of(record))?,
        }
        crash::point("settling.row_appended");
        Ok(())
    }

    /// Why the gain of a recorded experiment is doubtful, if it is. A threshold keeps whatever the gain is.
    pub(super) fn doubt_of(&self, id: ExperimentId) -> Option<String> {
        let Contract { keep_above, metric, .. } = &self.contract;
        if keep_above.is_some() { None } else { doubtful_gain(&self.history, id, metric.direction) }
    }

    /// The folder of the open experiment's runs.
    pub(super) fn run_folder(&self, id: ExperimentId) -> Result<PathBuf, SessionError> {
        Ok(self.folder.create_run(id)?)
    }

    /// Moves away what stands in the place of `ar`'s files in the folder of an experiment's runs and is no file of its own,
    /// and says so; gives the folder. No job may go on in it.
    pub(super) fn clear_run_folder(&mut self, id: ExperimentId) -> Result<PathBuf, SessionError> {
        let folder = self.run_folder(id)?;
        let mut paths: Vec<PathBuf> = RUN_FILES.iter().chain(&MORE).map(|name| folder.join(name)).collect();
        for job in self.jobs() {
            let JobFiles { job: task, started, exit } = JobFiles::named(&folder, &job);
            paths.extend([task, started, exit]);
            paths.push(folder.join(format!("{job}.log")));
        }
        let mut moved = Vec::new();
        for path in paths {
            moved.extend(move_odd_away(&path).map_err(|source| SessionError::Io { action: "move", path, source })?);
        }
        if !moved.is_empty() {
            self.say(Notice::RunFilesMoved(moved));
        }
        Ok(folder)
    }

    /// The jobs of an experiment, by name.
    pub(super) fn jobs(&self) -> Vec<String> {
        let guards = (1..=self.contract.guards.len()).map(guard_name);
        [AGENT, RUN, REVIEW, CHECK].into_iter().map(str::to_owned).chain(guards).collect()
    }

    pub(super) fn index_before(&self) -> PathBuf {
        self.folder.state().join(INDEX_BEFORE)
    }

    /// Commits a change that is in a working tree, and keeps the commit under a saved ref; gives both.
    pub(super) fn keep_change(
        &mut self,
        tree: &Repo,
        change: &Change,
        base: &CommitId,
        message: &str,
    ) -> Result<(CommitId, String), SessionError> {
        let commit = tree.working_tree.commit(change, base, message)?;
        let reference = self.keep_commit(base, &commit)?;
        crash::point("git.change_kept");
        Ok((commit, reference))
    }

    /// Keeps a commit, made on `base`, under a saved ref, unless the newest one has the same change; gives the ref.
    pub(super) fn keep_once(&self, base: &CommitId, commit: &CommitId) -> Result<String, SessionError> {
        match self.repo.working_tree.saved_before(&self.save_as(base).folder, commit)? {
            Some(saved) => Ok(saved),
            None => self.keep_commit(base, commit),
        }
    }

    /// Keeps a commit, made on `base`, under a saved ref; gives the ref.
    pub(super) fn keep_commit(&self, base: &CommitId, commit: &CommitId) -> Result<String, SessionError> {
        Ok(self.repo.working_tree.save_commit(&self.save_as(base), commit)?)
    }

    /// Does the same and says in the saved ref what it is.
    pub(super) fn keep_commit_as(
        &self,
        subject: String,
        base: &CommitId,
        commit: &CommitId,
    ) -> Result<String, SessionError> {
        Ok(self.repo.working_tree.save_commit(&SaveAs { subject, ..self.save_as(base) }, commit)?)
    }

    /// Creates the session's branch.
    pub(super) fn create_branch(&self, at: &CommitId, why: &str) -> Result<(), SessionError> {
        Ok(self.repo.refs.create_branch(&self.contract.tag.branch_ref(), at, &format!("autoresearch: {why}"))?)
    }

    /// Moves the session's branch.
    pub(super) fn move_branch(&self, from: &CommitId, to: &CommitId, why: &str) -> Result<(), SessionError> {
        Ok(self.repo.refs.advance(&self.contract.tag.branch_ref(), from, to, &format!("autoresearch: {why}"))?)
    }

    /// Packs the refs of the records each [`PACK_EVERY`] experiments. Reports a failure and continues.
    pub(super) fn pack_records(&mut self) {
        if self.history.next_id().number().is_multiple_of(PACK_EVERY)
            && let Err(error) = self.repo.refs.pack_refs(&self.contract.tag.ref_prefix())
        {
            self.say_once(Notice::NotPacked(with_causes(&error)));
        }
    }

    /// Refuses an experiment that there may be no room for.
    pub(super) fn check_room(&self) -> Result<(), SessionError> {
        let last = self.history.records().last().and_then(|record| self.folder.run_log(record.id).metadata().ok());
        refuse_full(&self.repo, &self.folder, last.map_or(0, |meta| meta.len()))
    }

    /// Refuses what a run or the agent left that ended on a full disk and for that reason says nothing about its idea.
    pub(super) fn refuse_spoilt(&self, what: &str, failed: bool) -> Result<(), SessionError> {
        refuse_spoilt(&self.repo, &self.folder, what, failed)
    }

    /// The subject of the commit that an agent left at the tip of the branch; nothing where it made none in this call, but
    /// went back to an older one.
    pub(super) fn subject_of_call(&self, tip: &CommitId, base: &CommitId) -> Result<Option<String>, SessionError> {
        let is_recorded =
            |record: &Record| record.commit == *tip || record.versions.iter().any(|version| version.commit == *tip);
        let is_old = self.history.records().iter().any(is_recorded) || self.repo.objects.leads_to(tip, base)?;
        Ok(if is_old { None } else { Some(self.repo.objects.subject(tip)?) })
    }

    /// The most agents that are called at a time.
    pub(super) fn most_calls(&self) -> u32 {
        self.journal.layout.as_ref().map_or(1, most_calls)
    }

    /// Counts a call that changed nothing.
    pub(super) fn note_idle_call(&mut self, said: &str) -> Result<(), SessionError> {
        self.journal.calls.count_idle();
        self.journal.ladder.count_idle(&self.contract, &self.history);
        self.memory().log_iteration(&Iteration {
            ts: self.now(),
            iteration: self.journal.calls.iteration(),
            experiment: None,
            outcome: None::<Outcome>,
            description: said,
            stale_count: self.journal.ladder.stale_count(),
            stall: stall(false, Some(said)),
        })?;
        self.written.unsynced.add(self.folder.state().join(ITERATIONS));
        self.watch_again(&self.folder.state());
        Ok(())
    }

    /// Updates the memory files and the counters with an experiment that is over.
    pub(super) fn remember(&mut self, record: &Record) -> Result<(), SessionError> {
        self.journal.results.note(0, self.now());
        if record.id.is_baseline() {
            return Ok(());
        }
        self.journal.calls.end_idle_row();
        self.forget_escalation();
        // One that is measured once more has counted before.
        let has_counted = self.journal.open_attempts().any(|open| open.id == record.id && open.replaces.is_some());
        if record.outcome == Outcome::Keep || !has_counted {
            self.journal.ladder.count(&self.contract, &self.history, record);
        }
        if record.outcome == Outcome::Keep {
            self.remove_flag_report();
        }
        if let Some(direction) = &record.direction {
            self.memory().add_direction(direction, record.id)?;
        }
        self.note_findings(record.id, &record.findings())?;
        crash::point("settling.direction_noted");
        let of_record = Iteration::of(record, self.journal.calls.iteration(), self.journal.ladder.stale_count());
        let stall = self.journal.calls.last().question.as_ref().map(|_| Stall::Question);
        self.memory().log_iteration(&Iteration { stall, ..of_record })?;
        self.written.unsynced.add(self.folder.state().join(ITERATIONS));
        self.watch_again(&self.folder.state());
        Ok(())
    }

    /// Keeps what an experiment found, or a call of the agent that made none.
    pub(super) fn note_findings(&mut self, id: ExperimentId, findings: &[String]) -> Result<(), SessionError> {
        if findings.is_empty() {
            return Ok(());
        }
        self.journal.results.note(findings.len(), self.now());
        self.memory().add_findings(self.now(), id, findings)?;
        self.written.unsynced.add(self.folder.state().join(FINDINGS));
        self.watch_again(&self.folder.state());
        Ok(())
    }

    /// The value that the next experiment has to beat, with its experiment. None
    /// where a threshold decides.
    pub(super) fn to_beat(&self) -> Option<(ExperimentId, Number)> {
        self.history.best().filter(|_| self.contract.keep_above.is_none())
    }

    /// Says what is new on the ladder since `before`: a flag, whose reason is `why`, and another directive.
    pub(super) fn say_steps(&mut self, before: Rung, why: &'static str) {
        let (flags, directive) = self.journal.ladder.new_since(before);
        let after = self.history.last_id();
        if let Some(times) = flags {
            let report = self.write_flag_report(why);
            self.say(Event::Flagged { after, times, why, report });
        }
        if let Some(directive) = directive {
            self.say(Event::Directed { after, directive });
        }
    }

    /// Says of a change that it named no direction, if the next call is told so.
    pub(super) fn say_unnamed(&mut self, id: ExperimentId) {
        if self.journal.calls.last().unnamed {
            self.say(Notice::Unnamed(id));
        }
    }
}
