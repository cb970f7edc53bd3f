//! State that all experiments of a session share: refs, contract, journal, rows and memory files, also those that
//! outlive it. `Store` alone writes it, and notices when another process has taken over the session.
//!
//! The lock prevents that on one host. On a shared file system the lock of another host may be invisible.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Map, Value};
use strum::VariantArray;

use super::{
    Detection, Expected, HeldMemories, Notices, ReceivedMessages, Walls, forget_escalation, note_escalation,
    remove_flag_report, write_flag_report,
};
use crate::agent::Memories;
use crate::domain::{
    Clock, CommitId, Contract, Draw, Event, ExperimentId, Idea, IdeaKind, LadderPosition, Lesson, NewIdea, Notice,
    Number, Outcome, Record, Stall, Tag, agent_name, with_causes,
};
use crate::exec::Exit;
use crate::fs::{FileStamp, Unsynced, open_regular};
use crate::git::Repo;
use crate::ledger::LedgerFile;
use crate::machine::Attempt;
use crate::rules::{
    HiddenBook, HiddenPlaces, History, Warning, directions_tried, draw, idea_key, is_used, keep_lesson, learned,
    newest_first, offered_state, pivot_lesson, stall, summary_lesson, too_noisy,
};
use crate::session::errors::SessionError;
use crate::session::files::{exclude_own, expected_tip, session_tags};
use crate::state::{
    Added, FINDINGS, ITERATIONS, IdeaFile, Iteration, Journal, LESSONS, LessonFile, Memory, OwnerLock, PROGRESS,
    PROGRESS_COPIES, Presence, SessionFolder, StateError, read_json,
};
use crate::{crash, rules};

/// The reason of a flag by the ladder.
pub(crate) const NO_KEEP: &str = "no keep for so long that you should look";

/// The one writer of what is shared: the repository's refs, the session's folder and `results.tsv`.
pub(crate) struct Store {
    pub(crate) repo: Rc<Repo>,
    pub(crate) folder: SessionFolder,
    pub(crate) lock: OwnerLock,
    pub(crate) contract: Contract,
    pub(crate) history: History,
    pub(crate) journal: Journal,
    pub(crate) written: JournalFile,
    pub(crate) ledger: LedgerFile,
    pub(crate) clock: Clock,
    pub(crate) expected: Expected,
    pub(crate) notices: Notices,
    pub(crate) messages: ReceivedMessages,
    /// The walls around jobs.
    pub(crate) walls: Walls,
    /// The runs and verdicts that no agent may read.
    pub(crate) hidden: HiddenBook,
    /// What `--hide` names.
    pub(crate) hidden_places: HiddenPlaces,
    /// The hash of the hidden split, once a verdict needed it.
    pub(crate) split: Option<String>,
    /// Counter that grows whenever working trees may begin to change: by jobs, or by the user while the loop waits.
    pub(crate) activity: u64,
    /// Set once the opening of the session was rolled back.
    pub(crate) rolled_back: bool,
}

/// The journal's file.
pub(crate) struct JournalFile {
    /// The journal as it was last written.
    pub(crate) journal: Journal,
    /// Files to sync before the next write of the journal, besides those that the repository tracks itself.
    pub(crate) unsynced: Unsynced,
    /// When it was last written.
    pub(crate) at: Instant,
    /// The stamp of the file, as last written or looked at.
    pub(crate) stamp: Option<FileStamp>,
    /// The process that opened the session after this one, once that was noticed.
    pub(crate) taken_over_by: Option<Presence>,
}

impl JournalFile {
    /// The file of a journal that this process has just read or written.
    pub(crate) fn new(journal: Journal) -> Self {
        JournalFile { journal, unsynced: Unsynced::default(), at: Instant::now(), stamp: None, taken_over_by: None }
    }
}

