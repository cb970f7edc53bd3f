//! Verified differences of two experiments.

use super::confirm::compare;
use super::noise::{Noise, Sample};
use super::student::quantile;
use crate::domain::Direction;

/// The level of the interval.
const LEVEL: f64 = 0.95;

/// The difference of two experiments by fresh runs of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verified {
    /// The difference, in the metric's unit; positive if the second is better.
    pub difference: f64,
    /// The low end of its interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// The level of the interval: how often it covers the true difference.
    pub level: f64,
    /// The runs of the one that has fewer.
    pub runs: u32,
    /// Whether the second is better: the whole interval is above 0.
    pub better: bool,
}

/// Compares all verifying runs of two experiments; positive is better for `b`. `None` without a run of each, or if
/// nothing is known about the noise.
pub fn verified(direction: Direction, a: &[Sample], b: &[Sample], noise: Option<&Noise>) -> Option<Verified> {
    let found = compare(direction, a, b, noise)?;
    let half = if found.error > 0.0 { found.error * quantile(0.5 + LEVEL / 2.0, found.freedom) } else { 0.0 };
    let (low, high) = (found.difference - half, found.difference + half);
    let runs = u32::try_from(a.len().min(b.len())).unwrap_or(u32::MAX);
    Some(Verified { difference: found.difference, low, high, level: LEVEL, runs, better: low > 0.0 })
}
