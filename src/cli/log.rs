//! `ar log`.

use std::process::ExitCode;

use autoresearch::domain::FORMAT_VERSION;
use autoresearch::report::{Format, experiments_grid, ledger_grid, ledger_json};
use autoresearch::session::SessionView;
use serde_json::json;

use super::args::LogArgs;
use super::error::CliError;
use super::run::current_dir;
use super::{foreign, output, pager};

/// Prints the experiments of a session as a table.
pub(super) fn run(args: LogArgs) -> Result<ExitCode, CliError> {
    if let Some(ledger) = foreign::read(&args.foreign)? {
        let _pager = pager::start();
        let grid = ledger_grid(&ledger);
        output::text(&match Format::from(args.format) {
            Format::Table => grid.to_table(output::width()),
            Format::Csv => grid.to_csv(),
            Format::Markdown => grid.to_markdown(),
            Format::Json => format!("{:#}\n", ledger_json(&ledger)),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let view = SessionView::open(&current_dir()?, args.tag)?;
    let _pager = pager::start();
    let grid = experiments_grid(&view.history);
    match Format::from(args.format) {
        Format::Table => output::text(&grid.to_table(output::width())),
        Format::Csv => output::text(&grid.to_csv()),
        Format::Markdown => output::text(&grid.to_markdown()),
        Format::Json => output::json(&json!({
            "version": FORMAT_VERSION,
            "tag": view.tag,
            "experiments": view.history.records(),
        })),
    }
    Ok(ExitCode::SUCCESS)
}
