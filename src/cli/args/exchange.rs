//! The arguments of the commands that import sessions from other tools and export sessions to them.

use std::path::PathBuf;

use autoresearch::domain::Tag;
use clap::Args;

use super::formats::ExportFormat;
use super::reading::SaidArgs;
use super::session::SessionArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// Ledger, also one of another tool
    pub(in crate::cli) file: PathBuf,
    /// Name of the new session [default: month and day, as in nov20]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) said: SaidArgs,
    /// Show what would be imported, without writing anything
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Format
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) to: ExportFormat,
    /// Output file, or folder for mlflow [default: standard output, or mlruns]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) output: Option<PathBuf>,
}
