//! What agents learn from: a session's findings, directions and log of iterations, and the backlog of ideas,
//! `.autoresearch/ideas.jsonl`, to which the user and the agents of all sessions append.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{RepairedLines, SESSIONS_FOLDER, StateError, lines, write_json};
use crate::domain::{Contract, ExperimentId, FORMAT_VERSION, Idea, IdeaState, NewIdea, Outcome, Record, Stall};
use crate::rules::{History, direction_key, idea_key, rungs};

/// The findings.
pub const FINDINGS: &str = "findings.jsonl";

/// The log of iterations.
pub const ITERATIONS: &str = "iteration_log.jsonl";

/// The directions tried.
const DIRECTIONS: &str = "directions_tried.json";

/// The files that [`Memory::create`] makes of the records.
pub const MEMORY_FILES: [&str; 3] = [FINDINGS, ITERATIONS, DIRECTIONS];

/// One line of `iteration_log.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct Iteration<'a> {
    /// When it ended.
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    pub ts: Timestamp,
    /// Its number, from 1.
    pub iteration: u32,
    /// Its experiment; absent if the agent changed nothing.
    pub experiment: Option<ExperimentId>,
    /// Its outcome.
    pub outcome: Option<Outcome>,
    /// Its description, or the agent's report.
    pub description: &'a str,
    /// The count of the ladder towards its next step, including this one.
    pub stale_count: u32,
    /// The kind of stall of the agent call, if it stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
}

impl<'a> Iteration<'a> {
    /// Creates the line of an iteration that made an experiment.
    pub fn of(record: &'a Record, iteration: u32, stale_count: u32) -> Self {
        Iteration {
            ts: record.origin.finished,
            iteration,
            experiment: Some(record.id),
            outcome: Some(record.outcome),
            description: &record.description,
            stale_count,
            stall: None,
        }
    }
}

/// One line of `findings.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct FindingLine {
    #[serde(with = "crate::domain::millis")]
    ts: Timestamp,
    experiment: ExperimentId,
    finding: String,
}

/// The lines of a memory file that the records tell. Each experiment but second looks counts as one iteration.
fn lines_of(path: &Path, contract: Option<&Contract>, history: &History) -> Vec<Value> {
    let experiments = history.records().iter().filter(|record| !record.id.is_baseline());
    let findings = |record: &Record| -> Vec<Value> {
        let line = |finding| json!(FindingLine { ts: record.origin.finished, experiment: record.id, finding });
        record.findings().into_iter().map(line).collect()
    };
    let iterations = || {
        let rungs = history.records().iter().zip(rungs(contract, history));
        let is_iteration = |record: &Record| !record.id.is_baseline() && !record.is_second_look();
        let counted = (1..).zip(rungs.filter(|(record, _)| is_iteration(record)));
        counted.map(|(iteration, (record, rung))| json!(Iteration::of(record, iteration, rung.stale))).collect()
    };
    match path.file_name().and_then(OsStr::to_str) {
        Some(FINDINGS) => experiments.flat_map(findings).collect(),
        Some(ITERATIONS) => iterations(),
        _ => Vec::new(),
    }
}

/// The memory files of one session.
#[derive(Debug, Clone)]
pub struct Memory {
    folder: PathBuf,
}

impl Memory {
    /// Names the files in `folder`.
    pub fn new(folder: &Path) -> Self {
        Memory { folder: folder.to_owned() }
    }

    /// Creates missing files from the session's records. Agent calls without changes have no record.
    pub fn create(&self, contract: Option<&Contract>, history: &History) -> Result<(), StateError> {
        let missing = |name: &str| Some(self.folder.join(name)).filter(|path| !path.exists());
        for path in [FINDINGS, ITERATIONS].into_iter().filter_map(missing) {
            lines::replace(&path, &lines_of(&path, contract, history))?;
        }
        if missing(DIRECTIONS).is_some() { self.write_directions(history.records()) } else { Ok(()) }
    }

