//! `ar report`.

use std::fs;
use std::process::ExitCode;

use autoresearch::domain::Direction;
use autoresearch::ledger;
use autoresearch::report::{Format, Report, chart_png, chart_svg, render_report};
use autoresearch::session::{SessionError, SessionView};
use autoresearch::state;

use super::args::{OutputFormat, ReportArgs};
use super::error::CliError;
use super::output;
use super::run::current_dir;
use super::values::ChartFile;

/// Prints what a session, or a ledger from anywhere, found.
pub(super) fn run(args: ReportArgs) -> Result<ExitCode, CliError> {
    let report = match args.ledger {
        None => of_session(&SessionView::open(&current_dir()?, args.tag)?)?,
        Some(path) => {
            let direction = match (args.lower, args.higher) {
                (true, _) => Some(Direction::Lower),
                (false, true) => Some(Direction::Higher),
                (false, false) => None,
            };
            let bytes =
                fs::read(&path).map_err(|source| SessionError::Io { action: "read", path: path.clone(), source })?;
            Report::of_ledger(&ledger::read(&bytes, args.metric.as_deref(), direction))
        }
    };
    print(&report, args.format);
    if let Some(file) = args.chart {
        write_chart(&report, &file)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the report of a session.
pub(super) fn print_session(view: &SessionView, format: OutputFormat) -> Result<(), CliError> {
    print(&of_session(view)?, format);
    Ok(())
}

fn of_session(view: &SessionView) -> Result<Report, CliError> {
    let (metric, direction) = match (&view.contract, view.history.records().first()) {
        (Some(contract), _) => (contract.metric.name.clone(), contract.metric.direction),
        (None, Some(record)) => (record.metric.name.clone(), record.metric.direction),
        (None, None) => return Err(SessionError::NoSession(Some(view.tag.to_string())).into()),
    };
    let report = Report::of_session(view.tag.as_str(), &metric, direction, &view.history);
    Ok(report.with_course(view.flagged(), view.ended()))
}

fn print(report: &Report, format: OutputFormat) {
    let format = Format::from(format);
    output::text(&render_report(report, format, output::width(), output::glyphs()));
}

/// Draws the chart of a report into a file, which appears whole or not at all, and says where it is.
fn write_chart(report: &Report, file: &ChartFile) -> Result<(), CliError> {
    let svg = chart_svg(&report.series(), &report.chart_title());
    let content = if file.is_png {
        chart_png(&svg).map_err(|error| CliError::new(error, Some("write the chart as .svg".into())))?
    } else {
        svg.into_bytes()
    };
    // The folder of a bare name is the current one.
    state::write_atomic(&current_dir()?.join(&file.path), &content).map_err(SessionError::from)?;
    output::note(&format!("the chart is in {}", file.path.display()));
    Ok(())
}
