//! `ar report`.

use std::process::ExitCode;

use autoresearch::report::{Format, Report, render_report};
use autoresearch::session::{SessionError, SessionView};

use super::args::{OutputFormat, ReportArgs};
use super::error::CliError;
use super::run::current_dir;
use super::{foreign, output, pager, settings};

/// Prints what a session, or a ledger from anywhere, found.
pub(super) fn run(args: ReportArgs) -> Result<ExitCode, CliError> {
    if let Some(ledger) = foreign::read(&args.foreign)? {
        let _pager = pager::start();
        print(&Report::of_ledger(&ledger), args.format)?;
    } else {
        let view = SessionView::open(&current_dir()?, args.tag)?;
        let _pager = pager::start();
        print_session(&view, args.format)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the report of a session.
pub(super) fn print_session(view: &SessionView, format: OutputFormat) -> Result<(), CliError> {
    let (metric, direction) = match (&view.contract, view.history.records().first()) {
        (Some(contract), _) => (contract.metric.name.clone(), contract.metric.direction),
        (None, Some(record)) => (record.metric.name.clone(), record.metric.direction),
        (None, None) => return Err(SessionError::NoSession(Some(view.tag.to_string())).into()),
    };
    let report = Report::of_session(view.tag.as_str(), &metric, direction, &view.history);
    print(&report.with_course(&view.history, view.course()), format)
}

fn print(report: &Report, format: OutputFormat) -> Result<(), CliError> {
    let clock = settings::clock()?;
    output::text(&render_report(report, Format::from(format), output::width(), output::glyphs(), clock));
    Ok(())
}
