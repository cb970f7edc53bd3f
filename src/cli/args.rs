//! The arguments of all commands.

use std::path::PathBuf;

use autoresearch::domain::Tag;
use autoresearch::report::Format;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::terms::SettingsArgs;
use super::values::Span;

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
    /// The backlog of ideas: add one, list them, drop one
    Idea(IdeaArgs),
    /// What is read out of a log file
    Extract(ExtractArgs),
    /// Whether everything is in order, and what to do if not
    Doctor(DoctorArgs),
    /// Write ar.toml and program.md to start from
    Init(InitArgs),
    /// The whole loop on a built-in example
    Demo(DemoArgs),
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
    /// The strategy that the change belongs to, not its parameter: `warmup`, not `warmup=0.1`
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(super) direction: Option<String>,
    /// A JSON file that describes the change, with the fields of $AR_PROPOSAL; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(super) proposal: Option<PathBuf>,
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
pub(super) struct IdeaArgs {
    #[command(subcommand)]
    pub(super) command: IdeaCommand,
}

/// What is done with the backlog.
#[derive(Debug, Subcommand)]
pub(super) enum IdeaCommand {
    /// Add an idea, unless it is there
    Add {
        /// What to try, on one line
        #[arg(value_parser = super::idea::text)]
        text: String,
        /// The strategy that it belongs to
        #[arg(long, value_name = "NAME", value_parser = super::idea::text)]
        direction: Option<String>,
    },
    /// All ideas, also those that were drawn or dropped
    List {
        /// What to print
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: OutputFormat,
    },
    /// Offer an idea to no agent any more
    Drop {
        /// The idea's number
        idea: u32,
    },
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
