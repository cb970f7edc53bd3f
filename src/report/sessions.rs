//! Several sessions side by side.

use std::fmt::Write;

use anstyle::Style;
use serde::Serialize;

use super::activity::cost_sentence;
use super::sections::across_texts;
use super::{Align, Format, Grid, Overlaid, Report, Series, Times, describe, escape_markdown, text, value, wrap};
use crate::domain::{FORMAT_VERSION, Number, json_text, one_line, percent_text, span_text, two_digits};
use crate::rules::{Point, format_gain};

/// Reports of several sessions as one JSON document: each is the report of a session by itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sessions<'a> {
    version: u32,
    sessions: &'a [&'a Report],
}

impl<'a> Sessions<'a> {
    /// The document of these reports.
    pub fn new(sessions: &'a [&'a Report]) -> Self {
        Sessions { version: FORMAT_VERSION, sessions }
    }
}

/// Renders several sessions as text: a column for each, and what their best values say of one another. As CSV, each has a row.
pub fn render_sessions(reports: &[&Report], format: Format, width: Option<u16>) -> String {
    match format {
        Format::Json => json_text(&Sessions::new(reports), true) + "\n",
        Format::Csv => rows(reports).to_csv(),
        Format::Md => {
            let mut text =
                format!("# {}\n\n{}", escape_markdown(&overlay_title(reports)), sides_grid(reports).to_markdown());
            for (place, (line, below)) in remarks(reports).iter().enumerate() {
                let gap = if place == 0 { "\n" } else { "" };
                let _ = writeln!(text, "{gap}- {}", escape_markdown(line));
                let _ = below.as_ref().map(|below| writeln!(text, "  {}", escape_markdown(below)));
            }
            text
        }
        Format::Table => {
            let bold = Style::new().bold();
            let mut text = wrap(&format!("{bold}{}{bold:#}", overlay_title(reports)), 2, width) + "\n";
            text += &sides_grid(reports).to_lines(width);
            for (place, (line, below)) in remarks(reports).iter().enumerate() {
                text += if place == 0 { "\n" } else { "" };
                text += &wrap(line, 2, width);
                text += &below.as_ref().map(|below| wrap(&format!("  {below}"), 2, width)).unwrap_or_default();
            }
            text
        }
    }
}

/// The sessions of a picture of several, each with the line that a chart of its own has above it.
pub fn overlaid(reports: &[&Report]) -> Vec<Overlaid> {
    let of = |report: &Report| Overlaid {
        name: name(report),
        about: report.chart_title().lines().next().unwrap_or_default().to_owned(),
        series: series_beside(report, reports[0]),
    };
    reports.iter().copied().map(of).collect()
}

/// The course of a session, in the unit of the first one. One that is not comparable with that gets a frame of its own.
fn series_beside(report: &Report, first: &Report) -> Series {
    let other = start(first).filter(|other| start(report).is_some_and(|own| own.unit != other.unit));
    let Some(other) = other else { return report.series() };
    if !is_comparable(report, first) {
        return Series { metric: format!("{}{}", report.metric_name(), in_unit(report)), ..report.series() };
    }
    let like =
        |point: &Point| Point { value: point.value.as_ref().and_then(|number| number.like(other)), ..point.clone() };
    Series::new(report.metric_name(), report.direction, &report.points.iter().map(like).collect::<Vec<_>>())
}

/// The first number of a session.
fn start(report: &Report) -> Option<&Number> {
    report.points.iter().find_map(|point| point.value.as_ref())
}

/// Returns whether the numbers of two sessions have one dimension.
fn is_comparable(report: &Report, first: &Report) -> bool {
    start(report).zip(start(first)).is_none_or(|(own, other)| own.like(other).is_some())
}

/// The unit of its numbers, to follow the name of the metric.
fn in_unit(report: &Report) -> String {
    start(report).and_then(|number| number.unit.as_ref()).map(|unit| format!(" in {unit}")).unwrap_or_default()
}

/// The title of several sessions: their repository and their names.
pub fn overlay_title(reports: &[&Report]) -> String {
    let repository = reports.first().and_then(|report| report.origin.first()).filter(|name| !name.is_empty());
    let names: Vec<String> = reports.iter().copied().map(name).collect();
    let sessions = match names.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("sessions {} and {last}", others.join(", ")),
        names => format!("session {}", names.concat()),
    };
    repository.map_or_else(|| sessions.clone(), |repository| format!("{}: {sessions}", one_line(repository)))
}

fn name(report: &Report) -> String {
    one_line(report.tag.as_deref().unwrap_or("ledger"))
}

