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
    /// Output file, or folder of a tracker [default: standard output, or .autoresearch/TAG/TRACKER]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) tracker: TrackerArgs,
}

/// What is only for trackers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trackers")]
pub(in crate::cli) struct TrackerArgs {
    /// Server to write to: MLflow's tracking URI, or the base URL of W&B [default: files in the folder]
    #[arg(long, value_name = "URI")]
    pub(in crate::cli) uri: Option<String>,
    /// Write new experiments too, until the loop ends
    #[arg(long)]
    pub(in crate::cli) follow: bool,
    /// Python that has the tracker's client [default: that of .venv, else python3]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) python: Option<PathBuf>,
    /// Let uv install the client if no Python has it
    #[arg(long)]
    pub(in crate::cli) install: bool,
    /// Print the script that writes to the tracker, and exit
    #[arg(long)]
    pub(in crate::cli) print_script: bool,
}

impl TrackerArgs {
    /// The first of these flags that was passed.
    pub(in crate::cli) fn first(&self) -> Option<&'static str> {
        let passed = [
            (self.uri.is_some(), "--uri"),
            (self.follow, "--follow"),
            (self.python.is_some(), "--python"),
            (self.install, "--install"),
            (self.print_script, "--print-script"),
        ];
        passed.into_iter().find_map(|(is_passed, flag)| is_passed.then_some(flag))
    }
}
