//! `ar log`.

use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, Tag};
use autoresearch::report::{
    ArtifactData, Column, Format, experiments_grid, ledger_grid, ledger_json, records_json, select_rows,
};
use autoresearch::rules::{Selection, select};
use serde::Serialize;

use super::args::LogArgs;
use super::error::CliError;
use super::settings::clock;
use super::{chosen, exit, foreign, note, output};

/// The experiments of a session as a JSON document.
#[derive(Serialize)]
struct Experiments<'a, R> {
    version: u32,
    tag: &'a Tag,
    experiments: Vec<R>,
}

/// Prints the experiments of a session as a table.
pub(super) fn run(args: LogArgs) -> Result<ExitCode, CliError> {
    let selection = Selection { outcomes: args.outcome, pattern: args.grep, sort: args.sort, top: args.top };
    if let Some(ledger) = foreign::read(&args.foreign)? {
        let _pager = output::paged();
        let selected = select_rows(&ledger, &selection);
        match args.format {
            Format::Json => output::json(&ledger_json(&ledger, &selected)),
            format => output::text(&ledger_grid(&ledger, &selected).render(format, output::width())),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let view = chosen::open(args.session.tag())?;
    let column = |name: &String| {
        Column::named(name.trim(), &view.history)
            .map_err(|error| CliError::usage(error.clone(), format!("there are {}", error.known())))
    };
    let columns = args.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let notes = note::on(&view, view.history.records());
    let selected = select(view.history.records(), &notes, &selection);
    let _pager = output::paged();
    match args.format {
        Format::Json => {
            let artifact = ArtifactData::by_experiment(view.contract.as_ref(), &view.history);
            let experiments = records_json(&selected, &notes, &artifact);
            output::json(&Experiments { version: FORMAT_VERSION, tag: &view.tag, experiments });
        }
        format => {
            let screen = (format != Format::Csv).then(clock).transpose()?;
            let composite = view.contract.as_ref().and_then(|contract| contract.composite.as_ref());
            let grid = experiments_grid(&view.history, &selected, composite, &notes, &columns, screen);
            output::text(&grid.render(format, output::width()));
        }
    }
    exit::leave(view);
    Ok(ExitCode::SUCCESS)
}
