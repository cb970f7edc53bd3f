//! The arguments of the commands that read.

use std::path::PathBuf;

use autoresearch::domain::{ExperimentName, Tag};
use clap::Args;
use regex::Regex;

use super::formats::{OutcomeName, OutputFormat, ReportFormat, SortOrder};
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
    #[command(flatten)]
    pub(in crate::cli) said: SaidArgs,
}

/// What a ledger does not say itself.
#[derive(Debug, Args)]
pub(in crate::cli) struct SaidArgs {
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
    /// Fill the terminal with it, and look again each second until `q` is pressed; quitting stops nothing
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) watch: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LogArgs {
    /// The session [default: that of the current branch, else the only one]
    #[arg(conflicts_with = "file")]
    pub(in crate::cli) tag: Option<Tag>,
    /// The order: the best first, by number, or the newest first
    #[arg(long, conflicts_with = "file", value_name = "ORDER", default_value = "id")]
    pub(in crate::cli) sort: SortOrder,
    /// Those of this outcome; several if need be
    #[arg(long, conflicts_with = "file", value_name = "OUTCOME")]
    pub(in crate::cli) outcome: Vec<OutcomeName>,
    /// Only the first ones in that order
    #[arg(long, conflicts_with = "file", value_name = "N")]
    pub(in crate::cli) top: Option<usize>,
    /// Those with this pattern in their description, reason, direction, failure or notes
    #[arg(long, conflicts_with = "file", value_name = "REGEX")]
    pub(in crate::cli) grep: Option<Regex>,
    /// The columns: id, commit, outcome, value, gain, memory, seconds, agent, failure, when, direction, reason, notes,
    /// description, and any number of the logs by its name. Unless they are asked for, a terminal that is too narrow goes
    /// without seconds, memory, gain, commit and failure, in this order
    #[arg(long, conflicts_with = "file", value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::cli) columns: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// The experiment: its number, a hash prefix, best, baseline or last
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// The session [default: that of the current branch, else the only one]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// All of the log instead of its end
    #[arg(long)]
    pub(in crate::cli) log: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// An experiment: its number, a hash prefix, best, baseline or last; nov20/7 for one of another session
    #[arg(value_name = "A")]
    pub(in crate::cli) experiment: ExperimentName,
    /// The one that it is compared with
    #[arg(value_name = "B")]
    pub(in crate::cli) other: ExperimentName,
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