impl Store {
    /// The store of a session whose files are locked and read, without walls.
    pub(crate) fn new(
        repo: Rc<Repo>,
        (folder, lock): (SessionFolder, OwnerLock),
        contract: Contract,
        history: History,
        journal: Journal,
        ledger: LedgerFile,
        clock: Clock,
    ) -> Store {
        Store {
            written: JournalFile::new(journal.clone()),
            expected: Expected::of(&folder.state()),
            repo,
            folder,
            lock,
            contract,
            history,
            journal,
            ledger,
            clock,
            notices: Notices::default(),
            messages: ReceivedMessages::default(),
            walls: Walls::default(),
            hidden: HiddenBook::default(),
            hidden_places: HiddenPlaces::default(),
            split: None,
            activity: 0,
            rolled_back: false,
        }
    }

    /// Notes what is to be told.
    pub(crate) fn note(&mut self, what: impl Into<Event>) {
        self.notices.note(what);
    }

    /// Notes that the metric is too noisy, where the baseline's runs show it.
    pub(crate) fn note_noise(&mut self) {
        if let Some(Warning { what, hint, .. }) = too_noisy(self.contract.tag.as_str(), self.history.records()) {
            self.note_once(format!("{what}; {}", hint.unwrap_or_default()));
        }
    }

    /// Notes a problem that does not affect the loop, once instead of before each experiment.
    pub(crate) fn note_once(&mut self, trouble: impl Into<Notice>) {
        self.notices.note_once(trouble);
    }

    /// Names the first number of the session that is converted to the baseline's unit.
    pub(crate) fn name_unit_change(&mut self, number: &Number) {
        let is_converted = |record: &Record| record.metric.number().is_some_and(|number| number.is_converted());
        if number.is_converted() && !self.history.records().iter().any(is_converted) {
            let (metric, printed, read) = (self.contract.metric.name.clone(), number.text(), format!("{number:#}"));
            self.notices.note_first(Notice::UnitChanged { metric, printed, read });
        }
    }

    /// Notes that somebody may change working trees from now on: what was seen of them before holds no longer.
    pub(crate) fn note_activity(&mut self) {
        self.activity += 1;
    }

    /// The commit that the branch should be at between two experiments.
    pub(crate) fn tip(&self) -> CommitId {
        expected_tip(&self.contract, self.history.incumbent().map(|record| &record.commit))
    }

