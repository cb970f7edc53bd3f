//! `ar man`: the manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use autoresearch::exec::leave_interrupts_to_others;
use autoresearch::session::SessionError;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::args::{ManArgs, examples};
use super::error::CliError;
use super::{exit, output};

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
pub(super) fn run(args: &ManArgs) -> Result<ExitCode, CliError> {
    let program = program();
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
                let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
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
    let reader = Command::new("man").args(["--local-file", "-"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut reader) = reader else { return false };
    leave_interrupts_to_others();
    if let Some(mut pipe) = reader.stdin.take() {
        // The user may leave the pager early.
        let _ = pipe.write_all(page);
    }
    reader.wait().is_ok_and(|status| status.success())
}

/// The command line as it is documented, each command with its full name.
fn program() -> clap::Command {
    let mut program = super::args::program();
    program.build();
    program
}

fn page_name(command: &clap::Command) -> String {
    format!("ar-{}", command.get_name())
}

fn render(command: &clap::Command, title: &str) -> io::Result<Vec<u8>> {
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
    for (code, what) in exit::CODES {
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
fn write_all(program: &clap::Command, dir: &Path) -> io::Result<usize> {
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
