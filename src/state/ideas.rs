//! The backlog of ideas, `.autoresearch/ideas.jsonl`: a line for each idea and each change of its state. The file only
//! grows; the user and the agents of all sessions may append at the same time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folder::SESSIONS_FOLDER;
use super::json::check_version;
use super::{StateError, lines};
use crate::domain::{FORMAT_VERSION, Idea, IdeaState, NewIdea};
use crate::fs::{copy_beside, write_atomic};
use crate::rules::same_idea;

/// One line: a new idea, or a new state of the idea with this number.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    version: u32,
    id: u32,
    #[serde(with = "crate::domain::millis")]
    ts: Timestamp,
    by: String,
    state: IdeaState,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unused: bool,
    #[serde(flatten)]
    idea: Option<NewIdea>,
}

/// The content of the file.
#[derive(Debug, Default)]
pub struct Backlog {
    /// The ideas, ordered by number.
    pub ideas: Vec<Idea>,
    /// The number of lines that cannot be parsed.
    pub damaged: usize,
}

impl Line {
    /// Creates the line for a new idea, or for a new state of the idea with this number.
    fn new(id: u32, (state, unused): (IdeaState, bool), idea: Option<NewIdea>, by: &str, ts: Timestamp) -> Line {
        Line { version: FORMAT_VERSION, id, ts, by: by.into(), state, unused, idea }
    }
}

impl Backlog {
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StateError> {
        let mut backlog = Backlog::default();
        for line in lines::lines(bytes) {
            let Some(line) = understand(path, line)? else {
                backlog.damaged += 1;
                continue;
            };
            let state = line.state;
            match (backlog.ideas.iter_mut().find(|idea| idea.id == line.id), line.idea) {
                (Some(known), _) => (known.state, known.unused) = (state, line.unused),
                (None, Some(idea)) => backlog.ideas.push(Idea {
                    id: line.id,
                    idea,
                    by: line.by,
                    time: line.ts,
                    state,
                    unused: line.unused,
                }),
                (None, None) => backlog.damaged += 1,
            }
        }
        backlog.ideas.sort_by_key(|idea| idea.id);
        Ok(backlog)
    }
}

/// Parses a line; `None` if it is torn.
fn understand(path: &Path, line: &[u8]) -> Result<Option<Line>, StateError> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return Ok(None) };
    check_version(path, value.get("version"))?;
    Ok(serde_json::from_value(value).ok())
}

