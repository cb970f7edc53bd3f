//! The backlog of ideas, `.autoresearch/ideas.jsonl`: a line for each idea and each change of its state. The file only
//! grows; the user and the agents of all sessions may append at the same time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::folder::SESSIONS_FOLDER;
use super::lines::RepairedLines;
use super::{StateError, lines};
use crate::domain::{FORMAT_VERSION, Idea, IdeaState, NewIdea};
use crate::rules::idea_key;

/// One line: an idea with its state. A later line with the same text sets the state only.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    version: u32,
    #[serde(flatten)]
    idea: Idea,
}

/// The content of the file.
#[derive(Debug, Default)]
pub struct Backlog {
    /// The ideas, ordered by number.
    pub ideas: Vec<Idea>,
    /// The number of lines that cannot be parsed.
    pub damaged: usize,
}

/// The result of adding an idea.
#[derive(Debug, Clone, PartialEq)]
pub enum Added {
    /// The idea is new, with this number.
    New(u32),
    /// The backlog already has it.
    Known(Idea),
}

/// The file.
#[derive(Debug, Clone)]
pub struct IdeaFile {
    path: PathBuf,
}

impl IdeaFile {
    /// Names the file of a repository, given its main worktree.
    pub fn new(main_worktree: &Path) -> Self {
        IdeaFile { path: main_worktree.join(SESSIONS_FOLDER).join("ideas.jsonl") }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; empty if there is no file. Torn lines are counted and skipped. An idea whose number is taken, as it was
    /// added while the file was missing, gets the next one.
    ///
    /// # Errors
    ///
    /// It exceeds 64 MiB, cannot be read, or a newer version of `ar` wrote it.
    pub fn read(&self) -> Result<Backlog, StateError> {
        let (lines, damaged) = lines::valid(&self.content()?, |line| lines::versioned::<Line>(&self.path, line))?;
        let mut ideas: Vec<Idea> = Vec::new();
        let mut places = HashMap::new();
        for Line { idea, .. } in lines {
            match places.entry(idea_key(&idea.idea.text)) {
                Entry::Occupied(place) => {
                    let known: &mut Idea = &mut ideas[*place.get()];
                    (known.state, known.unused) = (idea.state, idea.unused);
                }
                Entry::Vacant(place) => {
                    place.insert(ideas.len());
                    ideas.push(Idea { id: idea.id.max(next_id(&ideas)), ..idea });
                }
            }
        }
        Ok(Backlog { ideas, damaged })
    }

    /// The file's bytes; empty if there is no file.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn content(&self) -> Result<Vec<u8>, StateError> {
        lines::content(&self.path)
    }

    /// Adds an idea unless one with the same text exists, in any state. The idea is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, is from a newer version, or another process locks it for too long.
    pub fn add(&self, idea: &NewIdea, by: &str, now: Timestamp) -> Result<Added, StateError> {
        let _lock = lines::lock(&self.path)?;
        let ideas = self.read()?.ideas;
        let key = idea_key(&idea.text);
        if let Some(known) = ideas.iter().find(|known| idea_key(&known.idea.text) == key) {
            return Ok(Added::Known(known.clone()));
        }
        let (id, state) = (next_id(&ideas), IdeaState::Open);
        self.append(Idea { id, idea: idea.clone(), by: by.into(), time: now, state, unused: false })?;
        Ok(Added::New(id))
    }

    /// Sets the state of the first idea that is `meant` to what it `becomes`, and whether it was offered in vain; returns
    /// the idea as it was before, or `None`. A dropped idea stays dropped.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn mark(
        &self,
        meant: impl Fn(&Idea) -> bool,
        becomes: impl Fn(&Idea) -> (IdeaState, bool),
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Idea>, StateError> {
        let _lock = lines::lock(&self.path)?;
        let Some(idea) = self.read()?.ideas.into_iter().find(meant) else { return Ok(None) };
        let (state, unused) = becomes(&idea);
        if (idea.state, idea.unused) != (state, unused) && idea.state != IdeaState::Dropped {
            self.append(Idea { state, unused, by: by.into(), time: now, ..idea.clone() })?;
        }
        Ok(Some(idea))
    }

    fn append(&self, idea: Idea) -> Result<(), StateError> {
        lines::add_durably(&self.path, &Line { version: FORMAT_VERSION, idea })
    }

