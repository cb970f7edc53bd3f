//! What outlives a session: its lessons, and the backlog of ideas of its repository.

use std::path::Path;

use jiff::Timestamp;
use strum::VariantArray;

use super::error::SessionError;
use super::expected::HeldMemories;
use super::own_files::OWN_FILES;
use super::reading::session_tags;
use super::store::Store;
use crate::agent::Memories;
use crate::crash;
use crate::domain::{
    Draw, ExperimentId, Idea, IdeaKind, Lesson, NewIdea, Notice, Outcome, Record, Rung, Tag, agent_name, with_causes,
};
use crate::git::Repo;
use crate::rules::{
    History, directions_tried, draw, heaviest_first, is_used, keep_lesson, learned, pivot_lesson, same_idea,
    summary_lesson, summed_up,
};
use crate::state::{Added, IdeaFile, Journal, LESSONS, LessonFile, OpenExperiment, SessionFolder, StateError};

/// Notes what the agent is offered of the backlog with the open experiment.
pub(super) fn note_offer(memories: &Memories, open: &mut OpenExperiment) {
    for Idea { idea, .. } in &memories.offers {
        open.proposal.insert(idea.kind.offered_field().into(), idea.text.as_str().into());
    }
}

/// What the files hold that outlive a call.
pub(super) struct Files<'a> {
    pub(super) lessons: Vec<Lesson>,
    pub(super) ideas: &'a [Idea],
    /// The findings of the session, with the experiments of their calls.
    pub(super) noted: &'a [(ExperimentId, String)],
}

/// What is told of the lessons, the findings and the ideas that there are. Idea and source are the same ones when the agent of an experiment is
/// called again, and none that it named itself in a call that was cut short.
pub(super) fn memories(
    tag: &Tag,
    history: &History,
    id: ExperimentId,
    new_direction: bool,
    how: Draw,
    Files { lessons, ideas, noted }: Files<'_>,
    now: Timestamp,
) -> Memories {
    let tried = if new_direction { directions_tried(history.records()) } else { Vec::new() };
    let seed = format!("{tag}/{id}");
    let own = agent_name(tag.as_str(), &id.to_string());
    let others: Vec<Idea> = ideas.iter().filter(|idea| idea.by != own).cloned().collect();
    let mut learned = learned(history.records(), noted);
    learned.retain(|note| !lessons.iter().any(|lesson| lesson.insight == note.text));
    let offers_of = |record| IdeaKind::VARIANTS.iter().filter_map(move |kind| Record::offered(record, *kind));
    let earlier: Vec<String> = history.records().iter().flat_map(offers_of).collect();
    let offered = |idea: &Idea| earlier.iter().filter(|text| **text == idea.idea.text).count();
    let offer = |kind: &IdeaKind| draw(&others, *kind, how, &seed, &tried, offered).cloned();
    let offers = IdeaKind::VARIANTS.iter().filter_map(offer).collect();
    Memories { lessons: heaviest_first(lessons, now), learned, offers }
}

/// The backlog of the repository that `dir` is in, kept out of git.
///
/// # Errors
///
/// There is no repository, or its exclude file cannot be written.
pub fn open_backlog(dir: &Path) -> Result<IdeaFile, SessionError> {
    let repo = Repo::discover(dir)?;
    repo.exclude(OWN_FILES)?;
    Ok(IdeaFile::new(&repo.main_worktree()))
}

impl Store {
    /// Looks up what the agent of an experiment is told of earlier nights.
    pub(super) fn recall(&mut self, id: ExperimentId) -> Memories {
        let root = self.repo.main_worktree();
        let (lessons, ideas) = (LessonFile::new(&root), IdeaFile::new(&root));
        let lessons = lessons.read().unwrap_or_else(|error| {
            self.say_once(Notice::MemoryUnread { what: "lessons", why: with_causes(&error) });
            Vec::new()
        });
        let backlog = match ideas.read() {
            Ok(backlog) => backlog.ideas,
            Err(error) => {
                self.say_once(Notice::MemoryUnread { what: "ideas", why: with_causes(&error) });
                Vec::new()
            }
        };
        let new_direction = self.journal.ladder.wants_new_direction();
        let noted = self.memory().findings().unwrap_or_default();
        let files = Files { lessons, ideas: &backlog, noted: &noted };
        memories(&self.contract.tag, &self.history, id, new_direction, self.contract.draw, files, self.now())
    }

    /// What the files hold now.
    pub(super) fn hold_memories(&self) -> HeldMemories {
        let root = self.repo.main_worktree();
        let (lessons, ideas) = (LessonFile::new(&root).content(), IdeaFile::new(&root).content());
        HeldMemories { lessons: lessons.unwrap_or_default(), ideas: ideas.unwrap_or_default() }
    }

    /// Puts back what somebody at work deleted or emptied.
    pub(super) fn put_memories_back(&mut self, held: &HeldMemories) -> Result<(), SessionError> {
        let root = self.repo.main_worktree();
        let (lessons, ideas) = (LessonFile::new(&root), IdeaFile::new(&root));
        let state = self.folder.state();
        for (back, path) in
            [(lessons.put_back(&held.lessons, &state), lessons.path()), (ideas.put_back(&held.ideas), ideas.path())]
        {
            if self.or_told(back)?.unwrap_or_default() {
                let who = self.expected.actors();
                self.say(Notice::MemoryRestored { who, path: path.to_owned() });
            }
        }
        Ok(())
    }

