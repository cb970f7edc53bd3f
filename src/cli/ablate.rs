//! `ar ablate`.

use std::process::ExitCode;

use autoresearch::domain::{Contribution, FORMAT_VERSION, Number, experiment_name};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::session::{Ablation, SessionView, ablate};
use serde_json::json;

use super::args::AblateArgs;
use super::error::CliError;
use super::fresh_runs::announce;
use super::process::{no_runtime, runtime};
use super::{chosen, exit, output, signals};

/// Measures what each kept change carries.
pub(super) fn run(args: AblateArgs) -> Result<ExitCode, CliError> {
    let view = chosen::open(args.session.tag())?;
    let (runs, terms) = args.fresh.terms();
    let ablation = runtime()?.block_on(async {
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        Ok::<_, CliError>(ablate(&view, (runs, args.drop), &terms, &interrupts, &mut announce).await?)
    })?;
    let Some(ablation) = ablation else {
        output::note("interrupted; the runs that ended are recorded, and the same command goes on");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    print(&view, &ablation, args.drop, args.format);
    Ok(ExitCode::SUCCESS)
}

fn print(view: &SessionView, ablation: &Ablation, drops: bool, format: Format) {
    let Ablation { found, stuck, branch } = ablation;
    if format == Format::Json {
        let kept: Vec<_> = found
            .kept
            .iter()
            .map(|Contribution { experiment, contribution, low, high, carries }| {
                json!({
                    "experiment": experiment, "contribution": contribution, "low": low, "high": high,
                    "carries": carries, "why": stuck.get(experiment),
                })
            })
            .collect();
        return output::json(&json!({
            "version": FORMAT_VERSION, "tag": view.tag, "best": found.best, "runs": found.runs, "kept": kept,
            "dropped": found.dropped, "branch": branch,
        }));
    }
    let best = view.history.get(found.best).and_then(|record| record.metric.number());
    let decimals = best.as_ref().map_or(4, Number::decimals).clamp(1, 12);
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:+.decimals$}"));
    let mut grid = Grid::new([
        ("experiment", Align::Right),
        ("contribution", Align::Right),
        ("low", Align::Right),
        ("high", Align::Right),
        ("carries", Align::Left),
        ("description", Align::Left),
    ]);
    for it in &found.kept {
        let said = match (it.carries, stuck.get(&it.experiment)) {
            (Some(_), _) if found.dropped.contains(&it.experiment) => "dropped".to_owned(),
            (Some(true), _) => "something".to_owned(),
            (Some(false), _) if it.high.is_some_and(|high| high < 0.0) && !drops => "it harms".to_owned(),
            (Some(false), _) if drops => "nothing that can be seen, but the result may be worse without it".to_owned(),
            (Some(false), _) => "nothing that can be seen".to_owned(),
            (None, why) => format!("cannot be taken out: {}", why.map_or("", String::as_str)),
        };
        let description = view.history.get(it.experiment).map_or("", |record| record.description.as_str());
        let [carries, low, high] = [it.contribution, it.low, it.high].map(number);
        grid.push([it.experiment.to_string(), carries, low, high, said, description.to_owned()]);
    }
    output::text(&grid.render(format, output::width()));
    if format == Format::Csv {
        return;
    }
    let best = experiment_name(found.best);
    output::line(&format!(
        "\nHow much better {best} is with each change than without it, by {} fresh runs of each, with 95% intervals",
        found.runs
    ));
    let is_exact = |it: &Contribution| it.low.is_some() && it.low == it.high;
    if found.kept.iter().any(is_exact) {
        output::line("Each program gave one value in all its runs, which says nothing about the noise");
    }
    match branch {
        Some(branch) => output::line(&format!("Branch {branch} has {best} without what was dropped")),
        None if drops => output::line("Nothing was dropped"),
        None => {}
    }
}