    /// The number of the next attempt: no record and no attempt that is open has it.
    pub(crate) fn allocate(&mut self) -> ExperimentId {
        self.journal.allocate(self.history.next_id())
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes the journal as it is. If that fails, notes the session's unsolved problem elsewhere.
    pub(crate) fn write_journal(&mut self) -> Result<(), SessionError> {
        self.replace_journal().inspect_err(|_| note_escalation(self))
    }

    fn replace_journal(&mut self) -> Result<(), SessionError> {
        self.heal()?;
        let now = self.clock.now();
        let mut unsynced = std::mem::take(&mut self.written.unsynced);
        unsynced.append(self.repo.unsynced());
        let path = self.folder.state().join(PROGRESS);
        self.journal.write_after(unsynced, &self.folder.state(), now)?;
        (self.written.journal, self.written.at) = (self.journal.clone(), Instant::now());
        self.written.stamp = FileStamp::of(&path);
        let copies = self.folder.state().join(PROGRESS_COPIES);
        [path, copies].iter().for_each(|path| self.expected.expect_again(path));
        Ok(())
    }

    /// Returns to the journal as last written, but retains the session's unsolved problem. Unwritten steps count as not taken,
    /// and are taken when the session continues.
    pub(crate) fn forget_unwritten(&mut self) {
        let escalation = std::mem::take(&mut self.journal.escalation);
        self.journal = Journal { escalation, ..self.written.journal.clone() };
    }

    /// Enters an attempt at a new step in the journal.
    pub(crate) fn enter(&mut self, attempt: Attempt) -> Result<(), SessionError> {
        self.journal.enter(attempt);
        self.write_journal()
    }

    /// Closes an attempt that is settled, or that came to nothing.
    pub(crate) fn close(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        self.journal.close(id);
        if self.history.get(id).is_none() {
            return self.write_journal();
        }
        // The next step says the same; until then the record's ref says that the experiment is over.
        self.written.journal = self.journal.clone();
        Ok(())
    }

    /// Notes the end of a call of the agent, and whether it changed anything.
    pub(crate) fn note_call_end(&mut self, id: ExperimentId, exit: &Exit, changed: bool, said: String) {
        let &Exit { seconds, exit, timed_out, .. } = exit;
        self.journal.pauses.waits.note_call(seconds, self.contract.agent_timeout.as_secs_f64());
        self.note(Event::AgentFinished { id, seconds, changed, exit, timed_out, said });
    }

    /// Counts a call that changed nothing. Returns the rung of before.
    pub(crate) fn note_idle_call(&mut self, notices: &str) -> Result<LadderPosition, SessionError> {
        self.journal.calls.count_idle();
        let before = self.journal.ladder.count_idle(&self.contract, &self.history);
        self.log_iteration(&Iteration {
            ts: self.now(),
            iteration: self.journal.calls.iteration(),
            experiment: None,
            outcome: None::<Outcome>,
            description: notices,
            stale_count: self.journal.ladder.position().stale,
            stall: stall(false, Some(notices)),
        })?;
        Ok(before)
    }

    fn log_iteration(&mut self, iteration: &Iteration<'_>) -> Result<(), SessionError> {
        Memory::new(&self.folder.state()).log_iteration(iteration)?;
        self.written.unsynced.add(self.folder.state().join(ITERATIONS));
        self.expected.expect_again(&self.folder.state());
        Ok(())
    }

    /// Updates the memory files and the counters with an experiment that is over. Returns the rung of before.
    pub(crate) fn remember(&mut self, record: &Record) -> Result<LadderPosition, SessionError> {
        self.journal.results.note(0, self.now());
        let before = self.journal.ladder.position();
        if record.id.is_baseline() {
            return Ok(before);
        }
        self.journal.calls.end_idle_row();
        forget_escalation(self);
        // One that is measured once more has counted before.
        let has_counted = self.journal.attempt(record.id).is_some_and(|open| open.head().replaces().is_some());
        if record.outcome == Outcome::Keep || !has_counted {
            self.journal.ladder.count(&self.contract, &self.history, record);
        }
        if record.outcome == Outcome::Keep {
            remove_flag_report(self);
        }
        if record.direction.is_some() {
            Memory::new(&self.folder.state()).write_directions(self.history.records())?;
            self.expected.expect_again(&self.folder.state());
        }
        self.note_findings(record.id, &record.findings())?;
        crash::point("settling.direction_noted");
        let of_record = Iteration::of(record, self.journal.calls.iteration(), self.journal.ladder.position().stale);
        let stall = self.journal.calls.last().question.as_ref().map(|_| Stall::Question);
        if !record.is_second_look() {
            self.log_iteration(&Iteration { stall, ..of_record })?;
        }
        Ok(before)
    }

    /// Keeps what an experiment found, or a call of the agent that made none.
    pub(crate) fn note_findings(&mut self, id: ExperimentId, findings: &[String]) -> Result<(), SessionError> {
        if findings.is_empty() {
            return Ok(());
        }
        self.journal.results.note(findings.len(), self.now());
        Memory::new(&self.folder.state()).add_findings(self.now(), id, findings)?;
        self.written.unsynced.add(self.folder.state().join(FINDINGS));
        self.expected.expect_again(&self.folder.state());
        Ok(())
    }

    /// Says what is new on the ladder since `before`: a flag, whose reason is `why`, and another directive.
    pub(crate) fn note_steps(&mut self, before: LadderPosition, why: &'static str) {
        let (flags, directive) = self.journal.ladder.new_since(before);
        let after = self.history.last_id();
        if let Some(times) = flags {
            let report = write_flag_report(self, why);
            self.note(Event::Flagged { after, times, why, report });
        }
        if let Some(directive) = directive {
            self.note(Event::Directed { after, directive });
        }
    }

    /// Says of a change that it named no direction, if the next call is told so.
    pub(crate) fn note_unnamed(&mut self, id: ExperimentId) {
        if self.journal.calls.last().unnamed {
            self.note(Notice::Unnamed(id));
        }
    }
}

impl Store {
    /// Fails once the journal on the disk is that of a process which opened the session later, and from then on: whatever is
    /// in this process's hands is no longer its own.
    pub(crate) fn refuse_taken_over(&mut self) -> Result<(), SessionError> {
        self.written.look(&self.folder);
        let Some(by) = &self.written.taken_over_by else { return Ok(()) };
        let process = by.process().map(|process| format!("process {process}"));
        let host = by.host().map(|host| format!(" on {host}"));
        let by = process.unwrap_or_else(|| "another process".to_owned()) + &host.unwrap_or_default();
        Err(SessionError::TakenOver { tag: self.contract.tag.clone(), by })
    }
}

impl JournalFile {
    /// Reads who has the session by the journal on the disk, if that changed since this process wrote it or looked.
    fn look(&mut self, folder: &SessionFolder) {
        let path = folder.state().join(PROGRESS);
        // A network file system asks its server again when a file is opened.
        let stamp =
            open_regular(&path).and_then(|file| file.metadata()).ok().map(|meta| FileStamp::from_metadata(&meta));
        if self.taken_over_by.is_some() || stamp.is_none() || stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        // An invalid journal is repaired.
        let found = read_json::<Presence>(&path).ok().flatten();
        self.taken_over_by = found.filter(|found| self.journal.presence.is_taken_over_by(found));
    }
}

/// Notes what the agent is offered of the backlog with its proposal.
pub(crate) fn note_offer(memories: &Memories, proposal: &mut Map<String, Value>) {
    for Idea { idea, .. } in &memories.offers {
        proposal.insert(idea.kind.offered_field().into(), idea.text.as_str().into());
    }
}

/// The contents of the files that outlive a call.
pub(crate) struct Files {
    lessons: Vec<Lesson>,
    ideas: Vec<Idea>,
    /// The findings of the session, with the experiments of their calls.
    noted: Vec<(ExperimentId, String)>,
}

impl Files {
    /// Reads the lessons and ideas of a repository and the findings of a session; those that cannot be read are `unread`.
    pub(crate) fn read(root: &Path, state: &Path, mut unread: impl FnMut(&'static str, &StateError)) -> Files {
        let lessons = LessonFile::new(root).read().inspect_err(|error| unread("lessons", error));
        let backlog = IdeaFile::new(root).read().inspect_err(|error| unread("ideas", error));
        let noted = Memory::new(state).findings().unwrap_or_default();
        Files { lessons: lessons.unwrap_or_default(), ideas: backlog.unwrap_or_default().ideas, noted }
    }
}

/// Selects the lessons, findings and ideas that an agent gets. When the agent of an experiment is called again, it gets the
/// same idea and source. It never gets an idea that it named itself in an interrupted call.
pub(crate) fn memories(
    tag: &Tag,
    history: &History,
    id: ExperimentId,
    new_direction: bool,
    how: Draw,
    Files { lessons, mut ideas, noted }: Files,
) -> Memories {
    let tried = if new_direction { directions_tried(history.records()) } else { Vec::new() };
    let seed = format!("{tag}/{id}");
    let own = agent_name(tag.as_str(), &id.to_string());
    ideas.retain(|idea| idea.by != own);
    let mut learned = learned(history.records(), &noted);
    learned.retain(|note| !lessons.iter().any(|lesson| lesson.insight == note.text));
    let offers_of = |record| IdeaKind::VARIANTS.iter().filter_map(move |kind| Record::offered(record, *kind));
    let earlier: Vec<String> = history.records().iter().flat_map(offers_of).collect();
    let offered = |idea: &Idea| earlier.iter().filter(|text| **text == idea.idea.text).count();
    let offer = |kind: &IdeaKind| draw(&ideas, *kind, how, &seed, &tried, offered).cloned();
    let offers = IdeaKind::VARIANTS.iter().filter_map(offer).collect();
    Memories { lessons: newest_first(lessons), learned, offers }
}

/// The backlog of the repository that `dir` is in, kept out of git.
///
/// # Errors
///
/// There is no repository, or its exclude file cannot be written.
pub fn open_backlog(dir: &Path) -> Result<IdeaFile, SessionError> {
    let repo = Repo::discover(dir)?;
    exclude_own(&repo, &[])?;
    Ok(IdeaFile::new(repo.main_worktree()))
}

impl Store {
    /// Looks up what the agent of an experiment is told of earlier nights.
    pub(crate) fn recall(&mut self, id: ExperimentId) -> Memories {
        let files = Files::read(self.repo.main_worktree(), &self.folder.state(), |what, error| {
            self.notices.note_once(Notice::MemoryUnread { what, why: with_causes(error) });
        });
        let new_direction = self.journal.ladder.position().directive.wants_new_direction();
        memories(&self.contract.tag, &self.history, id, new_direction, self.contract.draw, files)
    }

