//! The screen of `ar status --watch`: head, chart, experiments and the end of the log, as lines that ratatui shows.

use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};

use super::{
    Align, Glyphs, Grid, Report, SessionStatus, columns, counts_sentence, draw_chart, fit, number, safe_code, safe_line,
};
use crate::domain::{ExperimentId, GpuLoad, Number, Phase, Record, clock_time, experiment_name};
use crate::rules::{AttemptStatus, CountedOutcome, History, format_gain};

/// The fewest lines of a chart: title, picture, the lane of experiments without a value, axis, legend.
const LEAST_CHART: usize = 10;

/// The most lines of a chart; more would show nothing more.
const MOST_CHART: usize = 22;

/// The fewest lines below the head that leave room for a chart.
const ROOM_FOR_CHART: usize = 16;

/// The width of the names in the head, and the screen width below which they are not aligned.
const NAMES: usize = 12;
const NARROW: usize = 40;

/// The facts that a screen shows.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The current state of the session.
    pub status: &'a SessionStatus,
    /// The analysis of its experiments.
    pub report: &'a Report,
    /// The last lines of the log that the status names.
    pub log: &'a [String],
    /// The load of the GPUs; empty without any.
    pub gpus: &'a [GpuLoad],
    /// The reason that nothing newer could be read, if any.
    pub trouble: Option<&'a str>,
}

/// The part of the experiments that is in view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The experiment at the top, which stays there when newer ones arrive; the newest when absent.
    top: Option<ExperimentId>,
}

impl Scroll {
    /// Moves by `rows` towards older experiments, or towards newer ones if negative. `page` is the number in view.
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
        records.iter().rev().position(|record| record.id == top).unwrap_or(0)
    }
}

/// A drawn screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// As many lines as the screen is high, none wider than the screen. No fact is shown by colour alone.
    pub lines: Vec<Line<'static>>,
    /// The number of experiments in view.
    pub page: usize,
    /// The experiments in view: the requested ones, or fewer rows down if the screen would not be full.
    pub scroll: Scroll,
}

/// Draws a screen `width` columns wide and `height` lines high, of any size.
///
/// The head has the most important facts and takes up to a third of the height. Below it come chart, experiments and log, as
/// far as there is room; the last line names the keys. No description or log line can control the terminal.
pub fn draw(scene: &Scene<'_>, scroll: Scroll, width: u16, height: u16, glyphs: Glyphs) -> Screen {
    let rows = usize::from(height);
    let mut lines = head(scene, usize::from(width));
    lines.truncate((rows / 3).max(1));
    // A smaller screen has room for the head and experiments only.
    let has_foot = rows >= 3;
    let room = rows.saturating_sub(lines.len() + usize::from(has_foot));

    let chart_rows = if room >= ROOM_FOR_CHART { (room * 9 / 20).clamp(LEAST_CHART, MOST_CHART) } else { 0 };
    let drawn = if glyphs == Glyphs::Unicode { Glyphs::Braille } else { glyphs };
    lines.extend(draw_chart(&scene.report.series(), width, u16::try_from(chart_rows).unwrap_or(0), drawn));

    let room = rows.saturating_sub(lines.len() + usize::from(has_foot));
    let log = log_lines(scene);
    let wanted = 1 + scene.status.history.records().len() + scene.status.attempts.len();
    let log_rows = log.len().min((room * 2 / 5).max(room.saturating_sub(wanted)));
    // A heading without lines is useless.
    let log_rows = if log_rows < 2 { 0 } else { log_rows };
    let (table, page, scroll) = table(scene, scroll, width, room - log_rows);
    lines.extend(table);
    if log_rows > 0 {
        lines.push(log[0].clone());
        lines.extend_from_slice(&log[log.len() - (log_rows - 1)..]);
    }
    lines.resize(rows.saturating_sub(usize::from(has_foot)), Line::default());
    if has_foot {
        lines.push(foot(scroll, page, scene));
    }
    lines.truncate(rows);
    Screen { lines: lines.into_iter().map(|line| shown(line, width, glyphs)).collect(), page, scroll }
}

