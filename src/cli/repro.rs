//! `ar repro`.

use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, GpuOther, Record, shell_word};
use autoresearch::report::{Align, Format, Grid};
use autoresearch::rules::{CameBack, how_to_repeat};
use autoresearch::session::{Reproduced, Rerun, Rerunning, SessionView};
use serde_json::json;

use super::args::ReproArgs;
use super::error::CliError;
use super::process::{no_runtime, runtime};
use super::{chosen, exit, output, signals};

/// Runs an experiment again, beside the session, and says whether its number came back.
pub(super) fn run(args: ReproArgs) -> Result<ExitCode, CliError> {
    let (view, record) = chosen::open_at(&args.experiment, args.tag)?;
    let rerun = Rerun { worktree: args.worktree, links: args.link, here: args.executor.is_some() };
    let reproduced = runtime()?.block_on(async {
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        Ok::<_, CliError>(view.reproduce(&record, &rerun, &interrupts, &mut announce).await?)
    })?;
    let Some(reproduced) = reproduced else {
        output::note("interrupted; terminated the run and removed its working tree");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    print(&view, &record, &reproduced, args.format);
    Ok(match reproduced.came_back {
        Some(came_back) if came_back.is_same() => ExitCode::SUCCESS,
        Some(_) => ExitCode::from(exit::TRY_DISCARD),
        None if reproduced.failure.is_none() => ExitCode::SUCCESS,
        None => ExitCode::from(exit::TRY_CRASH),
    })
}

fn announce(about: &Rerunning<'_>) {
    output::note(&format!("running `{}` in {}", about.command, about.dir.display()));
    if !about.missing.is_empty() {
        const SHOWN: usize = 8;
        let mut names: Vec<String> = about.missing.iter().take(SHOWN).map(|name| shell_word(name.as_ref())).collect();
        if about.missing.len() > SHOWN {
            names.push(format!("and {} more", about.missing.len() - SHOWN));
        }
        output::note(&format!(
            "untracked files are not included: {}; pass --link for those that the run needs",
            names.join(", ")
        ));
    }
}

/// Tells in a sentence whether the value was reproduced.
fn verdict(record: &Record, reproduced: &Reproduced) -> String {
    let recorded = record.to_repeat().1.map_or("no number".to_owned(), |number| number.raw);
    let apart = |distance: &str| format!("{distance} than the recorded {recorded}");
    match &reproduced.came_back {
        Some(CameBack::Exactly) => "the value was reproduced exactly".to_owned(),
        Some(CameBack::Failure(class)) => format!("it failed again in the same way: {class}"),
        Some(CameBack::Within { distance, spread }) => {
            format!(
                "the value was reproduced: {}, within the spread of {spread} of repeated measurements",
                apart(distance)
            )
        }
        Some(CameBack::No { distance, spread: Some(spread) }) => {
            format!("a different value: {}, beyond the spread of {spread} of repeated measurements", apart(distance))
        }
        Some(CameBack::No { distance, spread: None }) => {
            format!("a different value: {}; the spread of such values is unknown", apart(distance))
        }
        None => match &reproduced.failure {
            Some(failure) => match &record.failure {
                Some(before) => {
                    format!("it failed in another way: {}, but the record has {}", failure.class, before.class)
                }
                None => format!("no value ({}), but the record has {recorded}", failure.class),
            },
            None => "a value, but the record has none".to_owned(),
        },
    }
}

fn print(view: &SessionView, record: &Record, reproduced: &Reproduced, format: Format) {
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
    let recorded = record.to_repeat().1.map_or("none".to_owned(), |number| number.raw);
    grid.push([record.metric.name.clone(), recorded, raw.unwrap_or_else(|| "none".to_owned())]);
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
        (None, number) => number.as_ref().map_or("no number".to_owned(), |number| number.raw.clone()),
    };
    let text = shell_word(format!("repro: {what} on {}", reproduced.host).as_ref());
    output::note(&format!("the session does not store it; note it with: ar note {}/{} {text}", view.tag, record.id));
}
