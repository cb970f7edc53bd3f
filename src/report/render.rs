//! A report as text.

use std::fmt::Write;

use super::chart::{Glyphs, chart_text};
use super::experiments::signed_gain;
use super::found::Report;
use super::grid::{Align, Format, Grid};
use crate::domain::{Number, count_of, experiment_name, one_line};
use crate::rules::{Point, format_gain};

/// How wide a chart is where there is no terminal, in columns.
const CHART_WIDTH: u16 = 80;

/// Renders a report as text; for JSON see [`Report::to_json`]. `width` is the terminal's, where there is one; `glyphs` are
/// what a chart is drawn with.
pub fn render_report(report: &Report, format: Format, width: Option<u16>, glyphs: Glyphs) -> String {
    match format {
        Format::Json => format!("{:#}\n", report.to_json()),
        Format::Csv => report_grid(report).to_csv(),
        Format::Markdown => headline(report, true) + "\n" + &report_grid(report).to_markdown(),
        Format::Table => {
            let mut text = headline(report, false);
            let width_of_chart = width.unwrap_or(CHART_WIDTH);
            let chart = chart_text(&report.series(), width_of_chart, (width_of_chart / 5).clamp(14, 24), glyphs);
            if !chart.is_empty() {
                text += &format!("\n{chart}");
            }
            if !report.summary.kept.is_empty() {
                text += "\nkept, and what each step gained\n";
                text += &kept_grid(report).to_table(width);
            }
            for sentence in &report.assumed {
                let _ = writeln!(text, "\nnote: {sentence}");
            }
            text
        }
    }
}

/// All experiments of a report as a table.
pub fn report_grid(report: &Report) -> Grid {
    let metric = report.metric.as_deref().unwrap_or("value");
    let mut grid = Grid::new([
        ("id", Align::Right),
        ("commit", Align::Left),
        (metric, Align::Right),
        ("outcome", Align::Left),
        ("failure", Align::Left),
        ("description", Align::Left),
    ]);
    for point in &report.points {
        grid.push([
            point.id.to_string(),
            commit(point),
            value(point),
            point.outcome.map(|outcome| outcome.to_string()).unwrap_or_default(),
            point.failure.map(|class| class.to_string()).unwrap_or_default(),
            point.description.clone(),
        ]);
    }
    grid
}

fn kept_grid(report: &Report) -> Grid {
    let metric = report.metric.as_deref().unwrap_or("value");
    let mut grid = Grid::new([
        ("#", Align::Right),
        ("commit", Align::Left),
        (metric, Align::Right),
        ("gain", Align::Right),
        ("what", Align::Left),
    ]);
    let mut before: Option<&Number> = None;
    for step in &report.summary.kept {
        let point = &report.points[step.index];
        let gain = point.value.as_ref().zip(before).map(|(value, before)| signed_gain(report.direction, value, before));
        grid.push([
            point.id.to_string(),
            commit(point),
            value(point),
            gain.unwrap_or_default(),
            point.description.clone(),
        ]);
        before = point.value.as_ref().or(before);
    }
    grid
}

/// The facts of a report, a line each.
fn headline(report: &Report, markdown: bool) -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: String| text += &fact(markdown, name, &value);
    if let Some(tag) = &report.tag {
        add("session", tag.clone());
    }
    let metric = report.metric.as_deref().unwrap_or("none");
    add("metric", format!("{}, {} is better", one_line(metric), report.direction));
    let summary = &report.summary;
    let (best, baseline) = (report.best(), report.baseline());
    add("best", best.map_or("none".into(), describe));
    add("baseline", baseline.map_or("none".into(), describe));
    if let (Some(best), Some(baseline), Some(gain)) =
        (best.and_then(|point| point.value.as_ref()), baseline.and_then(|point| point.value.as_ref()), summary.gain)
    {
        let size = format_gain(best, baseline);
        add("gain", if gain < 0.0 { format!("-{size}") } else { size });
    }
    add("experiments", counts_sentence(report));
    if let Some(rate) = summary.keep_rate {
        add(
            "keep rate",
            format!(
                "{:.0} % without the baseline; longest streak without a keep {}",
                rate * 100.0,
                summary.longest_streak
            ),
        );
    }
    if !summary.failures.is_empty() {
        let classes: Vec<_> = summary.failures.iter().map(|(class, count)| format!("{class} {count}")).collect();
        add("failures", classes.join(", "));
    }
    if !report.flagged.is_empty() {
        let times = count_of(report.flagged.len() as u32, "time");
        let after: Vec<_> = report.flagged.iter().map(|id| experiment_name(*id)).collect();
        add("flagged", format!("for a person: {times}, after {}", after.join(", ")));
    }
    if let Some(ended) = &report.ended {
        add("ended", ended.clone());
    }
    if let Some(times) = &report.times {
        let mut line = hours(times.hours);
        if let Some(rate) = times.per_hour {
            let _ = write!(line, ", {rate:.1} experiments per hour");
        }
        let _ = write!(line, ", {} in runs", hours(times.run_hours));
        if let Some(gpu) = times.gpu_hours {
            let _ = write!(line, ", {gpu:.2} GPU hours");
        }
        add("time", line);
    }
    text
}

/// One fact on a line of its own.
pub(super) fn fact(markdown: bool, name: &str, value: &str) -> String {
    if markdown { format!("- **{name}**: {value}\n") } else { format!("{name:<12} {value}\n") }
}

/// How many experiments ended how.
pub(super) fn counts_sentence(report: &Report) -> String {
    let counts = &report.counts;
    let mut line = format!(
        "{}: {} keep, {} discard, {} crash",
        count_of(counts.total, "row"),
        counts.keep,
        counts.discard,
        counts.crash
    );
    for (count, name) in [(counts.other, "other"), (counts.malformed, "malformed")] {
        if count > 0 {
            let _ = write!(line, ", {count} {name}");
        }
    }
    line
}

pub(super) fn describe(point: &Point) -> String {
    let value = point.value.as_ref().map_or("no number".into(), Number::to_string);
    format!("{value}  experiment {} ({}): {}", point.id, commit(point), one_line(&point.description))
}

fn hours(hours: f64) -> String {
    let seconds = (hours * 3600.0).round();
    if seconds < 120.0 {
        return format!("{seconds} s");
    }
    if seconds < 7200.0 {
        return format!("{:.0} min", seconds / 60.0);
    }
    format!("{hours:.1} h")
}

pub(super) fn value(point: &Point) -> String {
    point.value.as_ref().map(Number::to_string).unwrap_or_default()
}

/// The first eight characters of a commit.
pub(super) fn commit(point: &Point) -> String {
    point.commit.as_deref().unwrap_or_default().chars().take(8).collect()
}
