//! Runs of recorded code beside the session: each in a working tree of its own, without a trace in the session's files.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};

use tempfile::TempDir;

use super::repro::Rerunning;
use crate::domain::{Cluster, CommitId, Contract, ExperimentId, Record, RunRole};
use crate::exec::{ExecError, Executor};
use crate::fs::open_locked;
use crate::git::Repo;
use crate::rules::{FileTerms, JobPlaces, Wall, WalledRole, protected_mounts};
use crate::session::attempt::{FinishedRun, MeasuringRun, metric_file_stamp};
use crate::session::errors::SessionError;
use crate::session::files::{REPRO_FOLDER, UNFINISHED, is_own};
use crate::session::store::{Interrupt, Interrupts, Walls, own_names, writes_log};
use crate::session::view::SessionView;
use crate::session::wait::Ending;

impl SessionView {
    /// A new folder for working trees of runs beside the session: where the engine that executes them finds it, or among temporary
    /// files.
    pub(super) fn folder_beside(&self, cluster: Option<&Cluster>, name: &str) -> Result<TempDir, SessionError> {
        let above = if cluster.is_some() { self.folder.root().to_owned() } else { std::env::temp_dir() };
        let made = absolute(&above).and_then(|above| tempfile::Builder::new().prefix(name).tempdir_in(above));
        made.map_err(|source| SessionError::Io { action: "make", path: above, source })
    }
}

/// An untracked file or folder of the user's working tree that a run needs.
#[derive(Debug, Clone)]
pub(super) struct Linked {
    /// Where it is.
    pub(super) target: PathBuf,
    /// Its path in a working tree.
    pub(super) name: PathBuf,
    /// Whether runs may write to it.
    pub(super) is_writable: bool,
}

/// A run beside the session.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunBeside<'a> {
    pub(super) contract: &'a Contract,
    /// The experiment whose number the command gets.
    pub(super) id: ExperimentId,
    pub(super) commit: &'a CommitId,
    pub(super) command: &'a str,
    pub(super) role: RunRole,
    pub(super) seed: Option<u64>,
    pub(super) links: &'a [Linked],
    /// Variables that the command gets in its slot.
    pub(super) variables: &'a [(String, String)],
    /// The folder below which those runs are that may be on its GPUs beside it, if any may.
    pub(super) shares_gpus: Option<&'a Path>,
    pub(super) executor: &'a Executor,
}

impl<'a> RunBeside<'a> {
    /// A run of an experiment by the command that it was measured with.
    pub(super) fn of(
        contract: &'a Contract,
        record: &'a Record,
        role: RunRole,
        executor: &'a Executor,
    ) -> RunBeside<'a> {
        RunBeside {
            contract,
            id: record.id,
            commit: &record.commit,
            command: record.runs.last().map_or(contract.command.as_str(), |run| run.command.as_str()),
            role,
            seed: None,
            links: &[],
            variables: &[],
            shares_gpus: None,
            executor,
        }
    }

    /// Makes the run in a working tree at its commit, and waits for it. `None` after an interrupt.
    pub(super) async fn finish(
        self,
        view: &SessionView,
        place: &Repo,
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<FinishedRun>, SessionError> {
        let RunBeside { contract, command, links, .. } = self;
        let root = place.worktree();
        let folder = place.git_dir().join(REPRO_FOLDER);
        let log = folder.join("run.log");
        for Linked { target, name, .. } in links {
            let there = root.join(name);
            if fs::symlink_metadata(&there).is_ok() {
                return Err(SessionError::LinkedAlready(name.clone()));
            }
            link(target, &there)?;
        }
        if !place.working_tree.is_tracked(Path::new("run.log"))? {
            // The output of a command that redirects it there is read, too.
            link(&log, &root.join("run.log"))?;
        }
        let run = MeasuringRun {
            role: self.role,
            seed: self.seed,
            contract,
            command,
            id: self.id,
            commit: self.commit.clone(),
            state: view.folder.state(),
            wall: self.wall(view, place)?,
            folder,
            root,
            variables: self.variables,
            shares_gpus: self.shares_gpus.map(Path::to_owned),
            metric_before: metric_file_stamp(contract, root),
        };
        publish(&Rerunning { dir: root, command, missing: view.missing_in(root) });
        match run.start(self.executor)?.measured(interrupts, contract, view.history.baseline()).await? {
            Ending::Done(finished) => Ok(Some(finished)),
            Ending::Lost if interrupts.asked() == Interrupt::None => {
                let (command, detail) = (command.to_owned(), "died".to_owned());
                Err(ExecError::Lost { command, detail, killed: 0 }.into())
            }
            _ => Ok(None),
        }
    }

    /// The wall of the run in `place`, if one can be built. A run of another commit protects what the commit's tracked files
    /// of that name are.
    fn wall(&self, view: &SessionView, place: &Repo) -> Result<Option<Wall>, SessionError> {
        let RunBeside { contract, commit, command, .. } = *self;
        let (walls, _) = Walls::tried(contract.sandbox, &view.repo, place.worktree())?;
        let terms = FileTerms::of(contract)?;
        let all = place.objects.files_at(commit, |_| true)?;
        let protected: Vec<PathBuf> = all.iter().filter(|path| terms.protects(path)).cloned().collect();
        let folder = place.git_dir().join(REPRO_FOLDER);
        let places = JobPlaces {
            own: own_names(&folder, 0, writes_log(place.worktree(), command)),
            protected: protected_mounts(&protected, &all),
            links: self.links.iter().map(|link| (link.target.clone(), link.is_writable)).collect(),
            ..JobPlaces::default()
        };
        Ok(walls.of_job(place.worktree(), &folder, places, &WalledRole::Run))
    }
}

