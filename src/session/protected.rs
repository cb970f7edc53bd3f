//! What no experiment may change, and what must not take its place: looked at on the disk, whether git sees it or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::SessionError;
use super::own_files::remove_file;
use super::store::Store;
use super::workspace::Workspace;
use crate::domain::{Actor, CommitId, Failure, FailureClass, Notice, Phase, list};
use crate::fs::{FileStamp, free_name, make_writable, move_to};
use crate::git::{Proposal, Repo, WhyLeftOut};
use crate::rules::{FileTerms, Forbidden, folders_of, is_bytecode, is_compiled, modules_behind, takes_the_place};
use crate::state::{
    COPIED_BYTES, COPIED_FILES, Copies, OpenExperiment, PROTECTED, SessionFolder, files_below, read_json, write_json,
};

/// The protected files of a session, and what is known of them.
#[derive(Debug)]
pub(super) struct Protected {
    /// Those that git has, relative to the working tree.
    pub(super) tracked: Vec<PathBuf>,
    stored: Stored,
    /// The folder of the copies.
    store: PathBuf,
    /// What the file system said of all of them when the run began.
    before_run: BTreeMap<PathBuf, Option<FileStamp>>,
}

/// What outlives the process.
#[derive(Debug, Default, PartialEq, Eq, Clone, Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// Those that git does not have.
    copies: Copies,
    /// What took the place of a protected module before an agent was called.
    shadows: BTreeSet<PathBuf>,
    /// What stood below protected paths without a copy when the agent was last called: runs of the user's command write there
    /// too. As far as the names are text.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    beside: BTreeSet<String>,
}

/// What takes the place of protected modules, each with its module.
type Shadows = Vec<(PathBuf, PathBuf)>;

impl Protected {
    /// Looks for the protected files of a session at its start, or reads what was found then; gives what is to be said about
    /// them.
    pub(super) fn of(
        repo: &Repo,
        folder: &SessionFolder,
        terms: &FileTerms,
        start: &CommitId,
        tops: &[PathBuf],
    ) -> Result<(Protected, Vec<Notice>), SessionError> {
        let tracked = repo.files_at(start, |path| terms.protects(path))?;
        let path = folder.state().join(PROTECTED);
        let store = store_of(repo, folder);
        let mut notices = Vec::new();
        let stored = match read_json(&path)? {
            Some(stored) => stored,
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
                    notices.push(Notice::StampsAlone { gib: COPIED_BYTES >> 30, files: COPIED_FILES });
                }
                let mut stored = Stored { version: 1, copies, ..Stored::default() };
                stored.beside = unnamed.iter().chain(&odd).map(|path| name_of(path)).collect();
                let links = found.into_iter().filter(|path| repo.worktree().join(path).is_dir()).collect();
                for (what, paths) in [
                    ("files whose names are not UTF-8", unnamed),
                    ("pipes, sockets and devices", odd),
                    ("the folders that these links lead to", links),
                ] {
                    if !paths.is_empty() {
                        notices.push(Notice::Unprotected { what, paths });
                    }
                }
                stored.shadows = shadows(repo.worktree(), &modules(&tracked, &stored.copies)).into_keys().collect();
                write_json(&path, &stored)?;
                stored
            }
        };
        Ok((Protected { tracked, stored, store, before_run: BTreeMap::new() }, notices))
    }

    fn modules(&self) -> Vec<PathBuf> {
        modules(&self.tracked, &self.stored.copies)
    }

    /// What takes the place of protected modules now and did not before, with the module.
    fn new_shadows(&self, root: &Path) -> Shadows {
        let all = shadows(root, &self.modules());
        all.into_iter().filter(|(path, _)| !self.stored.shadows.contains(path)).collect()
    }

    fn stamps(&self, root: &Path) -> BTreeMap<PathBuf, Option<FileStamp>> {
        let paths = self.tracked.iter().chain(self.stored.copies.paths());
        paths.map(|path| (path.clone(), FileStamp::of(&root.join(path)))).collect()
    }
}

