//! Files that no experiment may change, files that must not take their place, and the settings file. All are checked on
//! disk, whether git sees them or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::clearing::{aside_path, move_aside_from};
use super::working_tree::Workspace;
use crate::domain::{CommitId, ExperimentId, FORMAT_VERSION, Notice, list};
use crate::exec::Job;
use crate::fs::{FileStamp, read_regular, write_atomic};
use crate::git::{FilterSettings, PinnedFilters, Repo, WatchedSettings, names_attributes};
use crate::rules::{FileTerms, is_bytecode, is_compiled, modules_behind, protected_mounts};
use crate::session::errors::SessionError;
use crate::session::files::{SETTINGS_FILE, remove_file};
use crate::session::store::{AGENT, Store, job_place};
use crate::state::{
    COPIED_BYTES, COPIED_FILES, Copies, PROTECTED, SessionFolder, files_below, read_json, write_json,
    write_json_unsynced,
};

/// The protected files of a session, and what is known of them.
#[derive(Debug)]
pub(crate) struct Protected {
    /// Those that git has, relative to the working tree.
    pub(crate) tracked: Vec<PathBuf>,
    pub(crate) stored: StoredCopies,
    /// The folder of the copies.
    pub(crate) store: PathBuf,
    /// The git filters by which tracked ones are compared and written.
    pub(crate) filters: PinnedFilters,
    /// The tracked ones as few paths: files, or whole folders.
    pub(crate) walled: Vec<PathBuf>,
    /// The stamps of all of them when the run began.
    pub(crate) before_run: BTreeMap<PathBuf, Option<FileStamp>>,
}

/// The part that outlives the process.
#[derive(Debug, Default, PartialEq, Eq, Clone, Serialize, Deserialize)]
pub(crate) struct StoredCopies {
    pub(crate) version: u32,
    /// Those that git does not have.
    pub(crate) copies: Copies,
    /// Files that took the place of a protected module before an agent was called.
    pub(crate) shadows: BTreeSet<PathBuf>,
    /// Files below protected paths that had no copy at the last call of the agent: runs of the user's command write there too.
    /// Invalid UTF-8 in their names is replaced.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) beside: BTreeSet<String>,
    /// Git's settings when the session began, or when a version first looked that knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) git: Option<GitSettings>,
}

/// Git's settings by which somebody could change protected files, or have programs run.
#[derive(Debug, Default, PartialEq, Eq, Clone, Serialize, Deserialize)]
pub(crate) struct GitSettings {
    /// Those by which files are converted.
    filters: FilterSettings,
    /// Those whose changes are named.
    pub(crate) watched: WatchedSettings,
}

impl GitSettings {
    fn of(repo: &Repo) -> GitSettings {
        GitSettings { filters: repo.working_tree.filter_settings(), watched: repo.watched_settings() }
    }
}

/// Files that take the place of protected modules, each with its module.
pub(crate) type Shadows = Vec<(PathBuf, PathBuf)>;

impl Protected {
    /// Looks for the protected files of a session at its start, or reads what was found then; gives what is to be said about
    /// them.
    pub(crate) fn of(
        repo: &Repo,
        folder: &SessionFolder,
        terms: &FileTerms,
        start: &CommitId,
        tops: &[PathBuf],
    ) -> Result<(Protected, Vec<Notice>), SessionError> {
        let known = repo.objects.files_at(start, |path| terms.protects(path) || names_attributes(path))?;
        let attributes: Vec<PathBuf> = known.iter().filter(|path| names_attributes(path)).cloned().collect();
        // Nobody reads the settings in a run, and the user may edit them meanwhile.
        let is_meant = |path: &PathBuf| terms.protects(path) && path != Path::new(SETTINGS_FILE);
        let tracked: Vec<PathBuf> = known.into_iter().filter(is_meant).collect();
        let path = folder.state().join(PROTECTED);
        let store = store_of(repo, folder);
        let mut notices = Vec::new();
        let stored = match read_json::<StoredCopies>(&path)? {
            Some(stored @ StoredCopies { git: Some(_), .. }) => {
                let then = stored.git.as_ref().map(|git| &git.watched);
                for (effect, keys) in then.map(|then| then.changed(&repo.watched_settings())).unwrap_or_default() {
                    let when = "since the session began".to_owned();
                    notices.push(Notice::SettingsChanged { when, keys, effect: effect.into() });
                }
                stored
            }
            Some(stored) => {
                let stored = StoredCopies { git: Some(GitSettings::of(repo)), ..stored };
                write_json(&path, &stored)?;
                stored
            }
            None => {
                let meant = |path: &PathBuf| terms.is_named_protected(path) && tracked.binary_search(path).is_err();
                let mut found: Vec<PathBuf> =
                    tops.iter().flat_map(|top| files_below(repo.worktree(), top)).filter(meant).collect();
                found.sort();
                found.dedup();
                let (found, unnamed): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| path.to_str().is_some());
                forget_copies(repo, folder);
                let (found, odd): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(|path| can_copy(repo.worktree(), path));
                let copies = Copies::take(repo.worktree(), &store, &found)?;
                if copies.has_stamps_alone() {
                    notices.push(format!(
                        "the untracked protected files exceed {} GiB or {COPIED_FILES} files: ar detects changes by \
                         their stamps and cannot restore them",
                        COPIED_BYTES >> 30
                    )
                    .into());
                }
                let mut stored =
                    StoredCopies { version: 1, copies, git: Some(GitSettings::of(repo)), ..StoredCopies::default() };
                stored.beside = unnamed.iter().chain(&odd).map(|path| name_of(path)).collect();
                let links = found.into_iter().filter(|path| repo.worktree().join(path).is_dir()).collect();
                for (what, paths) in [
                    ("files whose names are not UTF-8", unnamed),
                    ("pipes, sockets and devices", odd),
                    ("the folders that these links lead to", links),
                ] {
                    if !paths.is_empty() {
                        notices.push(format!("cannot protect {what}: {}", list(&paths)).into());
                    }
                }
                stored.shadows = shadows(repo.worktree(), &modules(&tracked, &stored.copies)).into_keys().collect();
                write_json(&path, &stored)?;
                stored
            }
        };
        let settings = stored.git.as_ref().map(|git| git.filters.clone()).unwrap_or_default();
        let filters = repo.working_tree.pin_filters(start, &attributes, &settings)?;
        let all = repo.objects.files_at(start, |_| true)?;
        let walled = protected_mounts(&tracked, &all);
        Ok((Protected { tracked, stored, store, filters, walled, before_run: BTreeMap::new() }, notices))
    }

    pub(crate) fn modules(&self) -> Vec<PathBuf> {
        modules(&self.tracked, &self.stored.copies)
    }

    /// Finds files that newly take the place of protected modules, each with its module.
    pub(crate) fn new_shadows(&self, root: &Path) -> Shadows {
        let all = shadows(root, &self.modules());
        all.into_iter().filter(|(path, _)| !self.stored.shadows.contains(path)).collect()
    }

    /// The current stamps of all of them: tracked ones are below `root`, the others below `users_root`.
    pub(crate) fn stamps(&self, root: &Path, users_root: &Path) -> BTreeMap<PathBuf, Option<FileStamp>> {
        let tracked = self.tracked.iter().map(|path| (root, path));
        let paths = tracked.chain(self.stored.copies.paths().map(|path| (users_root, path)));
        paths.map(|(root, path)| (path.clone(), FileStamp::of(&root.join(path)))).collect()
    }
}

