//! `ar note`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use autoresearch::domain::{ExperimentId, Note, Record, with_causes};
use autoresearch::session::SessionView;

use super::args::NoteArgs;
use super::error::CliError;
use super::settings::clock;
use super::{chosen, output};

/// Adds a note to an experiment.
pub(super) fn run(args: NoteArgs) -> Result<ExitCode, CliError> {
    let (view, record) = chosen::open_at(&args.experiment, args.tag)?;
    view.add_note(&record, &args.text, clock()?)?;
    output::line(&format!("noted on experiment {} of {}", record.id, view.tag));
    Ok(ExitCode::SUCCESS)
}

/// The notes on these experiments, by number. Who reads a session can do without them: that they cannot be read is said.
pub(super) fn on<'a>(
    view: &SessionView,
    records: impl IntoIterator<Item = &'a Record> + Clone,
) -> BTreeMap<ExperimentId, Vec<Note>> {
    view.notes(records).unwrap_or_else(|error| {
        output::note(&format!(
            "note: cannot read notes on experiments, run `ar doctor` for details: {}",
            with_causes(&error)
        ));
        BTreeMap::new()
    })
}
