//! The settings file in the user's working tree: undoes what a call of the agent makes of it, and names its changes during a run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::clearing::{aside_path, move_aside_from};
use super::working_tree::Workspace;
use crate::domain::{ExperimentId, FORMAT_VERSION, Notice};
use crate::exec::Job;
use crate::fs::{read_regular, write_atomic};
use crate::session::errors::SessionError;
use crate::session::files::{SETTINGS_FILE, remove_file};
use crate::session::store::{AGENT, Store, job_place};
use crate::state::{read_json, write_json_unsynced};

/// The state file that outlives a kill of `ar` during the job.
pub(crate) const SETTINGS_BEFORE: &str = "settings_before.json";

/// The settings file just before a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingsBefore {
    version: u32,
    /// The experiment of the job.
    id: ExperimentId,
    /// The job's name.
    job: String,
    /// The content; absent without a file.
    text: Option<String>,
}

impl Workspace {
    /// Notes the settings file just before a job, where the user has it.
    pub(crate) fn note_settings(&mut self, store: &mut Store, id: ExperimentId, job: &str) -> Result<(), SessionError> {
        self.settle_settings(store)?;
        let path = Path::new(SETTINGS_FILE);
        if !self.home.has_user() || !self.file_terms.protects(path) {
            return Ok(());
        }
        // No `ar` reads settings that are not text.
        let text = match read_regular(&self.root().join(path)).map(String::from_utf8) {
            Ok(Ok(text)) => Some(text),
            Ok(Err(_)) => return Ok(()),
            Err(_) => None,
        };
        let before = SettingsBefore { version: FORMAT_VERSION, id, job: job.to_owned(), text };
        let noted = store.folder.state().join(SETTINGS_BEFORE);
        write_json_unsynced(&noted, &before)?;
        store.expected.expect_again(&noted);
        store.written.unsynced.add(noted);
        self.settings = Some(before);
        Ok(())
    }

    /// Compares the settings file with the one before the last job. Restores it after a call of the agent, and only reports
    /// the change after a run, as the user may edit it meanwhile. Returns whether it restored it.
    pub(crate) fn settle_settings(&mut self, store: &mut Store) -> Result<bool, SessionError> {
        let noted = store.folder.state().join(SETTINGS_BEFORE);
        let before = match self.settings.take() {
            Some(before) => before,
            // Noted by a process that was killed since. A torn note says nothing.
            None => match read_json(&noted).ok().flatten() {
                Some(before) => before,
                None => return Ok(false),
            },
        };
        let path = self.root().join(SETTINGS_FILE);
        let now = read_regular(&path).ok();
        let is_changed = now.as_deref() != before.text.as_deref().map(str::as_bytes);
        let is_agents = before.job == AGENT;
        let restores = is_changed && !is_newer_than_job(&path, store, &before);
        if restores && is_agents {
            restore(self.root(), store, &before)?;
        } else if restores {
            report(store, &before)?;
        }
        remove_file(&noted)?;
        store.expected.expect_again(&noted);
        Ok(restores && is_agents)
    }
}

/// Returns whether a file was changed after the end of a job, so not by it. No process can set this time stamp.
fn is_newer_than_job(path: &Path, store: &Store, before: &SettingsBefore) -> bool {
    let (folder, name) = job_place(&store.folder.run(before.id), &before.job);
    let Some((_, Some(over))) = Job::lifetime(&folder, name) else { return false };
    let since_epoch = over.duration_since(UNIX_EPOCH).unwrap_or_default();
    let over = (since_epoch.as_secs().cast_signed(), i64::from(since_epoch.subsec_nanos()));
    fs::symlink_metadata(path).is_ok_and(|meta| (meta.ctime(), meta.ctime_nsec()) > over)
}

/// Restores the settings file, and moves the changed one into the session's folder.
fn restore(root: &Path, store: &mut Store, before: &SettingsBefore) -> Result<(), SessionError> {
    let mut found = Vec::new();
    if fs::symlink_metadata(root.join(SETTINGS_FILE)).is_ok() {
        found.push(move_aside_from(root, store, before.id, Path::new(SETTINGS_FILE))?);
    }
    if let Some(text) = &before.text {
        write_atomic(&root.join(SETTINGS_FILE), text.as_bytes())?;
    }
    store.note(Notice::ProtectedRestored { paths: vec![SETTINGS_FILE.into()], found });
    Ok(())
}

/// Reports that the settings file changed during a run, and saves the earlier version in the session's folder.
fn report(store: &mut Store, before: &SettingsBefore) -> Result<(), SessionError> {
    let mut saved = None;
    if let Some(text) = &before.text {
        let path = aside_path(store, before.id, Path::new(SETTINGS_FILE))?;
        write_atomic(&path, text.as_bytes())?;
        saved = Some(path);
    }
    store.note(Notice::SettingsFileLeft { path: SETTINGS_FILE.into(), saved });
    Ok(())
}
