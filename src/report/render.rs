//! A report as text: its headline, its facts, its parts, and its experiments in words.

use std::fmt::Write;

use anstyle::Style;

use super::analysis::{Report, Times};
use super::chart::{Glyphs, chart_text};
use super::grid::{Align, Format, Grid, escape_markdown, text};
use super::sections::sections;
use super::spending::cost_sentence;
use super::text::wrap;
use crate::domain::{Clock, Direction, Number, count_of, json_text, one_line, percent_text, span_text, two_digits};
use crate::rules::{Point, Slots, format_distance, format_gain};

/// The width of a chart without a terminal, in columns.
const CHART_WIDTH: u16 = 80;

/// Renders a report as text; as JSON it can be written without being in memory, as [`Report`] is [`Serialize`](serde::Serialize).
/// `width` is the terminal's, where there is one, `glyphs` are
/// what a chart is drawn with, and `clock` says how long ago things were.
pub fn render_report(report: &Report, format: Format, width: Option<u16>, glyphs: Glyphs, clock: Clock) -> String {
    match format {
        Format::Json => json_text(report, true) + "\n",
        Format::Csv => report_grid(report).to_csv(),
        Format::Md => {
            let mut text =
                format!("# {}\n\n{}", escape_markdown(&report.headline()), facts_text(report, true, None, clock));
            for section in sections(report) {
                let _ = write!(text, "\n{}", section.to_markdown());
            }
            text + "\n## all experiments\n\n" + &report_grid(report).to_markdown()
        }
        Format::Table => {
            let bold = Style::new().bold();
            let mut text = wrap(&format!("{bold}{}{bold:#}", report.headline()), 2, width) + "\n";
            text += &facts_text(report, false, width, clock);
            let columns = width.unwrap_or(CHART_WIDTH);
            let chart = chart_text(&report.series(), columns, (columns / 5).clamp(14, 24), glyphs);
            if !chart.is_empty() {
                let _ = write!(text, "\n{chart}");
            }
            for section in sections(report) {
                let _ = write!(text, "\n{}", section.to_text(width));
            }
            text
        }
    }
}

/// All experiments of a report as a table.
pub fn report_grid(report: &Report) -> Grid {
    Grid::of(
        &report.points,
        &[
            ("id", Align::Right, &|point| point.id.to_string()),
            ("commit", Align::Left, &|point| commit(point)),
            (report.metric_name(), Align::Right, &|point| value(point)),
            ("outcome", Align::Left, &|point| outcome(point).to_owned()),
            ("failure", Align::Left, &|point| text(point.failure)),
            ("description", Align::Text, &|point| point.description.to_string()),
        ],
    )
}

/// The facts of a report, a line each.
fn facts_text(report: &Report, markdown: bool, width: Option<u16>, clock: Clock) -> String {
    let lines = facts(report, markdown, clock);
    let lines = lines.iter().map(|(name, value)| fact(markdown, name, value));
    lines.map(|line| wrap(line.trim_end(), NAME + 1, width)).collect()
}

