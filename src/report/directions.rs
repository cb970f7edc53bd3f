//! The results of each direction, as a section of a report.

use super::found::Report;
use super::grid::{Align, Grid, text};
use super::sections::Section;
use crate::domain::{one_line, two_digits};
use crate::rules::{DirectionResult, SHORTEST};

/// The most directions in the section; the JSON document has all.
const MOST: usize = 12;

/// The directions as a part of a report, where experiments name some.
pub(super) fn directions_section(report: &Report) -> Option<Section> {
    let directions = &report.directions;
    let hours = format!("{}s", report.hour());
    // The hours of a short session say nothing.
    let seconds: f64 = directions.iter().map(|found| found.gpu_hours * 3600.0).sum();
    let of_hours = |number: Option<String>| text(number.filter(|_| seconds >= SHORTEST));
    let per_hour = format!("gain per {}", report.hour());
    let signed = |gain: f64| format!("{}{}", if gain < 0.0 { "-" } else { "+" }, two_digits(gain.abs()));
    let name = |found: &&DirectionResult| found.direction.as_deref().map_or_else(|| "not named".to_owned(), one_line);
    let grid = Grid::of(
        directions.iter().take(MOST),
        &[
            ("direction", Align::Text, &name),
            ("tried", Align::Right, &|found| found.tried.to_string()),
            ("kept", Align::Right, &|found| found.kept.to_string()),
            ("gain", Align::Right, &|found| text(found.gain.map(signed))),
            (&hours, Align::Right, &|found| of_hours(Some(two_digits(found.gpu_hours)))),
            (&per_hour, Align::Right, &|found| of_hours(found.gain_per_gpu_hour.map(signed))),
        ],
    )
    .without_if_empty(&hours)
    .without_if_empty(&per_hour);
    let mut section = Section::table("directions, the largest gain first", grid);
    if let Some(more) = directions.len().checked_sub(MOST).filter(|more| *more > 0) {
        section.lines.push((format!("and {more} more, in `--format json`"), None));
    }
    (!directions.is_empty()).then_some(section)
}
