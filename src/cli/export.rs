//! `ar export`.

use std::process::ExitCode;

use autoresearch::domain::json_text;
use autoresearch::fs;
use autoresearch::report::{exported_grid, record_json};
use autoresearch::session::SessionError;

use super::args::{ExportArgs, ExportFormat};
use super::error::CliError;
use super::process::current_dir;
use super::tracker::{self, MLFLOW, TENSORBOARD, Tracker, WANDB};
use super::{chosen, output};

/// Writes a session out for other programs.
pub(super) fn run(args: ExportArgs) -> Result<ExitCode, CliError> {
    if let Some(tracker) = tracker_of(args.to) {
        return tracker::export(tracker, args.session.tag(), args.output, args.tracker);
    }
    if let Some(flag) = args.tracker.first() {
        let hint = format!("omit {flag}, or pass --to wandb, tensorboard or mlflow");
        return Err(CliError::usage(format!("{flag} is only for trackers"), hint));
    }
    let dir = current_dir()?;
    let view = chosen::open(args.session.tag())?;
    let records = view.history.records();
    let notes = view.notes(records)?;
    let line = |record| json_text(&record_json(record, notes.get(&record.id)), false) + "\n";
    let text = match args.to {
        ExportFormat::Csv => exported_grid(records, &notes).to_csv(),
        ExportFormat::Md => exported_grid(records, &notes).to_markdown(),
        _ => records.iter().map(line).collect(),
    };
    match args.output {
        Some(file) => {
            // The folder of a bare name is the current one.
            fs::write_atomic(&dir.join(&file), text.as_bytes()).map_err(SessionError::from)?;
            output::note(&format!("session {} is in {}", view.tag, file.display()));
        }
        None => output::bytes(text.as_bytes()),
    }
    Ok(ExitCode::SUCCESS)
}

fn tracker_of(format: ExportFormat) -> Option<&'static Tracker> {
    match format {
        ExportFormat::Wandb => Some(&WANDB),
        ExportFormat::Tensorboard => Some(&TENSORBOARD),
        ExportFormat::Mlflow => Some(&MLFLOW),
        ExportFormat::Jsonl | ExportFormat::Csv | ExportFormat::Md => None,
    }
}