/// The facts of a report: a name, and what is so called. Times are in UTC where they are `exact`.
pub(super) fn facts(report: &Report, exact: bool, clock: Clock) -> Vec<(&'static str, String)> {
    let metric = report.metric.as_deref().unwrap_or("none");
    let is_improved = report.summary.best.is_none() || report.summary.best != report.baseline;
    let best = || report.best().map_or("none".into(), describe);
    let slots = report.slots.filter(|_| report.is_concurrent());
    let assumed = report.assumed.iter().filter(|_| report.is_without_numbers());
    let facts = [
        ("metric", Some(format!("{metric}, {} is better", report.direction))),
        ("best", is_improved.then(best)),
        ("baseline", Some(report.baseline().map_or("none".into(), describe))),
        ("experiments", Some(counts_sentence(report))),
        ("keep rate", keep_rate(report)),
        ("gain", gain_rates(report)),
        ("time", report.times.as_ref().map(|times| time(report, times, exact, clock))),
        ("slots", slots.map(slots_sentence)),
        ("cost", cost_sentence(report.cost().as_ref(), report.spent.tokens)),
        ("ended", report.facts.ended.clone()),
    ];
    let first = report.tag.iter().map(|tag| ("session", tag)).chain(assumed.map(|sentence| ("assumed", sentence)));
    let first = first.map(|(name, value)| (name, Some(value.clone())));
    first.chain(facts).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The share of keeps, and the longest streak without one.
fn keep_rate(report: &Report) -> Option<String> {
    let summary = &report.summary;
    let streak = match summary.streak {
        Some((first, last)) if first != last => {
            let (from, to) = (report.points[first].id, report.points[last].id);
            // Rows whose word is no verdict neither lengthen a streak nor end it.
            let without = match last + 1 - first - summary.longest_streak as usize {
                0 => String::new(),
                rows => format!(" with {} between", count_of(rows, "other row")),
            };
            format!("; longest streak without a keep {}, {from} to {to}{without}", summary.longest_streak)
        }
        _ => String::new(),
    };
    summary.keep_rate.map(|rate| format!("{:.0}% without the baseline{streak}", rate * 100.0))
}

/// The gain of the best for each experiment, and for each hour of the runs.
fn gain_rates(report: &Report) -> Option<String> {
    let per_experiment = report.gain_per_experiment().filter(|gain| *gain > 0.0)?;
    let per_hour = report.hours().and_then(|_| report.gain_per_gpu_hour());
    let per_hour =
        per_hour.map(|gain| format!(", {} for each {}", two_digits(gain), report.hour())).unwrap_or_default();
    Some(format!("{} for each experiment{per_hour}", two_digits(per_experiment)))
}

/// The duration, the end, and the shares of the time.
fn time(report: &Report, times: &Times, exact: bool, clock: Clock) -> String {
    let until =
        if exact { times.finished.strftime("%Y-%m-%d %H:%M UTC").to_string() } else { clock.said(times.finished) };
    // The shares have the idle time, too.
    let span = report.time_split.map_or_else(|| times.span(), |_| span_text(times.hours * 3600.0));
    let mut parts = vec![format!("{span} until {until}")];
    if let Some(split) = &report.time_split {
        let shares = [
            ("runs", split.runs),
            ("agent", split.agent),
            ("guards", split.guards),
            ("outages", split.outages),
            ("idle", split.nobody),
            ("rest", split.rest),
        ];
        let shares = shares.iter().filter(|(_, seconds)| *seconds >= split.total * 0.005);
        let shares: Vec<_> =
            shares.map(|(name, seconds)| format!("{name} {:.0}%", seconds / split.total * 100.0)).collect();
        parts.push(shares.join(", "));
    }
    parts.extend(
        times.per_hour.filter(|rate| *rate > 0.0).map(|rate| format!("{} experiments per hour", two_digits(rate))),
    );
    parts.join("; ")
}

/// The number of slots, and their load.
fn slots_sentence(slots: Slots) -> String {
    let busy = slots.busy_share.map(|share| format!(", busy {} of the time", percent_text(share))).unwrap_or_default();
    let queued = slots.queued.map(|queued| format!("; {} in the queue before a run", span_text(queued)));
    format!("{}{busy}{}", slots.count, queued.unwrap_or_default())
}

/// The width of the names of facts, in columns.
const NAME: usize = 12;

/// One fact on a line of its own; a control character in it becomes a space.
pub(super) fn fact(markdown: bool, name: &str, value: &str) -> String {
    let value = one_line(value);
    if markdown { format!("- **{name}**: {}\n", escape_markdown(&value)) } else { format!("{name:<NAME$} {value}\n") }
}

/// Counts the experiments by outcome.
pub(super) fn counts_sentence(report: &Report) -> String {
    format!("{}: {}", count_of(report.counts.total, "row"), report.counts.listed())
}

impl Report {
    /// Sums up the session on one line: baseline and best value, gain, experiments, duration, cost, and the folder with
    /// the artifacts of the best.
    pub fn headline(&self) -> String {
        let metric = one_line(self.metric_name());
        let value_of = |point: Option<&Point>| point.and_then(|point| point.value.clone());
        let (best, start) = (value_of(self.best()), value_of(self.baseline()));
        let experiments = self.experiments();
        let count = count_of(experiments, "experiment");
        let result = match (best, start, self.summary.gain) {
            (Some(best), Some(start), Some(gain)) if gain != 0.0 => {
                let way = if gain > 0.0 { "better" } else { "worse" };
                format!("{metric} {start} → {best}, {way} by {}, in {count}", format_gain(&best, &start))
            }
            (Some(best), _, Some(_)) if experiments == 0 => format!("{metric} {best}, the baseline only"),
            (Some(best), _, Some(_)) => format!("{metric} {best}, no improvement in {count}"),
            (Some(best), _, None) => format!("{metric} {best}, the best of {count}"),
            (None, ..) if self.points.is_empty() => "no experiments".to_owned(),
            (None, Some(start), _) => format!("{metric} {start}, nothing kept in {count}"),
            (None, None, _) if experiments == 0 => format!("no number of {metric}"),
            (None, None, _) => format!("no number of {metric} in {count}"),
        };
        let times = self.times.as_ref();
        let span = times.filter(|times| times.hours * 3600.0 >= 1.0).map(Times::span);
        let gpu = times
            .and_then(|times| times.gpu_hours)
            .filter(|hours| *hours > 0.0)
            .map(|hours| format!("{} GPU hours", two_digits(hours)));
        let artifacts = self.artifacts.as_ref().map(|folder| format!("artifacts in {}", one_line(folder)));
        [Some(result), self.verified_text(), span, gpu, artifacts].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns whether there are experiments but none has a value; then the assumptions are the first thing to know.
    pub(super) fn is_without_numbers(&self) -> bool {
        !self.points.is_empty() && self.points.iter().all(|point| point.value.is_none())
    }

    /// Counts the experiments, without the baseline if there is one.
    pub(super) fn experiments(&self) -> u32 {
        self.counts.total - self.counts.malformed - u32::from(self.baseline.is_some())
    }
}

/// A gain with its sign; positive is better.
pub(super) fn signed_gain(direction: Direction, value: &Number, before: &Number) -> String {
    let sign = if direction.gain(value.value, before.value) < 0.0 { '-' } else { '+' };
    format!("{sign}{}", format_distance(value, before))
}

/// An experiment with its number and what it tries, on one line.
pub(super) fn describe(point: &Point) -> String {
    let value = point.value.as_ref().map_or("no number".into(), Number::to_string);
    let commit = commit(point);
    let commit = if commit.is_empty() { commit } else { format!(" ({commit})") };
    format!("{value}  experiment {}{commit}: {}", point.id, point.description)
}

/// The outcome of an experiment in a word; empty for a row without one.
pub(super) fn outcome(point: &Point) -> &'static str {
    point.outcome.map_or("", |_| point.ended().into())
}

/// Its number; empty without one.
pub(super) fn value(point: &Point) -> String {
    point.value.as_ref().map(Number::to_string).unwrap_or_default()
}

/// The first eight characters of a commit.
pub(super) fn commit(point: &Point) -> String {
    one_line(point.commit.as_deref().unwrap_or_default()).chars().take(8).collect()
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
