//! Verified differences of two experiments.

use super::confirm::compare;
use super::fresh::samples;
use super::noise::{Noise, Sample, noise};
use super::student::quantile;
use crate::domain::{Direction, Record, VerifiedPair};
use crate::rules::history::History;

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

/// The baseline and the best experiment, which the end of a night verifies, if both have a number and are not the same.
pub fn to_verify(history: &History) -> Option<(&Record, &Record)> {
    let has_number = |record: &&Record| record.metric.value.is_some();
    let baseline = history.baseline().filter(has_number)?;
    let best = history.incumbent().filter(has_number).filter(|best| best.id != baseline.id)?;
    Some((baseline, best))
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

/// Puts into a pair what all its runs say. The noise is that of these and of the `others`, one group for each experiment.
/// Returns false, and leaves it as it is, while nothing is known of the noise.
pub fn judge_pair(pair: &mut VerifiedPair, direction: Direction, others: &[Vec<Sample>]) -> bool {
    let own = [samples(&pair.values_a), samples(&pair.values_b)];
    let noise = noise(&others.iter().chain(&own).cloned().collect::<Vec<_>>());
    let Some(found) = verified(direction, &own[0], &own[1], noise.as_ref()) else { return false };
    let Verified { difference, low, high, level, runs, better } = found;
    (pair.difference, pair.low, pair.high) = (difference, low, high);
    (pair.level, pair.runs, pair.better) = (level, runs, better);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<Sample> {
        (6..).zip(values).map(|(seed, value)| Sample { seed, value: *value }).collect()
    }

    #[test]
    fn the_interval_is_that_of_students_t() {
        let noise = Noise { deviation: 0.3, freedom: 10.0, pairing: 0.0, pairs: 0.0 };
        let found = verified(Direction::Lower, &runs(&[2.0; 3]), &runs(&[1.5; 3]), Some(&noise)).unwrap();
        // The error is 0.3 times the root of 2/3, and t is 2.228.
        let half = 2.228 * 0.3 * (2.0_f64 / 3.0).sqrt();
        assert!((found.low - (0.5 - half)).abs() < 0.0002 && (found.high - (0.5 + half)).abs() < 0.0002, "{found:?}");
        assert_eq!((found.difference, found.level, found.runs, found.better), (0.5, 0.95, 3, false));
        let higher = verified(Direction::Higher, &runs(&[2.0; 3]), &runs(&[1.5; 3]), Some(&noise)).unwrap();
        assert_eq!((higher.difference, higher.low, higher.better), (-0.5, -found.high, false));
    }

    #[test]
    fn exact_runs_have_an_interval_of_nothing() {
        let found = verified(Direction::Lower, &runs(&[2.0; 4]), &runs(&[1.5; 2]), None).unwrap();
        assert_eq!((found.low, found.high, found.runs, found.better), (0.5, 0.5, 2, true));
    }

    #[test]
    fn one_run_of_each_says_nothing_by_itself() {
        assert_eq!(verified(Direction::Lower, &runs(&[2.0]), &runs(&[1.5]), None), None);
    }
}
