//! Refs, rows and files as they were last known or written, by which changes of others are found and undone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::earlier_logs::EarlierLogs;
use crate::domain::{Actor, Actors, ExperimentId};
use crate::fs::{FileStamp, read_regular, write_atomic};
use crate::git::WatchedSettings;
use crate::ledger::HeldRows;
use crate::session::files::{HeldSessions, IgnoredFiles, OwnFolder};
use crate::state::{Held, StateError, json_text};

/// Refs, rows and files as they were last known, by which changes of others are found.
#[derive(Default)]
pub(crate) struct Expected {
    /// The active actors, each with its experiment.
    pub(crate) at_work: Vec<(Actor, ExperimentId)>,
    /// The state that must survive while an actor is active.
    pub(crate) watch: Option<Detection>,
    /// `ar`'s files at the last activity, or as this process wrote them since.
    pub(crate) held: Held,
    /// Git's own files, which are put back only where they are no files any more.
    pub(crate) git: Held,
    /// The rows as they were just before the last watch put them right.
    pub(crate) rows: Option<HeldRows>,
    /// The refs as they were once the last watch had put them right.
    pub(crate) refs: Option<Vec<(String, String)>>,
    /// The logs of runs that are over.
    pub(crate) logs: EarlierLogs,
    /// The state files that only this process can write again.
    pub(crate) files: BTreeMap<PathBuf, Kept>,
}

/// A file as this process wrote it, or found it when it began.
pub(crate) struct Kept {
    pub(crate) content: Vec<u8>,
    pub(crate) stamp: Option<FileStamp>,
}

impl Expected {
    /// Reads the state files of these names.
    pub(crate) fn of(state: &Path, names: &[&str]) -> Expected {
        let files = names.iter().map(|name| state.join(name)).filter_map(|path| {
            let stamp = FileStamp::of(&path);
            Some((path.clone(), Kept { content: read_regular(&path).ok()?, stamp }))
        });
        Expected { files: files.collect(), ..Expected::default() }
    }

    /// Writes a state file, and keeps its content in case a process deletes it.
    pub(crate) fn write_file(&mut self, path: PathBuf, value: &impl Serialize) -> Result<(), StateError> {
        let content = json_text(&path, value)?;
        write_atomic(&path, &content)?;
        self.expect_again(&path);
        let stamp = FileStamp::of(&path);
        self.files.insert(path, Kept { content, stamp });
        Ok(())
    }

    /// Returns whether a state file still exists as this process wrote it.
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        self.files.get(path).is_some_and(|kept| kept.stamp.is_some() && FileStamp::of(path) == kept.stamp)
    }

    /// Writes the state files again that only this process has.
    pub(crate) fn write_files_again(&mut self) -> Result<(), StateError> {
        for (path, kept) in &mut self.files {
            write_atomic(path, &kept.content)?;
            kept.stamp = FileStamp::of(path);
        }
        Ok(())
    }

    /// Accepts what this process wrote itself, in the file or folder `path`, as the expected content.
    pub(crate) fn expect_again(&mut self, path: &Path) {
        if self.watch.is_some() {
            self.held.take_again(path);
        }
    }

    /// Returns the active actors.
    pub(crate) fn actors(&self) -> Actors {
        self.at_work.iter().map(|(who, _)| *who).collect()
    }

    /// Returns whether an agent or a reviewer is active. `ar` removes rows that they write.
    pub(crate) fn is_called(&self) -> bool {
        self.at_work.iter().any(|(who, _)| matches!(who, Actor::Agent | Actor::Reviewer))
    }

    /// Returns the experiments that an agent is working on. Their runs are yet to come.
    pub(crate) fn coming(&self) -> impl Iterator<Item = ExperimentId> {
        self.at_work.iter().filter(|(who, _)| *who == Actor::Agent).map(|(_, id)| *id)
    }
}

/// The state just before an agent or a run began.
#[derive(Debug)]
pub(crate) struct Detection {
    pub(crate) own: OwnFolder,
    /// The ignored files, while an agent is active.
    pub(crate) ignored: Option<IgnoredFiles>,
    pub(crate) memories: HeldMemories,
    pub(crate) rows: Option<HeldRows>,
    pub(crate) refs: Vec<(String, String)>,
    pub(crate) sessions: HeldSessions,
    /// Files that are named when they change, and left as they are, logs of earlier runs apart.
    pub(crate) stamps: Stamps,
    /// Git's settings that are named by their effect.
    pub(crate) settings: WatchedSettings,
}

/// Files that are there, with what the file system says of each.
pub(crate) type Stamps = BTreeMap<PathBuf, FileStamp>;

/// Contents of the memory files before an agent or a run began.
#[derive(Debug)]
pub(crate) struct HeldMemories {
    pub(crate) lessons: Vec<u8>,
    pub(crate) ideas: Vec<u8>,
}
