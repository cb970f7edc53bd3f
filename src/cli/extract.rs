//! `ar extract`.

use std::process::ExitCode;

use autoresearch::domain::{
    COMPOSITE, Composite, Contract, Direction, FORMAT_VERSION, Failure, FailureClass, MetricSource, MetricSpec, PartOf,
};
use autoresearch::git::Repo;
use autoresearch::measure::{Ending, LogSummary, judge};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::session::read_log;
use serde_json::{Map, Value, json};

use super::args::ExtractArgs;
use super::error::CliError;
use super::process::current_dir;
use super::terms::SettingsArgs;
use super::{chosen, exit, output, settings};

/// Prints what a session would read out of a log.
pub(super) fn run(args: ExtractArgs) -> Result<ExitCode, CliError> {
    let (spec, composite) = spec(args.metric, args.metric_regex)?;
    let metric = &spec.name;
    let mut summary = read_log(&args.file, &spec, composite.as_ref())?;
    if let Some(composite) = composite {
        summary.put_composite(&composite, LogSummary::named);
    }
    let verdict = judge(&summary, &Ending::from_status(args.exit_status));
    let doubt = summary.part.filter(|_| verdict.value.is_some()).map(PartOf::text);
    let detail = verdict.failure.as_ref().and_then(|failure| failure.detail.clone());
    let format = args.format;
    if format == Format::Json {
        let metrics: Map<String, Value> =
            summary.metrics.iter().map(|(name, number)| (name.clone(), json!(number.value))).collect();
        output::json(&json!({
            "version": FORMAT_VERSION,
            "metric": metric,
            "value": verdict.value.as_ref().map(|number| number.value),
            "raw": verdict.value.as_ref().map(|number| number.printed.as_ref().unwrap_or(&number.raw)),
            "unit": verdict.value.as_ref().and_then(|number| number.unit.as_ref()),
            "memory_gb": summary.memory_gb,
            "metrics": metrics,
            "failure": verdict.failure.as_ref().map(|failure| failure.class),
            "detail": detail,
            "doubt": doubt,
            "excerpt": verdict.failure.as_ref().map(|failure| &failure.excerpt),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let is_missing = |failure: &Failure| matches!(failure.class, FailureClass::NoMetric | FailureClass::NoOutput);
    let is_missing = verdict.failure.as_ref().is_some_and(is_missing);
    let mut grid = Grid::new([("what", Align::Left), ("value", Align::Right)]);
    grid.push([metric.clone(), verdict.value.map_or("none".into(), |number| format!("{number:#}"))]);
    grid.push(["failure".into(), verdict.failure.map_or("none".into(), |failure| failure.class.to_string())]);
    for (what, text) in [("detail", detail.as_deref()), ("doubt", doubt)] {
        if let Some(text) = text {
            grid.push([what, text].map(str::to_owned));
        }
    }
    if let Some(memory) = summary.memory_gb {
        grid.push(["memory_gb".into(), memory.to_string()]);
    }
    for (name, number) in summary.metrics.iter().filter(|(name, _)| *name != *metric) {
        grid.push([name.clone(), number.raw.clone()]);
    }
    output::text(&grid.render(format, output::width()));
    // As `grep` does. The other formats have readers that look at `failure`.
    Ok(if is_missing && format == Format::Table { ExitCode::from(exit::CANNOT_START) } else { ExitCode::SUCCESS })
}

/// The metric to look for, and the axes that a composite is computed from. The arguments come first, then the variables
/// and `ar.toml`, then the session.
fn spec(metric: Option<String>, regex: Option<String>) -> Result<(MetricSpec, Option<Composite>), CliError> {
    // A number is read the same way in both directions.
    let spec = |name, source| MetricSpec { name, direction: Direction::Lower, source };
    let source = regex.map(MetricSource::Regex);
    if let Some(name) = metric.as_ref().filter(|name| source.is_some() || *name != COMPOSITE) {
        return Ok((spec(name.clone(), source.unwrap_or(MetricSource::Log)), None));
    }
    let dir = current_dir()?;
    let repo = Repo::discover(&dir).ok();
    let root = repo.as_ref().map_or(dir.as_path(), Repo::worktree);
    let asked = settings::resolve(SettingsArgs::default(), root)?;
    let contract = repo.as_ref().and_then(|_| chosen::open(None).ok()?.contract);
    let described = asked.composite.and_then(|axes| axes.settled().ok()).map(|(axes, _)| axes);
    let decides = || contract.as_ref().and_then(Contract::deciding_composite).cloned();
    let (name, stored, composite) = match (metric.or(asked.metric), &contract) {
        // A composite that `ar` computes is never read from a log.
        (Some(name), _) if name == COMPOSITE => (name, asked.source, described.or_else(decides)),
        (Some(name), _) => (name, asked.source, None),
        (None, Some(contract)) => (contract.metric.name.clone(), Some(contract.metric.source.clone()), decides()),
        (None, None) => {
            return Err(CliError::usage(
                "cannot tell which metric to look for",
                "pass --metric NAME, or write metric = \"NAME\" to ar.toml",
            ));
        }
    };
    // A value with a file of its own is not in the log.
    let stored = stored.filter(|stored| matches!(stored, MetricSource::Regex(_)));
    let composite = composite.filter(|_| source.is_none());
    Ok((spec(name, source.or(stored).unwrap_or(MetricSource::Log)), composite))
}