    fn lessons(&self) -> LessonFile {
        LessonFile::new(self.repo.main_worktree())
    }

    fn ideas(&self) -> IdeaFile {
        IdeaFile::new(self.repo.main_worktree())
    }

    /// The current contents of the files.
    pub(crate) fn held_memories(&self) -> HeldMemories {
        let (lessons, ideas) = (self.lessons().content(), self.ideas().content());
        HeldMemories { lessons: lessons.unwrap_or_default(), ideas: ideas.unwrap_or_default() }
    }

    /// Restores files that an active process deleted or emptied.
    pub(crate) fn restore_memories(&mut self) -> Result<(), SessionError> {
        let Some(Detection { memories: held, .. }) = &self.expected.watch else { return Ok(()) };
        let (lessons, ideas) = (self.lessons(), self.ideas());
        let restored = lessons.restore(&held.lessons, &self.folder.state());
        for (back, path) in [(restored, lessons.path()), (ideas.restore(&held.ideas), ideas.path())] {
            if self.notices.or_unrecorded(back)?.unwrap_or_default() {
                self.note(format!("restored {}, deleted while {} active", path.display(), self.expected.actors()));
            }
        }
        Ok(())
    }

    /// Keeps what an experiment that is over taught, and its ideas. `before` is the rung that the session was on.
    pub(crate) fn learn_from(&mut self, record: &Record, before: LadderPosition) -> Result<(), SessionError> {
        if record.id.is_baseline() {
            return Ok(());
        }
        if record.outcome == Outcome::Keep {
            self.add_lesson(keep_lesson(&self.history, record))?;
        }
        self.learn_from_pivot(before)?;
        crash::point("settling.lesson_added");
        self.note_ideas(record)?;
        crash::point("settling.ideas_noted");
        Ok(())
    }

