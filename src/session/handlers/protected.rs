//! Files that no experiment may change, files that must not take their place, and the settings file. All are checked on
//! disk, whether git sees them or not. The wall of a job keeps it from them, and no glob of artifacts may open it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::{Workspace, aside_path, move_aside_from};
use crate::domain::{CommitId, Contract, ExperimentId, FORMAT_VERSION, Notice, count_of, list};
use crate::exec::Job;
use crate::fs::{FileStamp, read_at_most, read_regular, remove_all, write_atomic};
use crate::git::{CallCommits, CallGit, PinnedFilters, PinnedSettings, Repo, WatchedSettings, names_attributes};
use crate::ledger::RESULTS;
use crate::rules::{
    ArtifactGlobs, CallMounts, FileTerms, JobPlaces, Wall, WalledRole, is_bytecode, is_compiled, modules_behind,
    protected_mounts,
};
use crate::session::errors::{SessionError, Usage, refuse};
use crate::session::files::{SETTINGS_FILE, remove_file};
use crate::session::store::{AGENT, Store, Walls, job_place, own_names, real, writes_log};
use crate::state::{
    COPIED_BYTES, COPIED_FILES, Copies, Matching, PROTECTED, SESSIONS_FOLDER, SessionFolder, files_below, read_json,
    write_json, write_json_unsynced,
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
    filters: PinnedSettings,
    /// Those whose changes are named.
    pub(crate) watched: WatchedSettings,
}

impl GitSettings {
    fn of(repo: &Repo) -> GitSettings {
        GitSettings { filters: repo.working_tree.filter_settings(), watched: repo.watched_settings() }
    }
}

impl StoredCopies {
    /// Copies the protected files that git does not track, and says which of them cannot be protected.
    fn take(
        repo: &Repo,
        folder: &SessionFolder,
        terms: &FileTerms,
        (tracked, tops): (&[PathBuf], &[PathBuf]),
        notices: &mut Vec<Notice>,
    ) -> Result<StoredCopies, SessionError> {
        let worktree = repo.worktree();
        let meant = |path: &PathBuf| terms.is_named_protected(path) && tracked.binary_search(path).is_err();
        let mut found: Vec<PathBuf> = tops.iter().flat_map(|top| files_below(worktree, top)).filter(meant).collect();
        found.sort();
        found.dedup();
        let (found, unnamed): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| path.to_str().is_some());
        forget_copies(repo, folder);
        let (found, odd): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| can_copy(worktree, path));
        let copies = Copies::take(worktree, &copies_of_protected(repo, folder), &found)?;
        if copies.has_stamps_alone() {
            notices.push(
                format!(
                    "the untracked protected files exceed {} GiB or {COPIED_FILES} files: ar detects changes by \
                 their stamps and cannot restore them",
                    COPIED_BYTES >> 30
                )
                .into(),
            );
        }
        let mut stored =
            StoredCopies { version: 1, copies, git: Some(GitSettings::of(repo)), ..StoredCopies::default() };
        stored.beside = unnamed.iter().chain(&odd).map(|path| name_of(path)).collect();
        let links = found.into_iter().filter(|path| worktree.join(path).is_dir()).collect();
        for (what, paths) in [
            ("files whose names are not UTF-8", unnamed),
            ("pipes, sockets and devices", odd),
            ("the folders that these links lead to", links),
        ] {
            if !paths.is_empty() {
                notices.push(format!("cannot protect {what}: {}", list(&paths)).into());
            }
        }
        stored.shadows = shadows(worktree, &modules(tracked, &stored.copies)).into_keys().collect();
        Ok(stored)
    }
}

/// Has files converted and commits signed by the settings of the session's start, whatever somebody made of them since, and by
/// programs behind walls if jobs have these.
pub(crate) fn convert_as_at_start(repo: &mut Repo, folder: &SessionFolder, walls: &Walls) -> Result<(), SessionError> {
    let stored = read_json::<StoredCopies>(&folder.state().join(PROTECTED))?.and_then(|stored| stored.git);
    let filters = stored.map_or_else(|| repo.working_tree.filter_settings(), |git| git.filters);
    let words = walls.around(&filters);
    Ok(repo.working_tree.convert_by(filters, words)?)
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
        let store = copies_of_protected(repo, folder);
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
                let stored = StoredCopies::take(repo, folder, terms, (&tracked, tops), &mut notices)?;
                write_json(&path, &stored)?;
                stored
            }
        };
        let filters = repo.working_tree.pin_filters(start, &attributes)?;
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
pub(crate) fn copies_of_protected(repo: &Repo, folder: &SessionFolder) -> PathBuf {
    let tag = folder.root().file_name().unwrap_or_default();
    repo.common_dir().join("autoresearch-protected").join(tag)
}

