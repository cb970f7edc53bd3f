//! The arguments of the commands that read: session, formats and the rest.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use regex::Regex;

use autoresearch::domain::setting_values::{duration, positive, whole};
use autoresearch::domain::{ExperimentName, Tag};
use autoresearch::report::{ChartStyle, Format};
use autoresearch::rules::{CountedOutcome, SortBy};

use crate::cli::settings::ChartFile;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReportArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Sessions to show beside that one
    #[arg(value_name = "OTHER", conflicts_with_all = ["file", "weights"])]
    pub(in crate::cli) others: Vec<Tag>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// File for a chart of the experiments, .svg or .png; without --format only the chart is written
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) chart: Option<ChartFile>,
    /// Colours of that chart: dark on white paper, or light on dark paper [default: light]
    #[arg(long, value_name = "STYLE", requires = "chart", conflicts_with = "weights")]
    pub(in crate::cli) style: Option<Style>,
    /// Print weights for the axes, learned from the ratings of sessions with the same axes and type (`ar rate`)
    #[arg(long, conflicts_with_all = ["file", "chart"])]
    pub(in crate::cli) weights: bool,
    /// Output format [default: table]
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) format: Option<ReportFormat>,
}

/// A ledger in place of a session.
#[derive(Debug, Args)]
pub(in crate::cli) struct LedgerArgs {
    /// Ledger to read instead of a session, also one of another tool
    #[arg(long = "ledger", value_name = "FILE", conflicts_with_all = ["session", "tag"])]
    pub(in crate::cli) file: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) said: SaidArgs,
}

/// What a ledger does not say itself.
#[derive(Debug, Args)]
pub(in crate::cli) struct SaidArgs {
    /// Column of the ledger that holds the metric
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(in crate::cli) metric: Option<String>,
    /// Treat lower values as better
    #[arg(long, conflicts_with = "higher", requires = "file")]
    pub(in crate::cli) lower: bool,
    /// Treat higher values as better
    #[arg(long, requires = "file")]
    pub(in crate::cli) higher: bool,
    /// Segment of a JSON-lines ledger, as the file numbers it, else from 0 [default: the newest with rows]
    #[arg(long, value_name = "N", requires = "file", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub(in crate::cli) segment: Option<usize>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    /// Session [default: that of HEAD, else all of them; with `--watch`, the active one, else the newest]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Show all sessions of this user on this machine, a line for each
    #[arg(long, conflicts_with_all = ["session", "tag"])]
    pub(in crate::cli) all: bool,
    /// Fill the terminal and refresh it each second until `q` is pressed; quitting does not stop the loop
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) watch: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ServeArgs {
    /// Sessions to show, several of them in one chart [default: that of HEAD, else the active one, else the newest]
    #[arg(id = "session", value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) sessions: Vec<Tag>,
    /// Session, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Port to listen at; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 8765)]
    pub(in crate::cli) port: u16,
    /// Address to listen at; any other than the default lets other machines in, without encryption
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(in crate::cli) bind: IpAddr,
}

#[derive(Debug, Args)]
#[command(override_usage = "ar log [OPTIONS] [TAG]\n       ar log [OPTIONS] --ledger <FILE>")]
pub(in crate::cli) struct LogArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Order: the best first, by number, or the newest first
    #[arg(long, value_name = "ORDER", default_value = "id")]
    pub(in crate::cli) sort: SortBy,
    /// Outcome to list; repeatable
    #[arg(long, value_name = "OUTCOME")]
    pub(in crate::cli) outcome: Vec<CountedOutcome>,
    /// Largest number of experiments to list
    #[arg(long, value_name = "N", value_parser = positive::<usize>, allow_negative_numbers = true)]
    pub(in crate::cli) top: Option<usize>,
    /// Pattern to find in the description, reason, direction, failure or notes
    #[arg(long, value_name = "REGEX")]
    pub(in crate::cli) grep: Option<Regex>,
    /// Columns, with commas between: id, commit, outcome, value, gain, memory, seconds, agent, failure, when, direction, reason,
    /// notes, replaced_by, description, and any value of the logs by its name. By default a narrow terminal omits seconds, memory,
    /// gain, commit and failure, in this order
    #[arg(long, conflicts_with = "file", value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::cli) columns: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Print the whole log instead of its end
    #[arg(long)]
    pub(in crate::cli) log: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "A")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Experiment to compare it with
    #[arg(value_name = "B")]
    pub(in crate::cli) other: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BriefArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExtractArgs {
    /// Log, compressed or not; `-` for standard input
    pub(in crate::cli) file: PathBuf,
    /// Name of the metric [default: from AR_METRIC, ar.toml or the session]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) metric: Option<String>,
    /// Pattern whose one group is the value, used instead of the metric's name
    #[arg(long, value_name = "REGEX")]
    pub(in crate::cli) metric_regex: Option<String>,
    /// Exit status of the run; above 128 it is a signal
    #[arg(long, value_name = "STATUS", default_value_t = 0, allow_negative_numbers = true)]
    pub(in crate::cli) exit_status: i32,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ScoreArgs {
    /// Session to compare with [default: $AR_TAG, else that of HEAD's branch, else none: then HEAD's files]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// Repair what needs no guess; replaced files are kept beside the new ones
    #[arg(long, conflicts_with = "file")]
    pub(in crate::cli) repair: bool,
    /// Test the executor of the runs with one short job: what it sees of files here, and whether `ar` starts there
    #[arg(long, conflicts_with = "file")]
    pub(in crate::cli) job: bool,
    /// Time to wait for that job to start
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m", requires = "job")]
    pub(in crate::cli) wait: Duration,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

/// A session's tag, as an argument or an option.
#[derive(Debug, Args)]
pub(in crate::cli) struct SessionArgs {
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    tag: Option<Tag>,
}

impl SessionArgs {
    /// The session that was named.
    pub(in crate::cli) fn tag(self) -> Option<Tag> {
        self.session.or(self.tag)
    }
}

/// What the loop prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum StreamFormat {
    /// One line for each experiment
    #[default]
    Table,
    /// One JSON document a line for each event
    Json,
}

/// What one experiment prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum AnswerFormat {
    /// The outcome, for people
    Table,
    /// The record as one JSON document on one line
    Json,
}

/// What a report is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ReportFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
    /// A page that needs no other file and no network
    Html,
}

impl ReportFormat {
    /// The format as other commands have it too; absent for a page.
    pub(in crate::cli) fn as_text(self) -> Option<Format> {
        match self {
            ReportFormat::Table => Some(Format::Table),
            ReportFormat::Json => Some(Format::Json),
            ReportFormat::Csv => Some(Format::Csv),
            ReportFormat::Md => Some(Format::Md),
            ReportFormat::Html => None,
        }
    }
}

/// What a session is written out as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ExportFormat {
    /// The records, one JSON document a line
    Jsonl,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
    /// Weights & Biases: offline runs, or with --uri a server
    Wandb,
    /// Event files for TensorBoard
    Tensorboard,
    /// MLflow: a SQLite store, or with --uri a server
    Mlflow,
}

/// The colours of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Style {
    /// Light on dark paper
    Dark,
    /// Dark on white paper
    Light,
}

impl From<Style> for ChartStyle {
    fn from(style: Style) -> ChartStyle {
        match style {
            Style::Dark => ChartStyle::Dark,
            Style::Light => ChartStyle::Light,
        }
    }
}
