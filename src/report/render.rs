//! A report as text: its headline, its facts, its parts, its experiments in words, and what recurs in them: directions,
//! files, what never helped, and what was expected.

use std::fmt::Write;

use anstyle::Style;

use super::{
    Align, Format, Glyphs, Grid, Report, Section, Times, chart_text, cost_sentence, escape_markdown, sections, text,
    wrap,
};
use crate::domain::{
    Clock, Direction, Number, count_of, cut, json_text, one_line, percent_text, span_text, two_digits,
};
use crate::rules::{
    CountedOutcome, DirectionResult, Expectation, FileResult, HiddenTally, Patterns, Point, SHORTEST, Slots, Tally,
    format_distance, format_gain,
};

/// The most verdicts of the hidden split to show.
const MOST_VERDICTS: usize = 20;

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
    let is_improved = report.summary.best.is_none() || report.summary.best != report.summary.baseline;
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
        ("time", report.times.as_ref().map(|times| time(times, exact, clock))),
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
fn time(times: &Times, exact: bool, clock: Clock) -> String {
    let until =
        if exact { times.finished.strftime("%Y-%m-%d %H:%M UTC").to_string() } else { clock.said(times.finished) };
    // The shares have the idle time, too.
    let span = times.split.map_or_else(|| times.span(), |_| span_text(times.hours * 3600.0));
    let mut parts = vec![format!("{span} until {until}")];
    if let Some(split) = &times.split {
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
                format!("{metric} {start} → {best:#}, {way} by {}, in {count}", format_gain(&best, &start))
            }
            (Some(best), _, Some(_)) if experiments == 0 => format!("{metric} {best:#}, the baseline only"),
            (Some(best), _, Some(_)) => format!("{metric} {best:#}, no improvement in {count}"),
            (Some(best), _, None) => format!("{metric} {best:#}, the best of {count}"),
            (None, ..) if self.points.is_empty() => "no experiments".to_owned(),
            (None, Some(start), _) => format!("{metric} {start:#}, nothing kept in {count}"),
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
        let hidden = patterns(self).and_then(|found| found.hidden.as_ref());
        let hidden = hidden.map(|found| format!("hidden {:+.3} beside visible {:+.3}", found.hidden, found.visible));
        [Some(result), hidden, self.verified_text(), span, gpu, artifacts]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns whether there are experiments but none has a value; then the assumptions are the first thing to know.
    pub(super) fn is_without_numbers(&self) -> bool {
        !self.points.is_empty() && self.points.iter().all(|point| point.value.is_none())
    }

    /// Counts the experiments, without the baseline if there is one.
    pub(super) fn experiments(&self) -> u32 {
        self.counts.total - self.counts.malformed - u32::from(self.summary.baseline.is_some())
    }
}

/// A gain with its sign; positive is better.
pub(super) fn signed_gain(direction: Direction, value: &Number, before: &Number) -> String {
    let sign = if direction.gain(value.value, before.value) < 0.0 { '-' } else { '+' };
    format!("{sign}{}", format_distance(value, before))
}