/// The folder of a session's copies: with git's own files, where nobody cleans up, and on their disk.
fn store_of(repo: &Repo, folder: &SessionFolder) -> PathBuf {
    let tag = folder.root().file_name().unwrap_or_default();
    repo.common_dir().join("autoresearch-protected").join(tag)
}

/// Removes the copies of a session that is taken back, or of one that was there before.
pub(super) fn forget_copies(repo: &Repo, folder: &SessionFolder) {
    // What stays takes room, and nothing else.
    let _ = fs::remove_dir_all(store_of(repo, folder));
}

fn modules(tracked: &[PathBuf], copies: &Copies) -> Vec<PathBuf> {
    let is_module = |path: &&PathBuf| path.extension() == Some("py".as_ref());
    tracked.iter().chain(copies.paths()).filter(is_module).cloned().collect()
}

/// What stands below `root` where Python would import it in place of one of `modules`, with the module.
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
fn bytecode(root: &Path, modules: &[PathBuf]) -> Vec<PathBuf> {
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

/// Whether there can be a copy of what stands at `path`: to read a pipe is to wait for who writes.
fn can_copy(root: &Path, path: &Path) -> bool {
    fs::symlink_metadata(root.join(path)).is_ok_and(|meta| meta.is_file() || meta.is_symlink())
}

fn say_moved(store: &mut Store, to: Vec<PathBuf>, why: &'static str) {
    if !to.is_empty() {
        store.say(Notice::MovedOut { to, why });
    }
}

/// A path as it is noted.
fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

impl Workspace {
    /// Puts those protected files back that git does not have and that somebody changed, and removes their bytecode
    /// that the commit `at` does not have; gives the files that were changed.
    fn restore_copies(&mut self, store: &mut Store, id: u32, at: &CommitId) -> Result<Vec<PathBuf>, SessionError> {
        let root = store.repo.worktree().to_owned();
        for path in bytecode(&root, &self.protected.modules()) {
            if !store.repo.is_in(at, &path)? {
                remove_file(&root.join(path))?;
            }
        }
        let copies = self.protected.store.clone();
        let changed = self.protected.stored.copies.changed(&root, &copies)?;
        if changed.is_empty() {
            return Ok(changed);
        }
        let (mut aside, mut left) = (Vec::new(), Vec::new());
        for path in &changed {
            aside.extend(self.move_out_of_the_way(store, id, path)?);
            if !self.protected.stored.copies.put_back(&root, &copies, path)? {
                left.push(path.clone());
            }
        }
        // Of a file without a copy the new state is the one that the next look compares with, in another process too.
        self.write_protected(store)?;
        let back: Vec<PathBuf> = changed.iter().filter(|path| !left.contains(path)).cloned().collect();
        if !back.is_empty() {
            store.say(Notice::ProtectedRestored { paths: back, found: aside });
        }
        match left.is_empty() {
            true => Ok(changed),
            false if self.protected.stored.copies.has_stamps_alone() => {
                store.say(Notice::ProtectedChanged(left));
                Ok(changed)
            }
            false => Err(SessionError::ProtectedLost(left)),
        }
    }

    /// Moves what stands at a protected path, or in the place of a folder on the way, into the session's folder. A file that
    /// cannot be put back stays.
    fn move_out_of_the_way(&self, store: &Store, id: u32, path: &Path) -> Result<Option<PathBuf>, SessionError> {
        if self.protected.stored.copies.has_stamps_alone() {
            return Ok(None);
        }
        let mut here = PathBuf::new();
        for part in path.components() {
            here.push(part);
            match fs::symlink_metadata(store.repo.worktree().join(&here)) {
                Ok(meta) if meta.is_dir() && here != path => {}
                Ok(_) => return self.move_aside(store, id, &here).map(Some),
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Moves something out of the working tree into the session's folder, and gives where it is now.
    pub(super) fn move_aside(&self, store: &Store, id: u32, path: &Path) -> Result<PathBuf, SessionError> {
        let from = store.repo.worktree().join(path);
        let failed = |source| SessionError::Io { action: "move", path: from.clone(), source };
        let to = free_name(&store.folder.root().join("aside").join(format!("{id:05}")).join(path));
        fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(failed)?;
        // Neither a folder that is read-only can be moved, nor what is in one.
        for folder in [Some(&*from), from.parent()].into_iter().flatten() {
            make_writable(folder).map_err(failed)?;
        }
        move_to(&from, &to).map_err(failed)?;
        Ok(to)
    }

    /// Undoes what the agent did to protected files that git does not have; gives what is forbidden of it. To be called before
    /// the change is read.
    pub(super) fn undo_forbidden(
        &mut self,
        store: &mut Store,
        open: &OpenExperiment,
    ) -> Result<Forbidden, SessionError> {
        let changed = self.restore_copies(store, open.id, &open.base)?;
        let protected = changed.iter().map(|path| format!("{} is protected", path.display())).collect();
        Ok(Forbidden { protected, scope: Vec::new() })
    }

    /// Moves out of the working tree what is new there, is in no commit and may not be there, and adds it to what is `found`.
    pub(super) fn clear_out(
        &mut self,
        store: &mut Store,
        open: &OpenExperiment,
        change: &Proposal,
        found: &mut Forbidden,
    ) -> Result<(), SessionError> {
        let id = open.id;
        let in_change: BTreeSet<PathBuf> = change.paths().iter().map(|changed| changed.path.clone()).collect();
        let (taken, mut moved) = self.clear_shadows(store, id, &open.base, |path| !in_change.contains(path))?;
        found.protected.extend(taken.iter().map(|(path, module)| takes_the_place(path, module)));
        for path in self.new_protected(store) {
            if !in_change.contains(&path) {
                found.protected.push(format!("{} is protected", path.display()));
                moved.push(self.move_aside(store, id, &path)?);
            }
        }
        for left_out in change.left_out() {
            let why = match left_out.why {
                WhyLeftOut::Repository => "is a git repository of its own: no commit would hold its files",
                WhyLeftOut::Path => "is a path that git refuses to check out",
            };
            found.scope.push(format!("{} {why}", left_out.path.display()));
            if fs::symlink_metadata(store.repo.worktree().join(&left_out.path)).is_ok() {
                moved.push(self.move_aside(store, id, &left_out.path)?);
            }
        }
        say_moved(store, moved, "no commit would hold it");
        Ok(())
    }

    /// Notes what stands below protected paths now as nothing that the next call of the agent made. What appeared while a
    /// call was under way that came to no change is moved out of the working tree.
    pub(super) fn remember_beside_protected(&mut self, store: &mut Store) -> Result<(), SessionError> {
        if store.journal.phase == Phase::Proposing {
            let id = store.journal.open.as_ref().map_or(store.history.next_id(), |open| open.id);
            let moved = self
                .new_protected(store)
                .iter()
                .map(|path| self.move_aside(store, id, path))
                .collect::<Result<Vec<_>, _>>()?;
            say_moved(store, moved, "it appeared below a protected path while the agent was active");
        }
        let beside = self.beside_protected(store).iter().map(|path| name_of(path)).collect();
        if self.protected.stored.beside != beside {
            self.protected.stored.beside = beside;
            self.write_protected(store)?;
        }
        Ok(())
    }

    fn write_protected(&self, store: &mut Store) -> Result<(), SessionError> {
        store.write_file(PROTECTED, &self.protected.stored)
    }

    /// Files below protected paths that the agent made.
    fn new_protected(&self, store: &Store) -> Vec<PathBuf> {
        let mut files = self.beside_protected(store);
        files.retain(|path| !self.protected.stored.beside.contains(&name_of(path)));
        files
    }

    /// Files below protected paths that neither git nor the session has.
    fn beside_protected(&self, store: &Store) -> Vec<PathBuf> {
        let root = store.repo.worktree();
        let tops = folders_of(&store.contract.protect).into_iter().filter(|top| !top.as_os_str().is_empty());
        let files = tops.flat_map(|top| files_below(root, &top));
        let is_new = |path: &PathBuf| {
            self.file_terms.is_named_protected(path)
                && !self.protected.stored.copies.has(path)
                && self.protected.tracked.binary_search(path).is_err()
        };
        if self.protected.stored.copies.has_stamps_alone() { Vec::new() } else { files.filter(is_new).collect() }
    }

    /// Moves out of the working tree what takes the place of a protected module and is not in the commit `at`, as far as it is
    /// `meant`; gives each with its module, and where they are now.
    fn clear_shadows(
        &self,
        store: &Store,
        id: u32,
        at: &CommitId,
        meant: impl Fn(&Path) -> bool,
    ) -> Result<(Shadows, Vec<PathBuf>), SessionError> {
        let (mut taken, mut moved) = (Vec::new(), Vec::new());
        for (path, module) in self.protected.new_shadows(store.repo.worktree()) {
            if !meant(&path) || store.repo.is_in(at, &path)? {
                continue;
            }
            // A package is moved with all that is in it, unless something else of it is tracked.
            let package = path.parent().filter(|parent| module.with_extension("") == **parent);
            let whole = match package {
                Some(package) if !store.repo.is_in(at, package)? => package,
                _ => &path,
            };
            if fs::symlink_metadata(store.repo.worktree().join(whole)).is_ok() {
                moved.push(self.move_aside(store, id, whole)?);
            }
            taken.push((path, module));
        }
        Ok((taken, moved))
    }

    /// Sees to it, just before the run or a guard, that protected files are those that were approved and nothing takes their
    /// place.
    pub(super) fn put_protected_back(
        &mut self,
        store: &mut Store,
        id: u32,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        let changed = store.repo.differing(commit, &self.protected.tracked)?;
        if !changed.is_empty() {
            store.say(Notice::ProtectedRestoredForRun(changed));
            self.put_back(store, commit, commit)?;
        }
        self.restore_copies(store, id, commit)?;
        if id != 0 {
            let (_, moved) = self.clear_shadows(store, id, commit, |_| true)?;
            say_moved(store, moved, "Python would import it instead of a protected file");
        }
        self.protected.before_run = self.protected.stamps(store.repo.worktree());
        Ok(())
    }

    /// Why it does not count what `who` said, the run or a guard, if it changed protected files or put something in their
    /// place. What the run of the baseline makes is the user's own.
    pub(super) fn protected_changed(
        &mut self,
        store: &mut Store,
        id: u32,
        commit: &CommitId,
        who: Actor,
    ) -> Result<Option<Failure>, SessionError> {
        let mut changed = store.repo.differing(commit, &self.protected.tracked)?;
        changed.extend(self.restore_copies(store, id, commit)?);
        let mut lines = Vec::new();
        if !changed.is_empty() {
            lines.push(format!("{who} changed {}", list(&changed)));
        }
        if id == 0 {
            let new = self.protected.new_shadows(store.repo.worktree());
            if !new.is_empty() {
                self.protected.stored.shadows.extend(new.into_iter().map(|(path, _)| path));
                self.write_protected(store)?;
            }
        } else {
            let (taken, moved) = self.clear_shadows(store, id, commit, |_| true)?;
            say_moved(store, moved, "Python would import it instead of a protected file");
            let made = |(path, module): &(PathBuf, PathBuf)| {
                format!("{who} made {}, which takes the place of {}", path.display(), module.display())
            };
            lines.extend(taken.iter().map(made));
        }
        Ok((!lines.is_empty()).then(|| Failure { class: FailureClass::Protected, excerpt: lines.join("\n") }))
    }

    /// The protected files that somebody touched while the run went on, by what the file system says of them: one that was
    /// changed and changed back is among them. None where another process started the run.
    pub(super) fn protected_touched(&self, store: &Store) -> Vec<PathBuf> {
        let root = store.repo.worktree();
        let before = self.protected.before_run.iter();
        before
            .filter(|(path, stamp)| FileStamp::of(&root.join(path)) != **stamp)
            .map(|(path, _)| path.clone())
            .collect()
    }
}
