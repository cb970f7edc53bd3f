//! The artifacts of recorded experiments as readers see them, and how they are brought out.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::session_view::SessionView;
use crate::domain::{ExperimentId, Record, experiment_name};
use crate::fs::{clone_file, failed, free_beside, make_folder};
use crate::session::errors::SessionError;

/// The place of an experiment's artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedArtifacts {
    /// In this folder.
    In(PathBuf),
    /// Deleted or missing, with the reason.
    Gone(String),
}

impl SessionView {
    /// Finds the artifacts of an experiment. Returns `None` if it left none.
    pub fn artifacts(&self, record: &Record) -> Option<SavedArtifacts> {
        if record.artifacts.is_empty() {
            return None;
        }
        let folder = self.folder.artifacts(record.id);
        if folder.is_dir() {
            return Some(SavedArtifacts::In(folder));
        }
        let dropped = self.folder.why_artifacts_dropped(record.id);
        Some(SavedArtifacts::Gone(dropped.unwrap_or_else(|| format!("{} is missing", folder.display()))))
    }

    /// The folder of an experiment's artifacts, if they are there, from the root of the main working tree.
    pub(crate) fn artifacts_of(&self, id: ExperimentId) -> Option<String> {
        let SavedArtifacts::In(folder) = self.artifacts(self.history.get(id)?)? else { return None };
        let folder = folder.strip_prefix(self.repo.main_worktree()).map_or(folder.as_path(), |inside| inside);
        Some(folder.display().to_string())
    }

    /// Copies the artifacts of an experiment into `dir`, and gives their new paths.
    ///
    /// # Errors
    ///
    /// It has none any more; something stands in their place already.
    pub fn restore_artifacts(&self, record: &Record, dir: &Path) -> Result<Vec<PathBuf>, SessionError> {
        let folder = match self.artifacts(record) {
            Some(SavedArtifacts::In(folder)) => folder,
            Some(SavedArtifacts::Gone(why)) => return Err(SessionError::ArtifactsGone { id: record.id, why }),
            None => return Err(SessionError::NoArtifacts(experiment_name(record.id))),
        };
        // A record may come from elsewhere.
        let is_inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let paths: Vec<&Path> = record.artifacts.iter().map(|artifact| Path::new(&artifact.path)).collect();
        if let Some(outside) = paths.iter().find(|path| !is_inside(path)) {
            return Err(SessionError::ArtifactOutside { id: record.id, path: (*outside).to_owned() });
        }
        if let Some(taken) = paths.iter().map(|path| dir.join(path)).find(|to| fs::symlink_metadata(to).is_ok()) {
            return Err(SessionError::ArtifactInTheWay(taken));
        }
        let copy = |path: &&Path| {
            let (from, to) = (folder.join(path), dir.join(path));
            let copy = || {
                make_folder(to.parent().unwrap_or(dir))?;
                // A kill must not leave a partial file under the final name.
                let part = free_beside(&to, ".part");
                clone_file(&from, &part, |_| true)?;
                fs::rename(&part, &to)
            };
            copy().map_err(failed("copy", &from))?;
            Ok(to.clone())
        };
        paths.iter().map(copy).collect()
    }
}
