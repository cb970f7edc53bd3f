//! `ar verify`, `ar ablate` and `ar repro`: fresh runs of recorded experiments.

use std::process::ExitCode;

use serde_json::{Value, json};

use autoresearch::domain::{
    Contribution, ExperimentName, FORMAT_VERSION, GpuOther, Number, Record, VerifiedId, VerifiedPair, Which, count_of,
    experiment_name, first_of, shell_word, span_text,
};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::rules::{CameBack, ComparedPair, how_to_repeat};
use autoresearch::session::{
    Ablation, FreshNews, Reproduced, Rerun, Rerunning, SessionError, SessionView, VerifiedSide, VerifyError, ablate,
    verify,
};

use super::{AblateArgs, CliError, ReproArgs, VerifyArgs, error, interrupted, interruptible, output, resolve_session};

/// Tells on the standard error stream what becomes of fresh runs.
fn announce(news: &FreshNews<'_>) {
    match news {
        FreshNews::Planned { runs: 0, .. } => output::note("all runs were made before"),
        FreshNews::Planned { runs, more, slots, seconds } => {
            let count = |runs: u64| count_of(u32::try_from(runs).unwrap_or(u32::MAX), "run");
            let span = |runs: u64| span_text(runs.div_ceil((*slots).into()) as f64 * seconds);
            let beside = if *slots > 1 { format!(", {slots} at a time") } else { String::new() };
            let more = match more {
                0 => String::new(),
                more => format!("; then at most {more} more, about {}, to drop what carries nothing", span(*more)),
            };
            output::note(&format!("{}{beside}, about {}{more}", count(*runs), span(*runs)));
        }
        FreshNews::Repeated { what, seed, why } => {
            output::note(&format!("repeating the run of {what} with seed {seed}: {why}"));
        }
        FreshNews::Ended { what, seed, value: Ok(value) } => {
            output::note(&format!("{what} with seed {seed}: {value:#}"))
        }
        FreshNews::Ended { what, seed, value: Err(why) } => {
            output::note(&format!("{what} with seed {seed}: no number: {why}"));
        }
    }
}

/// The part of a comparison that an interrupt leaves.
const RUNS_ARE_RECORDED: &str = "interrupted; the runs that ended are recorded, and the same command goes on";

/// Compares two experiments by fresh runs of both.
pub(super) fn run_verify(args: VerifyArgs) -> Result<ExitCode, CliError> {
    let best = || ExperimentName { tag: None, which: Which::Best };
    let first = args.first.clone().unwrap_or_else(best);
    let (mut view, first) = resolve_session::open_at(&first, args.tag)?;
    view.convert_as_at_start()?;
    let elsewhere = args.second.as_ref().filter(|second| second.tag.as_ref().is_some_and(|tag| *tag != view.tag));
    let mut elsewhere = elsewhere.map(|second| resolve_session::open_at(second, None)).transpose()?;
    elsewhere.iter_mut().try_for_each(|(view, _)| view.convert_as_at_start())?;
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
    let verifying = async |interrupts| Ok(verify(sides, runs, &terms, &interrupts, &mut announce).await?);
    let Some(verified) = interruptible(verifying)? else { return interrupted(RUNS_ARE_RECORDED) };
    print_verified(sides, &verified, args.format);
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
    Ok(other.cloned().ok_or_else(|| view.nothing_kept())?)
}

/// A comparison as a JSON document.
fn comparison_json(pair: &VerifiedPair) -> Value {
    let VerifiedPair { runs, difference, low, high, level, better, .. } = *pair;
    json!({
        "a": pair.a, "b": pair.b, "runs": runs, "difference": difference, "low": low, "high": high, "level": level, "better": better,
    })
}

