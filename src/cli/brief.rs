//! `ar brief`.

use std::process::ExitCode;

use super::args::BriefArgs;
use super::error::CliError;
use super::settings::{called_by_loop, clock};
use super::{chosen, output};

/// Prints what an agent has to know for the next experiment.
pub(super) fn run(args: BriefArgs) -> Result<ExitCode, CliError> {
    output::text(&chosen::open(args.session.tag())?.brief(clock()?.now(), called_by_loop())?);
    Ok(ExitCode::SUCCESS)
}
