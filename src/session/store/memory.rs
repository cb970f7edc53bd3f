//! Memory that outlives a session: its lessons, and the repository's backlog of ideas.

use std::path::Path;

use strum::VariantArray;

use super::expectations::{Detection, HeldMemories};
use super::writer::Store;
use crate::agent::Memories;
use crate::crash;
use crate::domain::{
    Draw, ExperimentId, Idea, IdeaKind, LadderPosition, Lesson, NewIdea, Notice, Outcome, Record, Tag, agent_name,
    with_causes,
};
use crate::git::Repo;
use crate::rules::{
    self, History, directions_tried, draw, idea_key, is_used, keep_lesson, learned, newest_first, offered_state,
    pivot_lesson, summary_lesson,
};
use crate::session::errors::SessionError;
use crate::session::files::{exclude_own, session_tags};
use crate::state::{Added, IdeaFile, Journal, LESSONS, LessonFile, Memory, OpenExperiment, SessionFolder, StateError};

/// Notes what the agent is offered of the backlog with the open experiment.
pub(crate) fn note_offer(memories: &Memories, open: &mut OpenExperiment) {
    for Idea { idea, .. } in &memories.offers {
        open.proposal.insert(idea.kind.offered_field().into(), idea.text.as_str().into());
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
    Ok(IdeaFile::new(&repo.main_worktree()))
}

impl Store {
    /// Looks up what the agent of an experiment is told of earlier nights.
    pub(crate) fn recall(&mut self, id: ExperimentId) -> Memories {
        let files = Files::read(&self.repo.main_worktree(), &self.folder.state(), |what, error| {
            self.notices.note_once(Notice::MemoryUnread { what, why: with_causes(error) });
        });
        let new_direction = self.journal.ladder.position().directive.wants_new_direction();
        memories(&self.contract.tag, &self.history, id, new_direction, self.contract.draw, files)
    }

    fn lessons(&self) -> LessonFile {
        LessonFile::new(&self.repo.main_worktree())
    }

    fn ideas(&self) -> IdeaFile {
        IdeaFile::new(&self.repo.main_worktree())
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
            let journal = || Journal::read(&SessionFolder::new(&root, tag).state());
            *tag == self.contract.tag || matches!(journal(), Ok(Some(journal)) if !journal.attempts.is_empty())
        });
        let spared = |session: &str| open.iter().any(|tag| tag.as_str() == session);
        let added = self.lessons().add(lesson, spared, &self.folder.state());
        self.notices.or_unrecorded(added).map(drop)
    }
}
