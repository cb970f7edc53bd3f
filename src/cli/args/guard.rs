//! The arguments of the commands beside all sessions: `ar guard`, and what makes `ar` at home in a shell.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};
use strum::VariantArray;

use autoresearch::domain::setting_values::duration;
use autoresearch::guardian::Scheduler;

/// What a patrol prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum PatrolFormat {
    /// One line for each session
    Table,
    /// One JSON document a line for each session
    Json,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct GuardArgs {
    /// Repository whose sessions to patrol; repeatable [default: all sessions of this user on this machine]
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// Time without progress after which a session with a silent driver is stalled, and between two nudges [default: 2h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) stall: Option<Duration>,
    /// Time without progress after which a loop is stuck [default: 4h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) stuck: Option<Duration>,
    /// Command that continues the work of a stalled or stuck session; the text is on its standard input [default: the loop's
    /// own agent; none for sessions driven by `ar try`]
    #[arg(long, value_name = "COMMAND")]
    pub(in crate::cli) nudge: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: PatrolFormat,
    #[command(flatten)]
    pub(in crate::cli) service: GuardServiceArgs,
}

/// What is started or printed instead of a patrol.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Patrols that come by themselves",
    group = ArgGroup::new("service").args(["print", "resident", "print_sh"])
)]
pub(in crate::cli) struct GuardServiceArgs {
    /// Print the unit of a scheduler that makes patrols by itself, with the other options given and where to save it
    #[arg(long, value_name = "SCHEDULER", value_parser = schedulers())]
    pub(in crate::cli) print: Option<Scheduler>,
    /// Time between two patrols, from 1m to 24h [default: 1h]
    #[arg(long, value_name = "DURATION", requires = "print", value_parser = every)]
    pub(in crate::cli) every: Option<Duration>,
    /// Be the resident guard, in the foreground: call a patrol whenever the last one is too old. From then on, each patrol
    /// and each loop starts it again in the background when it is gone
    #[arg(long)]
    pub(in crate::cli) resident: bool,
    /// Print the resident guard as a shell script, for a machine without `ar` on its PATH
    #[arg(long)]
    pub(in crate::cli) print_sh: bool,
    /// Age of the last patrol at which the resident guard calls one [default: 2h]
    #[arg(long, value_name = "DURATION", requires = "service", conflicts_with = "print", value_parser = duration)]
    pub(in crate::cli) beat: Option<Duration>,
    /// Time between two looks of the resident guard [default: 1m]
    #[arg(long, value_name = "DURATION", requires = "service", conflicts_with = "print", value_parser = duration)]
    pub(in crate::cli) wake: Option<Duration>,
    /// Command line that the resident guard calls instead of `ar guard`: an emergency patrol
    #[arg(long, value_name = "COMMAND", requires = "service", conflicts_with = "print", value_parser = command)]
    pub(in crate::cli) patrol: Option<String>,
}

fn schedulers() -> impl TypedValueParser<Value = Scheduler> {
    PossibleValuesParser::new(Scheduler::VARIANTS.iter().map(Scheduler::to_string))
        .try_map(|name| name.parse::<Scheduler>())
}

/// A time that all schedulers can keep.
fn every(text: &str) -> Result<Duration, String> {
    let (shortest, longest) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));
    let every = duration(text)?;
    if (shortest..=longest).contains(&every) { Ok(every) } else { Err("must be from 1m to 24h".into()) }
}

fn command(text: &str) -> Result<String, String> {
    autoresearch::domain::setting_values::command_line(text).map(|()| text.to_owned())
}

/// A shell that completions are there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Shell {
    /// For `eval` in ~/.bashrc
    Bash,
    /// For ~/.config/fish/completions/ar.fish
    Fish,
    /// For `eval` in ~/.zshrc, after `compinit`
    Zsh,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell
    pub(in crate::cli) shell: Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// Command [default: the whole program]
    pub(in crate::cli) command: Option<String>,
    /// Folder to write the pages of all commands to
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(in crate::cli) dir: Option<PathBuf>,
}
