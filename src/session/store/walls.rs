//! The walls of a session's jobs.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::jobs::{RUN_FILES, job_names};
use crate::domain::Sandbox;
use crate::exec::{JobFiles, NoWall, find_builder, try_wall};
use crate::fs::read_at_most;
use crate::git::Repo;
use crate::rules::{JobPlaces, Places, Wall, WalledRole, files_named, wall};
use crate::session::errors::SessionError;
use crate::session::files::{REPRO_FOLDER, UNFINISHED};
use crate::state::{SESSIONS_FOLDER, further_runs, user_folder};

/// Other files and folders of `ar` in the folder of an experiment's runs, besides those of runs and jobs.
const MORE: [&str; 7] =
    ["lock", "metric.before", "prompt.md", "review.md", "review.diff", "artifacts", "artifacts.json"];

/// Folders in which any program may write, if they are there, besides those that variables name.
const COMMON: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/proc", "/run"];

/// The variables that name further ones.
const NAMING: [&str; 7] =
    ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"];

/// The walls of a session's jobs, or that they have none.
#[derive(Debug, Default)]
pub(crate) struct Walls(Option<Places>);

impl Walls {
    /// Tries a wall in this repository once, for a job in `tree`, unless none is wanted. Gives also why none can be built.
    ///
    /// # Errors
    ///
    /// A wall is required and cannot be built, or the places of the repository cannot be found.
    pub(crate) fn tried(wanted: Sandbox, repo: &Repo, tree: &Path) -> Result<(Walls, Option<NoWall>), SessionError> {
        if wanted == Sandbox::Off {
            return Ok(Default::default());
        }
        let refused = |reason: NoWall| match wanted {
            Sandbox::Require => Err(SessionError::NoWall(reason)),
            _ => Ok((Walls::default(), Some(reason))),
        };
        let builder = match find_builder(&[&real(&repo.main_worktree()), &real(tree)]) {
            Ok(builder) => builder,
            Err(reason) => return refused(reason),
        };
        let walls = Walls(Some(Places { builder, required: wanted == Sandbox::Require, ..places(repo)? }));
        let of_run = walls.of_job(tree, tree, JobPlaces::default(), &WalledRole::Run);
        match try_wall(&of_run.unwrap_or_default(), tree) {
            Ok(()) => Ok((walls, None)),
            Err(reason) => refused(reason),
        }
    }

    /// The wall of a job in `tree` that writes into `folder`, if jobs have one; the other `places` are given.
    pub(crate) fn of_job(&self, tree: &Path, folder: &Path, places: JobPlaces, role: &WalledRole) -> Option<Wall> {
        let git = real(&tree.join(".git"));
        let job = JobPlaces { tree: real(tree), folder: real(folder), git, ..places };
        self.0.as_ref().map(|places| wall(places, &job, role))
    }

    /// Returns whether jobs have walls.
    pub(crate) fn hold(&self) -> bool {
        self.0.is_some()
    }
}

/// The largest script that is searched for the name of the log, in bytes.
const LARGEST_SCRIPT: u64 = 1 << 20;

/// Returns whether a command in `tree` may write the log itself: it or a file that it names mentions `run.log`.
pub(crate) fn writes_log(tree: &Path, command: &str) -> bool {
    let mentions = |text: &str| text.contains("run.log");
    let script = |path: PathBuf| read_at_most(&tree.join(path), LARGEST_SCRIPT);
    mentions(command)
        || files_named(command)
            .into_iter()
            .filter_map(|path| script(path).ok())
            .any(|script| mentions(&String::from_utf8_lossy(&script)))
}

/// The names of `ar`'s own files and folders in the folder of an experiment with so many guards. The log is not its own if the
/// command [writes](writes_log) it.
pub(crate) fn own_names(folder: &Path, guards: usize, writes_log: bool) -> Vec<String> {
    let mut names: Vec<String> = RUN_FILES.iter().chain(&MORE).map(|name| (*name).to_owned()).collect();
    for job in job_names(guards) {
        let JobFiles { job: task, started, exit } = JobFiles::named(folder, &job);
        let files = [task, started, exit].into_iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        names.extend(files.chain([format!("{job}.log")]));
    }
    names.extend(further_runs(folder).filter_map(|path| path.file_name()?.to_str().map(str::to_owned)));
    names.retain(|name| name != "run.log" || !writes_log);
    names.sort();
    names.dedup();
    names
}

fn places(repo: &Repo) -> Result<Places, SessionError> {
    let main = repo.main_worktree();
    let sessions = real(&main.join(SESSIONS_FOLDER));
    // Those of reruns come and go, and a wall cannot be built over what has gone.
    let is_rerun = |git_dir: &Path| git_dir.join(REPRO_FOLDER).join(UNFINISHED).exists();
    let linked = repo.linked_worktrees()?.into_iter().filter(|(git_dir, _)| !is_rerun(git_dir));
    let linked = linked.map(|(_, root)| real(&root));
    let linked = linked.filter(|root| !root.starts_with(&sessions)).chain([real(&main)]).collect();
    let named = NAMING.iter().filter_map(env::var_os).map(PathBuf::from);
    let common = COMMON.iter().map(PathBuf::from).chain(named).filter(|path| path.is_absolute() && path.is_dir());
    Ok(Places {
        builder: PathBuf::new(),
        root: real(repo.worktree()),
        sessions,
        git: real(repo.common_dir()),
        linked,
        state: user_folder().filter(|path| !leads_through_a_file(path)).map(|path| real(&path)),
        common: common.map(|path| real(&path)).collect(),
        required: false,
    })
}

/// Returns whether a file is in the place of a folder above `path`: bubblewrap refuses such a mount.
fn leads_through_a_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotADirectory)
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
