//! `ar log`, `ar show`, `ar diff`, `ar report`, `ar brief` and `ar extract`: what records, ledgers and logs hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Map, Value, json};

use autoresearch::domain::{
    COMPOSITE, Composite, Contract, Direction, Event, ExperimentId, ExperimentName, FORMAT_VERSION, Failure,
    FailureClass, MetricSource, MetricSpec, Note, PartOf, Record, Tag, VerifiedPair, experiment_name, with_causes,
};
use autoresearch::git::Repo;
use autoresearch::measure::{LogSummary, RunEnd, judge};
use autoresearch::report::{
    Align, ArtifactData, ChartStyle, Column, Detail, Excerpt, Format, Grid, PageRoom, Report, Sessions, chart_png,
    chart_svg, compared_grid, compared_json, experiments_grid, html_report, html_sessions, ledger_grid, ledger_json,
    overlaid, overlay_svg, overlay_title, record_grid, records_json, render_report, render_sessions, select_rows,
};
use autoresearch::rules::{Aspect, Compared, Selection, compare, confounds_of_keep, second_look_at, select};
use autoresearch::session::{SavedArtifacts, SessionView, hear_guardians, read_log};
use autoresearch::{fs, state};

use super::error::CliError;
use super::process::{current_dir, runtime};
use super::settings::{SettingsArgs, called_by_loop, clock, is_png};
use super::{
    BriefArgs, DiffArgs, ExtractArgs, LogArgs, ReportArgs, ReportFormat, ShowArgs, error, messages, output, research,
    resolve_session, settings,
};

/// The experiments of a session as a JSON document.
#[derive(Serialize)]
struct Experiments<'a, R> {
    version: u32,
    tag: &'a Tag,
    experiments: Vec<R>,
}