/// The facts of the head, the most important first.
fn head(scene: &Scene<'_>, width: usize) -> Vec<Line<'static>> {
    let Scene { status, report, .. } = scene;
    let mut lines = Vec::new();
    let names = if width < NARROW { 0 } else { NAMES };
    let (plain, red) = (Style::new(), Style::new().red());
    let mut add = |name: &str, style: Style, value: &str| {
        lines.push(Line::from_iter([Span::raw(format!("{name:<names$} ")), Span::styled(safe_line(value), style)]));
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
    if let Some(busy) = status.busy() {
        add("slots", plain, &busy);
    }
    for line in gpu_lines(scene.gpus) {
        add("gpu", plain, &line);
    }
    if let Some(budget) = status.budget() {
        add("budget", plain, &budget);
    }
    if let Some(outage) = status.outage.as_ref().filter(|outage| !outage.said.is_empty()) {
        add("agent said", plain, &outage.said);
    }
    let since = match status.history.since_keep() {
        0 => String::new(),
        count => format!("; {count} since the last keep"),
    };
    add("experiments", plain, &format!("{}{since}", counts_sentence(report)));
    add("active", plain, &status.at_work_sentence());
    lines
}

/// The best number, what it gained, and the baseline.
fn best(history: &History) -> String {
    let number = |record| history.number_to_beat(record);
    let best = history.best_kept_record().and_then(|record| Some((record.id, number(record)?)));
    let Some((id, best)) = best else { return "none yet".into() };
    let Some(first) = history.baseline().and_then(number).filter(|_| !id.is_baseline()) else {
        return format!("{best:#}, {}", experiment_name(id));
    };
    format!("{best:#}, {}; {} from the baseline's {first}", experiment_name(id), format_gain(&best, &first))
}

/// The load of each GPU; several of them share lines.
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

/// The experiments that are in view with a heading, at most `room` lines, how many of them are finished, and where they are.
fn table(scene: &Scene<'_>, scroll: Scroll, width: u16, room: usize) -> (Vec<Line<'static>>, usize, Scroll) {
    let records = scene.status.history.records();
    // Without this, the oldest experiments would half fill a screen that has grown.
    let scroll = scroll.by(0, &scene.status.history, room.saturating_sub(1));
    let is_newest = scroll.top.is_none();
    // A run for winners that is over says nothing more.
    let is_shown = |open: &&AttemptStatus| is_newest && (open.trial.is_none() || open.is_running());
    // The baseline may have runs in several slots.
    let in_slots: Vec<&AttemptStatus> =
        scene.status.lanes.slots.iter().filter_map(|lane| lane.attempt.as_ref()).collect();
    let others = scene.status.attempts.iter().filter(|open| in_slots.iter().all(|other| other.id != open.id));
    let mut open: Vec<&AttemptStatus> = in_slots.iter().copied().chain(others).filter(is_shown).collect();
    // Waiting attempts come last; they are the first to be cut if there is little room.
    open.sort_by_key(|open| (!open.is_in_slot(), !open.is_called()));
    open.truncate((room / 2).max(1));
    let Some(rows) = room.checked_sub(1 + open.len()) else {
        return (Vec::new(), 0, scroll);
    };
    let shown: Vec<&Record> = records.iter().rev().skip(scroll.index(records)).take(rows).collect();
    if records.is_empty() && open.is_empty() {
        return (vec!["no experiments yet".into()], 0, scroll);
    }
    let mut grid = Grid::new([
        ("#", Align::Right),
        ("outcome", Align::Left),
        (scene.report.metric_name(), Align::Right),
        ("commit", Align::Left),
        ("took", Align::Right),
        ("GiB", Align::Right),
        ("what", Align::Text),
    ])
    .sparing(["GiB", "took", "commit"]);
    for open in &open {
        let newest = open.newest.as_ref().map(Number::to_string).unwrap_or_default();
        let took = open.elapsed.map(clock_time).unwrap_or_default();
        let (id, what, is_concurrent) =
            (open.id.to_string(), SessionStatus::tries(open), scene.status.lanes.is_concurrent);
        let is_plain = !is_concurrent || !open.is_in_slot() || open.phase == Phase::Running;
        let what = if is_plain { what } else { format!("{}: {what}", open.step()) };
        let step = if is_concurrent { step_word(open) } else { "now".to_owned() };
        grid.push([id, step, newest, String::new(), took, String::new(), what]);
    }
    shown.iter().for_each(|record| grid.push(cells(record)));
    let styles = std::iter::once(Style::new().bold()).chain(open.iter().map(|_| Style::new()));
    let styles = styles.chain(shown.iter().map(|record| style_of(record)));
    let text = grid.to_lines(Some(width));
    let lines = text.lines().zip(styles).map(|(line, style)| Line::styled(line.to_owned(), style));
    (lines.collect(), shown.len(), scroll)
}

/// The step of an attempt, in one or two words.
fn step_word(open: &AttemptStatus) -> String {
    match (open.seat, open.slot) {
        _ if open.is_ready() => "ready".to_owned(),
        (Some(seat), _) if open.is_called() => format!("seat {seat}"),
        (_, Some(slot)) if open.is_in_slot() => format!("slot {slot}"),
        _ => "waits".to_owned(),
    }
}

/// The cells of an experiment in the table.
fn cells(record: &Record) -> [String; 7] {
    let class = record.failure.as_ref().map(|failure| format!("{}: ", failure.class)).unwrap_or_default();
    [
        record.id.to_string(),
        CountedOutcome::of_record(record).to_string(),
        number(record),
        record.commit.short(8).to_owned(),
        if record.runs.is_empty() { String::new() } else { clock_time(record.run_seconds()) },
        record.memory_gb.map(|memory| format!("{memory:.1}")).unwrap_or_default(),
        format!("{class}{}", record.description),
    ]
}

fn style_of(record: &Record) -> Style {
    match CountedOutcome::of_record(record) {
        CountedOutcome::Keep => Style::new().green(),
        CountedOutcome::Discard | CountedOutcome::Other => Style::new(),
        CountedOutcome::Crash => Style::new().red(),
        CountedOutcome::Refused => Style::new().dim(),
    }
}

/// A heading and the lines of the log; nothing where it has none.
fn log_lines(scene: &Scene<'_>) -> Vec<Line<'static>> {
    if scene.log.is_empty() {
        return Vec::new();
    }
    let log = scene.status.log.as_deref().unwrap_or(std::path::Path::new("log"));
    // The folder of the runs and what is in it.
    let names: Vec<String> = log.iter().rev().take(3).map(|name| name.to_string_lossy().into_owned()).collect();
    let heading = safe_line(&names.into_iter().rev().collect::<Vec<_>>().join("/"));
    let lines = scene.log.iter().map(|line| visible(line).into());
    std::iter::once(Line::from(heading).bold()).chain(lines).collect()
}

fn foot(scroll: Scroll, page: usize, scene: &Scene<'_>) -> Line<'static> {
    let records = scene.status.history.records();
    let place = match scroll.top {
        Some(_) => format!("; {} newer above, g goes to the newest", scroll.index(records)),
        None if page < records.len() => format!("; {} older below", records.len() - page),
        None => String::new(),
    };
    Line::from(format!("q quits and stops nothing; j, k and arrows scroll{place}")).dim()
}

/// A line of a log with its indentation, without anything that controls a terminal.
fn visible(line: &str) -> String {
    const TAB: &str = "    ";
    safe_code(line).replace('\t', TAB)
}

/// A line cut to the width of the screen, in the characters that the terminal shows.
fn shown(mut line: Line<'static>, width: u16, glyphs: Glyphs) -> Line<'static> {
    let ascii = |c: char| match c {
        '…' => '~',
        '→' => '>',
        c if c.is_ascii() => c,
        _ => '?',
    };
    let in_glyphs = |text: &str| match glyphs {
        Glyphs::Ascii => text.chars().map(ascii).collect(),
        Glyphs::Unicode | Glyphs::Braille => text.to_owned(),
    };
    let mut left = usize::from(width);
    for span in &mut line.spans {
        // Nothing remains behind a cut.
        let text = if left == 0 { String::new() } else { fit(&in_glyphs(&span.content), u16::try_from(left).ok()) };
        left = left.saturating_sub(columns(&text));
        span.content = in_glyphs(&text).into();
    }
    line
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
