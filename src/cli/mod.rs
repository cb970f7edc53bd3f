//! The command line: arguments, commands by what they are about, errors and exit codes. The only part that prints.

mod args;
mod error;
mod fresh_runs;
mod health;
mod init;
mod mcp;
mod messages;
mod output;
mod printer;
mod process;
mod progress;
mod records;
#[cfg(test)]
mod reference_tests;
mod research;
mod resolve_session;
mod run;
mod serve;
mod settings;
mod shell;
mod status;
mod taking;
mod tracker;
mod try_one;
mod words;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use autoresearch::domain::TagError;
use autoresearch::session::SessionError;
use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::archiver::AskedArchiver;
pub(crate) use args::*;
use error::*;
pub(crate) use health::be_resident;
pub(crate) use messages::answer;
use printer::*;
use process::*;
use progress::*;
use settings::*;
pub(crate) use words::is_foreign_word;

/// Returns whether the first word after the options is a command, or is the last argument and a misspelt command.
pub(crate) fn means_command(args: &[OsString]) -> bool {
    let mut program = program();
    program.build();
    let Some(place) = words::command_place(&program, args) else { return false };
    let is_misspelt = || args[place].to_str().is_some_and(|word| words::nearest_command(word, &program).is_some());
    program.find_subcommand(&args[place]).is_some() || (place + 1 == args.len() && is_misspelt())
}

/// Parses the arguments, runs the command, prints what went wrong, and gives the exit code.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    if let Some(code) = shell::answer(&args) {
        return code;
    }
    let mut program = program();
    let args = words::command_first(&program, args);
    let first = args.get(1).map(|first| first.as_encoded_bytes());
    // The archiver answers while the command line is read.
    let asked = matches!(first, Some(b"-V" | b"--version" | b"-h" | b"--help")).then(AskedArchiver::start);
    // The help of a subcommand does not mention the archiver.
    let own_option = first.is_some_and(|first| first.starts_with(b"-")) || (args.len() == 2 && first == Some(b"help"));
    let archiver = || own_option.then(|| asked.unwrap_or_else(AskedArchiver::start));
    let parsed = match words::asks_for_overview(&args) {
        true => with_groups(program).try_get_matches_from(&args),
        false => program.try_get_matches_from_mut(&args),
    };
    let matches = match parsed {
        Ok(matches) => matches,
        Err(error) => {
            let program = args::program();
            let error = words::with_nearest_command(error, &program);
            let error = words::with_meant_flag(error, &program, &args);
            return clap_exit(&with_whole_usage(error, program, &args), archiver);
        }
    };
    let command = match Cli::from_arg_matches(&matches) {
        Ok(Cli { command, globals }) => {
            globals.apply();
            command
        }
        Err(error) => return clap_exit(&error, archiver),
    };
    let is_loop = matches!(command, Command::Run(_) | Command::Resume(_) | Command::Try(_));
    match (dispatch(command), output::failure()) {
        // A loop is not held up by what becomes of its words.
        (Ok(code), Some(failure)) if !is_loop && code == ExitCode::SUCCESS => {
            let error = format!("the output is incomplete: {failure}");
            CliError::new(error, Some("write it where there is free space".into())).print()
        }
        (Ok(code), _) => code,
        (Err(error), _) => error.print(),
    }
}

fn dispatch(command: Command) -> Result<ExitCode, CliError> {
    refuse(&command)?;
    match command {
        Command::Run(args) => run::run(args).map_err(CliError::of_start),
        Command::Try(args) => try_one::run(args).map_err(CliError::of_start),
        Command::Resume(args) => run::resume(args),
        Command::Report(args) => records::report(args),
        Command::Status(args) => status::status(args),
        Command::Serve(args) => serve::run(args),
        Command::Stop(args) => status::stop(args),
        Command::Tell(args) => messages::run_tell(args),
        Command::Log(args) => records::log(args),
        Command::Show(args) => records::show(args),
        Command::Diff(args) => records::diff(args),
        Command::Note(args) => messages::note(args),
        Command::Rate(args) => research::rate_session(args),
        Command::Restore(args) => taking::restore(args),
        Command::Repro(args) => fresh_runs::run_repro(args),
        Command::Verify(args) => fresh_runs::run_verify(args),
        Command::Ablate(args) => fresh_runs::run_ablate(args),
        Command::Review(args) => taking::review(args),
        Command::Finalize(args) => taking::finalize(args),
        Command::Import(args) => taking::import(args),
        Command::Delete(args) => taking::delete(args),
        Command::Export(args) => taking::export(args),
        Command::Brief(args) => records::brief(args),
        Command::Idea(args) => messages::idea(args),
        Command::Extract(args) => records::extract(args),
        Command::Score(args) => research::run_score(args),
        Command::Doctor(args) => health::doctor(args),
        Command::Guard(args) => health::guard(args),
        Command::Init(args) => init::run(args).map_err(CliError::of_start),
        Command::Demo(args) => init::demo(args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        Command::Mcp => mcp::run(),
        Command::Version => Ok(shell::version()),
    }
}

/// The same error with the usage of its command as the help has it: what clap shows names what was given, and hides that there
/// are options.
fn with_whole_usage(mut error: clap::Error, mut program: clap::Command, args: &[OsString]) -> clap::Error {
    if error.get(ContextKind::Usage).is_some() {
        program.build();
        let mut innermost = &program;
        for arg in args.iter().skip(1) {
            innermost = innermost.find_subcommand(arg).unwrap_or(innermost);
        }
        let usage = innermost.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

/// Prints help, version or a usage error as clap words it. Help and version of the program itself also name the archiver
/// that shares its name, because build systems look for it there.
fn clap_exit(error: &clap::Error, archiver: impl FnOnce() -> Option<AskedArchiver>) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        if matches!(error.kind(), ErrorKind::DisplayVersion | ErrorKind::DisplayHelp)
            && let Some(archiver) = archiver()
        {
            shell::name_archiver(archiver);
        }
        return ExitCode::SUCCESS;
    }
    if let Some(error) = error.source().and_then(|source| source.downcast_ref::<TagError>())
        && let Some(hint) = SessionError::from(error.clone()).hint()
    {
        output::complaint(&format!("hint: {hint}"));
    }
    ExitCode::from(USAGE)
}