fn print_verified((a, b): (VerifiedSide<'_>, VerifiedSide<'_>), compared: &ComparedPair, format: Format) {
    let ComparedPair { visible: verified, hidden } = compared;
    if format == Format::Json {
        let mut document = comparison_json(verified);
        (document["version"], document["tag"]) = (json!(FORMAT_VERSION), json!(b.view.tag));
        if let Some(hidden) = hidden {
            document["hidden"] = comparison_json(hidden);
        }
        return output::json(&document);
    }
    let own = b.record.metric.number();
    let decimals = own.as_ref().map_or(4, Number::decimals).clamp(1, 12);
    let unit = own.and_then(|number| number.unit).filter(|_| format != Format::Csv);
    let shown = |number: Number| if format == Format::Csv { number.raw } else { format!("{number:#}") };
    let mean = |values: &[(u64, f64)]| {
        let value = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
        shown(Number { unit: unit.clone(), ..Number::new(value, format!("{value:.decimals$}")) })
    };
    let mut grid = Grid::new([
        ("experiment", Align::Right),
        ("recorded", Align::Right),
        ("fresh mean", Align::Right),
        ("runs", Align::Right),
    ]);
    let (of_a, of_b) = ((a, &verified.a, &verified.values_a), (b, &verified.b, &verified.values_b));
    let named = |id: &VerifiedId| id.own().map_or_else(|| id.text(), |id| id.to_string());
    for (side, id, values) in [of_a, of_b] {
        let recorded = side.record.metric.number().map_or("none".to_owned(), shown);
        grid.push([named(id), recorded, mean(values), values.len().to_string()]);
    }
    for (id, values) in hidden.iter().flat_map(|it| [(&it.a, &it.values_a), (&it.b, &it.values_b)]) {
        let id = named(id);
        let value = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
        grid.push([format!("{id} hidden"), String::new(), format!("{value:.decimals$}"), values.len().to_string()]);
    }
    output::text(&grid.render(format, output::width()));
    if format == Format::Csv {
        return;
    }
    if hidden.is_some() {
        return output::line(&format!("\n{} (± is half of a 95% interval)", compared.sentence()));
    }
    output::line(&format!("\n{}", verified.sentence(decimals)));
}

/// Measures what each kept change carries.
pub(super) fn run_ablate(args: AblateArgs) -> Result<ExitCode, CliError> {
    let mut view = resolve_session::open(args.session.tag())?;
    view.convert_as_at_start()?;
    let (runs, terms) = args.fresh.terms();
    let ablating = async |interrupts| Ok(ablate(&view, (runs, args.drop), &terms, &interrupts, &mut announce).await?);
    let Some(ablation) = interruptible(ablating)? else { return interrupted(RUNS_ARE_RECORDED) };
    print_ablated(&view, &ablation, args.drop, args.format);
    Ok(ExitCode::SUCCESS)
}

/// An ablation as a JSON document.
fn ablation_json(view: &SessionView, Ablation { found, stuck, branch, is_hidden }: &Ablation) -> Value {
    let contribution = |Contribution { experiment, contribution, low, high, carries }: &Contribution| {
        json!({
            "experiment": experiment, "contribution": contribution, "low": low, "high": high,
            "carries": carries, "why": stuck.get(experiment),
        })
    };
    let kept: Vec<_> = found.kept.iter().map(contribution).collect();
    json!({
        "version": FORMAT_VERSION, "tag": view.tag, "best": found.best, "runs": found.runs, "kept": kept,
        "dropped": found.dropped, "branch": branch, "hidden": is_hidden,
    })
}

