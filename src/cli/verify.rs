//! `ar verify`.

use std::process::ExitCode;

use autoresearch::domain::{ExperimentName, FORMAT_VERSION, Record, VerifiedPair, Which};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::session::{KeepsError, SessionError, SessionView, VerifiedSide, VerifyError, verify};
use serde_json::json;

use super::args::VerifyArgs;
use super::error::CliError;
use super::fresh_runs::announce;
use super::process::{no_runtime, runtime};
use super::{chosen, exit, output, signals};

/// Compares two experiments by fresh runs of both.
pub(super) fn run(args: VerifyArgs) -> Result<ExitCode, CliError> {
    let best = || ExperimentName { tag: None, which: Which::Best };
    let first = args.first.clone().unwrap_or_else(best);
    let (view, first) = chosen::open_at(&first, args.tag)?;
    let elsewhere = args.second.as_ref().filter(|second| second.tag.as_ref().is_some_and(|tag| *tag != view.tag));
    let elsewhere = elsewhere.map(|second| chosen::open_at(second, None)).transpose()?;
    let other = match &args.second {
        Some(_) if elsewhere.is_some() => None,
        Some(second) => Some(view.find(&second.which)?.clone()),
        None => Some(compared_with(&view, &first, args.first.is_some())?),
    };
    let of_first = VerifiedSide { view: &view, record: &first };
    let of_other = match (&other, &elsewhere) {
        (Some(record), _) => VerifiedSide { view: &view, record },
        (None, Some((view, record))) => VerifiedSide { view, record },
        (None, None) => of_first,
    };
    let sides = if args.second.is_some() { (of_first, of_other) } else { (of_other, of_first) };
    let (runs, terms) = args.fresh.terms();
    let verified = runtime()?.block_on(async {
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        Ok::<_, CliError>(verify(sides, runs, &terms, &interrupts, &mut announce).await?)
    })?;
    let Some(verified) = verified else {
        output::note("interrupted; the runs that ended are recorded, and the same command goes on");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    print(sides, &verified, args.format);
    Ok(ExitCode::SUCCESS)
}

/// The experiment that one is compared with: the one that it was made on, or the baseline where none was named.
fn compared_with(view: &SessionView, record: &Record, is_named: bool) -> Result<Record, CliError> {
    if record.id.is_baseline() && is_named {
        return Err(SessionError::from(VerifyError::Same(record.id)).into());
    }
    let history = &view.history;
    let base = history.kept_at(&record.base).filter(|_| is_named).and_then(|base| history.get(base));
    let other = base.or(history.baseline()).filter(|other| other.id != record.id);
    Ok(other.cloned().ok_or_else(|| SessionError::from(KeepsError::NothingKept(view.tag.to_string())))?)
}

fn print((a, b): (VerifiedSide<'_>, VerifiedSide<'_>), verified: &VerifiedPair, format: Format) {
    let VerifiedPair { runs, difference, low, high, level, better, .. } = *verified;
    if format == Format::Json {
        return output::json(&json!({
            "version": FORMAT_VERSION,
            "tag": b.view.tag,
            "a": verified.a,
            "b": verified.b,
            "runs": runs,
            "difference": difference,
            "low": low,
            "high": high,
            "level": level,
            "better": better,
        }));
    }
    let decimals = b.record.metric.number().map_or(4, |number| number.decimals()).clamp(1, 12);
    let number = |value: f64| format!("{value:.decimals$}");
    let mean = |values: &[(u64, f64)]| number(values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64);
    let mut grid = Grid::new([
        ("experiment", Align::Right),
        ("recorded", Align::Right),
        ("fresh mean", Align::Right),
        ("runs", Align::Right),
    ]);
    let (of_a, of_b) = ((a, &verified.a, &verified.values_a), (b, &verified.b, &verified.values_b));
    for (side, id, values) in [of_a, of_b] {
        let recorded = side.record.metric.number().map_or("none".to_owned(), |number| number.raw);
        grid.push([
            id.own().map_or_else(|| id.text(), |id| id.to_string()),
            recorded,
            mean(values),
            values.len().to_string(),
        ]);
    }
    output::text(&grid.render(format, output::width()));
    if format == Format::Csv {
        return;
    }
    output::line(&format!("\n{}", verified.sentence(decimals)));
}