    /// Adds the ideas of an experiment to the backlog, and notes there what came of those that its agent was offered.
    fn note_ideas(&mut self, record: &Record) -> Result<(), SessionError> {
        self.add_ideas(record.id, &record.ideas())?;
        for text in IdeaKind::VARIANTS.iter().filter_map(|kind| record.offered(*kind)) {
            let by = agent_name(self.contract.tag.as_str(), &record.id.to_string());
            let offered = |idea: &Idea| idea_key(&idea.idea.text) == idea_key(&text);
            let becomes = |idea: &Idea| offered_state(idea, is_used(record, idea), record.outcome == Outcome::Keep);
            let marked = self.ideas().mark(offered, becomes, &by, self.now());
            self.notices.or_unrecorded(marked)?;
        }
        Ok(())
    }

    /// Makes a backlog that is gone anew, with the ideas that the records tell of. Those of the user are not among them.
    pub(crate) fn restore_ideas(&mut self) -> Result<(), SessionError> {
        if self.ideas().path().exists() {
            return Ok(());
        }
        let was_offered = |record: &Record| IdeaKind::VARIANTS.iter().any(|kind| record.offered(*kind).is_some());
        let tells = |record: &&Record| !record.ideas().is_empty() || was_offered(record);
        let telling: Vec<Record> = self.history.records().iter().filter(tells).cloned().collect();
        telling.iter().try_for_each(|record| self.note_ideas(record))
    }

