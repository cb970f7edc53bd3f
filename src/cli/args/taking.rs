//! The arguments of the commands that act on single experiments, and of those that take code out of a session.

use std::path::PathBuf;

use autoresearch::domain::{ExperimentName, Tag};
use clap::Args;

use super::formats::OutputFormat;
use super::session::SessionArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct NoteArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Note, on one line
    #[arg(value_parser = crate::cli::idea::text)]
    pub(in crate::cli) text: String,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RestoreArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// New branch [default: tag and number, as in nov20-7]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) branch: Option<String>,
    /// Folder for a new working tree with the branch
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) worktree: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReproArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Folder for the working tree of the run, which is kept
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) worktree: Option<PathBuf>,
    /// Untracked file or folder that the run needs, such as a data set; repeatable
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) link: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FinalizeArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Combine all kept experiments into one commit
    #[arg(long)]
    pub(in crate::cli) squash: bool,
    /// New branch [default: tag and final, as in nov20-final]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) branch: Option<String>,
}
