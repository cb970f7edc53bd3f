//! `ar version`.

use std::process::ExitCode;

use clap::CommandFactory;

use super::args::Cli;
use super::output;
use crate::archiver::Asked;

/// Prints what `ar --version` does.
pub(super) fn run() -> ExitCode {
    let archiver = Asked::start();
    output::text(&Cli::command().render_version());
    name_archiver(archiver);
    ExitCode::SUCCESS
}

/// Prints the version of the archiver that shares the program's name: build systems look for it.
pub(super) fn name_archiver(archiver: Asked) {
    if let Some(version) = archiver.line() {
        output::line(&format!("archiver calls go to: {version}"));
    }
}
