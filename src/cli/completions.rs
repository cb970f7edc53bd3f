//! `ar completions`: what a shell needs to complete commands, options, names of sessions and experiments.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use autoresearch::domain::one_line;
use autoresearch::git::Repo;
use autoresearch::session::{SessionView, session_tags};
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, EnvCompleter, Shells};

use super::args::{CompletionsArgs, Shell, program};
use super::error::CliError;
use super::output;
use super::run::current_dir;

/// Set by the scripts when they ask for completions: to the shell that asks.
const ASKED_BY: &str = "AR_COMPLETE";

/// How many of the newest experiments are offered.
const EXPERIMENTS: usize = 50;

/// Prints the script for a shell. It asks this very program at each completion, wherever the PATH leads.
pub(super) fn run(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let own = env::current_exe().map_err(|error| CliError::new(error, None))?;
    let mut script = Vec::new();
    completer(args.shell)
        .write_registration(ASKED_BY, "ar", "ar", &own.to_string_lossy(), &mut script)
        .map_err(|error| CliError::new(error, None))?;
    output::bytes(&script);
    Ok(ExitCode::SUCCESS)
}

/// Answers a shell that asks what can stand where the cursor is; does nothing in any other call.
pub(crate) fn answer(args: &[OsString]) -> Option<ExitCode> {
    env::var_os(ASKED_BY)?;
    let here = env::current_dir().ok();
    let answered = CompleteEnv::with_factory(command).var(ASKED_BY).bin("ar").shells(SHELLS);
    match answered.try_complete(args.iter().cloned(), here.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(error) => Some(ExitCode::from(if error.use_stderr() { super::exit::USAGE } else { 0 })),
    }
}

const SHELLS: Shells<'static> =
    Shells(&[&clap_complete::env::Bash, &clap_complete::env::Fish, &clap_complete::env::Zsh]);

fn completer(shell: Shell) -> &'static dyn EnvCompleter {
    match shell {
        Shell::Bash => &clap_complete::env::Bash,
        Shell::Fish => &clap_complete::env::Fish,
        Shell::Zsh => &clap_complete::env::Zsh,
    }
}

/// The command line with what it cannot know by itself: the repository's sessions and experiments.
fn command() -> Command {
    program().mut_subcommands(|command| {
        command.mut_args(|arg| match arg.get_id().as_str() {
            "tag" | "session" => arg.add(ArgValueCandidates::new(tags)),
            "command" => arg.add(ArgValueCandidates::new(commands)),
            "experiment" | "other" => arg.add(ArgValueCandidates::new(experiments)),
            _ => arg,
        })
    })
}

/// The commands that there is a manual page of.
fn commands() -> Vec<CompletionCandidate> {
    program().get_subcommands().map(|command| CompletionCandidate::new(command.get_name())).collect()
}

/// The sessions; none where there is no repository. Nobody reads an error here.
fn tags() -> Vec<CompletionCandidate> {
    let tags = current_dir().ok().and_then(|here| session_tags(&Repo::discover(&here).ok()?).ok());
    tags.into_iter().flatten().map(|tag| CompletionCandidate::new(tag.to_string())).collect()
}

/// The newest experiments of the session that a command without a name means, and the names that some have.
fn experiments() -> Vec<CompletionCandidate> {
    let Some(view) = current_dir().ok().and_then(|here| SessionView::open(&here, None).ok()) else { return Vec::new() };
    let newest = view.history.records().iter().rev().take(EXPERIMENTS);
    let named =
        ["best", "baseline", "last"].map(|name| CompletionCandidate::new(name).display_order(Some(EXPERIMENTS)));
    newest
        .enumerate()
        .map(|(place, record)| {
            let help = format!("{}: {}", record.outcome, one_line(&record.description));
            CompletionCandidate::new(record.id.to_string()).help(Some(help.into())).display_order(Some(place))
        })
        .chain(named)
        .collect()
}
