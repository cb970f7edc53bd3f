//! A session, and one of its experiments, on one line.

use super::analysis::{Report, Times};
use crate::domain::{Direction, Number, count_of, one_line, two_digits};
use crate::rules::{Point, format_distance, format_gain};

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
