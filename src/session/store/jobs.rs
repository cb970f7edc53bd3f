//! The jobs of an experiment: their names, files and variables.

use std::path::{Path, PathBuf};

use super::notices::Notices;
use super::writer::Store;
use crate::domain::{CommitId, ExperimentId, Notice, RunRole, Tag};
use crate::exec::{FILES_BEFORE, JobFiles};
use crate::fs::move_odd_away;
use crate::session::errors::SessionError;
use crate::session::files::own_path;
use crate::state::{OpenRun, SessionFolder};

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
        moved.extend(move_odd_away(&path).map_err(|source| SessionError::Io { action: "move", path, source })?);
    }
    if !moved.is_empty() {
        notices.note(Notice::RunFilesMoved(moved));
    }
    Ok(folder)
}

impl Store {
    /// The folder below which those runs are that may be on a run's GPUs beside it: those of other slots, unless each slot has GPUs
    /// of its own.
    pub(crate) fn shares_gpus(&self) -> Option<PathBuf> {
        let layout = self.journal.layout.as_ref()?;
        (layout.slots > 1 && layout.gpus.is_none()).then(|| self.folder.runs())
    }
}

/// The name of a run among the jobs of its attempt.
pub(crate) fn run_name(run: &OpenRun) -> String {
    if run.is_first() { RUN.to_owned() } else { run.role.folder(run.number) }
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
