//! `ar completions`, `ar man` and `ar version`: what makes `ar` at home in a shell.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::{env, fs, io, process};

use clap::{Command, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use autoresearch::agent::PRESETS;
use autoresearch::domain::{Tag, one_line};
use autoresearch::exec::leave_interrupts_to_others;
use autoresearch::git::Repo;
use autoresearch::report::Column;
use autoresearch::session::{SessionError, SessionView, session_tags};

use super::{Cli, CliError, CompletionsArgs, ManArgs, current_dir, error, examples, output, program};
use crate::archiver::AskedArchiver;

/// Set by the scripts when they ask for completions: to the shell that asks.
const ASKED_BY: &str = "AR_COMPLETE";

/// The number of newest experiments to offer.
const EXPERIMENTS: usize = 50;

/// Prints the script for a shell. It asks this very program at each completion, wherever the PATH leads.
pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let own = env::current_exe().map_err(|error| CliError::new(error, None))?;
    let (Shells(completers), mut script) = (SHELLS, Vec::new());
    completers[args.shell as usize]
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
        Err(error) => Some(ExitCode::from(if error.use_stderr() { error::USAGE } else { 0 })),
    }
}

/// In the order of [`Shell`](super::Shell).
const SHELLS: Shells<'static> =
    Shells(&[&clap_complete::env::Bash, &clap_complete::env::Fish, &clap_complete::env::Zsh]);

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

/// The name of the program's own page; `ar.1` is the archiver's.
const OWN_PAGE: &str = "autoresearch";

/// The files that the program reads and writes.
const FILES: [(&str, &str); 7] = [
    ("ar.toml", "Settings of the repository; a flag or a variable such as AR_METRIC comes first."),
    ("program.md", "Goals and constraints for the agents."),
    ("results.tsv", "One row per experiment, for all sessions; untracked."),
    ("run.log", "Link to the log of the newest run."),
    ("autoresearch-lessons.md", "What earlier sessions learned; untracked."),
    (".autoresearch/TAG/", "State, logs and runs of a session; untracked."),
    ("refs/autoresearch/TAG/", "Records of the experiments, as annotated tags on their commits."),
];

/// Prints a page, or writes all of them into a folder.
pub(super) fn man(args: &ManArgs) -> Result<ExitCode, CliError> {
    let program = full_program();
    if let Some(dir) = &args.dir {
        let pages = write_all(&program, dir).map_err(|source| SessionError::Io {
            action: "write manual pages to",
            path: dir.clone(),
            source,
        })?;
        output::line(&format!(
            "{pages} pages in {}; `man` finds them where that is a `man1` on its path",
            dir.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let page = match &args.command {
        None => render(&program, OWN_PAGE),
        Some(name) => match program.find_subcommand(name) {
            Some(command) => render(command, &page_name(command)),
            None => {
                let known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
                let error = format!("unknown command `{name}`");
                return Err(CliError::usage(error, format!("the commands are {}", known.join(", "))));
            }
        },
    };
    let page = page.map_err(|error| CliError::new(error, None))?;
    if !output::is_terminal() || !show(&page) {
        output::bytes(&page);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a page with `man`, which brings the pager. Returns whether it did; without `man` the caller prints the source.
fn show(page: &[u8]) -> bool {
    let reader =
        process::Command::new("man").args(["--local-file", "-"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut reader) = reader else { return false };
    leave_interrupts_to_others();
    if let Some(mut pipe) = reader.stdin.take() {
        // The user may leave the pager early.
        let _ = pipe.write_all(page);
    }
    reader.wait().is_ok_and(|status| status.success())
}

/// The command line as it is documented, each command with its full name.
fn full_program() -> Command {
    let mut program = program();
    program.build();
    program
}

fn page_name(command: &Command) -> String {
    format!("ar-{}", command.get_name())
}

fn render(command: &Command, title: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let source = concat!("autoresearch ", env!("CARGO_PKG_VERSION"));
    // Drop the text after the help: the page has separate sections for it.
    let described = command.clone().after_help(None::<&str>);
    let man = Man::new(described).title(title.to_uppercase()).date("").source(source).manual("autoresearch");
    man.render(&mut page)?;
    let mut more = Roff::new();
    more.control("SH", ["EXAMPLES"]);
    for (what, line) in examples(command.get_name()) {
        more.control("TP", []).text([roman(*what)]).text([bold(*line)]);
    }
    more.control("SH", ["EXIT STATUS"]);
    for (code, what) in error::CODES {
        more.control("TP", []).text([bold(code.to_string())]).text([roman(what)]);
    }
    more.control("SH", ["FILES"]);
    for (path, what) in FILES {
        more.control("TP", []).text([italic(path)]).text([roman(what)]);
    }
    more.to_writer(&mut page)?;
    Ok(page)
}

/// Writes all pages and gives how many there are.
fn write_all(program: &Command, dir: &Path) -> io::Result<usize> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join(format!("{OWN_PAGE}.1")), render(program, OWN_PAGE)?)?;
    let mut pages = 1;
    for command in program.get_subcommands() {
        let name = page_name(command);
        fs::write(dir.join(format!("{name}.1")), render(command, &name)?)?;
        pages += 1;
    }
    Ok(pages)
}

/// Prints what `ar --version` does.
pub(super) fn version() -> ExitCode {
    let archiver = AskedArchiver::start();
    output::text(&Cli::command().render_version());
    name_archiver(archiver);
    ExitCode::SUCCESS
}

/// Prints the version of the archiver that shares the program's name: build systems look for it.
pub(super) fn name_archiver(archiver: AskedArchiver) {
    if let Some(version) = archiver.line() {
        output::line(&format!("archiver calls go to: {version}"));
    }
}
