//! `ar note`.

use std::process::ExitCode;

use autoresearch::session::SessionView;

use super::args::NoteArgs;
use super::error::CliError;
use super::output;
use super::run::current_dir;
use super::settings::clock;

/// Adds a note to an experiment.
pub(super) fn run(args: NoteArgs) -> Result<ExitCode, CliError> {
    let (view, record) = SessionView::open_at(&current_dir()?, &args.experiment, args.tag)?;
    view.add_note(&record, &args.text, clock()?)?;
    output::line(&format!("noted on experiment {} of {}", record.id, view.tag));
    Ok(ExitCode::SUCCESS)
}