fn print_ablated(view: &SessionView, ablation: &Ablation, drops: bool, format: Format) {
    let Ablation { found, stuck, branch, is_hidden } = ablation;
    if format == Format::Json {
        return output::json(&ablation_json(view, ablation));
    }
    let best = view.history.get(found.best).filter(|_| !is_hidden).and_then(|record| record.metric.number());
    let decimals = best.as_ref().map_or(4, Number::decimals).clamp(1, 12);
    let unit = best.and_then(|number| number.unit).filter(|_| format != Format::Csv);
    let signed = |value: f64| Number { unit: unit.clone(), ..Number::new(value, format!("{value:+.decimals$}")) };
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{:#}", signed(value)));
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
        "\nHow much better {best} is with each change than without it, by {}{} fresh runs of each, with 95% intervals",
        if *is_hidden { "the hidden values of " } else { "" },
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

/// Runs an experiment again, beside the session, and says whether its number came back.
pub(super) fn run_repro(args: ReproArgs) -> Result<ExitCode, CliError> {
    let (mut view, record) = resolve_session::open_at(&args.experiment, args.tag)?;
    view.convert_as_at_start()?;
    let rerun = Rerun { worktree: args.worktree, links: args.link, here: args.executor.is_some() };
    let reproducing = async |interrupts| Ok(view.reproduce(&record, &rerun, &interrupts, &mut announce_repro).await?);
    let Some(reproduced) = interruptible(reproducing)? else {
        return interrupted("interrupted; terminated the run and removed its working tree");
    };
    print_repro(&view, &record, &reproduced, args.format);
    Ok(match reproduced.came_back {
        Some(came_back) if came_back.is_same() => ExitCode::SUCCESS,
        Some(_) => ExitCode::from(error::TRY_DISCARD),
        None if reproduced.failure.is_none() => ExitCode::SUCCESS,
        None => ExitCode::from(error::TRY_CRASH),
    })
}

fn announce_repro(about: &Rerunning<'_>) {
    output::note(&format!("running `{}` in {}", about.command, about.dir.display()));
    if !about.missing.is_empty() {
        let names: Vec<String> = about.missing.iter().map(|name| shell_word(name.as_ref())).collect();
        let names = first_of(&names, 8).join(", ");
        output::note(&format!("untracked files are not included: {names}; pass --link for those that the run needs"));
    }
}

/// Tells in a sentence whether the value was reproduced.
fn verdict(record: &Record, reproduced: &Reproduced) -> String {
    let recorded = record.to_repeat().1.map_or("no number".to_owned(), |number| format!("{number:#}"));
    let apart = |distance: &str| format!("{distance} than the recorded {recorded}");
    match (&reproduced.came_back, &reproduced.failure, &record.failure) {
        (Some(CameBack::Exactly), ..) => "the value was reproduced exactly".to_owned(),
        (Some(CameBack::Failure(class)), ..) => format!("it failed again in the same way: {class}"),
        (Some(CameBack::Within { distance, spread }), ..) => {
            format!(
                "the value was reproduced: {}, within the spread of {spread} of repeated measurements",
                apart(distance)
            )
        }
        (Some(CameBack::No { distance, spread: Some(spread) }), ..) => {
            format!("a different value: {}, beyond the spread of {spread} of repeated measurements", apart(distance))
        }
        (Some(CameBack::No { distance, spread: None }), ..) => {
            format!("a different value: {}; the spread of such values is unknown", apart(distance))
        }
        (None, Some(failure), Some(before)) => {
            format!("it failed in another way: {}, but the record has {}", failure.class, before.class)
        }
        (None, Some(failure), None) => format!("no value ({}), but the record has {recorded}", failure.class),
        (None, None, _) => "a value, but the record has none".to_owned(),
    }
}

fn print_repro(view: &SessionView, record: &Record, reproduced: &Reproduced, format: Format) {
    let verdict = verdict(record, reproduced);
    let raw = reproduced.measured.as_ref().map(|number| number.raw.clone());
    if format == Format::Json {
        return output::json(&json!({
            "version": FORMAT_VERSION,
            "tag": view.tag,
            "id": record.id,
            "commit": record.commit,
            "recorded": record.to_repeat().1.map(|number| number.value),
            "measured": reproduced.measured.as_ref().map(|number| number.value),
            "raw": raw,
            "failure": reproduced.failure,
            "came_back": reproduced.came_back.as_ref().map(CameBack::is_same),
            "gpu_others": reproduced.gpu_others,
            "environment_changes": reproduced.changes,
            "verdict": verdict,
            "recorded_seconds": record.runs.last().map(|run| run.seconds),
            "seconds": reproduced.seconds,
            "worktree": reproduced.kept,
            "log": reproduced.log,
        }));
    }
    let mut grid = Grid::new([("what", Align::Left), ("recorded", Align::Left), ("now", Align::Left)]);
    let shown = |number: Number| if format == Format::Csv { number.raw } else { format!("{number:#}") };
    let [recorded, now] =
        [record.to_repeat().1, reproduced.measured.clone()].map(|it| it.map_or("none".to_owned(), shown));
    grid.push([record.metric.name.clone(), recorded, now]);
    let seconds = record.runs.last().map(|run| format!("{:.1}", run.seconds));
    grid.push(["seconds".into(), seconds.unwrap_or_default(), format!("{:.1}", reproduced.seconds)]);
    output::text(&grid.render(format, output::width()));
    if format == Format::Csv {
        return;
    }
    output::line(&format!("\n{verdict} ({})", reproduced.ended));
    if !reproduced.changes.is_empty() {
        let changes: Vec<String> = reproduced.changes.iter().map(ToString::to_string).collect();
        output::line(&format!("it ran elsewhere than the record: {}", changes.join(", ")));
    }
    if !reproduced.gpu_others.is_empty() {
        output::line(&format!("its number is doubtful: {}", GpuOther::clause(&reproduced.gpu_others)));
    }
    for line in reproduced.failure.iter().flat_map(|failure| failure.excerpt.lines()) {
        output::line(&format!("  | {line}"));
    }
    if let (Some(dir), Some(log)) = (&reproduced.kept, &reproduced.log) {
        output::note(&format!("its log is {}", log.display()));
        output::note(&format!(
            "the working tree stays; remove it with: git worktree remove --force {}",
            shell_word(dir)
        ));
    }
    if let Some(CameBack::No { spread: None, .. }) = reproduced.came_back {
        output::note(&how_to_repeat(view.tag.as_str(), record.id));
    }
    let what = match (&reproduced.failure, &reproduced.measured) {
        (Some(failure), _) => failure.class.to_string(),
        (None, number) => number.as_ref().map_or("no number".to_owned(), |number| format!("{number:#}")),
    };
    let text = shell_word(format!("repro: {what} on {}", reproduced.host).as_ref());
    output::note(&format!("the session does not store it; note it with: ar note {}/{} {text}", view.tag, record.id));
}
