//! The arguments of `ar guard`.

use std::path::PathBuf;
use std::time::Duration;

use autoresearch::domain::values::duration;
use clap::{Args, ValueEnum};

use super::guard_service::GuardServiceArgs;

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