/// The facts of each session, a row for each fact that one of them has.
pub(super) fn sides_grid(reports: &[&Report]) -> Grid {
    let names = reports.iter().map(|report| (name(report), Align::Text));
    let mut grid = Grid::new(std::iter::once((String::new(), Align::Left)).chain(names));
    for (fact, of) in FACTS {
        let cells: Vec<String> = reports.iter().map(|report| of(report).unwrap_or_default()).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            grid.push(std::iter::once((*fact).to_owned()).chain(cells));
        }
    }
    grid
}

/// A fact of a session for people; absent where it is not known.
type Fact = fn(&Report) -> Option<String>;

/// The compared facts, in order.
const FACTS: &[(&str, Fact)] = &[
    ("metric", |report| Some(format!("{}{}, {} is better", report.metric_name(), in_unit(report), report.direction))),
    ("baseline", |report| report.baseline().map(value)),
    ("best", |report| report.best().map(describe)),
    ("gain", gain),
    ("verified", |report| report.verified_text()),
    ("tried", |report| Some(report.experiments().to_string())),
    ("kept", |report| Some(kept(report).to_string())),
    ("keep rate", |report| report.summary.keep_rate.map(percent_text)),
    ("crashed", |report| count(report.counts.crash)),
    ("refused", |report| count(report.counts.refused)),
    ("time", |report| report.times.as_ref().map(Times::span)),
    ("per hour", |report| report.times.as_ref()?.per_hour.map(|rate| format!("{} experiments", two_digits(rate)))),
    ("runs", |report| report.times.as_ref().map(|times| span_text(times.run_hours * 3600.0))),
    ("GPU-hours", |report| report.times.as_ref()?.gpu_hours.filter(|hours| *hours > 0.0).map(two_digits)),
    ("gain rate", |report| {
        report.hours()?;
        report.gain_per_gpu_hour().map(|gain| format!("{} per {}", two_digits(gain), report.hour()))
    }),
    ("cost", |report| cost_sentence(report.cost().as_ref(), report.spent.tokens)),
    ("GPU", |report| origin(report, 1)),
    ("agent", |report| origin(report, 2)),
    ("warnings", |report| count(u32::try_from(report.warnings.len()).unwrap_or(u32::MAX))),
    ("ended", |report| report.facts.ended.clone()),
];

fn gain(report: &Report) -> Option<String> {
    let (best, start) = (report.best()?.value.as_ref()?, report.baseline()?.value.as_ref()?);
    let gain = report.summary.gain?;
    let way = match gain {
        0.0 => return Some("none".to_owned()),
        gain if gain > 0.0 => "better",
        _ => "worse",
    };
    Some(format!("{} {way}", format_gain(best, start)))
}

/// The kept experiments without the baseline.
fn kept(report: &Report) -> usize {
    report.summary.kept.iter().filter(|step| Some(step.index) != report.summary.baseline).count()
}

fn count(number: u32) -> Option<String> {
    (number > 0).then(|| number.to_string())
}

fn origin(report: &Report, place: usize) -> Option<String> {
    report.origin.get(place).filter(|name| !name.is_empty()).map(|name| one_line(name))
}

/// The numbers of each session, a row for each session.
fn rows(reports: &[&Report]) -> Grid {
    let number = |number: Option<f64>| text(number);
    let times = |report: &Report, of: fn(&Times) -> Option<f64>| text(report.times.as_ref().and_then(of));
    Grid::of(
        reports,
        &[
            ("session", Align::Left, &|report| name(report)),
            ("metric", Align::Left, &|report| report.metric_name().to_owned()),
            ("direction", Align::Left, &|report| report.direction.to_string()),
            ("baseline", Align::Right, &|report| text(report.baseline().map(value))),
            ("best", Align::Right, &|report| text(report.best().map(value))),
            ("best_experiment", Align::Right, &|report| text(report.best().map(|best| best.id))),
            ("gain", Align::Right, &|report| number(report.summary.gain)),
            ("relative_gain", Align::Right, &|report| number(report.summary.relative_gain)),
            ("verified", Align::Left, &|report| text(report.verified_text())),
            ("tried", Align::Right, &|report| report.experiments().to_string()),
            ("kept", Align::Right, &|report| kept(report).to_string()),
            ("crashed", Align::Right, &|report| report.counts.crash.to_string()),
            ("refused", Align::Right, &|report| report.counts.refused.to_string()),
            ("hours", Align::Right, &|report| times(report, |times| Some(times.hours))),
            ("run_hours", Align::Right, &|report| times(report, |times| Some(times.run_hours))),
            ("gpu_hours", Align::Right, &|report| times(report, |times| times.gpu_hours)),
            ("gain_per_gpu_hour", Align::Right, &|report| number(report.gain_per_gpu_hour())),
            ("cost", Align::Right, &|report| number(report.spent.cost)),
            ("unit", Align::Left, &|report| text(start(report).and_then(|number| number.unit.as_ref()))),
        ],
    )
}