/// Removes the copies of a session that is rolled back, or of an earlier one with the same tag.
pub(crate) fn forget_copies(repo: &Repo, folder: &SessionFolder) {
    // Leftover copies only take up disk space.
    let _ = fs::remove_dir_all(copies_of_protected(repo, folder));
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

/// The folders below `root` that the variables of a job's slot name, and the run's that it evaluates. Makes them: only what is
/// there can be mounted.
pub(crate) fn scratch_of(variables: &[(String, String)], root: &Path, role: &WalledRole) -> Vec<PathBuf> {
    let own = variables.iter().map(|(_, value)| PathBuf::from(value)).filter(|path| path.starts_with(root));
    let made = own.filter_map(|path| {
        // One that cannot be made is one that the job cannot make either.
        let _ = fs::create_dir(&path);
        path.canonicalize().ok()
    });
    made.chain(role.run_folder().map(real)).collect()
}

impl Workspace {
    /// The wall of a job in this tree that runs `command` and writes into `folder`, if jobs have one.
    pub(crate) fn wall(&self, store: &Store, folder: &Path, command: &str, role: &WalledRole) -> Option<Wall> {
        if !store.walls.hold() {
            return None;
        }
        let is_agent = matches!(role, WalledRole::Agent(_));
        let own = store.ledger.name();
        let ledger = (!is_agent).then(|| own.clone());
        let places = JobPlaces {
            own: own_names(folder, store.contract.guards.len(), writes_log(self.root(), command)),
            protected: self.walled_paths(is_agent),
            // The session's own ledger is repaired after a call.
            ledgers: [RESULTS.to_owned()].into_iter().filter(|name| *name != own).chain(ledger).collect(),
            links: links(store),
            scratch: scratch_of(&self.variables, store.folder.root(), role),
            ..JobPlaces::default()
        };
        store.walls.of_job(self.root(), folder, places, role)
    }

    /// Makes the git folder of a call in this tree and the call's wall, if jobs have one. The call writes into `folder`.
    pub(crate) fn wall_of_call(&self, store: &Store, folder: &Path) -> Result<Option<Wall>, SessionError> {
        if !store.walls.hold() {
            return Ok(None);
        }
        let git = call_git(folder);
        let head = self.repo.refs.head()?;
        self.repo.make_call_git(&git, head.commit().unwrap_or(&store.contract.start))?;
        let sessions = store.repo.main_worktree().join(SESSIONS_FOLDER);
        let real_sessions = sessions.canonicalize().unwrap_or(sessions);
        let there = self.root().join(".git");
        let there = there.canonicalize().unwrap_or(there);
        // A mount shows a folder at a folder, and a file at a file.
        let (seen, read_at) =
            if there.is_dir() { (git.folder().to_owned(), there) } else { (git.link(), git.folder().to_owned()) };
        let objects = self.repo.common_dir().join("objects");
        let objects = objects.canonicalize().unwrap_or(objects);
        let mut shared = self.repo.also_shared(&git, &read_at);
        shared.push((objects, git.shared()));
        let log = self.root().join("run.log").canonicalize().ok();
        let log = log.filter(|log| log.starts_with(&real_sessions) && copy_log(log, &copied_log(folder)).is_ok());
        let instead = log.map(|log| (copied_log(folder), log)).into_iter().collect();
        Ok(self.wall(store, folder, "", &WalledRole::Agent(CallMounts { seen, shared, instead })))
    }

    /// Takes over the commits of a call that wrote into `folder`, as if it had made them here: the commits that HEAD leads to
    /// stand on the base. Returns the commits that it made, also those that it reset; `None` where jobs have no
    /// walls, and calls make them here.
    pub(crate) fn take_over_call(
        &mut self,
        store: &mut Store,
        base: &CommitId,
        folder: &Path,
    ) -> Result<Option<Vec<CommitId>>, SessionError> {
        let Some(git) = store.walls.git().cloned() else { return Ok(None) };
        let at = self.reclaim_head(store, base)?;
        let CallCommits { tip, logged, lost } = self.repo.import_call_git(&call_git(folder), &at, &git)?;
        if store.repo.objects.leads_to(&at, &tip)? && tip != at {
            self.move_head(store, &tip, &[&at], "commits of the agent")?;
        }
        if lost > 0 {
            let commits = count_of(lost, "commit");
            store.note(format!(
                "found {commits} of the agent that git cannot read; the files in its working tree count"
            ));
        }
        Ok(Some(logged))
    }

    /// The protected paths of this tree as a wall can hold them: a mount over a link would be one over its target.
    pub(crate) fn walled_paths(&self, by_agent: bool) -> Vec<PathBuf> {
        let root = self.root();
        // In another tree, what git does not have is behind links.
        let copies: BTreeSet<PathBuf> =
            self.protected.stored.copies.paths().filter(|_| self.owner.has_user()).cloned().collect();
        let tops: BTreeSet<_> = copies.iter().filter_map(|path| path.iter().next()).collect();
        let beside: Vec<PathBuf> = tops.into_iter().flat_map(|top| files_below(root, Path::new(top))).collect();
        let copies = protected_mounts(&copies, &beside);
        let settings = by_agent.then(|| PathBuf::from(SETTINGS_FILE));
        let all = self.protected.walled.iter().cloned().chain(copies).chain(settings);
        let held = all.filter_map(|path| match fs::symlink_metadata(root.join(&path)) {
            Ok(there) if there.is_symlink() => {
                let (target, root) = (root.join(&path).canonicalize().ok()?, root.canonicalize().ok()?);
                target.strip_prefix(root).ok().filter(|inside| inside.parent().is_some()).map(Path::to_owned)
            }
            Ok(_) => Some(path),
            Err(_) => None,
        });
        held.collect()
    }
}

/// Removes the git folder of a call that wrote into `folder`. What cannot be removed only takes up room.
pub(crate) fn remove_call_git(folder: &Path) {
    let _ = remove_all(call_git(folder).folder());
}

/// The file that a call which writes into `folder` sees where `run.log` in the tree leads: the log of the newest run, to which
/// an agent that trains by itself may redirect its output.
pub(crate) fn copied_log(folder: &Path) -> PathBuf {
    call_git(folder).folder().join("run.log")
}

/// Copies a log that is not too large.
fn copy_log(log: &Path, copy: &Path) -> io::Result<()> {
    fs::write(copy, read_at_most(log, LARGEST_COPY)?)
}

/// The largest log that a call sees as a copy, in bytes; a larger one is read-only there.
pub(crate) const LARGEST_COPY: u64 = 16 << 20;

/// The git folder of a call that writes into `folder`.
fn call_git(folder: &Path) -> CallGit {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    CallGit::at(folder.join("git"))
}

/// The targets of the links in all trees of `ar`, and whether jobs may write there.
fn links(store: &Store) -> Vec<(PathBuf, bool)> {
    let main = store.repo.main_worktree();
    let layout = store.journal.layout.as_ref();
    let links = layout.into_iter().flat_map(|layout| layout.links.iter().map(|link| (link, &layout.writable)));
    let real = links.map(|(link, writable)| Some((main.join(link).canonicalize().ok()?, writable.contains(link))));
    real.flatten().collect()
}

/// Refuses globs of artifacts that match what is no artifact: a file that git has, a protected one, or one of `ar`'s own.
pub(crate) fn refuse_artifacts(repo: &Repo, contract: &Contract, terms: &FileTerms) -> Result<(), SessionError> {
    let globs = ArtifactGlobs::of(&contract.artifacts)?;
    if globs.is_empty() {
        return Ok(());
    }
    let refused = |path: &Path, what| {
        let glob = globs.matched(path).unwrap_or_default();
        Err(refuse(Usage, format!("--artifact '{glob}' matches {}, which is {what}", path.display()))
            .hint("name files that the run writes and git does not have, as in --artifact 'checkpoints/best.*'")
            .into())
    };
    if let Some(own) = OWN.iter().map(Path::new).find(|own| globs.matched(own).is_some()) {
        return refused(own, "one of ar's own files");
    }
    // Experiments kept since the start may have added files.
    let tip = repo.refs.branch(&contract.tag.branch_ref())?;
    for commit in [&contract.start].into_iter().chain(&tip) {
        if let Some(tracked) = repo.objects.files_at(commit, |path| globs.matched(path).is_some())?.first() {
            return refused(tracked, "tracked by git");
        }
    }
    let found = Matching::below(repo.worktree(), &globs);
    let mut paths = found.files.keys().chain(&found.odd);
    match paths.find(|path| terms.is_named_protected(path)) {
        Some(protected) => refused(protected, "protected"),
        None => Ok(()),
    }
}

/// Names that no glob of artifacts may match.
const OWN: [&str; 6] =
    ["results.tsv", "run.log", "autoresearch-lessons.md", ".autoresearch", ".autoresearch/t", ".git"];
