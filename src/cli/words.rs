//! The words of a call: its command, wherever its options stand, the nearest one where there is none of that name, and the options
//! that every command takes.

use std::ffi::{OsStr, OsString};

use anstream::ColorChoice;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command};

use autoresearch::domain::nearest;

use super::output;

/// Words and flags of other programs, each with the command that does it here: `watch = run ...`, `report --open = ...`.
const OTHER_WORDS: &str = include_str!("lists/other_words.txt");

/// The advice for a word, or for a command and its flag, that other programs have.
fn advice(word: &str) -> Option<&'static str> {
    OTHER_WORDS.lines().filter_map(|line| line.split_once(" = ")).find(|(other, _)| *other == word).map(|(_, it)| it)
}

/// Returns whether other programs have a command of this name.
pub(crate) fn is_foreign_word(word: &str) -> bool {
    advice(word).is_some()
}

/// Replaces what clap suggests.
fn suggest(error: &mut clap::Error, advice: &str) {
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedCommand, ContextKind::SuggestedArg] {
        error.remove(kind);
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.to_owned().into()]));
}

/// The place of the first word that is neither an option of some command nor the value of one; `None` where an option is
/// unknown or no word follows.
pub(super) fn command_place(program: &Command, args: &[OsString]) -> Option<usize> {
    let mut place = 1;
    while let Some(arg) = args.get(place) {
        let bytes = arg.as_encoded_bytes();
        if !bytes.starts_with(b"-") || bytes == b"-" {
            return Some(place);
        }
        place += if takes_next(program, arg.to_str()?)? { 2 } else { 1 };
    }
    None
}

/// Returns whether the next word is the value of an option; `None` for an option that no command has.
fn takes_next(program: &Command, option: &str) -> Option<bool> {
    if let Some(long) = option.strip_prefix("--") {
        let (name, has_value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        let is_known = |arg: &&Arg| arg.get_long() == Some(name);
        return find(program, is_known).map(|takes_value| takes_value && !has_value);
    }
    let mut letters = option.strip_prefix('-')?.chars().peekable();
    while let Some(letter) = letters.next() {
        if find(program, |arg| arg.get_short() == Some(letter))? {
            return Some(letters.peek().is_none());
        }
    }
    Some(false)
}

/// Returns whether an option takes a value, in the first command that has it; `None` if none has it.
fn find(program: &Command, is_meant: impl Fn(&&Arg) -> bool + Copy) -> Option<bool> {
    let below = || program.get_subcommands().find_map(|command| find(command, is_meant));
    let own = program.get_arguments().find(is_meant);
    own.map(|arg| arg.get_action().takes_values()).or_else(below)
}

/// Moves the command before its options: `ar --format json log` becomes `ar log --format json`.
pub(super) fn command_first(program: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    let is_option = |arg: &&OsString| arg.as_encoded_bytes().starts_with(b"-");
    if args.get(1).filter(is_option).is_none() {
        return args;
    }
    let mut program = program.clone();
    program.build();
    let Some(place) = command_place(&program, &args) else { return args };
    let Some(mut command) = program.find_subcommand(&args[place]) else { return args };
    let mut end = place + 1;
    while let Some(below) = args.get(end).and_then(|word| command.find_subcommand(word)) {
        (command, end) = (below, end + 1);
    }
    args[1..end].rotate_left(place - 1);
    args
}

/// Returns whether the user asks for the program's own help.
pub(super) fn asks_for_overview(args: &[OsString]) -> bool {
    let is_help = |arg: &OsString| ["-h", "--help", "help"].iter().any(|help| arg == OsStr::new(help));
    args.len() < 2 || args.iter().any(is_help)
}

/// The closest command to a misspelt word.
pub(super) fn nearest_command<'a>(word: &str, program: &'a Command) -> Option<&'a str> {
    nearest(word, program.get_subcommands().map(Command::get_name))
}

/// The error for a word that is no command, with the nearest one.
pub(super) fn with_nearest_command(mut error: clap::Error, program: &Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if let Some(advice) = advice(word) {
        suggest(&mut error, advice);
    } else if let Some(command) = nearest_command(word, program) {
        let command = command.to_owned();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![command]));
    }
    error
}

/// Flags of other programs, each with the flag that does it here, and its value if it has one: `--json = format json`.
const OTHER_FLAGS: &str = include_str!("lists/other_flags.txt");

