//! `ar import` and `ar export`.

use std::process::ExitCode;

use autoresearch::domain::{count_of, json_text};
use autoresearch::fs;
use autoresearch::report::{exported_grid, imported_grid, record_json};
use autoresearch::rules::Counts;
use autoresearch::session::{Import, SessionError};

use super::args::{ExportArgs, ExportFormat, ImportArgs};
use super::error::CliError;
use super::process::current_dir;
use super::settings::clock;
use super::tracker::{MLFLOW, TENSORBOARD, Tracker, WANDB};
use super::{chosen, output, tracker};

/// Makes a session of a ledger, or shows what it would be.
pub(super) fn import(args: ImportArgs) -> Result<ExitCode, CliError> {
    let ledger = chosen::read_from(&args.file, &args.said)?;
    let import = Import::new(&current_dir()?, &ledger, &args.file, args.tag, clock()?)?;
    if !args.dry_run {
        import.write()?;
    }
    let records = import.records();
    let tag = import.tag();
    let experiments = count_of(records.len(), "experiment");
    let counts = Counts::of(records);
    let linked = records.iter().filter(|record| record.commit.is_known()).count();
    let what = format!(
        "{experiments} of {} as session {tag}: {}; {linked} with the commit, {} without",
        args.file.display(),
        counts.listed(),
        records.len() - linked
    );
    if args.dry_run {
        let _pager = output::paged();
        output::text(&imported_grid(records).to_lines(output::width()));
        output::line(&format!("\nwould import {what}"));
    } else {
        output::line(&format!("imported {what}"));
    }
    for assumed in &ledger.assumed {
        output::note(&format!("assumed: {assumed}"));
    }
    let left_out = ledger.rows.len() - records.len();
    if left_out > 0 {
        output::note(&format!("{} cannot be read and left out; `-v` shows them", count_of(left_out, "row")));
    }
    if !args.dry_run {
        output::note(&format!("look at it with: ar report {tag}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a session out for other programs.
pub(super) fn export(args: ExportArgs) -> Result<ExitCode, CliError> {
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
