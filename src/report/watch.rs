//! A session on a whole screen, for `ar status --watch`: chart, experiments, the end of the log.

use std::sync::Arc;

use anstyle::{AnsiColor, Style};

use super::chart::{Glyphs, Series, chart_text};
use super::render::counts_sentence;
use super::safe::{safe_code, safe_line};
use super::width::{columns, fit};
use crate::domain::{GpuLoad, Number, Record, clock_time, experiment_name};
use crate::rules::{Ended, History, SessionStatus, format_gain};

/// How many lines a chart takes at least: title, picture, the lane of what has no value, axis, legend.
const LEAST_CHART: usize = 10;

/// How many lines it takes at most: beyond that nothing more is to be seen in it.
const MOST_CHART: usize = 22;

/// How many lines there must be below the head for a chart.
const ROOM_FOR_CHART: usize = 16;

/// The width from which on experiments have columns for commit, duration and memory.
const WIDE: usize = 110;

/// How wide the names in the head are, and the width below which they are not aligned.
const NAMES: usize = 12;
const NARROW: usize = 40;

/// What is worked out once for each state of the experiments.
#[derive(Debug)]
pub struct Overview {
    history: Arc<History>,
    series: Series,
    counts: String,
}

impl Overview {
    /// Works it out for what the status shows.
    pub fn of(status: &SessionStatus) -> Overview {
        let report = status.report();
        let series = Series::new(report.metric.as_deref().unwrap_or("value"), report.direction, &report.points);
        Overview { history: Arc::clone(&status.history), series, counts: counts_sentence(&report) }
    }

    /// Whether it is still that of the status.
    pub fn is_of(&self, status: &SessionStatus) -> bool {
        Arc::ptr_eq(&self.history, &status.history)
    }
}

/// What is to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// What is happening.
    pub status: &'a SessionStatus,
    /// What was worked out of its experiments.
    pub overview: &'a Overview,
    /// The last lines of the log that the status names.
    pub log: &'a [String],
    /// What the GPUs do; empty where there are none.
    pub gpus: &'a [GpuLoad],
    /// Why nothing newer can be seen, if so.
    pub trouble: Option<&'a str>,
}

/// Which of the experiments are in view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The experiment at the top, which stays there when newer ones come; the newest when absent.
    top: Option<u32>,
}

impl Scroll {
    /// The same `rows` further towards the older ones; negative for the newer ones. `page` is how many are in view.
    #[must_use]
    pub fn by(self, rows: isize, history: &History, page: usize) -> Scroll {
        let records = history.records();
        let last = records.len().saturating_sub(page.max(1));
        let at = self.index(records).saturating_add_signed(rows).min(last);
        Scroll { top: (at > 0).then(|| records[records.len() - 1 - at].id) }
    }

    /// The place of the experiment at the top, counted from the newest.
    fn index(self, records: &[Record]) -> usize {
        let Some(top) = self.top else { return 0 };
        records.len() - records.partition_point(|record| record.id <= top)
    }
}

/// A screen that is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// As many lines as it is high, none wider than it is. Colours are those of `anstyle`, and nothing is told by them
    /// alone.
    pub lines: Vec<String>,
    /// How many experiments are in view.
    pub page: usize,
    /// Which ones: what was asked for, moved to where the screen is full.
    pub scroll: Scroll,
}

/// Draws a screen `width` columns wide and `height` lines high, of any size.
///
/// The head has what there is to know at once, as many lines as a third of the height; below it are chart, experiments and
/// log, as far as there is room, and at the bottom which keys there are. Nothing in a description or a log can act on the
/// terminal.
pub fn draw(scene: &Scene<'_>, scroll: Scroll, width: u16, height: u16, glyphs: Glyphs) -> Screen {
    let rows = usize::from(height);
    let mut lines = head(scene, usize::from(width));
    lines.truncate((rows / 3).max(1));
    // Too little for anything else.
    let has_foot = rows >= 3;
    let room = rows.saturating_sub(lines.len() + usize::from(has_foot));

    let chart_rows = if room >= ROOM_FOR_CHART { (room * 9 / 20).clamp(LEAST_CHART, MOST_CHART) } else { 0 };
    let chart = chart_text(&scene.overview.series, width, u16::try_from(chart_rows).unwrap_or(0), glyphs);
    lines.extend(chart.lines().map(str::to_owned));

    let room = rows.saturating_sub(lines.len() + usize::from(has_foot));
    let log = log_lines(scene);
    let wanted = 1 + scene.status.history.records().len() + usize::from(scene.status.open.is_some());
    let log_rows = log.len().min((room * 2 / 5).max(room.saturating_sub(wanted)));
    // A heading alone says nothing.
    let log_rows = if log_rows < 2 { 0 } else { log_rows };
    let (table, page, scroll) = table(scene, scroll, usize::from(width), room - log_rows);
    lines.extend(table);
    if log_rows > 0 {
        lines.push(bold(&log_heading(scene)));
        lines.extend_from_slice(&log[log.len() - (log_rows - 1)..]);
    }
    lines.resize(rows.saturating_sub(usize::from(has_foot)), String::new());
    if has_foot {
        lines.push(foot(scroll, page, scene));
    }
    lines.truncate(rows);
    let shown = |line: &String| in_glyphs(&fit(&in_glyphs(line, glyphs), Some(width)), glyphs);
    Screen { lines: lines.iter().map(shown).collect(), page, scroll }
}

