//! The arguments of the commands that take sessions from other tools and give them to others.

use std::path::PathBuf;

use autoresearch::domain::Tag;
use clap::Args;

use super::formats::ExportFormat;
use super::reading::SaidArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The ledger; whoever wrote it
    pub(in crate::cli) file: PathBuf,
    /// The new session [default: month and day, as in nov20]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) said: SaidArgs,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(in crate::cli) tag: Option<Tag>,
    /// What to write
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) to: ExportFormat,
    /// Where to: a file, or for mlflow a folder [default: standard output, or mlruns]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) output: Option<PathBuf>,
}