    /// Keeps what the strategy taught that is left, if the session has pivoted since `before`.
    pub(crate) fn learn_from_pivot(&mut self, before: LadderPosition) -> Result<(), SessionError> {
        let turns = self.journal.ladder.position().turns;
        let lesson = (turns > before.turns).then(|| pivot_lesson(&self.history, turns)).flatten();
        lesson.map_or(Ok(()), |lesson| self.add_lesson(lesson))
    }

    /// Makes lessons that are gone with the rest of the session's files anew, as far as the records tell of keeps.
    pub(crate) fn put_lessons_back(&mut self) -> Result<(), SessionError> {
        if self.lessons().path().exists() {
            return Ok(());
        }
        let is_kept = |record: &&Record| !record.id.is_baseline() && record.outcome == Outcome::Keep;
        let kept = self.history.records().iter().filter(is_kept).map(|record| keep_lesson(&self.history, record));
        kept.collect::<Vec<_>>().into_iter().try_for_each(|lesson| self.add_lesson(lesson))
    }

    /// Keeps what the experiments came to that are in no summary yet; those up to `summed_up` are.
    pub(crate) fn sum_up(&mut self, summed_up: u32) -> Result<(), SessionError> {
        // A kill between the lesson and the journal leaves a summary that only the lessons tell of.
        let lessons = self.lessons().read().unwrap_or_default();
        let after = rules::summed_up(&self.history, &lessons, summed_up);
        if let Some(lesson) = summary_lesson(&self.history, after, &lessons) {
            self.add_lesson(lesson)?;
            crash::point("stop.lesson_added");
        }
        Ok(())
    }

    /// Adds the ideas of a proposal to the backlog.
    pub(crate) fn add_ideas(&mut self, experiment: ExperimentId, ideas: &[NewIdea]) -> Result<(), SessionError> {
        let by = agent_name(self.contract.tag.as_str(), &experiment.to_string());
        self.add_ideas_by(&by, ideas).map(drop)
    }

    /// Adds ideas of this author to the backlog; gives how many are new.
    pub(crate) fn add_ideas_by(&mut self, by: &str, ideas: &[NewIdea]) -> Result<usize, SessionError> {
        let mut new = 0;
        for idea in ideas {
            let added = self.notices.or_unrecorded(self.ideas().add(idea, by, self.now()))?;
            new += usize::from(matches!(added, Some(Added::New(_))));
        }
        Ok(new)
    }

    /// Adds a lesson to those of the repository. Reports a failure and continues.
    fn add_lesson(&mut self, lesson: Lesson) -> Result<(), SessionError> {
        if self.repo.working_tree.is_tracked(Path::new(LESSONS))? {
            self.note_once(format!("{LESSONS} is tracked by git, so lessons are not recorded"));
            return Ok(());
        }
        let root = self.repo.main_worktree();
        let mut open = session_tags(&self.repo)?;
        // An entry of a session that has an experiment open may be looked for again.
        open.retain(|tag| {
            let journal = || Journal::read(&SessionFolder::new(root, tag).state());
            *tag == self.contract.tag || matches!(journal(), Ok(Some(journal)) if !journal.attempts.is_empty())
        });
        let spared = |session: &str| open.iter().any(|tag| tag.as_str() == session);
        let added = self.lessons().add(lesson, spared, &self.folder.state());
        self.notices.or_unrecorded(added).map(drop)
    }
}