/// Joins a deleted backlog, `older`, with the new one that others started in its place. New ideas get free numbers, or
/// the number of the same idea. `None` if a line of the older one still exists: then it was not deleted.
fn join(path: &Path, older: &[u8], newer: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
    let split = |bytes| -> Vec<Vec<u8>> { lines::lines(bytes).map(<[u8]>::to_vec).collect() };
    let (mut joined, newer) = (split(older), split(newer));
    if newer.iter().any(|line| joined.contains(line)) {
        return Ok(None);
    }
    let known = Backlog::parse(path, older)?.ideas;
    let mut free = known.last().map_or(1, |last| last.id.saturating_add(1));
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for line in newer {
        let Some(Line { id, idea, .. }) = understand(path, &line)? else {
            joined.push(line);
            continue;
        };
        let same = |idea: &NewIdea| known.iter().find(|known| same_idea(&known.idea.text, &idea.text));
        let number = *numbers.entry(id).or_insert_with(|| match idea.as_ref().and_then(same) {
            Some(known) => known.id,
            None => {
                free = free.saturating_add(1);
                free - 1
            }
        });
        let mut value: Value = serde_json::from_slice(&line).unwrap_or_default();
        value["id"] = number.into();
        joined.push(value.to_string().into_bytes());
    }
    Ok(Some(joined.into_iter().flat_map(|line| line.into_iter().chain([b'\n'])).collect()))
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

    /// Reads it; empty if there is no file. Torn lines are counted and skipped.
    ///
    /// # Errors
    ///
    /// It exceeds 64 MiB, cannot be read, or a newer version of `ar` wrote it.
    pub fn read(&self) -> Result<Backlog, StateError> {
        Backlog::parse(&self.path, &self.content()?)
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
        self.locked(|backlog| {
            if let Some(known) = backlog.ideas.iter().find(|known| same_idea(&known.idea.text, &idea.text)) {
                return Ok(Added::Known(known.clone()));
            }
            let id = backlog.ideas.last().map_or(1, |last| last.id.saturating_add(1));
            lines::add_durably(&self.path, &Line::new(id, (IdeaState::Open, false), Some(idea.clone()), by, now))?;
            Ok(Added::New(id))
        })
    }

    /// Sets the state of the first idea that is `meant`; returns the idea as it was before, or `None`.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn mark(
        &self,
        meant: impl Fn(&Idea) -> bool,
        state: IdeaState,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Idea>, StateError> {
        self.note(meant, |_| (state, false), by, now)
    }

    /// Marks the first idea that is `meant` as drawn, and as used or kept if it was. An idea that was used or kept
    /// stays so.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn mark_drawn(
        &self,
        meant: impl Fn(&Idea) -> bool,
        is_used: impl Fn(&Idea) -> bool,
        is_kept: bool,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Idea>, StateError> {
        let becomes = |idea: &Idea| match (idea.state, is_used(idea)) {
            (IdeaState::Kept, _) => (IdeaState::Kept, false),
            (_, true) if is_kept => (IdeaState::Kept, false),
            (state, is_used) => (IdeaState::Drawn, !is_used && (state != IdeaState::Drawn || idea.unused)),
        };
        self.note(meant, becomes, by, now)
    }

    fn note(
        &self,
        meant: impl Fn(&Idea) -> bool,
        becomes: impl Fn(&Idea) -> (IdeaState, bool),
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Idea>, StateError> {
        self.locked(|backlog| {
            let Some(idea) = backlog.ideas.iter().find(|idea| meant(idea)) else { return Ok(None) };
            let (state, unused) = becomes(idea);
            // A dropped idea stays dropped, although it was offered before.
            if (idea.state, idea.unused) != (state, unused) && idea.state != IdeaState::Dropped {
                lines::add_durably(&self.path, &Line::new(idea.id, (state, unused), None, by, now))?;
            }
            Ok(Some(idea.clone()))
        })
    }

    /// Restores `content` if the file was deleted or emptied, before anything that others added since; returns whether
    /// it did.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn restore(&self, content: &[u8]) -> Result<bool, StateError> {
        if content.is_empty() {
            return Ok(false);
        }
        self.locked(|_| {
            let Some(joined) = join(&self.path, content, &self.content()?)? else { return Ok(false) };
            write_atomic(&self.path, &joined)?;
            Ok(true)
        })
    }

    /// Rewrites the file with its valid lines. The old file is kept beside it; returns its name.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn drop_damaged(&self) -> Result<PathBuf, StateError> {
        self.locked(|_| {
            let bytes = self.content()?;
            let copy = copy_beside(&self.path, &bytes, ".damaged")?;
            let mut whole = Vec::new();
            for line in bytes.split(|byte| *byte == b'\n') {
                if understand(&self.path, line)?.is_some() {
                    whole.extend_from_slice(line);
                    whole.push(b'\n');
                }
            }
            write_atomic(&self.path, &whole)?;
            Ok(copy)
        })
    }

    /// Runs `act` under the file's lock.
    fn locked<T>(&self, act: impl FnOnce(&Backlog) -> Result<T, StateError>) -> Result<T, StateError> {
        let _lock = lines::lock(&self.path)?;
        act(&self.read()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        assert_eq!(
            file.mark(|idea| idea.id == 1, IdeaState::Dropped, "user", now).unwrap().unwrap().state,
            IdeaState::Open
        );
        file.mark(|idea| idea.id == 1, IdeaState::Drawn, "t/1", now).unwrap();
        assert_eq!(file.mark(|idea| idea.id == 9, IdeaState::Dropped, "user", now).unwrap(), None);
        for (is_used, is_kept, expected) in [
            (false, true, (IdeaState::Drawn, true)),
            (true, false, (IdeaState::Drawn, false)),
            (false, false, (IdeaState::Drawn, false)),
            (true, true, (IdeaState::Kept, false)),
            (false, false, (IdeaState::Kept, false)),
        ] {
            file.mark_drawn(|idea| idea.id == 2, |_| is_used, is_kept, "t/2", now).unwrap();
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
        file.mark(|idea| idea.id == 2, IdeaState::Dropped, "user", now).unwrap();
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