    /// Restores the lines of `held` that were deleted, before those that others added since; returns whether it did.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn restore(&self, held: &[u8]) -> Result<bool, StateError> {
        Ok(!held.is_empty() && !self.content()?.starts_with(held) && self.repair(held)?.restored)
    }

    /// Rewrites the file with its valid lines. The old file is kept beside it; returns its name.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn drop_damaged(&self) -> Result<PathBuf, StateError> {
        Ok(self.repair(b"")?.copy.unwrap_or_else(|| self.path.clone()))
    }

    fn repair(&self, known: &[u8]) -> Result<RepairedLines, StateError> {
        lines::repair(&self.path, known, |line| lines::versioned::<Line>(&self.path, line))
    }
}

/// The number of the next idea.
fn next_id(ideas: &[Idea]) -> u32 {
    ideas.last().map_or(1, |last| last.id.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::rules::offered_state;

    fn idea(text: &str) -> NewIdea {
        NewIdea { text: text.into(), ..NewIdea::default() }
    }

    #[test]
    fn a_torn_line_is_passed_over_and_the_same_text_is_added_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = IdeaFile::new(folder.path());
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(file.add(&idea("half the rate"), "user", now).unwrap(), Added::New(1));
        assert!(
            matches!(file.add(&idea("Half the  rate"), "user", now).unwrap(), Added::Known(known) if known.id == 1)
        );
        let mut bytes = fs::read(file.path()).unwrap();
        bytes.extend_from_slice(b"{\"version\":1,\"id\":2,\"ts\":\"20");
        fs::write(file.path(), &bytes).unwrap();
        assert_eq!(
            file.add(&NewIdea { score: Some(0.5), ..idea("depth") }, "agent of t/1", now).unwrap(),
            Added::New(2)
        );
        let drop = |id: u32| file.mark(|idea| idea.id == id, |_| (IdeaState::Dropped, false), "user", now).unwrap();
        assert_eq!(drop(1).unwrap().state, IdeaState::Open);
        file.mark(|idea| idea.id == 1, |_| (IdeaState::Drawn, false), "t/1", now).unwrap();
        assert_eq!(drop(9), None);
        for (is_used, is_kept, expected) in [
            (false, true, (IdeaState::Drawn, true)),
            (true, false, (IdeaState::Drawn, false)),
            (false, false, (IdeaState::Drawn, false)),
            (true, true, (IdeaState::Kept, false)),
            (false, false, (IdeaState::Kept, false)),
        ] {
            file.mark(|idea| idea.id == 2, |idea| offered_state(idea, is_used, is_kept), "t/2", now).unwrap();
            let depth = &file.read().unwrap().ideas[1];
            assert_eq!((depth.state, depth.unused), expected);
        }
        let backlog = file.read().unwrap();
        assert_eq!((backlog.ideas.len(), backlog.damaged), (2, 1));
        assert_eq!(
            backlog.ideas.iter().map(|idea| idea.state).collect::<Vec<_>>(),
            [IdeaState::Dropped, IdeaState::Kept]
        );
        assert_eq!(backlog.ideas[1].idea.score, Some(0.5));
        let copy = file.drop_damaged().unwrap();
        assert!(copy.ends_with("ideas.jsonl.damaged") && file.read().unwrap().damaged == 0);
        assert_eq!(file.read().unwrap().ideas, backlog.ideas);
    }

    #[test]
    fn what_was_deleted_comes_before_what_others_added_since() {
        let folder = tempfile::tempdir().unwrap();
        let file = IdeaFile::new(folder.path());
        let now = Timestamp::UNIX_EPOCH;
        let add = |text: &str| file.add(&idea(text), "user", now).unwrap();
        for text in ["depth", "width"] {
            add(text);
        }
        let held = file.content().unwrap();
        add("rate");
        assert!(!file.restore(&held).unwrap(), "it is still there");
        fs::remove_file(file.path()).unwrap();
        for text in ["rate", "Width"] {
            add(text);
        }
        file.mark(|idea| idea.id == 2, |_| (IdeaState::Dropped, false), "user", now).unwrap();
        assert!(file.restore(&held).unwrap());
        let ideas = file.read().unwrap().ideas;
        let ideas: Vec<_> = ideas.iter().map(|it| (it.id, it.idea.text.as_str(), it.state)).collect();
        let expected = [(1, "depth", IdeaState::Open), (2, "width", IdeaState::Dropped), (3, "rate", IdeaState::Open)];
        assert_eq!(ideas, expected);
        fs::remove_file(file.path()).unwrap();
        assert!(file.restore(&held).unwrap());
        assert_eq!(file.content().unwrap(), held);
    }

    #[test]
    fn a_newer_backlog_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = IdeaFile::new(folder.path());
        fs::create_dir(folder.path().join(".autoresearch")).unwrap();
        fs::write(file.path(), "{\"version\":2}\n").unwrap();
        let error = file.add(&idea("x"), "user", Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(matches!(error, StateError::Newer { found: 2, .. }), "{error}");
    }
}
