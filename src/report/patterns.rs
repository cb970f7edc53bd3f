//! What recurs in a session's experiments, as sections of a report: directions, files, what never helped, and what was expected.

use super::analysis::Report;
use super::grid::{Align, Grid, text};
use super::sections::Section;
use crate::domain::{count_of, cut, one_line, two_digits};
use crate::rules::{CountedOutcome, DirectionResult, Expectation, FileResult, Patterns, SHORTEST, Tally};

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

/// What the agents expected beside what came, the newest ones.
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
    .without_if_empty("gain")
    .without_if_empty(EXPECTED)
    .without_if_empty(HYPOTHESIS);
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
    .without_if_empty(REFUSED)
    .without_if_empty(&hours)
    .without_if_empty(&per_hour);
    let mut section = Section::table(title, grid);
    if let Some(more) = found.len().checked_sub(MOST).filter(|more| *more > 0) {
        section.lines.push((format!("and {more} more, in `--format json`"), None));
    }
    (!found.is_empty()).then_some(section)
}

const REFUSED: &str = "refused";

#[cfg(test)]
mod tests {
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