/// The error for a flag that is none, with the flag of its command that does what it does elsewhere.
pub(super) fn with_meant_flag(mut error: clap::Error, program: &Command, args: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let mut command = program;
    for arg in args.iter().skip(1) {
        command = command.find_subcommand(arg).unwrap_or(command);
    }
    let takes = |flag: &str, value: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag));
        let is_possible = |arg: &Arg| arg.get_possible_values().iter().any(|possible| possible.get_name() == value);
        arg.is_some_and(|arg| value.is_empty() || is_possible(arg))
    };
    let of_settings = || takes("higher", "").then(|| advice(given)).flatten();
    if let Some(advice) = advice(&format!("{} {given}", command.get_name())).or_else(of_settings) {
        suggest(&mut error, advice);
        return error;
    }
    let meant = OTHER_FLAGS.lines().filter_map(|line| line.split_once(" = ")).find(|(other, meant)| {
        let (flag, value) = meant.split_once(' ').unwrap_or((meant, ""));
        other == given && takes(flag, value)
    });
    if let Some((_, meant)) = meant {
        let meant = format!("--{meant}");
        error.remove(ContextKind::SuggestedCommand);
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::SuggestedArg, ContextValue::String(meant));
    }
    error
}

/// Output options of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// When to use colours: auto (on a terminal, unless `NO_COLOR` is set), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: clap::ColorChoice,
    /// Print a long answer without a pager
    #[arg(long, global = true)]
    no_pager: bool,
    /// Print only the answer and errors, without notes and progress
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Also print what was skipped, and why
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
}

impl Globals {
    /// Makes all that is printed from now on follow the options.
    pub(super) fn apply(&self) {
        let choice = match self.color {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        };
        choice.write_global();
        output::set_manners(output::Manners { no_pager: self.no_pager, quiet: self.quiet, verbose: self.verbose > 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::program;
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// The error for a command line, as it is printed.
    fn complaint(line: &str) -> String {
        let (args, program) = (words(line), program());
        let error = program.clone().try_get_matches_from(&args).unwrap_err();
        with_meant_flag(with_nearest_command(error, &program), &program, &args).to_string()
    }

    #[test]
    fn words_and_flags_of_other_programs_are_answered_by_the_command_that_does_it() {
        for (given, meant) in [
            ("watch", "tip: run `ar status --watch`"),
            ("best", "tip: run `ar show best`"),
            ("list nov20", "tip: run `ar log`"),
            ("kill", "tip: run `ar stop --now`"),
            ("retry", "tip: run `ar repro N`, or `ar resume`"),
            ("fix", "tip: run `ar doctor`"),
            ("dashboard", "tip: run `ar serve`"),
            ("logs --follow", "tip: run `ar show last --log`"),
            ("tail", "tip: run `ar show last --log`"),
            ("remove nov20", "tip: run `ar delete TAG`"),
            ("report --html", "similar argument exists: '--format html'"),
            ("report --open", "tip: run `ar serve`"),
            ("init --force", "tip: move ar.toml or program.md aside"),
            ("run --time 8h", "tip: pass --for 8h to end the loop, or --timeout 10m to end a run"),
            ("run --direction max", "tip: pass --higher or --lower"),
            ("init --mode min", "tip: pass --higher or --lower"),
            ("try --maximize", "similar argument exists: '--higher'"),
            ("run --minimize", "similar argument exists: '--lower'"),
            ("run --n 20", "similar argument exists: '--max-experiments'"),
            ("log --n 5", "similar argument exists: '--top'"),
            ("statsu", "similar subcommand exists: 'status'"),
        ] {
            let said = complaint(&format!("ar {given}"));
            assert!(said.contains(meant) && said.matches("tip:").count() == 1, "{given}: {said}");
        }
        // Each names commands that exist.
        for line in OTHER_WORDS.lines() {
            let commands = line.split('`').skip(1).step_by(2).map(words);
            for command in commands.filter(|command| command[0] == "ar") {
                assert!(program().find_subcommand(&command[1]).is_some(), "{line}");
            }
        }
    }

    #[test]
    fn options_before_the_command_are_options_of_it() {
        for (given, meant) in [
            ("ar -q status", "ar status -q"),
            ("ar --color never log t", "ar log --color never t"),
            ("ar --format json --tag t report", "ar report --format json --tag t"),
            ("ar --format=json log", "ar log --format=json"),
            ("ar -m text try", "ar try -m text"),
            ("ar --format json idea list", "ar idea list --format json"),
            ("ar --help run", "ar run --help"),
            ("ar report -q t", "ar report -q t"),
            ("ar -q", "ar -q"),
            ("ar --nosuch log", "ar --nosuch log"),
            ("ar -q lib.a x.o", "ar -q lib.a x.o"),
        ] {
            assert_eq!(command_first(&program(), words(given)), words(meant));
        }
    }
}
