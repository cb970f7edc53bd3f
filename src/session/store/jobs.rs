//! The jobs of an experiment: their names, files, variables and walls, the programs of git that hang meanwhile, and the end
//! of a failed run's log.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::{Interrupt, Interrupts, Notices, Store, hidden_places, sealed_places};
use crate::agent::LOG_LINES;
use crate::domain::{
    CommitId, Contract, ExperimentId, FailureClass, Record, RunRole, Sandbox, StopWhen, Tag, UserError, list,
};
use crate::exec::{FILES_BEFORE, JobFiles, find_builder, kill_other_children, try_wall, wall_words};
use crate::fs::{move_irregular_away, read_at_most};
use crate::git::{GitProgram, PinnedSettings, Repo, WAY_BACK};
use crate::machine::{Attempt, AttemptEntry, OpenRun};
use crate::measure::last_lines;
use crate::rules::{HiddenPlaces, History, JobPlaces, Places, Wall, WalledRole, files_named, wall};
use crate::session::errors::SessionError;
use crate::session::files::{REPRO_FOLDER, UNFINISHED, own_path};
use crate::state::{HiddenFile, SESSIONS_FOLDER, SessionFolder, further_runs, read_log_tail, user_folder};

/// Name of the agent's job.
pub const AGENT: &str = "agent";

/// Name of the measuring command's job.
pub(crate) const RUN: &str = "run";

/// Name of the reviewer's job.
pub(crate) const REVIEW: &str = "review";

/// Files that a run leaves in its folder, and files made from them, in the order of their removal.
pub(crate) const RUN_FILES: [&str; 9] = [
    "run.log",
    "run.log.gz",
    "run.log.gz.part",
    "logs.dropped",
    "exit.json",
    "started.json",
    "job.json",
    TREE_BEFORE,
    FILES_BEFORE,
];

/// Other files in the folder of a run, besides those of the run and of the jobs.
const MORE: [&str; 5] = ["lock", "prompt.md", "proposal.json", "review.md", "review.json"];

/// Returns the name of a guard's job. The first guard has number 1.
pub(crate) fn guard_name(number: usize) -> String {
    format!("guard-{number}")
}

/// The jobs of an experiment with so many guards, by name.
pub(crate) fn job_names(guards: usize) -> impl Iterator<Item = String> {
    [AGENT, RUN, REVIEW].into_iter().map(str::to_owned).chain((1..=guards).map(guard_name))
}

/// Moves away what stands in the place of `ar`'s files in the folder of an experiment's runs and is no file of its own, and
/// says so; gives the folder. No job may go on in it.
pub(crate) fn clear_run_folder(
    folder: &SessionFolder,
    id: ExperimentId,
    guards: usize,
    notices: &mut Notices,
) -> Result<PathBuf, SessionError> {
    let folder = folder.create_run(id)?;
    let mut paths: Vec<PathBuf> = RUN_FILES.iter().chain(&MORE).map(|name| folder.join(name)).collect();
    for job in job_names(guards) {
        let JobFiles { job: task, started, exit } = JobFiles::named(&folder, &job);
        paths.extend([task, started, exit, folder.join(format!("{job}.log"))]);
    }
    let mut moved = Vec::new();
    for path in paths {
        moved.extend(move_irregular_away(&path).map_err(|source| SessionError::Io { action: "move", path, source })?);
    }
    if !moved.is_empty() {
        notices.note(format!("moved what replaced files of ar's to {}", list(&moved)));
    }
    Ok(folder)
}

impl Store {
    /// The folder of the runs that may share a run's GPUs. Absent with one slot, or where each slot has its own GPUs.
    pub(crate) fn gpu_sharers(&self) -> Option<PathBuf> {
        let layout = self.journal.layout.as_ref()?;
        (layout.slots > 1 && layout.gpus.is_none()).then(|| self.folder.runs())
    }
}

/// The name of a run among the jobs of its attempt.
pub(crate) fn run_name(run: &OpenRun) -> String {
    if run.is_first() { RUN.to_owned() } else { run.role.folder(run.number) }
}

/// The job that an attempt has at its step, or had last.
pub(crate) fn job_of(entry: &AttemptEntry) -> String {
    match &entry.attempt {
        Attempt::Call(_) | Attempt::Rework(_) | Attempt::Merge { .. } | Attempt::MergeWinner { .. } => AGENT.to_owned(),
        Attempt::Guard(draft) => guard_name(draft.record.proof.guards.len() + 1),
        Attempt::Review(_) => REVIEW.to_owned(),
        _ => run_name(&entry.run()),
    }
}

