//! One experiment of a report, and its gain, in words.

use crate::domain::{Direction, Number, one_line};
use crate::rules::{Point, format_distance};

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
