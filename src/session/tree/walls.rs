//! The wall of a job that works in a working tree, and globs of artifacts that no wall may open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::working_tree::Workspace;
use crate::domain::{CommitId, Contract};
use crate::fs::{read_at_most, remove_all};
use crate::git::{CallCommits, CallGit, Repo};
use crate::ledger::RESULTS;
use crate::rules::{ArtifactGlobs, CallMounts, FileTerms, JobPlaces, Wall, WalledRole, protected_mounts};
use crate::session::errors::SessionError;
use crate::session::files::SETTINGS_FILE;
use crate::session::store::{Store, own_names, writes_log};
use crate::state::{Matching, SESSIONS_FOLDER, files_below};

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
            // What a call writes into its session's own is put right afterwards.
            ledgers: [RESULTS.to_owned()].into_iter().filter(|name| *name != own).chain(ledger).collect(),
            links: links(store),
            scratch: self.scratch(store),
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
        let CallCommits { tip, logged } = self.repo.import_call_git(&call_git(folder), &at, &git)?;
        if store.repo.objects.leads_to(&at, &tip)? && tip != at {
            self.move_head(store, &tip, &[&at], "commits of the agent")?;
        }
        Ok(Some(logged))
    }

    /// The folders of the session that the variables of this tree's slot name. Makes them: only what is there can be mounted.
    fn scratch(&self, store: &Store) -> Vec<PathBuf> {
        let values = self.variables.iter().map(|(_, value)| PathBuf::from(value));
        let own = values.filter(|path| path.starts_with(store.folder.root()));
        let made = own.filter_map(|path| {
            // One that cannot be made is one that the job cannot make either.
            let _ = fs::create_dir(&path);
            path.canonicalize().ok()
        });
        made.collect()
    }

    /// The protected paths of this tree as a wall can hold them: a mount over a link would be one over its target.
    fn walled_paths(&self, by_agent: bool) -> Vec<PathBuf> {
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
        let glob = globs.matched(path).unwrap_or_default().to_owned();
        Err(SessionError::NoArtifact { glob, path: path.to_owned(), what })
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
