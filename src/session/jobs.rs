//! The jobs of an experiment: their names, files and variables.

use std::path::Path;

use super::own_program::own_path;
use crate::domain::{CommitId, ExperimentId, Tag};

/// What the job of the agent is called.
pub const AGENT: &str = "agent";

/// What the job of the measuring command is called.
pub(super) const RUN: &str = "run";

/// What the job of the reviewer is called.
pub(super) const REVIEW: &str = "review";

/// What a run leaves in its folder, and what becomes of it, in the order in which it is removed.
pub(super) const RUN_FILES: [&str; 7] =
    ["run.log", "run.log.gz", "run.log.gz.part", "logs.dropped", "exit.json", "started.json", "job.json"];

/// What the job of a guard is called; the first one has number 1.
pub(super) fn guard_name(number: usize) -> String {
    format!("guard-{number}")
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
