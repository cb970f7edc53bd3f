//! `ar verify`.

use std::process::ExitCode;

use autoresearch::domain::{ExperimentName, FORMAT_VERSION, Record, VerifiedPair, Which, experiment_name};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::session::{KeepsError, SessionError, SessionView, Verification, VerifyingRun};
use serde_json::json;

use super::args::VerifyArgs;
use super::error::CliError;
use super::process::{no_runtime, runtime};
use super::{chosen, exit, output, signals};

/// Compares two experiments by fresh runs of both.
pub(super) fn run(args: VerifyArgs) -> Result<ExitCode, CliError> {
    let best = || ExperimentName { tag: None, which: Which::Best };
    let first = args.first.clone().unwrap_or_else(best);
    let (view, first) = chosen::open_at(&first, args.tag)?;
    let (a, b) = match &args.second {
        Some(second) => (first, view.find(&second.which)?.clone()),
        None => (compared_with(&view, &first, args.first.is_some())?, first),
    };
    let verification = Verification { runs: args.runs, links: args.link };
    let verified = runtime()?.block_on(async {
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        Ok::<_, CliError>(view.verify((&a, &b), &verification, &interrupts, &mut announce).await?)
    })?;
    let Some(verified) = verified else {
        output::note("interrupted; the runs that ended are recorded, and the same command goes on");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    print(&view, (&a, &b), &verified, args.format);
    Ok(ExitCode::SUCCESS)
}

/// The experiment that one is compared with: the one that it was made on, or the baseline where none was named.
fn compared_with(view: &SessionView, record: &Record, is_named: bool) -> Result<Record, CliError> {
    let history = &view.history;
    let base = history.kept_at(&record.base).filter(|_| is_named).and_then(|base| history.get(base));
    let other = base.or(history.baseline()).filter(|other| other.id != record.id);
    Ok(other.cloned().ok_or_else(|| SessionError::from(KeepsError::NothingKept(view.tag.to_string())))?)
}

fn announce(run: &VerifyingRun<'_>) {
    output::note(&format!("{} with seed {}: {}", experiment_name(run.id), run.seed, run.value));
}

fn print(view: &SessionView, (a, b): (&Record, &Record), verified: &VerifiedPair, format: Format) {
    let VerifiedPair { runs, difference, low, high, level, better, .. } = *verified;
    if format == Format::Json {
        return output::json(&json!({
            "version": FORMAT_VERSION,
            "tag": view.tag,
            "a": a.id,
            "b": b.id,
            "runs": runs,
            "difference": difference,
            "low": low,
            "high": high,
            "level": level,
            "better": better,
        }));
    }
    let decimals = b.metric.number().map_or(4, |number| number.decimals()).clamp(1, 12);
    let number = |value: f64| format!("{value:.decimals$}");
    let mean = |values: &[(u64, f64)]| number(values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64);
    let mut grid = Grid::new([
        ("experiment", Align::Right),
        ("recorded", Align::Right),
        ("fresh mean", Align::Right),
        ("runs", Align::Right),
    ]);
    for (record, values) in [(a, &verified.values_a), (b, &verified.values_b)] {
        let recorded = record.metric.number().map_or("none".to_owned(), |number| number.raw);
        grid.push([record.id.to_string(), recorded, mean(values), values.len().to_string()]);
    }
    output::text(&grid.render(format, output::width()));
    if format == Format::Csv {
        return;
    }
    let way = if difference < 0.0 { "worse" } else { "better" };
    let sure = match (better, high < 0.0) {
        (true, _) => "it is better",
        (_, true) => "it is worse",
        _ => "that may be chance",
    };
    output::line(&format!(
        "\n{} is {way} than {} by {} ({}% interval {} to {}): {sure}",
        experiment_name(b.id),
        experiment_name(a.id),
        number(difference.abs()),
        (level * 100.0).round(),
        number(low),
        number(high),
    ));
}
