//! The arguments of all commands.

use std::path::PathBuf;

use autoresearch::domain::{KeepLogs, Ladder, LedgerDialect, Tag};
use autoresearch::report::Format;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::settings::{MetricFile, Span};

/// Drives experiments on a git repository: branch, modify, commit, run, measure, keep or reset.
#[derive(Debug, Parser)]
#[command(name = "ar", version = concat!("(autoresearch) ", env!("CARGO_PKG_VERSION")), about)]
#[command(disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a session, or continue it: the loop
    Run(RunArgs),
    /// One experiment from the working tree, then return
    Try(TryArgs),
    /// Continue after any interruption
    Resume(ResumeArgs),
    /// What the session found
    Report(ReportArgs),
    /// What is happening now
    Status(StatusArgs),
    /// Finish the current experiment, then stop
    Stop(StopArgs),
    /// The experiments as a table
    Log(LogArgs),
    /// One experiment: record, diff, log tail
    Show(ShowArgs),
    /// What an agent has to know for the next experiment
    Brief(BriefArgs),
    /// What is read out of a log file
    Extract(ExtractArgs),
    /// Whether everything is in order, and what to do if not
    Doctor(DoctorArgs),
    /// Write ar.toml and program.md to start from
    Init(InitArgs),
    /// The whole loop on a built-in example
    Demo(DemoArgs),
}

/// The terms of a session: flag, then variable (`AR_METRIC`), then `ar.toml`, then default.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct SettingsArgs {
    /// The number to improve, by the name that the log prints it under
    #[arg(long, value_name = "NAME")]
    pub(super) metric: Option<String>,
    /// The command that trains and measures
    #[arg(long, value_name = "COMMAND")]
    pub(super) cmd: Option<String>,
    /// The command that changes the code once and exits, with the prompt on standard input; or aider, claude, codex,
    /// gemini or opencode
    #[arg(long, value_name = "COMMAND")]
    pub(super) agent: Option<String>,
    /// The session's name; its branch is autoresearch/TAG [default: month and day]
    #[arg(long)]
    pub(super) tag: Option<Tag>,
    /// Less of the metric is better [default, unless its name says otherwise]
    #[arg(long, conflicts_with = "higher")]
    pub(super) lower: bool,
    /// More of the metric is better
    #[arg(long)]
    pub(super) higher: bool,
    /// How much better than the best one so far a number must be [default: 0]
    #[arg(long, value_name = "DELTA", value_parser = super::settings::non_negative)]
    pub(super) min_delta: Option<f64>,
    /// A run's deadline [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<Span>,
    /// How long a process has to end by itself before it is killed [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub(super) grace: Option<Span>,
    /// How many experiments the session may have, the baseline not counted
    #[arg(long, value_name = "N")]
    pub(super) max_experiments: Option<u32>,
    /// How long this call may go on
    #[arg(long = "for", value_name = "DURATION")]
    pub(super) budget: Option<Span>,
    /// Stop when the metric reaches this value
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true, value_parser = super::settings::finite)]
    pub(super) goal: Option<f64>,
    /// Read the number with this pattern's one group instead of by its name
    #[arg(long, value_name = "REGEX", conflicts_with = "metric_file")]
    pub(super) metric_regex: Option<String>,
    /// Read the number from this JSON file instead of the log
    #[arg(long, value_name = "PATH:/json/pointer")]
    pub(super) metric_file: Option<MetricFile>,
    /// The dialect of a new results.tsv
    #[arg(long, value_name = "DIALECT")]
    pub(super) ledger: Option<Dialect>,
    /// The files that an experiment may change, several times if need be [default: all but those that measure]
    #[arg(long, value_name = "GLOB")]
    pub(super) scope: Vec<String>,
    /// Files that no experiment may change, several times if need be
    #[arg(long, value_name = "GLOB")]
    pub(super) protect: Vec<String>,
    /// How many files an experiment may change
    #[arg(long, value_name = "N")]
    pub(super) max_files: Option<u32>,
    /// How many lines of one file an experiment may add and delete
    #[arg(long, value_name = "N")]
    pub(super) max_file_lines: Option<u32>,
    /// Measure a change again that was measured before
    #[arg(long)]
    pub(super) allow_repeats: bool,
    /// What the agent is told when keeps fail to come [default: refine]
    #[arg(long, value_name = "LADDER")]
    pub(super) ladder: Option<LadderName>,
    /// The agent may look for ideas outside the repository when two pivots brought nothing
    #[arg(long)]
    pub(super) research: bool,
    /// Stop when the session is flagged for a person, instead of beginning anew in another direction
    #[arg(long)]
    pub(super) stop_when_flagged: bool,
    /// How much of the runs' logs is kept, as in 2GB; `all`, or 0 for the best one and the newest ten [default: 10GB]
    #[arg(long, value_name = "SIZE")]
    pub(super) keep_logs: Option<KeepLogs>,
}

