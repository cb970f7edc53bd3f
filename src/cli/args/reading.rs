//! The arguments of the commands that read.

use std::path::PathBuf;

use autoresearch::domain::Tag;
use clap::Args;

use super::formats::{OutputFormat, ReportFormat};
use crate::cli::values::ChartFile;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReportArgs {
    /// The session [default: that of the current branch, else the only one]
    #[arg(conflicts_with = "file")]
    pub(in crate::cli) tag: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// Draw the course of the experiments into this file too, .svg or .png
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) chart: Option<ChartFile>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: ReportFormat,
}

/// A ledger in place of a session.
#[derive(Debug, Args)]
pub(in crate::cli) struct LedgerArgs {
    /// Read this ledger instead of a session; whoever wrote it
    #[arg(long = "ledger", value_name = "FILE")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// The ledger's column to look at
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(in crate::cli) metric: Option<String>,
    /// Less of the metric is better
    #[arg(long, conflicts_with = "higher", requires = "file")]
    pub(in crate::cli) lower: bool,
    /// More of the metric is better
    #[arg(long, requires = "file")]
    pub(in crate::cli) higher: bool,
    /// The segment of a JSON-lines ledger, from 1 [default: the newest with rows]
    #[arg(long, value_name = "N", requires = "file")]
    pub(in crate::cli) segment: Option<usize>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    /// The session [default: that of the current branch, else all there are]
    pub(in crate::cli) tag: Option<Tag>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LogArgs {
    /// The session [default: that of the current branch, else the only one]
    #[arg(conflicts_with = "file")]
    pub(in crate::cli) tag: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// The experiment's number
    pub(in crate::cli) experiment: u32,
    /// The session [default: that of the current branch, else the only one]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BriefArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(in crate::cli) tag: Option<Tag>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExtractArgs {
    /// The log, compressed or not; `-` for standard input
    pub(in crate::cli) file: PathBuf,
    /// The metric's name
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) metric: String,
    /// Read the number with this pattern's one group instead of by its name
    #[arg(long, value_name = "REGEX")]
    pub(in crate::cli) metric_regex: Option<String>,
    /// How the run ended; above 128 it is a signal
    #[arg(long, value_name = "STATUS", default_value_t = 0, allow_negative_numbers = true)]
    pub(in crate::cli) exit_status: i32,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorArgs {
    /// The session [default: that of the current branch, else all of them]
    #[arg(value_name = "TAG", conflicts_with = "file")]
    pub(in crate::cli) session: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// Mend what can be mended without a guess; what is replaced is kept beside it
    #[arg(long, conflicts_with = "file")]
    pub(in crate::cli) repair: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}
