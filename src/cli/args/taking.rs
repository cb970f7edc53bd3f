//! The arguments of the commands that a person calls on single experiments, and of those that take code out of a session.

use std::path::PathBuf;

use autoresearch::domain::{ExperimentName, Tag};
use clap::Args;

use super::formats::OutputFormat;

#[derive(Debug, Args)]
pub(in crate::cli) struct NoteArgs {
    /// The experiment: its number, a hash prefix, best, baseline or last
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// What to note, on one line
    #[arg(value_parser = crate::cli::idea::text)]
    pub(in crate::cli) text: String,
    /// The session [default: that of the current branch, else the only one]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RestoreArgs {
    /// The experiment: its number, a hash prefix, best, baseline or last
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// The session [default: that of the current branch, else the only one]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// The new branch [default: tag and number, as in nov20-7]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) branch: Option<String>,
    /// Check it out in a new working tree there
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) worktree: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReproArgs {
    /// The experiment: its number, a hash prefix, best, baseline or last
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// The session [default: that of the current branch, else the only one]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Run it in a new working tree there, and keep that
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) worktree: Option<PathBuf>,
    /// An untracked file or folder, such as a data set, that the run is to find; several times if need be
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) link: Vec<PathBuf>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FinalizeArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(in crate::cli) tag: Option<Tag>,
    /// One commit with all that was kept, instead of one for each kept experiment
    #[arg(long)]
    pub(in crate::cli) squash: bool,
    /// The new branch [default: the tag and final, as in nov20-final]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) branch: Option<String>,
}
