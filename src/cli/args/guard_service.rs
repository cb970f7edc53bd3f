//! The arguments of `ar guard` that have patrols come by themselves.

use std::time::Duration;

use autoresearch::domain::values::duration;
use autoresearch::guardian::Scheduler;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use strum::VariantArray;

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
    autoresearch::domain::values::command_line(text).map(|()| text.to_owned())
}