    /// Removes the lines of a log that are not JSON. Adds those that the records tell and a memory file lacks. Returns the
    /// file as it was found, if there were damaged lines.
    pub fn repair(
        &self,
        path: &Path,
        contract: Option<&Contract>,
        history: &History,
    ) -> Result<Option<PathBuf>, StateError> {
        let parse = |line: &[u8]| Ok(serde_json::from_slice::<Value>(line).ok());
        let RepairedLines { content, copy, .. } = lines::repair(path, b"", parse)?;
        let (found, _) = lines::valid(&content, parse)?;
        let is_same = |one: &Value, other: &Value| ["experiment", "finding"].iter().all(|key| one[key] == other[key]);
        for line in lines_of(path, contract, history) {
            if !found.iter().any(|known| is_same(known, &line)) {
                lines::add(path, &line)?;
            }
        }
        Ok(copy)
    }

    /// Adds a line to the log of iterations unless its last line has the same iteration and experiment.
    pub fn log_iteration(&self, iteration: &Iteration<'_>) -> Result<(), StateError> {
        let path = self.folder.join(ITERATIONS);
        let last = lines::last::<Value>(&path)?.unwrap_or_default();
        if last["iteration"] == iteration.iteration && last["experiment"] == json!(iteration.experiment) {
            return Ok(());
        }
        lines::add(&path, iteration)
    }

    /// Adds the findings of an experiment unless they exist.
    pub fn add_findings(&self, ts: Timestamp, experiment: ExperimentId, findings: &[String]) -> Result<(), StateError> {
        let mut known = self.findings()?;
        for finding in findings.iter().map(|finding| (experiment, finding.clone())) {
            if !known.contains(&finding) {
                let line = FindingLine { ts, experiment, finding: finding.1.clone() };
                lines::add(&self.folder.join(FINDINGS), &line)?;
                known.push(finding);
            }
        }
        Ok(())
    }

    /// The newest findings with their experiments, oldest first.
    ///
    /// # Errors
    ///
    /// The file exists but cannot be read.
    pub fn findings(&self) -> Result<Vec<(ExperimentId, String)>, StateError> {
        let lines = lines::newest::<FindingLine>(&self.folder.join(FINDINGS))?;
        Ok(lines.into_iter().map(|line| (line.experiment, line.finding)).collect())
    }

    /// Writes the directions that the experiments of these records named, each with its experiments.
    pub fn write_directions(&self, records: &[Record]) -> Result<(), StateError> {
        let mut tried: Vec<(&str, Vec<ExperimentId>)> = Vec::new();
        let mut places = HashMap::new();
        for record in records.iter().filter(|record| !record.id.is_baseline()) {
            let Some(direction) = record.direction.as_deref() else { continue };
            let at = *places.entry(direction_key(direction)).or_insert_with(|| {
                tried.push((direction, Vec::new()));
                tried.len() - 1
            });
            tried[at].1.push(record.id);
        }
        let json = |(direction, experiments)| json!({"direction": direction, "experiments": experiments});
        let directions: Vec<Value> = tried.into_iter().map(json).collect();
        write_json(&self.folder.join(DIRECTIONS), &json!({"version": FORMAT_VERSION, "directions": directions}))
    }
}

/// One line: an idea with its state. A later line with the same text sets the state only, one that edits sets the text only.
#[derive(Debug, Serialize, Deserialize)]
struct IdeaLine {
    version: u32,
    /// The text of the idea until now, where this line edits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edits: Option<String>,
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

/// The result of adding or editing an idea.
#[derive(Debug, Clone, PartialEq)]
pub enum Added {
    /// The text is new, under this number.
    New(u32),
    /// The backlog already has an idea with this text.
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
        let (lines, damaged) = lines::valid(&self.content()?, |line| lines::versioned::<IdeaLine>(&self.path, line))?;
        let mut ideas: Vec<Idea> = Vec::new();
        let mut places: HashMap<_, usize> = HashMap::new();
        for IdeaLine { edits, idea, .. } in lines {
            if let Some(place) = edits.and_then(|text| places.remove(&idea_key(&text))) {
                places.insert(idea_key(&idea.idea.text), place);
                ideas[place].idea = idea.idea;
                continue;
            }
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
        self.append(Idea { id, idea: idea.clone(), by: by.into(), time: now, state, unused: false }, None)?;
        Ok(Added::New(id))
    }

