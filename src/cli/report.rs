//! `ar report`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use autoresearch::domain::{ExperimentId, ExperimentName, Note, Record, Tag, with_causes};
use autoresearch::report::{
    ChartStyle, Detail, Excerpt, Format, PageRoom, Report, Sessions, chart_png, chart_svg, html_report, html_sessions,
    overlaid, overlay_svg, overlay_title, render_report, render_sessions,
};
use autoresearch::session::{SessionError, SessionView};
use autoresearch::{fs, state};

use super::args::{ReportArgs, ReportFormat, Style};
use super::error::CliError;
use super::process::current_dir;
use super::settings::ChartFile;
use super::{chosen, error, messages, output, research, settings};

/// The user's notes on experiments, by number.
pub(super) type Notes = BTreeMap<ExperimentId, Vec<Note>>;

/// Prints what a session, or a ledger from anywhere, found, or what several sessions found.
pub(super) fn run(args: ReportArgs) -> Result<ExitCode, CliError> {
    if args.weights {
        return research::suggest_weights(args);
    }
    if !args.others.is_empty() {
        return run_several(args);
    }
    let (report, session) = match chosen::read(&args.foreign)? {
        Some(ledger) => (Report::of_ledger(ledger), None),
        None => {
            let view = chosen::open(args.session.tag())?;
            let notes = messages::on(&view, view.history.records());
            (of_session(&view, &notes)?, Some((view, notes)))
        }
    };
    let drawn = |style| chart_svg(&report.series(), &report.chart_title(), style);
    let is_all = draw(args.chart.as_ref(), args.style, args.format, drawn)?;
    match args.format.map(ReportFormat::as_text) {
        None if is_all => {}
        None => print_paged(&report, Format::Table)?,
        Some(Some(format)) => print_paged(&report, format)?,
        Some(None) => {
            let details = session.as_ref().map(|(view, notes)| details(view, notes)).unwrap_or_default();
            output::bytes(html_report(&report, &details, settings::clock()?).as_bytes());
        }
    }
    error::leave((report, session));
    Ok(ExitCode::SUCCESS)
}

/// Prints several sessions side by side.
fn run_several(args: ReportArgs) -> Result<ExitCode, CliError> {
    let tags: Vec<Tag> = args.session.tag().into_iter().chain(args.others).collect();
    if let Some(twice) = tags.iter().enumerate().find(|(place, tag)| tags[..*place].contains(tag)) {
        return Err(CliError::usage(format!("session {} is named twice", twice.1), "name each session once"));
    }
    let read = |tag: &Tag| {
        let view = chosen::open(Some(tag.clone()))?;
        let notes = messages::on(&view, view.history.records());
        of_session(&view, &notes)
    };
    let reports: Result<Vec<Report>, CliError> = tags.iter().map(read).collect();
    let reports = reports.map_err(|error| experiments_compared(&tags).unwrap_or(error))?;
    let reports: Vec<&Report> = reports.iter().collect();
    let drawn = |style| overlay_svg(&overlaid(&reports), &overlay_title(&reports), style);
    let is_all = draw(args.chart.as_ref(), args.style, args.format, drawn)?;
    match args.format.map_or(Some(Format::Table), ReportFormat::as_text) {
        _ if is_all => {}
        None => output::bytes(html_sessions(&reports).as_bytes()),
        Some(format) => {
            let _pager = output::paged();
            match format {
                Format::Json => output::json(&Sessions::new(&reports)),
                _ => output::text(&render_sessions(&reports, format, output::width())),
            }
        }
    }
    error::leave(reports);
    Ok(ExitCode::SUCCESS)
}

/// The error where the names are those of experiments: it names the command that compares these.
fn experiments_compared(tags: &[Tag]) -> Option<CliError> {
    let [a, b] = tags else { return None };
    let is_experiment = |tag: &Tag| tag.as_str().parse::<ExperimentName>().is_ok();
    (is_experiment(a) && is_experiment(b)).then(|| {
        let what = format!("{a} and {b} are experiments, and a report compares sessions");
        CliError::usage(what, format!("run `ar diff {a} {b}` to compare two experiments"))
    })
}

/// Draws a picture into the file that is asked for, if any. Returns whether that is all that is asked for.
fn draw(
    file: Option<&ChartFile>,
    style: Option<Style>,
    format: Option<ReportFormat>,
    drawn: impl FnOnce(ChartStyle) -> String,
) -> Result<bool, CliError> {
    let Some(file) = file else { return Ok(false) };
    write_chart(&drawn(style.map(Into::into).unwrap_or_default()), file)?;
    let where_it_is = format!("the chart is in {}", file.path.display());
    match format {
        Some(_) => output::note(&where_it_is),
        None => output::line(&where_it_is),
    }
    Ok(format.is_none())
}

/// Prints the report of a session for people.
pub(super) fn print_session(view: &SessionView) -> Result<(), CliError> {
    print(&of_session(view, &Notes::new())?, Format::Table)
}

/// Prints the report of a session for people, and draws its chart into a PNG file.
pub(super) fn print_and_draw(view: &SessionView, picture: &Path) -> Result<(), CliError> {
    let report = of_session(view, &Notes::new())?;
    print(&report, Format::Table)?;
    let svg = chart_svg(&report.series(), &report.chart_title(), ChartStyle::Light);
    write_chart(&svg, &ChartFile { path: picture.to_owned(), is_png: true })
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
    let mut room = PageRoom::default();
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
pub(super) fn detail(view: &SessionView, record: &Record, notes: &Notes, room: &mut PageRoom) -> Detail {
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
    Detail::new(record, view.composite(), view.history.had_to_beat(record), diff, log, notes)
}

/// Writes a drawing into a file, which appears whole or not at all.
fn write_chart(svg: &str, ChartFile { path, is_png }: &ChartFile) -> Result<(), CliError> {
    let png = || chart_png(svg).map_err(|error| CliError::new(error, Some("write the chart as .svg".into())));
    let content = if *is_png { &png()? } else { svg.as_bytes() };
    // The folder of a bare name is the current one.
    fs::write_atomic(&current_dir()?.join(path), content).map_err(SessionError::from)?;
    Ok(())
}
