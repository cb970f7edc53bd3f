//! `ar show`.

use std::process::ExitCode;

use autoresearch::report::{Format, record_grid};
use autoresearch::session::SessionView;
use serde_json::{Value, json};

use super::args::ShowArgs;
use super::error::CliError;
use super::run::current_dir;
use super::{output, pager};

/// Prints one experiment: its record, its diff and the end of its log.
pub(super) fn run(args: ShowArgs) -> Result<ExitCode, CliError> {
    let view = SessionView::open(&current_dir()?, args.tag)?;
    let record = view.record(args.experiment)?;
    let diff = view.diff(record)?;
    let tail = view.log_tail(record.id)?;
    let dropped = view.folder.why_dropped(record.id);
    let _pager = pager::start();
    let grid = record_grid(record);
    match Format::from(args.format) {
        Format::Table => {
            output::text(&grid.to_table(output::width()));
            if !diff.is_empty() {
                output::line("");
                output::bytes(&diff);
            }
            if !tail.is_empty() {
                output::line(&format!("\nthe end of {}", view.run_log(record.id).display()));
                output::text(&tail);
            } else if let Some(why) = dropped {
                output::line(&format!("\n{why}"));
            }
        }
        Format::Csv => output::text(&grid.to_csv()),
        Format::Markdown => output::text(&grid.to_markdown()),
        Format::Json => {
            let mut value = json!(record);
            if let Value::Object(fields) = &mut value {
                fields.insert("diff_text".into(), String::from_utf8_lossy(&diff).into());
                fields.insert("log_tail".into(), tail.into());
                fields.insert("logs_dropped".into(), dropped.into());
            }
            output::json(&value);
        }
    }
    Ok(ExitCode::SUCCESS)
}
