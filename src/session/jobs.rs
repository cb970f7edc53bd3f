//! The jobs of an experiment: their names, files and variables.

use std::path::{Path, PathBuf};

use super::disturbed::TREE_BEFORE;
use super::own_program::own_path;
use crate::domain::{CommitId, ExperimentId, Tag};

/// What the job of the agent is called.
pub const AGENT: &str = "agent";

/// What the job of the measuring command is called.
pub(super) const RUN: &str = "run";

/// What the job of the reviewer is called.
pub(super) const REVIEW: &str = "review";

/// What the job is called that runs the best experiment once again.
pub(super) const CHECK: &str = "check";

/// What a run leaves in its folder, and what becomes of it, in the order in which it is removed.
pub(super) const RUN_FILES: [&str; 8] =
    ["run.log", "run.log.gz", "run.log.gz.part", "logs.dropped", "exit.json", "started.json", "job.json", TREE_BEFORE];

/// What the job of a guard is called; the first one has number 1.
pub(super) fn guard_name(number: usize) -> String {
    format!("guard-{number}")
}

/// Where the best experiment writes when it runs once again, in the folder of the runs of the experiment that comes next.
pub(super) fn check_folder(folder: &Path) -> PathBuf {
    folder.join(CHECK)
}

/// The log of that run.
pub(super) fn check_log(folder: &Path) -> PathBuf {
    check_folder(folder).join("run.log")
}

/// The variables that a measuring command or a guard of a commit gets.
pub(super) fn run_variables(
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