/// An experiment with its number and what it tries, on one line.
pub(super) fn describe(point: &Point) -> String {
    let value = point.value.as_ref().map_or("no number".into(), |number| format!("{number:#}"));
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

/// The most directions or files in a section; the JSON document has all.
const MOST: usize = 12;

/// The most expectations in their section, the newest ones.
const MOST_EXPECTED: usize = 8;

/// The fewest files that a session has to change for the results of each to say anything.
const FEWEST_FILES: usize = 2;

/// The most characters of an expectation or a hypothesis.
const SHOWN: usize = 100;

/// The directions as a part of a report, where experiments name some.
pub(super) fn directions_section(report: &Report) -> Option<Section> {
    let found: Vec<_> = patterns(report)?.directions.iter().map(|found| (direction(found), &found.tally)).collect();
    results(report, "directions, the largest gain first", "direction", &found)
}

/// The changed files as a part of a report, where there are several.
pub(super) fn files_section(report: &Report) -> Option<Section> {
    let found: Vec<_> = files(report)?.iter().map(|found| (one_line(&found.file), &found.tally)).collect();
    results(report, "changed files, the largest gain first", "file", &found)
}

/// The directions and the files that were tried often enough and never kept.
pub(super) fn never_helped_section(report: &Report) -> Option<Section> {
    let directions = patterns(report)?.directions.iter().filter(|found| found.direction.is_some());
    let directions = directions.map(|found| (format!("direction {}", direction(found)), &found.tally));
    let files = files(report).unwrap_or_default().iter();
    let files = files.map(|found| (format!("file {}", one_line(&found.file)), &found.tally));
    let lines: Vec<_> = directions
        .chain(files)
        .filter(|(_, tally)| tally.never_helped)
        .map(|(name, tally)| {
            let hours = tally.gpu_hours * 3600.0 >= SHORTEST;
            let cost =
                if hours { format!(", {} {}s", two_digits(tally.gpu_hours), report.hour()) } else { String::new() };
            (format!("{name}: tried {}{cost}", count_of(tally.tried, "time")), None)
        })
        .collect();
    (!lines.is_empty()).then(|| Section::lines("what never helped", lines))
}

/// The discards that were measured again.
pub(super) fn second_looks_section(report: &Report) -> Option<Section> {
    let Tally { tried, kept, gpu_hours, .. } = patterns(report)?.second_looks.as_ref()?;
    let hours = format!("{} {}s", two_digits(*gpu_hours), report.hour());
    let line = format!("{}, {kept} kept, {hours}", count_of(*tried, "discard"));
    Some(Section::lines("second looks", [(line, None)]))
}

/// The verdicts of the hidden split, and what it says of kept changes.
pub(super) fn hidden_section(report: &Report) -> Option<Section> {
    let HiddenTally { verdicts, kept, visible, hidden, doubts, is_unsealed } = patterns(report)?.hidden.as_ref()?;
    let sum = format!(
        "{}, {kept} kept: they gained {visible:+.3} on the visible split and {hidden:+.3} on the hidden one",
        count_of(verdicts.len(), "verdict")
    );
    let each = verdicts.iter().rev().take(MOST_VERDICTS).rev();
    let each = each.map(|verdict| (format!("#{} {}", verdict.experiment, verdict.sentence()), None));
    let unsealed = is_unsealed.then(|| "agents could read it, as --holdout-unsealed accepts".to_owned());
    let doubts = doubts.iter().cloned().chain(unsealed).map(|doubt| (format!("doubt: {doubt}"), None));
    let compared = report.hidden_pairs().map(|pair| (pair.sentence(), None));
    Some(Section::lines("hidden split", [(sum, None)].into_iter().chain(doubts).chain(each).chain(compared)))
}

/// The newest expectations of agents, with the results.
pub(super) fn expected_section(report: &Report) -> Option<Section> {
    let all = &patterns(report)?.hypotheses;
    let earlier = all.len().saturating_sub(MOST_EXPECTED);
    let said = |words: Option<&String>| text(words.map(|words| cut(words, SHOWN)));
    let grid = Grid::of(
        &all[earlier..],
        &[
            ("#", Align::Right, &|found| found.id.to_string()),
            ("outcome", Align::Left, &|found| <&str>::from(&found.outcome).to_owned()),
            (report.metric_name(), Align::Right, &|found| measured(report, found)),
            ("gain", Align::Right, &|found| text(found.gain.map(over_rival))),
            (EXPECTED, Align::Text, &|found| said(found.expected.as_ref())),
            (HYPOTHESIS, Align::Text, &|found| said(found.hypothesis.as_ref())),
        ],
    )
    .without_if_empty(&["gain", EXPECTED, HYPOTHESIS]);
    let mut section = Section::table("what was expected, and what came", grid);
    let kept = all.iter().filter(|found| found.outcome == CountedOutcome::Keep).count();
    let over: Vec<f64> = all.iter().filter_map(|found| found.over_expected).collect();
    let mut line = format!("kept: {kept} of {} with an expectation", count_of(all.len(), "experiment"));
    if !over.is_empty() {
        let reached = over.iter().filter(|over| **over >= 0.0).count();
        line += &format!("; reached: {reached} of {}", count_of(over.len(), "expected number"));
    }
    section.lines.push((line, None));
    if earlier > 0 {
        section.lines.push((format!("and {earlier} earlier, in `--format json`"), None));
    }
    (!all.is_empty()).then_some(section)
}

const EXPECTED: &str = "expected";

const HYPOTHESIS: &str = "hypothesis";

fn patterns(report: &Report) -> Option<&Patterns> {
    report.patterns.as_ref()
}

fn files(report: &Report) -> Option<&[FileResult]> {
    Some(patterns(report)?.files.as_slice()).filter(|files| files.len() >= FEWEST_FILES)
}

fn direction(found: &DirectionResult) -> String {
    found.direction.as_deref().map_or_else(|| "not named".to_owned(), one_line)
}

/// The value of an experiment as its log printed it.
fn measured(report: &Report, found: &Expectation) -> String {
    let place = report.points.iter().position(|point| point.id == found.id).filter(|_| found.value.is_some());
    place.map(|place| report.number_at(place)).unwrap_or_default()
}

/// A gain over the experiment to beat.
fn over_rival(gain: f64) -> String {
    if gain == 0.0 { "equal".to_owned() } else { signed(gain) }
}

/// A gain with its sign.
pub(super) fn signed(gain: f64) -> String {
    format!("{}{}", if gain < 0.0 { "-" } else { "+" }, two_digits(gain.abs()))
}

/// Results in a table, those of each name.
fn results(report: &Report, title: &str, column: &str, found: &[(String, &Tally)]) -> Option<Section> {
    let hours = format!("{}s", report.hour());
    // The hours of a short session say nothing.
    let seconds: f64 = found.iter().map(|(_, tally)| tally.gpu_hours * 3600.0).sum();
    let of_hours = |number: Option<String>| text(number.filter(|_| seconds >= SHORTEST));
    let per_hour = format!("gain per {}", report.hour());
    let grid = Grid::of(
        found.iter().take(MOST),
        &[
            (column, Align::Text, &|(name, _)| name.clone()),
            ("tried", Align::Right, &|(_, tally)| tally.tried.to_string()),
            ("kept", Align::Right, &|(_, tally)| tally.kept.to_string()),
            (REFUSED, Align::Right, &|(_, tally)| text(Some(tally.refused).filter(|count| *count > 0))),
            ("gain", Align::Right, &|(_, tally)| text(tally.gain.map(signed))),
            (&hours, Align::Right, &|(_, tally)| of_hours(Some(two_digits(tally.gpu_hours)))),
            (&per_hour, Align::Right, &|(_, tally)| of_hours(tally.gain_per_gpu_hour.map(signed))),
        ],
    )
    .without_if_empty(&[REFUSED, &hours, &per_hour]);
    let mut section = Section::table(title, grid);
    if let Some(more) = found.len().checked_sub(MOST).filter(|more| *more > 0) {
        section.lines.push((format!("and {more} more, in `--format json`"), None));
    }
    (!found.is_empty()).then_some(section)
}

const REFUSED: &str = "refused";

#[cfg(test)]
mod unit_tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::domain::Direction;
    use crate::rules::sample::{record, run};
    use crate::rules::{History, SessionFacts};

    /// A report of experiments of half an hour each with these fields, and what they changed.
    fn report(experiments: &[(Value, &[&str])]) -> Report {
        let made = (0..).zip(experiments).map(|(id, (fields, _)): (u32, _)| {
            let mut all = json!({"id": id, "commit": format!("c{id}"), "runs": [run(1800.0, Some(1.0))]});
            all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            record(all)
        });
        let history = History::new(made.collect());
        let changed = experiments.iter().map(|(_, files)| files.iter().map(|file| (*file).to_owned()).collect());
        let facts = SessionFacts { changed: changed.collect(), ..SessionFacts::default() };
        Report::of_session("t", ("loss", Direction::Lower), None, Arc::new(history), facts)
    }

    fn text(section: Option<Section>) -> String {
        section.map(|section| anstream::adapter::strip_str(&section.to_text(None)).to_string()).unwrap_or_default()
    }

    #[test]
    fn files_and_what_never_helped_are_parts_of_the_report() {
        let discard = || json!({"outcome": "discard", "value": "3", "direction": "augmentation"});
        let night = [
            (json!({"value": "2.0"}), &[][..]),
            (json!({"value": "1.5", "direction": "width"}), &["model.py"]),
            (discard(), &["data.py"]),
            (discard(), &["data.py", "\u{1b}[2Jodd\nname"]),
            (discard(), &["data.py"]),
            (json!({"outcome": "crash", "failure": {"class": "scope", "excerpt": ""}, "runs": []}), &["data.py"]),
        ];
        let report = report(&night);
        assert_eq!(
            text(files_section(&report)),
            "\
changed files, the largest gain first
file         tried  kept  refused   gain  run hours  gain per run hour
model.py         1     1           +0.50       0.50               +1.0
data.py          3     0        1               1.5
[2Jodd name      1     0                       0.50
"
        );
        assert_eq!(
            text(never_helped_section(&report)),
            "\
what never helped
  direction augmentation: tried 3 times, 1.5 run hours
  file data.py: tried 3 times, 1.5 run hours
"
        );
        let json = serde_json::to_value(&report).unwrap();
        let file = &json["patterns"]["files"][1];
        assert_eq!(
            (&file["file"], &file["tried"], &file["never_helped"]),
            (&json!("data.py"), &json!(3), &json!(true))
        );
        assert_eq!(json["patterns"]["directions"], json["directions"]);
    }

    #[test]
    fn a_session_of_one_file_has_no_table_of_files_but_its_data() {
        let discard = || json!({"outcome": "discard", "value": "3"});
        let night = [(json!({"value": "2.0"}), &[][..]), (discard(), &["a"]), (discard(), &["a"]), (discard(), &["a"])];
        let report = report(&night);
        assert!(files_section(&report).is_none() && never_helped_section(&report).is_none());
        assert_eq!(serde_json::to_value(&report).unwrap()["patterns"]["files"][0]["tried"], 3);
    }

    #[test]
    fn what_was_expected_stands_beside_what_came() {
        let said = |outcome: &str, value: &str, expected: &str| json!({"outcome": outcome, "value": value, "proposal": {"hypothesis": "less noise", "expected": expected}});
        let mut night = vec![(json!({"value": "2.0"}), &[][..])];
        night.extend((0..7).map(|_| (said("discard", "2.5", "some gain"), &["a"][..])));
        night.extend([(said("keep", "1.5", "1.75"), &["a"][..]), (said("discard", "1.625", "1.25"), &["a"][..])]);
        let shown = text(expected_section(&report(&night)));
        assert!(shown.starts_with("what was expected, and what came\n#  outcome"), "{shown}");
        assert!(shown.contains("\n8  keep       1.5  +0.50  1.75       less noise\n"), "{shown}");
        assert!(shown.contains("\n9  discard  1.625  -0.12  1.25       less noise\n"), "{shown}");
        assert!(shown.ends_with(
            "  kept: 1 of 9 experiments with an expectation; reached: 1 of 2 expected numbers\n  and 1 earlier, in `--format json`\n"
        ), "{shown}");
        assert!(expected_section(&report(&night[..1])).is_none());
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