/// The folder of a session's copies: with git's own files, where nobody cleans up, and on their disk.
fn store_of(repo: &Repo, folder: &SessionFolder) -> PathBuf {
    let tag = folder.root().file_name().unwrap_or_default();
    repo.common_dir().join("autoresearch-protected").join(tag)
}

/// Removes the copies of a session that is rolled back, or of an earlier one with the same tag.
pub(crate) fn forget_copies(repo: &Repo, folder: &SessionFolder) {
    // Leftover copies only take up disk space.
    let _ = fs::remove_dir_all(store_of(repo, folder));
}

fn modules(tracked: &[PathBuf], copies: &Copies) -> Vec<PathBuf> {
    let is_module = |path: &&PathBuf| path.extension() == Some("py".as_ref());
    tracked.iter().chain(copies.paths()).filter(is_module).cloned().collect()
}

/// Finds files below `root` that Python would import instead of one of `modules`, each with the module.
fn shadows(root: &Path, modules: &[PathBuf]) -> BTreeMap<PathBuf, PathBuf> {
    let meant: BTreeSet<&PathBuf> = modules.iter().collect();
    let folders: BTreeSet<&Path> = modules.iter().filter_map(|module| module.parent()).collect();
    let stems: BTreeSet<_> = modules.iter().filter_map(|module| module.file_stem()).collect();
    let mut found = BTreeMap::new();
    let mut add = |path: PathBuf, is_opaque: bool| {
        let behind = modules_behind(&path, is_opaque);
        if let Some(module) = behind.into_iter().find(|module| meant.contains(module)) {
            found.insert(path, module);
        }
    };
    for folder in folders {
        for entry in entries(&root.join(folder)) {
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && stems.contains(name.as_os_str()) {
                let inside: Vec<_> = entries(&entry.path()).map(|entry| entry.file_name()).collect();
                if inside.iter().any(|name| name == ".git") {
                    add(path, true);
                } else {
                    inside.into_iter().for_each(|name| add(path.join(name), false));
                }
            } else if kind.is_symlink() {
                add(path, true);
            } else if kind.is_file() && name.to_str().is_some_and(is_compiled) {
                add(path, false);
            }
        }
    }
    found
}

/// The bytecode below `root` that Python would take for that of one of `modules`.
pub(crate) fn bytecode(root: &Path, modules: &[PathBuf]) -> Vec<PathBuf> {
    let folders: BTreeSet<&Path> = modules.iter().filter_map(|module| module.parent()).collect();
    let mut found = Vec::new();
    for folder in folders {
        let cache = folder.join("__pycache__");
        let names = entries(&root.join(&cache)).map(|entry| entry.file_name());
        let names = names.filter(|name| name.to_str().is_some_and(is_bytecode));
        found.extend(
            names
                .map(|name| cache.join(name))
                .filter(|path| modules_behind(path, false).iter().any(|module| modules.contains(module))),
        );
    }
    found
}

/// Returns whether the file at `path` can be copied. Reading a FIFO would block until a process writes to it.
fn can_copy(root: &Path, path: &Path) -> bool {
    fs::symlink_metadata(root.join(path)).is_ok_and(|meta| meta.is_file() || meta.is_symlink())
}

/// A path as it is noted.
pub(crate) fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

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
        if !self.owner.has_user() || !self.file_terms.protects(path) {
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
