//! `ar report --weights`.

use std::process::ExitCode;

use autoresearch::report::{Format, render_weights, weights_json};

use super::args::{ReportArgs, ReportFormat};
use super::error::CliError;
use super::{chosen, output};

/// Prints the weights of a session's axes that the ratings of sessions speak for.
pub(super) fn run(args: ReportArgs) -> Result<ExitCode, CliError> {
    let format = args.format.unwrap_or(ReportFormat::Table).as_text();
    let format = format.ok_or_else(|| CliError::usage("--weights has no page", "omit --format html"))?;
    let view = chosen::open(args.session.tag())?;
    let weighed = view.weigh()?;
    for (tag, why) in &weighed.unread {
        output::note(&format!("note: skipped session {tag}: {why}"));
    }
    let _pager = output::paged();
    match format {
        Format::Json => output::json(&weights_json(&view.tag, &weighed)),
        format => output::text(&render_weights(&weighed, format, output::width())),
    }
    Ok(ExitCode::SUCCESS)
}
