//! Writing a session into a folder that MLflow opens.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::SessionError;
use super::open::exclude_pattern;
use super::reading::SessionView;
use crate::domain::Record;
use crate::report::{Artifacts, MlflowExperiment, mlflow_experiment};

/// How large a diff may be that is written beside a run, in bytes: 256 KiB.
const LARGEST_DIFF: usize = 256 * 1024;

/// What MLflow reads of an experiment and of a run. It is written last: what has none is not there yet.
const META: &str = "meta.yaml";

/// What was written for MLflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MlflowExport {
    /// The store's folder, absolute.
    pub root: PathBuf,
    /// How many experiments were written.
    pub added: usize,
    /// How many were there from an earlier call, and left as they are.
    pub there: usize,
}

impl SessionView {
    /// Writes the session into MLflow's file store in the folder `dir`, which may hold others. What is there of it stays as it
    /// is, for people may have edited it; new experiments come to it.
    ///
    /// # Errors
    ///
    /// The session has no experiment, another experiment in the folder has its name, or something cannot be written.
    pub fn export_mlflow(&self, dir: &Path) -> Result<MlflowExport, SessionError> {
        let baseline =
            self.history.baseline().ok_or_else(|| SessionError::NothingToExport { tag: self.tag.to_string() })?;
        let failed = |source| SessionError::Io { action: "write", path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        let root = dir.canonicalize().map_err(failed)?;
        // A loop that is at work would take it for a part of its change.
        if let Some(pattern) = exclude_pattern(&root, self.repo.worktree()) {
            self.repo.exclude(&[&format!("{pattern}/")])?;
        }
        let uri = file_uri(&root);
        let experiment = mlflow_experiment(baseline, &uri);
        let folder = root.join(&experiment.id);
        if !folder.join(META).exists() {
            if let Some(other) = namesake(&root, &experiment).map_err(failed)? {
                return Err(SessionError::MlflowNamesake { tag: self.tag.to_string(), other });
            }
            write_last(&folder, &experiment.meta).map_err(failed)?;
        }
        let notes = self.notes(self.history.records())?;
        let mut export = MlflowExport { root, added: 0, there: 0 };
        for record in self.history.records() {
            let place = folder.join(experiment.run_id(record.id));
            if place.join(META).exists() {
                export.there += 1;
                continue;
            }
            let run = experiment.run(record, notes.get(&record.id), &uri, self.artifacts(record)?);
            for part in ["metrics", "params", "tags", "artifacts"] {
                fs::create_dir_all(place.join(part)).map_err(failed)?;
            }
            for (path, content) in &run.files {
                fs::write(place.join(path), content).map_err(failed)?;
            }
            write_last(&place, &run.meta).map_err(failed)?;
            export.added += 1;
        }
        Ok(export)
    }

    /// The change of an experiment, where it is small, and the end of its log.
    fn artifacts(&self, record: &Record) -> Result<Artifacts, SessionError> {
        let found = [("diff.patch", self.diff(record)?), ("log_tail.txt", self.log_tail(record.id)?.into_bytes())];
        Ok(found.into_iter().filter(|(_, text)| !text.is_empty() && text.len() <= LARGEST_DIFF).collect())
    }
}

/// Writes the file that makes a folder one of MLflow's, whole or not at all.
fn write_last(folder: &Path, meta: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let partial = folder.join(format!("{META}.partial"));
    fs::write(&partial, meta)?;
    fs::rename(&partial, folder.join(META))
}

/// The folder of another experiment of the same name, also of one that was deleted in MLflow.
fn namesake(root: &Path, experiment: &MlflowExperiment) -> io::Result<Option<PathBuf>> {
    let deleted = fs::read_dir(root.join(".trash")).into_iter().flatten();
    for entry in fs::read_dir(root)?.chain(deleted) {
        let folder = entry?.path();
        let Ok(meta) = fs::read_to_string(folder.join(META)) else { continue };
        let names = |line: &str| line.strip_prefix("name:").is_some_and(|name| unquoted(name) == experiment.name);
        if meta.lines().any(names) {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['\'', '"'])
}

/// The URI of a file.
fn file_uri(path: &Path) -> String {
    let escaped = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("file://{}", OsStr::as_bytes(path.as_os_str()).iter().map(escaped).collect::<String>())
}