/// The dialect of a new results.tsv.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Dialect {
    /// commit_hash, improved / rejected / failed
    Ar,
    /// commit, keep / discard / crash
    Karpathy,
}

impl From<Dialect> for LedgerDialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Ar => LedgerDialect::Ar,
            Dialect::Karpathy => LedgerDialect::Karpathy,
        }
    }
}

/// What the agent is told when keeps fail to come.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LadderName {
    /// Refine after 3 experiments, pivot after 5, flag for a person in place of the third pivot
    Refine,
    /// Pivot the structure after 2 experiments without a finding, flag for a person after 4
    Structural,
}

impl From<LadderName> for Ladder {
    fn from(name: LadderName) -> Self {
        match name {
            LadderName::Refine => Ladder::Refine,
            LadderName::Structural => Ladder::Structural,
        }
    }
}

/// What the loop prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StreamFormat {
    /// One line for each experiment
    Table,
    /// One JSON document a line for each event
    Json,
}

/// What one experiment prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AnswerFormat {
    /// The outcome, for people
    Table,
    /// The record as one JSON document on one line
    Json,
}

/// What a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
}

impl From<OutputFormat> for Format {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Table => Format::Table,
            OutputFormat::Json => Format::Json,
            OutputFormat::Csv => Format::Csv,
            OutputFormat::Md => Format::Markdown,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
    /// Make the uncommitted change the first experiment
    #[arg(long)]
    pub(super) adopt: bool,
    /// Start without asking
    #[arg(long, short)]
    pub(super) yes: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The session [default: that of the current branch, else the only one]
    #[arg(id = "session", value_name = "TAG", conflicts_with = "tag")]
    pub(super) session: Option<Tag>,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(super) struct TryArgs {
    /// What the change is, on one line
    #[arg(long, short, value_name = "TEXT")]
    pub(super) message: Option<String>,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
    /// Exit with 10 when the experiment was discarded, with 20 when it crashed, with 30 when it is still running
    #[arg(long)]
    pub(super) exit_code: bool,
    /// Return after this time even when the run goes on
    #[arg(long, value_name = "DURATION")]
    pub(super) wait: Option<Span>,
    /// Wait on for the run that is going on
    #[arg(long = "continue", conflicts_with = "message")]
    pub(super) resume: bool,
    /// How to say what came of it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: AnswerFormat,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(super) tag: Option<Tag>,
    /// Read this ledger instead of a session
    #[arg(long, value_name = "FILE", conflicts_with = "tag")]
    pub(super) ledger: Option<PathBuf>,
    /// The ledger's column to look at
    #[arg(long, value_name = "NAME", requires = "ledger")]
    pub(super) metric: Option<String>,
    /// Less of the metric is better
    #[arg(long, conflicts_with = "higher", requires = "ledger")]
    pub(super) lower: bool,
    /// More of the metric is better
    #[arg(long, requires = "ledger")]
    pub(super) higher: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The session [default: that of the current branch, else all there are]
    pub(super) tag: Option<Tag>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(super) tag: Option<Tag>,
    /// End the run of the current experiment, roll back and stop, instead of finishing it
    #[arg(long)]
    pub(super) now: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(super) tag: Option<Tag>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The experiment's number
    pub(super) experiment: u32,
    /// The session [default: that of the current branch, else the only one]
    #[arg(long)]
    pub(super) tag: Option<Tag>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct BriefArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(super) tag: Option<Tag>,
}

#[derive(Debug, Args)]
pub(super) struct ExtractArgs {
    /// The log, compressed or not; `-` for standard input
    pub(super) file: PathBuf,
    /// The metric's name
    #[arg(long, value_name = "NAME")]
    pub(super) metric: String,
    /// Read the number with this pattern's one group instead of by its name
    #[arg(long, value_name = "REGEX")]
    pub(super) metric_regex: Option<String>,
    /// How the run ended; above 128 it is a signal
    #[arg(long, value_name = "STATUS", default_value_t = 0, allow_negative_numbers = true)]
    pub(super) exit_status: i32,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// The session [default: that of the current branch, else all of them]
    #[arg(value_name = "TAG")]
    pub(super) session: Option<Tag>,
    /// Mend what can be mended without a guess; what is replaced is kept beside it
    #[arg(long)]
    pub(super) repair: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Where to make the example [default: a new folder for temporary files]
    pub(super) dir: Option<PathBuf>,
}
