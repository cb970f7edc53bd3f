//! `ar note`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use autoresearch::domain::{ExperimentId, ExperimentName, Note, Record, Said, Tag, with_causes};
use autoresearch::session::SessionView;

use super::args::NoteArgs;
use super::error::CliError;
use super::process::current_dir;
use super::said::said_through_wall;
use super::settings::clock;
use super::{chosen, output};

/// Adds a note to an experiment.
pub(super) fn run(args: NoteArgs) -> Result<ExitCode, CliError> {
    let NoteArgs { experiment, text, tag } = args;
    let tag_text = tag.as_ref().map(ToString::to_string);
    let said = Said::Note { experiment: experiment.to_string(), text: text.clone(), tag: tag_text };
    if !said_through_wall(&said)? {
        output::line(&add(&current_dir()?, &experiment, &text, tag)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds a note to an experiment of the repository that `dir` is in. Returns a line that says so.
pub(super) fn add(dir: &Path, experiment: &ExperimentName, text: &str, tag: Option<Tag>) -> Result<String, CliError> {
    let (view, record) = SessionView::open_at(dir, experiment, tag)?;
    chosen::tell(&view.chosen());
    view.add_note(&record, text, clock()?)?;
    Ok(format!("noted on experiment {} of {}", record.id, view.tag))
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