/// Prints the experiments of a session as a table.
pub(super) fn log(args: LogArgs) -> Result<ExitCode, CliError> {
    let selection = Selection { outcomes: args.outcome, pattern: args.grep, sort: args.sort, top: args.top };
    if let Some(ledger) = resolve_session::read(&args.foreign)? {
        let _pager = output::paged();
        let selected = select_rows(&ledger, &selection);
        match args.format {
            Format::Json => output::json(&ledger_json(&ledger, &selected)),
            format => output::text(&ledger_grid(&ledger, &selected).render(format, output::width())),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let view = resolve_session::open(args.session.tag())?;
    let column = |name: &String| Column::named(name.trim(), &view.history);
    let columns = args.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let notes = messages::on(&view, view.history.records());
    let selected = select(view.history.records(), &notes, &selection);
    let _pager = output::paged();
    match args.format {
        Format::Json => {
            let artifact = ArtifactData::by_experiment(view.contract.as_ref(), &view.history);
            let experiments = records_json(&selected, &notes, &artifact);
            output::json(&Experiments { version: FORMAT_VERSION, tag: &view.tag, experiments });
        }
        format => {
            let screen = (format != Format::Csv).then(clock).transpose()?;
            let grid = experiments_grid(&view.history, &selected, view.composite(), &notes, &columns, screen);
            output::text(&grid.render(format, output::width()));
        }
    }
    error::leave(view);
    Ok(ExitCode::SUCCESS)
}

/// Where the artifacts of an experiment are, and the run that left them.
fn artifacts_text(artifacts: &SavedArtifacts, record: &Record) -> String {
    match (artifacts, record.proof.artifacts_run) {
        (SavedArtifacts::In(folder), Some(run)) => format!("in {} ({run})", folder.display()),
        (SavedArtifacts::In(folder), None) => format!("in {}", folder.display()),
        (SavedArtifacts::Gone(why), _) => why.clone(),
    }
}

/// The pairs that were verified with an experiment.
fn verified_pairs<'a>(view: &'a SessionView, record: &Record) -> impl Iterator<Item = &'a VerifiedPair> + use<'a> {
    let id = record.id;
    view.history.verified().iter().filter(move |pair| pair.runs > 0 && pair.names(id))
}

/// What a session knows of an experiment besides its record: a second look at it, the verdict of the hidden split, its artifacts, and
/// the pairs that were verified with it.
fn more_rows(view: &SessionView, record: &Record) -> Vec<[String; 2]> {
    let row = |name: &str, text: String| [name.to_owned(), text];
    let look = second_look_at(&view.history, record.id);
    let look = look.map(|look| row("second look", format!("{}: {}", experiment_name(look.id), look.outcome)));
    let hidden = view.hidden.verdict_on(record).map(|verdict| row("hidden split", verdict.sentence()));
    let artifacts = view.artifacts(record).map(|artifacts| row("artifacts", artifacts_text(&artifacts, record)));
    let decimals = record.metric.number().map_or(4, |number| number.decimals());
    let verified = verified_pairs(view, record).map(|pair| row("verified", pair.sentence(decimals)));
    [look, hidden, artifacts].into_iter().flatten().chain(verified).collect()
}

/// Prints one experiment: its record, its diff and the end of its log, or all of that.
pub(super) fn show(args: ShowArgs) -> Result<ExitCode, CliError> {
    let format = args.format;
    if args.log && format != Format::Table {
        return Err(CliError::usage("--log prints a log, which has no other format", "omit --format or --log"));
    }
    let (view, record) = resolve_session::open_at(&args.experiment, args.tag)?;
    let view = view.for_person()?;
    let diff = view.diff(&record)?;
    let dropped = view.folder.why_dropped(record.id);
    let notes = messages::on(&view, [&record]).remove(&record.id).unwrap_or_default();
    let _pager = output::paged();
    let screen = (format == Format::Table).then(clock).transpose()?;
    let replaced_by = view.history.replaced().get(&record.id).copied();
    let had_to_beat = view.history.had_to_beat(&record);
    let mut grid = record_grid(&record, view.composite(), had_to_beat, replaced_by, &notes, screen);
    more_rows(&view, &record).into_iter().for_each(|row| grid.push(row));
    match format {
        Format::Table => {
            output::text(&grid.to_fields(output::width()));
            if !diff.is_empty() {
                output::line("");
                output::untrusted(&diff);
            }
            let has_log = if args.log { print_logs(&view, &record)? } else { print_tail(&view, &record)? };
            if let (false, Some(why)) = (has_log, dropped) {
                output::line(&format!("\n{why}"));
            }
        }
        Format::Csv | Format::Md => output::text(&grid.render(format, None)),
        Format::Json => {
            let mut value = json!(record);
            if let Value::Object(fields) = &mut value {
                // The numbers are in `metrics`.
                fields.remove("digits");
                fields.insert("replaced_by".into(), json!(replaced_by));
                fields.insert("confounds".into(), json!(confounds_of_keep(&record, had_to_beat)));
                fields.insert("notes".into(), json!(notes));
                fields.insert("diff_text".into(), String::from_utf8_lossy(&diff).into());
                fields.insert("log_tail".into(), view.log_tail(record.id)?.into());
                fields.insert("logs_dropped".into(), dropped.into());
                let (folder, gone) = match view.artifacts(&record) {
                    Some(SavedArtifacts::In(folder)) => (Some(folder), None),
                    Some(SavedArtifacts::Gone(why)) => (None, Some(why)),
                    None => (None, None),
                };
                fields.insert("artifacts_folder".into(), json!(folder));
                fields.insert("artifacts_gone".into(), json!(gone));
                fields.insert("verified".into(), json!(verified_pairs(&view, &record).collect::<Vec<_>>()));
                let hidden = view.hidden.verdict_on(&record).map(|verdict| ("hidden_verdict".into(), json!(verdict)));
                fields.extend(hidden);
            }
            output::json(&value);
        }
    }
    error::leave(view);
    Ok(ExitCode::SUCCESS)
}

/// Prints the end of the newest log. Returns whether there is one.
fn print_tail(view: &SessionView, record: &Record) -> Result<bool, CliError> {
    let tail = view.log_tail(record.id)?;
    if !tail.is_empty() {
        output::line(&format!("\nthe end of {}", view.run_log(record.id).display()));
        output::untrusted(tail.as_bytes());
    }
    Ok(!tail.is_empty())
}

/// Prints all logs of an experiment's runs while it reads them. Returns whether there are any.
fn print_logs(view: &SessionView, record: &Record) -> Result<bool, CliError> {
    let logs = view.run_logs(record);
    for (version, log) in &logs {
        let of = version.map(|version| format!(", of version {version}")).unwrap_or_default();
        output::line(&format!("\n{}{of}", log.display()));
        view.stream_log(log, output::bytes)?;
    }
    Ok(!logs.is_empty())
}

/// Prints two experiments side by side, and how their code differs.
pub(super) fn diff(args: DiffArgs) -> Result<ExitCode, CliError> {
    let (view, a) = resolve_session::open_at(&args.experiment, args.tag.clone())?;
    let is_same = args.experiment.tag == args.other.tag || args.other.tag.as_ref() == Some(&view.tag);
    let other = match is_same {
        true => None,
        false => Some(resolve_session::open_at(&args.other, args.tag)?),
    };
    let (contract, b) = match other {
        Some((other, b)) => (other.contract, b),
        None => (view.contract.clone(), view.find(&args.other.which)?.clone()),
    };
    [&a, &b].into_iter().try_for_each(SessionView::require_commit)?;
    let rows = compare(&a, &b, [view.contract.as_ref(), contract.as_ref()]);
    let code = view.repo.objects.diff_text(&a.commit, &b.commit)?;
    let _pager = output::paged();
    let grid = compared_grid(&a, &b, &rows);
    let format = args.format;
    match format {
        Format::Table => {
            output::text(&grid.to_lines(output::width()));
            let is_elsewhere =
                |row: &Compared| row.aspect == Aspect::Environment && !row.a.is_null() && !row.b.is_null();
            if rows.iter().any(is_elsewhere) {
                output::line("\nthey ran in different environments: such numbers do not compare");
            }
            if !code.is_empty() {
                output::line("");
                output::untrusted(&code);
            }
        }
        Format::Csv | Format::Md => output::text(&grid.render(format, None)),
        Format::Json => output::json(&compared_json(&a, &b, &rows, &String::from_utf8_lossy(&code))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what an agent has to know for the next experiment.
pub(super) fn brief(args: BriefArgs) -> Result<ExitCode, CliError> {
    let view = resolve_session::open(args.session.tag())?;
    if !called_by_loop() {
        let notices = Box::new(|event: &Event| {
            if let Event::Notice(notice) = event {
                output::note(&notice.to_string());
            }
        });
        runtime()?.block_on(hear_guardians(&view.repo, &view.tag, clock()?, notices))?;
    }
    let text = view.brief(called_by_loop())?;
    match args.format {
        Format::Table | Format::Md => output::text(&text),
        Format::Csv => {
            let lines: &dyn Fn(&&str) -> String = &|line| (*line).to_owned();
            output::text(&Grid::of(text.lines(), &[("line", Align::Text, lines)]).render(Format::Csv, None));
        }
        Format::Json => output::json(&json!({"version": FORMAT_VERSION, "tag": view.tag, "text": text})),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what a session would read out of a log.
pub(super) fn extract(args: ExtractArgs) -> Result<ExitCode, CliError> {
    let (spec, composite) = spec(args.metric, args.metric_regex, args.tag)?;
    let metric = &spec.name;
    let mut summary = read_log(&args.file, &spec, composite.as_ref())?;
    if let Some(composite) = composite {
        summary.put_composite(&composite, LogSummary::named);
    }
    let judged = judge(&summary, &RunEnd::from_status(args.exit_status));
    let (value, failure) = (judged.as_ref().ok(), judged.as_ref().err());
    let doubt = summary.part.filter(|_| value.is_some()).map(PartOf::text);
    let detail = failure.and_then(|failure| failure.detail.clone());
    let format = args.format;
    if format == Format::Json {
        let metrics: Map<String, Value> =
            summary.metrics.iter().map(|(name, number)| (name.clone(), json!(number.value))).collect();
        output::json(&json!({
            "version": FORMAT_VERSION,
            "metric": metric,
            "value": value.map(|number| number.value),
            "raw": value.map(|number| number.printed.as_ref().unwrap_or(&number.raw)),
            "unit": value.and_then(|number| number.unit.as_ref()),
            "memory_gb": summary.memory_gb,
            "metrics": metrics,
            "failure": failure.map(|failure| failure.class),
            "detail": detail,
            "doubt": doubt,
            "excerpt": failure.map(|failure| &failure.excerpt),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let is_missing = |failure: &Failure| matches!(failure.class, FailureClass::NoMetric | FailureClass::NoOutput);
    let is_missing = failure.is_some_and(is_missing);
    let mut grid = Grid::new([("what", Align::Left), ("value", Align::Right)]);
    grid.push([metric.clone(), value.map_or("none".into(), |number| format!("{number:#}"))]);
    grid.push(["failure".into(), failure.map_or("none".into(), |failure| failure.class.to_string())]);
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
    Ok(if is_missing && format == Format::Table { ExitCode::from(error::CANNOT_START) } else { ExitCode::SUCCESS })
}

/// The metric to look for, and the axes that a composite is computed from. The arguments come first, a session among them, then
/// the variables and `ar.toml`, then the session of HEAD.
fn spec(
    metric: Option<String>,
    regex: Option<String>,
    tag: Option<Tag>,
) -> Result<(MetricSpec, Option<Composite>), CliError> {
    // A number is read the same way in both directions.
    let spec = |name, source| MetricSpec { name, direction: Direction::Lower, source };
    let source = regex.map(MetricSource::Regex);
    let is_named = tag.is_some();
    let named = tag.map(|tag| resolve_session::open(Some(tag))).transpose()?;
    if let Some(name) = metric.as_ref().filter(|name| source.is_some() || *name != COMPOSITE) {
        return Ok((spec(name.clone(), source.unwrap_or(MetricSource::Log)), None));
    }
    let dir = current_dir()?;
    let repo = Repo::discover(&dir).ok();
    let root = repo.as_ref().map_or(dir.as_path(), Repo::worktree);
    let asked = settings::resolve(SettingsArgs::default(), root)?;
    let set = asked.metric.filter(|_| !is_named);
    let view = named.or_else(|| repo.as_ref().and_then(|_| resolve_session::open(None).ok()));
    let contract = view.and_then(|view| view.contract);
    let described = asked.composite.and_then(|axes| axes.settled().ok()).map(|(axes, _)| axes);
    let decides = || contract.as_ref().and_then(Contract::deciding_composite).cloned();
    let (name, stored, composite) = match (metric.or(set), &contract) {
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

/// The user's notes on experiments, by number.
pub(super) type Notes = BTreeMap<ExperimentId, Vec<Note>>;

/// Prints what a session, or a ledger from anywhere, found, or what several sessions found.
pub(super) fn report(args: ReportArgs) -> Result<ExitCode, CliError> {
    if args.weights {
        return research::suggest_weights(args);
    }
    if !args.others.is_empty() {
        return report_several(args);
    }
    let (report, session) = match resolve_session::read(&args.foreign)? {
        Some(ledger) => (Report::of_ledger(ledger), None),
        None => {
            let view = resolve_session::open(args.session.tag())?.for_person()?;
            let notes = messages::on(&view, view.history.records());
            (of_session(&view, &notes)?, Some((view, notes)))
        }
    };
    let drawn = |style| chart_svg(&report.series(), &report.chart_title(), style);
    let is_all = draw(args.chart.as_deref(), args.style, args.format, drawn)?;
    match args.format.map(ReportFormat::as_text) {
        None if is_all => {}
        None => print_report_paged(&report, Format::Table)?,
        Some(Some(format)) => print_report_paged(&report, format)?,
        Some(None) => {
            let details = session.as_ref().map(|(view, notes)| details(view, notes)).unwrap_or_default();
            output::bytes(html_report(&report, &details, clock()?).as_bytes());
        }
    }
    error::leave((report, session));
    Ok(ExitCode::SUCCESS)
}

/// Prints several sessions side by side.
fn report_several(args: ReportArgs) -> Result<ExitCode, CliError> {
    let tags: Vec<Tag> = args.session.tag().into_iter().chain(args.others).collect();
    if let Some(twice) = tags.iter().enumerate().find(|(place, tag)| tags[..*place].contains(tag)) {
        return Err(CliError::usage(format!("session {} is named twice", twice.1), "name each session once"));
    }
    let read = |tag: &Tag| {
        let view = resolve_session::open(Some(tag.clone()))?;
        let notes = messages::on(&view, view.history.records());
        of_session(&view, &notes)
    };
    let reports: Result<Vec<Report>, CliError> = tags.iter().map(read).collect();
    let reports = reports.map_err(|error| experiments_compared(&tags).unwrap_or(error))?;
    let reports: Vec<&Report> = reports.iter().collect();
    let drawn = |style| overlay_svg(&overlaid(&reports), &overlay_title(&reports), style);
    let is_all = draw(args.chart.as_deref(), args.style, args.format, drawn)?;
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
    file: Option<&Path>,
    style: Option<ChartStyle>,
    format: Option<ReportFormat>,
    drawn: impl FnOnce(ChartStyle) -> String,
) -> Result<bool, CliError> {
    let Some(file) = file else { return Ok(false) };
    write_chart(&drawn(style.unwrap_or_default()), file)?;
    let where_it_is = format!("the chart is in {}", file.display());
    match format {
        Some(_) => output::note(&where_it_is),
        None => output::line(&where_it_is),
    }
    Ok(format.is_none())
}

/// Prints the report of a session for people, and draws its chart into this `picture`.
pub(super) fn print_session(view: &SessionView, picture: Option<&Path>) -> Result<(), CliError> {
    let report = of_session(view, &Notes::new())?;
    print_report(&report, Format::Table)?;
    let drawn = || chart_svg(&report.series(), &report.chart_title(), ChartStyle::Light);
    picture.map_or(Ok(()), |picture| write_chart(&drawn(), picture))
}

fn of_session(view: &SessionView, notes: &Notes) -> Result<Report, CliError> {
    Ok(view.report()?.with_notes(notes).with_verified(&view.history))
}

fn print_report_paged(report: &Report, format: Format) -> Result<(), CliError> {
    let _pager = output::paged();
    print_report(report, format)
}

fn print_report(report: &Report, format: Format) -> Result<(), CliError> {
    match format {
        Format::Json => output::json(report),
        _ => output::text(&render_report(report, format, output::width(), output::glyphs(), clock()?)),
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
fn write_chart(svg: &str, path: &Path) -> Result<(), CliError> {
    let content = if is_png(path) == Some(true) { &chart_png(svg)? } else { svg.as_bytes() };
    // The folder of a bare name is the current one.
    fs::write_atomic(&current_dir()?.join(path), content)?;
    Ok(())
}
