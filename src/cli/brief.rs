//! `ar brief`.

use std::process::ExitCode;

use autoresearch::session::SessionView;

use super::args::BriefArgs;
use super::error::CliError;
use super::output;
use super::run::current_dir;
use super::settings::{called_by_loop, clock};

/// Prints what an agent has to know for the next experiment.
pub(super) fn run(args: BriefArgs) -> Result<ExitCode, CliError> {
    output::text(&SessionView::open(&current_dir()?, args.tag)?.brief(clock()?.now(), called_by_loop())?);
    Ok(ExitCode::SUCCESS)
}