/// Returns the folder of a job's files, and the name that they carry. `folder` is that of the experiment's first run.
pub(crate) fn job_place<'a>(folder: &Path, job: &'a str) -> (PathBuf, &'a str) {
    if RunRole::is_folder(job) { (folder.join(job), RUN) } else { (folder.to_owned(), job) }
}

/// The variables that a measuring command or a guard of a commit gets.
pub(crate) fn run_variables(
    command: &str,
    tag: &Tag,
    id: ExperimentId,
    commit: &CommitId,
    state: &Path,
    folder: &Path,
) -> Vec<(String, String)> {
    let variables = [
        ("AR_TAG".into(), tag.to_string()),
        ("AR_EXPERIMENT".into(), id.to_string()),
        ("AR_COMMIT".into(), commit.to_string()),
        ("AR_STATE_DIR".into(), state.to_string_lossy().into_owned()),
        ("AR_RUN_DIR".into(), folder.to_string_lossy().into_owned()),
    ];
    variables.into_iter().chain(own_path(command)).collect()
}

/// The file in a run's folder with the stamps of all tracked files before the run. If `ar` is killed, the process that
/// continues the run compares with it.
pub(crate) const TREE_BEFORE: &str = "tree.before";

/// Other files and folders of `ar` in the folder of an experiment's runs, besides those of runs and jobs.
const OTHER_NAMES: [&str; 7] =
    ["lock", "metric.before", "prompt.md", "review.md", "review.diff", "artifacts", "artifacts.json"];

/// Folders in which any program may write, if they are there, besides those that variables name.
const COMMON: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/proc", "/run"];

/// The variables that name further ones.
const NAMING: [&str; 7] =
    ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"];

/// The walls of a session's jobs, or that they have none.
#[derive(Debug, Default)]
pub(crate) struct Walls(Option<(Places, GitProgram)>);

impl Walls {
    /// Tries a wall in this repository once, for a job in `tree`, unless none is wanted. Gives also why none can be built.
    ///
    /// # Errors
    ///
    /// A wall is required and cannot be built, the git program is missing, or the places of the repository cannot be found.
    pub(crate) fn tried(wanted: Sandbox, repo: &Repo, tree: &Path) -> Result<(Walls, Option<UserError>), SessionError> {
        if wanted == Sandbox::Off {
            return Ok(Default::default());
        }
        let refused = |reason: UserError| match wanted {
            Sandbox::Require => Err(SessionError::NoWall(reason)),
            _ => Ok((Walls::default(), Some(reason))),
        };
        let trees = [real(repo.main_worktree()), real(tree)];
        let trees = trees.each_ref().map(PathBuf::as_path);
        let builder = match find_builder(&trees) {
            Ok(builder) => builder,
            Err(reason) => return refused(reason),
        };
        let places = Places { builder, required: wanted == Sandbox::Require, ..places(repo)? };
        let of_run = wall(&places, &job_places(tree, tree, JobPlaces::default()), &WalledRole::Run);
        match try_wall(&of_run, tree) {
            Ok(()) => {
                let git = GitProgram::find(&trees, Some(&places.builder))?;
                Ok((Walls(Some((places, git))), None))
            }
            Err(reason) => refused(reason),
        }
    }

    /// The same walls around what `--hide` names, which the evaluator of the hidden split alone reads, and around what agents could read
    /// of fresh runs. Gives also what `--hide` names.
    ///
    /// # Errors
    ///
    /// Git has a file that `--hide` names.
    pub(crate) fn hiding(
        mut self,
        repo: &Repo,
        folder: &SessionFolder,
        contract: &Contract,
    ) -> Result<(Walls, HiddenPlaces), SessionError> {
        let sealed = sealed_places(repo, folder, contract);
        let hidden = HiddenPlaces { empty: real(&sealed.empty), ..hidden_places(repo, contract)? };
        if let Some((places, _)) = &mut self.0 {
            (places.hidden, places.sealed) = (hidden.clone(), sealed);
            // Those in the repository are protected.
            let named = contract.holdout.iter().flat_map(|line| files_named(line));
            places.linked.extend(named.filter(|path| path.is_absolute() && path.is_file()).map(|path| real(&path)));
        }
        Ok((self, hidden))
    }

    /// The wall of a job in `tree` that writes into `folder`, if jobs have one; the other `places` are given.
    pub(crate) fn of_job(&self, tree: &Path, folder: &Path, places: JobPlaces, role: &WalledRole) -> Option<Wall> {
        let mut job = job_places(tree, folder, places);
        self.0.as_ref().map(|(places, _)| {
            if !places.sealed.folders.is_empty() {
                job.emptied.extend(further_runs(folder).map(|further| real(&further)));
            }
            wall(&covered(places), &job, role)
        })
    }