    /// Replaces the text of the idea with this number, unless another idea has the new one; returns `None` if there is no such
    /// idea.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn edit(&self, id: u32, text: &str, by: &str, now: Timestamp) -> Result<Option<Added>, StateError> {
        let _lock = lines::lock(&self.path)?;
        let ideas = self.read()?.ideas;
        let Some(idea) = ideas.iter().find(|idea| idea.id == id).cloned() else { return Ok(None) };
        let key = idea_key(text);
        if let Some(known) = ideas.into_iter().find(|known| known.id != id && idea_key(&known.idea.text) == key) {
            return Ok(Some(Added::Known(known)));
        }
        let edited = NewIdea { text: text.to_owned(), ..idea.idea.clone() };
        self.append(Idea { idea: edited, by: by.into(), time: now, ..idea }, Some(idea.idea.text))?;
        Ok(Some(Added::New(id)))
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
            self.append(Idea { state, unused, by: by.into(), time: now, ..idea.clone() }, None)?;
        }
        Ok(Some(idea))
    }

    fn append(&self, idea: Idea, edits: Option<String>) -> Result<(), StateError> {
        lines::add_durably(&self.path, &IdeaLine { version: FORMAT_VERSION, edits, idea })
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
        lines::repair(&self.path, known, |line| lines::versioned::<IdeaLine>(&self.path, line))
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

    #[test]
    fn what_is_noted_twice_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path());
        memory.create(None, &History::new(Vec::new())).unwrap();
        let idle = Iteration {
            ts: Timestamp::UNIX_EPOCH,
            iteration: 1,
            experiment: None,
            outcome: None,
            description: "what now?",
            stale_count: 1,
            stall: None,
        };
        let experiment = Iteration { experiment: Some(1.into()), ..idle.clone() };
        for iteration in [&idle, &idle, &experiment, &experiment] {
            memory.log_iteration(iteration).unwrap();
        }
        let found = ["a", "b", "b"].map(str::to_owned);
        memory.add_findings(Timestamp::UNIX_EPOCH, 1.into(), &found[..1]).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 1.into(), &found).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 2.into(), &found[..1]).unwrap();
        let record = |id: u32, direction: &str| crate::rules::sample::record(json!({"id": id, "direction": direction}));
        memory.write_directions(&[record(1, "warmup"), record(2, "Warm up")]).unwrap();
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("iteration_log.jsonl").lines().count(), 2);
        assert_eq!(text("findings.jsonl").lines().count(), 3);
        let tried: Value = serde_json::from_str(&text("directions_tried.json")).unwrap();
        assert_eq!(tried["directions"], json!([{"direction": "warmup", "experiments": [1, 2]}]));
    }

    #[test]
    fn a_torn_file_keeps_its_lines_and_gets_back_those_of_records() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, path) = (Memory::new(folder.path()), |name: &str| folder.path().join(name));
        let record = |id: u32| crate::rules::sample::record(json!({"id": id, "proposal": {"findings": ["b"]}}));
        let records = [record(0), record(1), record(2)];
        let history = History::new(records.to_vec());
        memory.create(None, &History::new(records[..2].to_vec())).unwrap();
        let idle = Iteration { experiment: None, description: "what now?", ..Iteration::of(&records[1], 2, 1) };
        memory.log_iteration(&idle).unwrap();
        memory.log_iteration(&Iteration::of(&records[2], 3, 2)).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 3.into(), &["of a call without a change".into()]).unwrap();
        memory.add_findings(Timestamp::UNIX_EPOCH, 2.into(), &["b".into()]).unwrap();
        let text = |name: &str| fs::read_to_string(path(name)).unwrap();
        for (name, lines) in [(FINDINGS, 3), (ITERATIONS, 3)] {
            let whole = text(name);
            assert_eq!(whole.lines().count(), lines, "{whole}");
            fs::write(path(name), &whole[..whole.len() - 9]).unwrap();
            assert!(memory.repair(&path(name), None, &history).unwrap().is_some());
            let kept: Vec<&str> = whole.lines().take(lines - 1).collect();
            let now = text(name);
            assert!(now.starts_with(&kept.join("\n")), "{now}");
            let last: Value = serde_json::from_str(now.lines().last().unwrap()).unwrap();
            assert_eq!((now.lines().count(), &last["experiment"]), (lines, &json!(2)), "{now}");
            assert!(memory.repair(&path(name), None, &history).unwrap().is_none());
            assert_eq!(text(name), now);
        }
    }

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
