//! The arguments of the commands that make experiments, and of what belongs to that.

use std::path::PathBuf;

use autoresearch::domain::Tag;
use clap::{Args, Subcommand};

use super::formats::{AnswerFormat, OutputFormat, StreamFormat};
use crate::cli::terms::SettingsArgs;
use crate::cli::values::Span;

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Make the uncommitted change the first experiment
    #[arg(long)]
    pub(in crate::cli) adopt: bool,
    /// Start without asking
    #[arg(long, short)]
    pub(in crate::cli) yes: bool,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResumeArgs {
    /// The session [default: that of the current branch, else the only one]
    #[arg(id = "session", value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TryArgs {
    /// What the change is, on one line
    #[arg(long, short, value_name = "TEXT")]
    pub(in crate::cli) message: Option<String>,
    /// The strategy that the change belongs to, not its parameter: `warmup`, not `warmup=0.1`
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(in crate::cli) direction: Option<String>,
    /// A JSON file that describes the change, with the fields of $AR_PROPOSAL; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(in crate::cli) proposal: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Exit with 10 when the experiment was discarded, with 20 when it crashed, with 30 when it is still running
    #[arg(long)]
    pub(in crate::cli) exit_code: bool,
    /// Return after this time even when the run goes on
    #[arg(long, value_name = "DURATION")]
    pub(in crate::cli) wait: Option<Span>,
    /// Wait on for the run that is going on
    #[arg(long = "continue", conflicts_with = "message")]
    pub(in crate::cli) resume: bool,
    /// How to say what came of it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: AnswerFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StopArgs {
    /// The session [default: that of the current branch, else the only one]
    pub(in crate::cli) tag: Option<Tag>,
    /// End the run of the current experiment, roll back and stop, instead of finishing it
    #[arg(long)]
    pub(in crate::cli) now: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Where to make the example [default: a new folder for temporary files]
    pub(in crate::cli) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct IdeaArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: IdeaCommand,
}

/// What is done with the backlog.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum IdeaCommand {
    /// Add an idea, unless it is there
    Add {
        /// What to try, on one line
        #[arg(value_parser = crate::cli::idea::text)]
        text: String,
        /// The strategy that it belongs to
        #[arg(long, value_name = "NAME", value_parser = crate::cli::idea::text)]
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