    /// The words of a call that starts a program of git's configuration behind a wall, if jobs have them: it may write where Git LFS and
    /// git-annex have their files, and where any program may, but no file of the repository.
    pub(crate) fn around(&self, filters: &PinnedSettings) -> Vec<String> {
        let Some((places, _)) = &self.0 else { return Vec::new() };
        let [tree, folder] = ["lfs", "annex"].map(|name| {
            let place = places.git.join(name);
            if filters.has(name) {
                // Only what is there can be mounted.
                let _ = fs::create_dir(&place);
            }
            real(&place)
        });
        let own = JobPlaces { tree, folder, ..JobPlaces::default() };
        wall_words(&wall(&covered(places), &own, &WalledRole::Reviewer))
    }

    /// The git program that reads what jobs behind walls wrote, if jobs have them.
    pub(crate) fn git(&self) -> Option<&GitProgram> {
        self.0.as_ref().map(|(_, git)| git)
    }

    /// Returns whether jobs have walls.
    pub(crate) fn hold(&self) -> bool {
        self.0.is_some()
    }
}

/// The places, of whose sealed ones only those that are there can be covered: files by an empty one of the session.
fn covered(places: &Places) -> Places {
    let HiddenPlaces { folders, files, empty } = &places.sealed;
    let files: Vec<PathBuf> = files.iter().filter(|path| path.exists()).map(|path| real(path)).collect();
    if let (Some(state), false) = (empty.parent(), files.is_empty() && places.hidden.files.is_empty()) {
        // A session without hidden files has none until another one seals its own.
        let _ = HiddenFile::new(state).create_empty();
    }
    let folders = folders.iter().filter(|path| path.is_dir()).map(|path| real(path)).collect();
    Places { sealed: HiddenPlaces { folders, files, empty: real(empty) }, ..places.clone() }
}

fn job_places(tree: &Path, folder: &Path, places: JobPlaces) -> JobPlaces {
    let git = real(&tree.join(".git"));
    JobPlaces { tree: real(tree), folder: real(folder), git, ..places }
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
    let mut names: Vec<String> = RUN_FILES.iter().chain(&OTHER_NAMES).map(|name| (*name).to_owned()).collect();
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
    let linked = linked.filter(|root| !root.starts_with(&sessions)).chain([real(main)]).collect();
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
        ..Places::default()
    })
}

/// Returns whether a file is in the place of a folder above `path`: bubblewrap refuses such a mount.
fn leads_through_a_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotADirectory)
}

/// The path without links, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Starts the watchdog of a repository. `budget` is how long this invocation may take.
pub(crate) fn watch_programs(repo: &Repo, budget: Option<Duration>) -> Result<(), SessionError> {
    end_programs_in(repo, budget);
    let programs = repo.programs();
    let watch = move || programs.watch(kill_other_children);
    thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop).map_err(SessionError::Watchdog)
}

/// Starts the watchdog of a repository for a call that ends at the first request of `interrupts`.
pub(crate) fn watch_programs_until(repo: &Repo, interrupts: &Interrupts) -> Result<(), SessionError> {
    let interrupts = interrupts.clone();
    repo.programs().end_when(move || interrupts.asked() != Interrupt::None);
    watch_programs(repo, None)
}

fn end_in(budget: Duration) -> Option<Instant> {
    Instant::now().checked_add(budget)?.checked_add(WAY_BACK)
}

/// Has the watchdog listen to what is asked of the session in `folder`.
pub(crate) fn listen(repo: &Repo, interrupts: &Interrupts, folder: &SessionFolder) {
    let (interrupts, folder) = (interrupts.clone(), folder.clone());
    repo.programs()
        .end_when(move || interrupts.asked() >= Interrupt::Detach || folder.stop_request() == Some(StopWhen::Now));
}

/// Has the watchdog terminate programs when so much time is over, or never.
pub(crate) fn end_programs_in(repo: &Repo, left: Option<Duration>) {
    repo.programs().end_at(left.and_then(end_in));
}

/// The last lines of the log that shows why an experiment failed; empty if it did not, or the log is missing.
pub(crate) fn end_of_log(folder: &SessionFolder, record: &Record) -> String {
    let name = match record.failure.as_ref().map(|failure| failure.class) {
        Some(FailureClass::GuardFailed) => format!("{}.log", guard_name(record.proof.guards.len())),
        Some(_) if !record.runs.is_empty() => "run.log".into(),
        _ => return String::new(),
    };
    // The caller then shows the record's own excerpt.
    read_log_tail(&folder.log(record.id, &name)).map(|log| last_lines(&log, LOG_LINES)).unwrap_or_default()
}

/// The same for the last experiment of a session.
pub(crate) fn last_failed_log(folder: &SessionFolder, history: &History) -> String {
    history.records().last().map(|record| end_of_log(folder, record)).unwrap_or_default()
}
