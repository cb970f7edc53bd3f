//! `ar man`: the manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use autoresearch::exec::leave_interrupts_to_others;
use autoresearch::session::SessionError;
use clap::CommandFactory;
use clap_mangen::Man;

use super::args::{Cli, ManArgs};
use super::error::CliError;
use super::output;

/// What the page of the program itself is called: `ar.1` is the archiver's.
const OWN_PAGE: &str = "autoresearch";

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
                let error = format!("there is no command `{name}`");
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

/// Shows a page as `man` shows its own, which also brings the pager; whether it did. Without `man` the source is printed.
fn show(page: &[u8]) -> bool {
    let reader = Command::new("man").args(["--local-file", "-"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut reader) = reader else { return false };
    leave_interrupts_to_others();
    if let Some(mut pipe) = reader.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _ = pipe.write_all(page);
    }
    reader.wait().is_ok_and(|status| status.success())
}

/// The command line as it is documented, each command with its full name.
fn program() -> clap::Command {
    let mut program = Cli::command();
    program.build();
    program
}

fn page_name(command: &clap::Command) -> String {
    format!("ar-{}", command.get_name())
}

fn render(command: &clap::Command, title: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let source = concat!("autoresearch ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(title.to_uppercase()).date("").source(source).manual("autoresearch");
    man.render(&mut page)?;
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