impl SessionView {
    /// An untracked file or folder of the user's working tree, to link.
    pub(super) fn linkable(&self, path: &Path) -> Result<Linked, SessionError> {
        self.linkable_in(self.repo.worktree(), path)
    }

    /// The same for a working tree of the user's, `root`.
    pub(super) fn linkable_in(&self, root: &Path, path: &Path) -> Result<Linked, SessionError> {
        let failed = |source| SessionError::Io { action: "link", path: path.to_owned(), source };
        let root = root.canonicalize().map_err(failed)?;
        let full = absolute(path).map_err(failed)?;
        if fs::symlink_metadata(&full).is_err() {
            return Err(SessionError::NothingToLink(path.to_owned()));
        }
        // The path may be a link itself, to a disk for data.
        let folder = full.parent().unwrap_or(&full).canonicalize().map_err(failed)?;
        let real = folder.join(full.file_name().unwrap_or_default());
        match real.strip_prefix(&root) {
            Ok(name) if !name.as_os_str().is_empty() => {
                Ok(Linked { target: real.clone(), name: name.to_owned(), is_writable: false })
            }
            _ => Err(SessionError::NotInWorktree { path: path.to_owned(), root }),
        }
    }

    /// The names at the root of the user's working tree that `root` lacks.
    pub(super) fn missing_in(&self, root: &Path) -> Vec<String> {
        let entries = fs::read_dir(self.repo.worktree()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut missing: Vec<String> = names
            .filter(|name| name != ".git" && !is_own(Path::new(name)) && fs::symlink_metadata(root.join(name)).is_err())
            .collect();
        missing.sort();
        missing
    }
}

/// Marks a working tree as one of a command that runs, until the result is dropped: one that no process holds is left over.
pub(super) fn hold(place: &Repo) -> Result<Option<File>, SessionError> {
    let folder = place.git_dir().join(REPRO_FOLDER);
    let path = folder.join(UNFINISHED);
    let held = fs::create_dir_all(&folder).and_then(|()| open_locked(&path));
    held.map(|held| held.map(|(file, _)| file)).map_err(|source| SessionError::Io { action: "make", path, source })
}

fn link(target: &Path, link: &Path) -> Result<(), SessionError> {
    let parent = link.parent().unwrap_or(Path::new("."));
    let made = fs::create_dir_all(parent).and_then(|()| symlink(target, link));
    made.map_err(|source| SessionError::Io { action: "link", path: link.to_owned(), source })
}