/// Remarks on the comparison of the sessions' best values, each with a command, if one helps.
pub(super) fn remarks(reports: &[&Report]) -> Vec<(String, Option<String>)> {
    let mut remarks: Vec<(String, Option<String>)> = Vec::new();
    let Some((first, others)) = reports.split_first() else { return remarks };
    let metric = |report: &Report| (report.metric_name().to_owned(), report.direction);
    if others.iter().any(|report| metric(report) != metric(first)) {
        remarks.push(("the sessions have different metrics, so their values are not comparable".into(), None));
    } else if others.iter().any(|report| !is_comparable(report, first)) {
        remarks.push(("the sessions have different units, so their values are not comparable".into(), None));
    } else {
        remarks.extend(leader(reports));
    }
    let other = |place: usize| others.iter().any(|report| report.origin.get(place) != first.origin.get(place));
    if other(1) {
        remarks.push(("the sessions ran on different GPUs, so their values may not be comparable".into(), None));
    }
    let mut across: Vec<String> = reports.iter().copied().flat_map(across_texts).collect();
    across.dedup();
    remarks.extend(across.into_iter().map(|line| (format!("fresh runs: {line}"), None)));
    remarks
}

/// By how much the best value of all is better than the best of each other session.
fn leader(reports: &[&Report]) -> Option<(String, Option<String>)> {
    let unit = reports.iter().copied().find_map(start)?;
    let number = |report: &Report| report.best()?.value.as_ref()?.like(unit);
    let direction = reports.first()?.direction;
    let mut with_number: Vec<(&Report, Number)> =
        reports.iter().filter_map(|report| Some((*report, number(report)?))).collect();
    // Stable, so that the session named first leads a tie.
    with_number.sort_by(|(_, one), (_, other)| direction.gain(other.value, one.value).total_cmp(&0.0));
    let [(leader, best), rest @ ..] = with_number.as_slice() else { return None };
    let second = rest.first()?;
    if direction.gain(best.value, second.1.value) <= 0.0 {
        return Some((format!("the best values of {} and {} are equal", name(leader), name(second.0)), None));
    }
    let behind: Vec<String> =
        rest.iter().map(|(report, number)| format!("{} by {}", name(report), format_gain(best, number))).collect();
    let experiment = |report: &Report, point: Option<&Point>| Some(format!("{}/{}", report.tag.as_ref()?, point?.id));
    let pair = experiment(second.0, second.0.best()).zip(experiment(leader, leader.best()));
    // It is refused where one of the two has a hidden split.
    let is_offered = second.0.facts.seals_runs == leader.facts.seals_runs;
    let verify = leader.facts.verify_command();
    let hint = pair.filter(|_| is_offered);
    let hint = hint.map(|(a, b)| format!("`{verify} {a} {b}` compares the two best by fresh runs"));
    let unit = best.unit.as_ref().map(|unit| format!(", in {unit}")).unwrap_or_default();
    Some((format!("the best of {} is better than that of {}{unit}", name(leader), behind.join(", of ")), hint))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Direction, Unit};
    use crate::rules::sample::{record, run};
    use crate::rules::{History, SessionFacts};

    /// A session of half hours with these outcomes and values, the baseline first.
    fn session(tag: &str, metric: &str, experiments: &[(&str, &str)]) -> Report {
        let made = (0..).zip(experiments).map(|(id, (outcome, value)): (u32, _)| {
            let minute = id * 30;
            let at = |minute: u32| format!("2026-11-20T{:02}:{:02}:00Z", minute / 60, minute % 60);
            record(json!({"id": id, "commit": format!("c{id}"), "outcome": outcome, "value": value,
                "description": format!("change {id}"), "started": at(minute), "finished": at(minute + 30),
                "runs": [run(1800.0, None)],
                "agent": {"command": "agent --fast", "seconds": 60.0, "cost": 0.5}}))
        });
        let history = History::new(made.collect());
        let facts = SessionFacts { repository: Some("tiny".into()), ..SessionFacts::default() };
        Report::of_session(tag, (metric, Direction::Lower), None, Arc::new(history), facts)
    }

    fn two() -> [Report; 2] {
        [
            session("a", "loss", &[("keep", "2.0"), ("keep", "1.5"), ("discard", "1.75")]),
            session("b", "loss", &[("keep", "2.0"), ("discard", "2.5"), ("keep", "1.25"), ("keep", "1.0")]),
        ]
    }

    fn rendered(reports: &[Report], format: Format) -> String {
        render_sessions(&reports.iter().collect::<Vec<_>>(), format, None)
    }

    fn shown(reports: &[Report]) -> String {
        anstream::adapter::strip_str(&rendered(reports, Format::Table)).to_string()
    }

    #[test]
    fn sessions_stand_side_by_side_and_the_better_one_is_named() {
        let text = shown(&two());
        assert!(text.starts_with("tiny: sessions a and b\n\n"), "{text}");
        let row = |name: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(&format!("{name}  "))).unwrap_or_default();
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        assert_eq!(row("baseline"), ["baseline", "2.0", "2.0"]);
        assert_eq!(row("gain"), ["gain", "0.5 (25%) better", "1.0 (50%) better"]);
        assert_eq!(
            (row("tried"), row("kept")),
            (vec!["tried".into(), "2".into(), "3".into()], vec!["kept".into(), "1".into(), "2".into()])
        );
        assert_eq!(row("time"), ["time", "90 min", "2 h"]);
        assert_eq!(row("gain rate"), ["gain rate", "0.33 per run hour", "0.50 per run hour"]);
        assert!(row("cost")[1].starts_with("$1.50;") && row("cost")[2].starts_with("$2.00;"), "{text}");
        assert!(row("crashed").is_empty(), "facts that no session has are omitted: {text}");
        assert!(text.ends_with(
            "\nthe best of b is better than that of a by 0.5 (33%)\n  `ar verify a/1 b/3` compares the two best by fresh runs\n"
        ), "{text}");
        let markdown = rendered(&two(), Format::Md);
        assert!(
            markdown.contains("| baseline | 2.0 | 2.0 |\n") && markdown.contains("\n- the best of b is better"),
            "{markdown}"
        );
    }

    #[test]
    fn values_of_other_metrics_are_not_compared() {
        let [a, _] = two();
        let text = shown(&[a, session("c", "perplexity", &[("keep", "9")])]);
        assert!(text.contains("the sessions have different metrics") && !text.contains("is better than"), "{text}");
        let [a, _] = two();
        let tie = shown(&[a, session("d", "loss", &[("keep", "1.5")])]);
        assert!(tie.contains("the best values of a and d are equal"), "{tie}");
    }

    /// The same with a unit behind each value.
    fn with_unit(mut report: Report, unit: &str) -> Report {
        for number in report.points.iter_mut().filter_map(|point| point.value.as_mut()) {
            number.unit = Some(Unit::new(unit));
        }
        report
    }

    #[test]
    fn values_are_compared_in_the_unit_of_the_first_session() {
        let [a, b] = two();
        let thousands = session("b", "loss", &[("keep", "2000"), ("keep", "1000")]);
        let mixed = [with_unit(a, "s"), with_unit(thousands, "ms")];
        let text = shown(&mixed);
        assert!(text.contains("\nthe best of b is better than that of a by 0.5 (33%), in s\n"), "{text}");
        assert!(text.contains("loss in s, lower is better") && text.contains("loss in ms, lower is better"), "{text}");
        let drawn = overlaid(&mixed.each_ref());
        assert_eq!(drawn[1].series.marks.iter().map(|mark| mark.value).collect::<Vec<_>>(), [Some(2.0), Some(1.0)]);
        assert!(
            rendered(&mixed, Format::Csv)
                .lines()
                .all(|line| [",unit", ",s", ",ms"].iter().any(|end| line.ends_with(end)))
        );
        let [first, _] = mixed;
        let other = [first, with_unit(b, "MB")];
        let text = shown(&other);
        let said = "the sessions have different units, so their values are not comparable";
        assert!(text.contains(said) && !text.contains("is better than"), "{text}");
        assert_eq!(overlaid(&other.each_ref())[1].series.metric, "loss in MB", "a frame of its own");
    }

    #[test]
    fn json_has_the_report_of_each_session_and_csv_a_row() {
        let reports = two();
        let document: Value = serde_json::from_str(&rendered(&reports, Format::Json)).unwrap();
        let alone = reports.each_ref().map(|report| serde_json::to_value(report).unwrap());
        assert_eq!(document, json!({"version": 1, "sessions": alone}));
        let csv = rendered(&reports, Format::Csv);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].starts_with("session,metric,direction,baseline,best,"), "{csv}");
        assert!(lines[2].starts_with("b,loss,lower,2.0,1.0,3,1,0.5,") && lines.len() == 3, "{csv}");
    }

    #[test]
    fn the_picture_has_each_session_with_the_title_of_its_own_chart() {
        let sessions = overlaid(&two().each_ref());
        assert_eq!(sessions[1].name, "b");
        assert_eq!(sessions[1].about, "3 experiments, 2 kept, loss from 2.0 to 1.0 (50% better)");
        assert_eq!(overlay_title(&two().each_ref()), "tiny: sessions a and b");
    }
}
