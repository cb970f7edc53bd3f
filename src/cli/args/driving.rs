//! The arguments of the commands that make experiments, and of what belongs to that.

use std::path::PathBuf;
use std::time::Duration;

use autoresearch::agent::Skill;
use autoresearch::domain::setting_values::{duration, finite, positive};
use autoresearch::domain::{IdeaKind, PRESETS, Tag};
use autoresearch::report::Format;
use clap::{Args, Subcommand};

use super::reading::{AnswerFormat, SessionArgs, StreamFormat};
use crate::cli::settings::SettingsArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Make the uncommitted change, or your commits on the session's branch, an experiment
    #[arg(long)]
    pub(in crate::cli) adopt: bool,
    /// Take over a session that another host drove; only if nothing of it runs there any more
    #[arg(long)]
    pub(in crate::cli) take_over: bool,
    /// As a batch job of Slurm: end in good order at its time limit or at SIGUSR1, and have it requeued to go on
    #[arg(long, requires = "tag")]
    pub(in crate::cli) requeue: bool,
    /// Start without asking
    #[arg(long, short)]
    pub(in crate::cli) yes: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResumeArgs {
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(id = "session", value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Take over a session that another host drove; only if nothing of it runs there any more
    #[arg(long)]
    pub(in crate::cli) take_over: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TryArgs {
    /// Description of the change, on one line
    #[arg(long, short, value_name = "TEXT")]
    pub(in crate::cli) message: Option<String>,
    /// Strategy that the change belongs to, without its parameters: `warmup`, not `warmup=0.1`
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(in crate::cli) direction: Option<String>,
    /// JSON file that describes the change, with the fields of $AR_PROPOSAL; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(in crate::cli) proposal: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Exit with 10 for a discarded experiment, 20 for a crashed one, 30 for one that is still running
    #[arg(long)]
    pub(in crate::cli) exit_code: bool,
    /// Time after which to return, even if the run has not finished
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) wait: Option<Duration>,
    /// Keep waiting for the current run
    #[arg(long = "continue", conflicts_with = "message")]
    pub(in crate::cli) resume: bool,
    /// Bring the last change, which failed a guard, back into the working tree; the next `ar try` is its next version
    #[arg(long, conflicts_with_all = ["message", "direction", "proposal", "resume", "wait"])]
    pub(in crate::cli) rework: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: AnswerFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StopArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Terminate the current run, roll back and stop
    #[arg(long)]
    pub(in crate::cli) now: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "ar tell [OPTIONS] <TEXT>...\n       ar tell [OPTIONS] --list\n       ar tell [OPTIONS] --drop <ID>"
)]
pub(in crate::cli) struct TellArgs {
    /// What the next agent is told, in quotes or as several words; `-` for standard input
    #[arg(value_name = "TEXT", required_unless_present_any = ["list", "drop"], conflicts_with_all = ["list", "drop"])]
    pub(in crate::cli) text: Vec<String>,
    /// Tell every agent from now on, not only the next one
    #[arg(long, conflicts_with_all = ["list", "drop"])]
    pub(in crate::cli) standing: bool,
    /// List undelivered and standing messages
    #[arg(long, conflicts_with = "drop")]
    pub(in crate::cli) list: bool,
    /// Drop what was said, by its number in the list
    #[arg(long, value_name = "ID", value_parser = positive::<u32>)]
    pub(in crate::cli) drop: Option<u32>,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format of --list
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// Run the command once, for up to 60 s, and list the numbers that it prints, with their direction
    #[arg(long, conflicts_with_all = ["research", "skills", "mcp", "remove"])]
    pub(in crate::cli) probe: bool,
    /// Begin a research session: write and commit program.md, research.toml, the artifact, sources/ and ar.toml
    #[arg(long, value_name = "QUESTION", help_heading = "Research")]
    pub(in crate::cli) research: Option<String>,
    /// Sub-topic that an answer must cover; repeatable [default: one call of --agent names them]
    #[arg(long = "subtopic", value_name = "NAME", requires = "research", help_heading = "Research")]
    pub(in crate::cli) subtopics: Vec<String>,
    /// Type of the question, which weighs the axes [default: equal]
    #[arg(
        long = "type",
        value_name = "TYPE",
        requires = "research",
        help_heading = "Research",
        value_parser = PRESETS.map(|(name, _)| name)
    )]
    pub(in crate::cli) kind: Option<String>,
    /// Also write search.py, which searches arXiv and Wikipedia without a key, and use it at pivots
    #[arg(long, requires = "research", help_heading = "Research")]
    pub(in crate::cli) keyless_search: bool,
    /// Write instructions for an agent that drives by itself, instead of ar.toml and program.md; repeatable
    #[arg(long = "skill", value_name = "FORM", conflicts_with = "research", help_heading = "Instructions for agents")]
    pub(in crate::cli) skills: Vec<Skill>,
    /// Add the server of this program to .mcp.json, instead of writing ar.toml and program.md
    #[arg(long, conflicts_with = "research", help_heading = "Instructions for agents")]
    pub(in crate::cli) mcp: bool,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Show a session of research: a question, sources and axes
    #[arg(long)]
    pub(in crate::cli) research: bool,
    /// Folder for the example [default: a new temporary folder]
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
    /// Add an idea, unless it is listed already
    Add {
        /// Idea, on one line; or the address of a source
        #[arg(value_parser = crate::cli::messages::text)]
        text: String,
        /// Strategy that the idea belongs to
        #[arg(long, value_name = "NAME", value_parser = crate::cli::messages::text)]
        direction: Option<String>,
        /// Kind: something to try, or a source to read
        #[arg(long, value_name = "KIND", default_value = "idea")]
        kind: IdeaKind,
        /// Score on a scale of your own; higher is better
        #[arg(long, value_name = "SCORE", value_parser = finite, allow_negative_numbers = true)]
        score: Option<f64>,
    },
    /// List all ideas, also those that were tried or dropped
    List {
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: Format,
    },
    /// Stop offering an idea to agents
    Drop {
        /// Number of the idea
        #[arg(value_parser = positive::<u32>, allow_negative_numbers = true)]
        idea: u32,
    },
}