/// What there is to know at once, the most important first.
fn head(scene: &Scene<'_>, width: usize) -> Vec<String> {
    let Scene { status, overview, .. } = scene;
    let mut lines = Vec::new();
    let names = if width < NARROW { 0 } else { NAMES };
    let plain = Style::new();
    let red = plain.fg_color(Some(AnsiColor::Red.into()));
    let mut add = |name: &str, style: Style, value: &str| {
        lines.push(format!("{name:<names$} {style}{}{style:#}", safe_line(value)));
    };
    match scene.trouble {
        Some(trouble) => add(status.tag.as_str(), red, trouble),
        None => add(status.tag.as_str(), plain.bold(), &status.doing()),
    }
    if let Some(ended) = &status.ended {
        add("ended", plain, ended);
    }
    for sentence in &status.damage {
        add("damaged", red, sentence);
    }
    add("best", plain, &best(&status.history));
    for line in gpu_lines(scene.gpus) {
        add("gpu", plain, &line);
    }
    if let Some(budget) = status.budget() {
        add("budget", plain, &budget);
    }
    if let Some(outage) = status.outage.as_ref().filter(|outage| !outage.outage.said.is_empty()) {
        add("agent said", plain, &outage.outage.said);
    }
    let since = match status.history.since_keep() {
        0 => String::new(),
        count => format!("; {count} since the last keep"),
    };
    add("experiments", plain, &format!("{}{since}", overview.counts));
    add("active", plain, &status.at_work_sentence());
    lines
}

/// The number to beat, what it gained, and the baseline.
fn best(history: &History) -> String {
    let Some((id, best)) = history.best() else { return "none yet".into() };
    let Some(first) = history.baseline().and_then(|record| record.metric.number()).filter(|_| id != 0) else {
        return format!("{best}, {}", experiment_name(id));
    };
    format!("{best}, {}; {} from the baseline's {first}", experiment_name(id), format_gain(&best, &first))
}

/// What each GPU does; several of them share lines.
fn gpu_lines(gpus: &[GpuLoad]) -> Vec<String> {
    const PER_LINE: usize = 4;
    const GIB: f64 = (1_u64 << 30) as f64;
    let words = |gpu: &GpuLoad| {
        let percent = gpu.percent.map(|percent| format!(" {percent:>3} %")).unwrap_or_default();
        format!("{:.1}/{:.1} GiB{percent}", gpu.used as f64 / GIB, gpu.total as f64 / GIB)
    };
    match gpus {
        [gpu] => vec![format!("{}  {}", gpu.name, words(gpu))],
        gpus => gpus.chunks(PER_LINE).map(|some| some.iter().map(words).collect::<Vec<_>>().join("   ")).collect(),
    }
}

