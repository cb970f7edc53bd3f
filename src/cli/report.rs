//! `ar report`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use autoresearch::domain::{ExperimentId, ExperimentName, Note, Record, Tag, shell_word, with_causes};
use autoresearch::report::{Detail, Excerpt, Format, Report, Room, chart_png, chart_svg, html_report, render_report};
use autoresearch::session::{SessionError, SessionView};
use autoresearch::{fs, state};

use super::args::{ReportArgs, ReportFormat};
use super::error::CliError;
use super::process::current_dir;
use super::{chosen, exit, foreign, note, output, settings, weights};

/// The user's notes on experiments, by number.
pub(super) type Notes = BTreeMap<ExperimentId, Vec<Note>>;

/// Prints what a session, or a ledger from anywhere, found.
pub(super) fn run(args: ReportArgs) -> Result<ExitCode, CliError> {
    if let Some(other) = &args.other {
        return Err(no_comparison(args.session.tag(), other));
    }
    if args.weights {
        return weights::run(args);
    }
    let (report, session) = match foreign::read(&args.foreign)? {
        Some(ledger) => (Report::of_ledger(ledger), None),
        None => {
            let view = chosen::open(args.session.tag())?;
            let notes = note::on(&view, view.history.records());
            (of_session(&view, &notes)?, Some((view, notes)))
        }
    };
    if let Some(file) = &args.chart {
        write_chart(&report, &file.path, file.is_png)?;
        let where_it_is = format!("the chart is in {}", file.path.display());
        match args.format {
            Some(_) => output::note(&where_it_is),
            None => output::line(&where_it_is),
        }
    }
    match args.format.map(ReportFormat::as_text) {
        // The chart is all that was asked for.
        None if args.chart.is_some() => {}
        None => print_paged(&report, Format::Table)?,
        Some(Some(format)) => print_paged(&report, format)?,
        Some(None) => {
            let details = session.as_ref().map(|(view, notes)| details(view, notes)).unwrap_or_default();
            output::bytes(html_report(&report, &details, settings::clock()?).as_bytes());
        }
    }
    exit::leave((report, session));
    Ok(ExitCode::SUCCESS)
}

/// Refuses to compare two sessions or experiments, and names the command that compares two experiments.
fn no_comparison(one: Option<Tag>, other: &str) -> CliError {
    let one = one.map_or_else(|| "best".to_owned(), |tag| tag.to_string());
    // A session stands for its best experiment.
    let experiment = |name: &str| match name.parse::<ExperimentName>() {
        Ok(_) => name.to_owned(),
        Err(_) => format!("{name}/best"),
    };
    let line = [&one, other].map(|name| shell_word(Path::new(&experiment(name)))).join(" ");
    CliError::usage(
        format!("cannot compare {one} with {other}: a report of two is not there yet"),
        format!("run `ar diff {line}` to compare two experiments"),
    )
}

/// Prints the report of a session for people.
pub(super) fn print_session(view: &SessionView) -> Result<(), CliError> {
    print(&of_session(view, &Notes::new())?, Format::Table)
}

/// Prints the report of a session for people, and draws its chart into a PNG file.
pub(super) fn print_and_draw(view: &SessionView, picture: &Path) -> Result<(), CliError> {
    let report = of_session(view, &Notes::new())?;
    print(&report, Format::Table)?;
    write_chart(&report, picture, true)
}

fn of_session(view: &SessionView, notes: &Notes) -> Result<Report, CliError> {
    Ok(view.report()?.with_notes(notes).with_verified(&view.history))
}

fn print_paged(report: &Report, format: Format) -> Result<(), CliError> {
    let _pager = output::paged();
    print(report, format)
}

fn print(report: &Report, format: Format) -> Result<(), CliError> {
    match format {
        Format::Json => output::json(report),
        _ => output::text(&render_report(report, format, output::width(), output::glyphs(), settings::clock()?)),
    }
    Ok(())
}

/// The details of each experiment on a page, beside its row, as far as there is room. An unreadable part gives its
/// cause.
fn details(view: &SessionView, notes: &Notes) -> Vec<Detail> {
    let mut room = Room::default();
    let mut details = Vec::new();
    for record in Detail::order(view.history.records()) {
        if room.is_used_up() {
            break;
        }
        details.push(detail(view, record, notes, &mut room));
    }
    details
}

/// The details of one experiment, as far as there is room.
pub(super) fn detail(view: &SessionView, record: &Record, notes: &Notes, room: &mut Room) -> Detail {
    let composite = view.contract.as_ref().and_then(|contract| contract.composite.as_ref());
    let diff = match view.diff(record) {
        Ok(diff) => Excerpt::of_diff(&diff, room),
        Err(error) => Excerpt::absent(with_causes(&error)),
    };
    let log = match state::read_log_tail(&view.run_log(record.id)) {
        Ok(tail) if !tail.is_empty() => Excerpt::of_log(&tail, room),
        Ok(_) => Excerpt::absent(view.folder.why_dropped(record.id).unwrap_or_default()),
        Err(error) => Excerpt::absent(with_causes(&error)),
    };
    let notes = notes.get(&record.id).map(Vec::as_slice).unwrap_or_default();
    Detail::new(record, composite, view.history.had_to_beat(record), diff, log, notes)
}

/// Draws the chart of a report into a file, which appears whole or not at all.
fn write_chart(report: &Report, path: &Path, is_png: bool) -> Result<(), CliError> {
    let svg = chart_svg(&report.series(), &report.chart_title());
    let content = if is_png {
        chart_png(&svg).map_err(|error| CliError::new(error, Some("write the chart as .svg".into())))?
    } else {
        svg.into_bytes()
    };
    // The folder of a bare name is the current one.
    fs::write_atomic(&current_dir()?.join(path), &content).map_err(SessionError::from)?;
    Ok(())
}
