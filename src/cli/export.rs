//! `ar export`.

use std::path::Path;
use std::process::ExitCode;

use autoresearch::domain::{json_text, shell_word};
use autoresearch::fs;
use autoresearch::report::{exported_grid, record_json};
use autoresearch::session::{SessionError, SessionView};

use super::args::{ExportArgs, ExportFormat};
use super::error::CliError;
use super::process::current_dir;
use super::{chosen, mlflow, output};

/// The default folder of MLflow's file store.
const STORE: &str = "mlruns";

/// Writes a session out for other programs.
pub(super) fn run(args: ExportArgs) -> Result<ExitCode, CliError> {
    let dir = current_dir()?;
    let view = chosen::open(args.session.tag())?;
    let records = view.history.records();
    let text = match args.to {
        ExportFormat::Mlflow => return to_mlflow(&view, args.output.as_deref().unwrap_or(Path::new(STORE))),
        ExportFormat::Jsonl => {
            let notes = view.notes(records)?;
            let line = |record| json_text(&record_json(record, notes.get(&record.id)), false) + "\n";
            records.iter().map(line).collect()
        }
        ExportFormat::Csv => exported_grid(records, &view.notes(records)?).to_csv(),
        ExportFormat::Md => exported_grid(records, &view.notes(records)?).to_markdown(),
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

fn to_mlflow(view: &SessionView, dir: &Path) -> Result<ExitCode, CliError> {
    let export = mlflow::export(view, dir)?;
    let there = match export.there {
        0 => String::new(),
        there => format!(", {there} were there"),
    };
    output::line(&format!("{} of {} written to {}{there}", export.added, view.tag, export.root.display()));
    output::note(&format!(
        "look at it with: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {}",
        shell_word(&export.root)
    ));
    Ok(ExitCode::SUCCESS)
}