/// The experiments that are in view with a heading, at most `room` lines, how many of them are over, and where they are.
fn table(scene: &Scene<'_>, scroll: Scroll, width: usize, room: usize) -> (Vec<String>, usize, Scroll) {
    let records = scene.status.history.records();
    // On a screen that has grown the oldest ones would leave it half empty.
    let scroll = scroll.by(0, &scene.status.history, room.saturating_sub(1));
    let open = scene.status.open.as_ref().filter(|_| scroll.top.is_none());
    let Some(rows) = room.checked_sub(1 + usize::from(open.is_some())) else {
        return (Vec::new(), 0, scroll);
    };
    let at = scroll.index(records);
    let shown: Vec<&Record> = records.iter().rev().skip(at).take(rows).collect();
    let newest = |number: &Option<Number>| number.as_ref().map(Number::to_string).unwrap_or_default();
    let is_wide = width >= WIDE;
    let mut cells = vec![Row::heading(scene)];
    cells.extend(open.map(|open| Row {
        id: open.id.to_string(),
        outcome: "now".into(),
        value: newest(&open.newest),
        took: open.elapsed.map(clock_time).unwrap_or_default(),
        what: safe_line(&open.description),
        ..Row::default()
    }));
    cells.extend(shown.iter().map(|record| Row::of(record)));
    let widest = |cell: fn(&Row) -> &String| cells.iter().map(|row| columns(cell(row))).max().unwrap_or(0);
    let (id, value, took) = (widest(|row| &row.id), widest(|row| &row.value), widest(|row| &row.took));
    let line = |(index, row): (usize, &Row)| {
        let beside = match is_wide {
            true => format!("{:<8}  {:>took$}  {:>6}  ", row.commit, row.took, row.memory),
            false => String::new(),
        };
        let text = format!("{:>id$}  {:<7}  {:>value$}  {beside}{}", row.id, row.outcome, row.value, row.what);
        if index == 0 { bold(&text) } else { row.paint(&text) }
    };
    let mut lines: Vec<String> = cells.iter().enumerate().map(line).collect();
    if lines.len() == 1 {
        lines = vec!["no experiments yet".into()];
    }
    (lines, shown.len(), scroll)
}

/// An experiment in the table.
#[derive(Debug, Default)]
struct Row {
    id: String,
    outcome: String,
    value: String,
    commit: String,
    took: String,
    memory: String,
    what: String,
    style: Style,
}

impl Row {
    fn heading(scene: &Scene<'_>) -> Row {
        Row {
            id: "#".into(),
            outcome: "outcome".into(),
            value: safe_line(&scene.overview.series.metric),
            commit: "commit".into(),
            took: "took".into(),
            memory: "GiB".into(),
            what: "what".into(),
            style: Style::new(),
        }
    }

    fn of(record: &Record) -> Row {
        let class = record.failure.as_ref().map(|failure| format!("{}: ", failure.class)).unwrap_or_default();
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        Row {
            id: record.id.to_string(),
            outcome: Ended::of_record(record).name().to_owned(),
            value: record.metric.number().map(|number| number.to_string()).unwrap_or_default(),
            commit: record.commit.short(8).to_owned(),
            took: if record.runs.is_empty() { String::new() } else { clock_time(record.run_seconds()) },
            memory: record.memory_gb.map(|memory| format!("{memory:.1}")).unwrap_or_default(),
            what: safe_line(&format!("{class}{}", record.description)),
            style: match Ended::of_record(record) {
                Ended::Keep => colour(AnsiColor::Green),
                Ended::Discard | Ended::Other => Style::new(),
                Ended::Crash => colour(AnsiColor::Red),
                Ended::Refused => Style::new().dimmed(),
            },
        }
    }

    fn paint(&self, text: &str) -> String {
        format!("{}{text}{:#}", self.style, self.style)
    }
}

/// The lines of the log with a line for the heading.
fn log_lines(scene: &Scene<'_>) -> Vec<String> {
    let lines: Vec<String> = scene.log.iter().map(|line| visible(line)).collect();
    if lines.is_empty() { lines } else { [vec![String::new()], lines].concat() }
}

fn log_heading(scene: &Scene<'_>) -> String {
    let log = scene.status.log.as_deref().unwrap_or(std::path::Path::new("log"));
    // The folder of the runs and what is in it.
    let names: Vec<String> = log.iter().rev().take(3).map(|name| name.to_string_lossy().into_owned()).collect();
    safe_line(&names.into_iter().rev().collect::<Vec<_>>().join("/"))
}

fn foot(scroll: Scroll, page: usize, scene: &Scene<'_>) -> String {
    let records = scene.status.history.records();
    let place = match scroll.top {
        Some(_) => format!("; {} newer above, g goes to the newest", scroll.index(records)),
        None if page < records.len() => format!("; {} older below", records.len() - page),
        None => String::new(),
    };
    let dimmed = Style::new().dimmed();
    format!("{dimmed}q quits and stops nothing; j, k and arrows scroll{place}{dimmed:#}")
}

fn bold(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// A line of a log with its indentation, which does nothing but stand there.
fn visible(line: &str) -> String {
    const TAB: &str = "    ";
    safe_code(line).replace('\t', TAB)
}

/// A line in the characters that the terminal shows.
fn in_glyphs(line: &str, glyphs: Glyphs) -> String {
    let ascii = |c: char| match c {
        '…' => CUT,
        '→' => '>',
        c if c.is_ascii() => c,
        _ => '?',
    };
    if glyphs == Glyphs::Ascii { line.chars().map(ascii).collect() } else { line.to_owned() }
}

/// What stands for the missing end of a line where there are no other characters than those of ASCII.
const CUT: char = '~';

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
