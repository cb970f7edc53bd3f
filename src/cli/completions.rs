//! `ar completions`: what a shell needs to complete commands, options, names of sessions and experiments.

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use autoresearch::agent::PRESETS;
use autoresearch::domain::{Tag, one_line};
use autoresearch::git::Repo;
use autoresearch::report::Column;
use autoresearch::session::{SessionView, session_tags};
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, EnvCompleter, Shells};

use super::args::{CompletionsArgs, Shell, program};
use super::error::CliError;
use super::output;
use super::process::current_dir;

/// Set by the scripts when they ask for completions: to the shell that asks.
const ASKED_BY: &str = "AR_COMPLETE";

/// The number of newest experiments to offer.
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
            "agent" => arg.add(ArgValueCandidates::new(agents)),
            "columns" => arg.add(ArgValueCandidates::new(columns)),
            "experiment" | "other" => arg.add(ArgValueCompleter::new(experiments)),
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

/// The agents that are known by name.
fn agents() -> Vec<CompletionCandidate> {
    PRESETS.iter().map(|preset| CompletionCandidate::new(preset.name).help(Some(preset.install.into()))).collect()
}

/// The columns of every session, and the numbers that the logs of the one that is meant have.
fn columns() -> Vec<CompletionCandidate> {
    let last = view(None).and_then(|view| view.history.records().last().cloned());
    let numbers = last.into_iter().flat_map(|last| last.metrics.names().cloned().collect::<Vec<_>>());
    Column::names().map(str::to_owned).chain(numbers).map(CompletionCandidate::new).collect()
}

/// The session of that name, else the one that a command without a name means. Nobody reads an error here.
fn view(tag: Option<Tag>) -> Option<SessionView> {
    SessionView::open(&current_dir().ok()?, tag).ok()
}

/// The newest experiments of the session that is meant, the names that some have, and the other sessions; behind the name of
/// a session and a slash its own.
fn experiments(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let (prefix, tag) = match typed.rsplit_once('/') {
        Some((tag, _)) => match tag.parse() {
            Ok(name) => (format!("{tag}/"), Some(name)),
            Err(_) => return Vec::new(),
        },
        None => (String::new(), None),
    };
    let others = if prefix.is_empty() { tags() } else { Vec::new() };
    let others = others.into_iter().map(|tag| {
        let mut name = tag.get_value().to_owned();
        name.push("/");
        CompletionCandidate::new(name).display_order(Some(EXPERIMENTS + 1))
    });
    let Some(view) = view(tag) else { return Vec::new() };
    let newest = view.history.records().iter().rev().take(EXPERIMENTS);
    let named = ["best", "baseline", "last"]
        .map(|name| CompletionCandidate::new(format!("{prefix}{name}")).display_order(Some(EXPERIMENTS)));
    newest
        .enumerate()
        .map(|(place, record)| {
            let help = format!("{}: {}", record.outcome, one_line(&record.description));
            let name = format!("{prefix}{}", record.id);
            CompletionCandidate::new(name).help(Some(help.into())).display_order(Some(place))
        })
        .chain(named)
        .chain(others)
        .filter(|candidate| candidate.get_value().as_encoded_bytes().starts_with(typed.as_bytes()))
        .collect()
}
