//! `ar extract`.

use std::process::ExitCode;

use autoresearch::domain::{Direction, FORMAT_VERSION, MetricSource, MetricSpec};
use autoresearch::measure::{Ending, judge};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::session::read_log;
use serde_json::{Map, Value, json};

use super::args::ExtractArgs;
use super::error::CliError;
use super::output;

/// Prints what a session would read out of a log.
pub(super) fn run(args: ExtractArgs) -> Result<ExitCode, CliError> {
    let source = args.metric_regex.map_or(MetricSource::Log, MetricSource::Regex);
    // A number is read the same way in both directions.
    let spec = MetricSpec { name: args.metric.clone(), direction: Direction::Lower, source };
    let summary = read_log(&args.file, &spec)?;
    let verdict = judge(&summary, &Ending::from_status(args.exit_status));
    let format = Format::from(args.format);
    if format == Format::Json {
        let metrics: Map<String, Value> =
            summary.metrics.iter().map(|(name, number)| (name.clone(), json!(number.value))).collect();
        output::json(&json!({
            "version": FORMAT_VERSION,
            "metric": args.metric,
            "value": verdict.value.as_ref().map(|number| number.value),
            "raw": verdict.value.as_ref().map(|number| &number.raw),
            "memory_gb": summary.memory_gb,
            "metrics": metrics,
            "failure": verdict.failure.as_ref().map(|failure| failure.class),
            "excerpt": verdict.failure.as_ref().map(|failure| &failure.excerpt),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut grid = Grid::new([("what", Align::Left), ("value", Align::Right)]);
    grid.push([args.metric.clone(), verdict.value.map_or("none".into(), |number| number.raw)]);
    grid.push(["failure".into(), verdict.failure.map_or("none".into(), |failure| failure.class.to_string())]);
    if let Some(memory) = summary.memory_gb {
        grid.push(["memory_gb".into(), memory.to_string()]);
    }
    for (name, number) in summary.metrics.iter().filter(|(name, _)| **name != args.metric) {
        grid.push([name.clone(), number.raw.clone()]);
    }
    output::text(&match format {
        Format::Csv => grid.to_csv(),
        Format::Markdown => grid.to_markdown(),
        Format::Table | Format::Json => grid.to_table(output::width()),
    });
    Ok(ExitCode::SUCCESS)
}