    /// Keeps what an experiment that is over taught, and its ideas. `before` is the rung that the session was on.
    pub(super) fn learn_from(&mut self, record: &Record, before: Rung) -> Result<(), SessionError> {
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
            let offered = |idea: &Idea| same_idea(&idea.idea.text, &text);
            let file = IdeaFile::new(&self.repo.main_worktree());
            let is_kept = record.outcome == Outcome::Keep;
            let marked = file.mark_drawn(offered, |idea| is_used(record, idea), is_kept, &by, self.now());
            self.or_told(marked)?;
        }
        Ok(())
    }

    /// Makes a backlog that is gone anew, with the ideas that the records tell of. Those of the user are not among them.
    pub(super) fn put_ideas_back(&mut self) -> Result<(), SessionError> {
        if !IdeaFile::new(&self.repo.main_worktree()).path().exists() {
            let was_offered = |record: &Record| IdeaKind::VARIANTS.iter().any(|kind| record.offered(*kind).is_some());
            let tells = |record: &&Record| !record.ideas().is_empty() || was_offered(record);
            let telling: Vec<Record> = self.history.records().iter().filter(tells).cloned().collect();
            telling.iter().try_for_each(|record| self.note_ideas(record))?;
        }
        Ok(())
    }

    /// Keeps what the strategy taught that is left, if the session has pivoted since `before`.
    pub(super) fn learn_from_pivot(&mut self, before: Rung) -> Result<(), SessionError> {
        let turns = self.journal.ladder.rung().turns;
        match (turns > before.turns).then(|| pivot_lesson(&self.history, turns)).flatten() {
            Some(lesson) => self.add_lesson(lesson),
            None => Ok(()),
        }
    }

    /// Makes lessons that are gone with the rest of the session's files anew, as far as the records tell of keeps.
    pub(super) fn put_lessons_back(&mut self) -> Result<(), SessionError> {
        if LessonFile::new(&self.repo.main_worktree()).path().exists() {
            return Ok(());
        }
        let kept =
            self.history.records().iter().filter(|record| !record.id.is_baseline() && record.outcome == Outcome::Keep);
        let lessons: Vec<Lesson> = kept.map(|record| keep_lesson(&self.history, record)).collect();
        lessons.into_iter().try_for_each(|lesson| self.add_lesson(lesson))
    }

    /// Keeps what the experiments came to that are in no summary yet; the journal that is written next says that they are.
    pub(super) fn sum_up(&mut self) -> Result<(), SessionError> {
        // A kill between the lesson and the journal leaves a summary that only the lessons tell of.
        let lessons = LessonFile::new(&self.repo.main_worktree()).read().unwrap_or_default();
        let after = summed_up(&self.history, &lessons, self.journal.results.summed_up());
        if let Some(lesson) = summary_lesson(&self.history, after, &lessons) {
            self.add_lesson(lesson)?;
            crash::point("stop.lesson_added");
        }
        self.journal.results.sum_up(self.history.next_sequence());
        Ok(())
    }

    /// Adds the ideas of a proposal to the backlog.
    pub(super) fn add_ideas(&mut self, experiment: ExperimentId, ideas: &[NewIdea]) -> Result<(), SessionError> {
        let by = agent_name(self.contract.tag.as_str(), &experiment.to_string());
        self.add_ideas_by(&by, ideas).map(drop)
    }

    /// Adds ideas of this author to the backlog; gives how many are new.
    pub(super) fn add_ideas_by(&mut self, by: &str, ideas: &[NewIdea]) -> Result<usize, SessionError> {
        let file = IdeaFile::new(&self.repo.main_worktree());
        let mut new = 0;
        for idea in ideas {
            let added = file.add(idea, by, self.now());
            new += usize::from(matches!(self.or_told(added)?, Some(Added::New(_))));
        }
        Ok(new)
    }

    /// Adds a lesson to those of the repository. Reports a failure and continues.
    fn add_lesson(&mut self, lesson: Lesson) -> Result<(), SessionError> {
        if self.repo.working_tree.is_tracked(Path::new(LESSONS))? {
            self.say_once(Notice::LessonsTracked(LESSONS));
            return Ok(());
        }
        let open = self.open_sessions()?;
        let file = LessonFile::new(&self.repo.main_worktree());
        let spared = |session: &str| open.iter().any(|tag| tag.as_str() == session);
        let added = file.add(lesson, spared, self.now(), &self.folder.state());
        self.or_told(added).map(drop)
    }

    /// This session, and those that have an experiment open: an entry of such a one may be looked for again.
    fn open_sessions(&self) -> Result<Vec<Tag>, SessionError> {
        let root = self.repo.main_worktree();
        let mut tags = session_tags(&self.repo)?;
        tags.retain(|tag| {
            let journal = || Journal::read(&SessionFolder::new(&root, tag).state());
            *tag == self.contract.tag || matches!(journal(), Ok(Some(journal)) if !journal.attempts.is_empty())
        });
        Ok(tags)
    }

    /// What came of a write that the night does not depend on. For want of room it is done again later, with the rest of
    /// its step.
    fn or_told<T>(&mut self, result: Result<T, StateError>) -> Result<Option<T>, SessionError> {
        match result.map_err(SessionError::from) {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.is_disk_full() => Err(error),
            Err(error) => {
                self.say_once(Notice::NotRecorded(with_causes(&error)));
                Ok(None)
            }
        }
    }
}
