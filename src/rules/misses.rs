//! Experiments that were not kept and are worth another look.

use serde::Serialize;

use super::median::median;
use super::{KeptStep, Point, Spread};
use crate::domain::{Direction, Outcome};

/// How many of them are named: more than that nobody looks at again.
const MOST: usize = 5;

/// What makes an experiment that was not better a near miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarginBy {
    /// What two measurements of the same code may differ by.
    Spread,
    /// The median gain of the kept ones: what a step of this session is like.
    MedianGain,
}

/// How far behind the incumbent a near miss may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Margin {
    /// In the metric's unit, 0 or more.
    pub size: f64,
    /// Where it is from.
    pub by: MarginBy,
}

/// The margin of a series: what its spread is, or where nothing tells that, what a step of its kept ones is like.
pub fn margin(kept: &[KeptStep], spread: Option<&Spread>) -> Option<Margin> {
    if let Some(spread) = spread {
        return Some(Margin { size: spread.limit, by: MarginBy::Spread });
    }
    let gains = kept.iter().filter_map(|step| step.gain).filter(|gain| *gain > 0.0);
    median(gains).map(|size| Margin { size, by: MarginBy::MedianGain })
}

/// A discarded experiment and the one that it had to beat, by their places among the points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Miss {
    /// The experiment.
    pub index: usize,
    /// The incumbent that it met.
    pub rival: usize,
    /// Its gain over the incumbent, in the metric's unit. More than 0 where a guard, a limit or a minimum refused it.
    pub gain: f64,
}

/// The discarded experiments worth another look, the best gain first: those that had the better number, whatever refused
/// them, and those that were at most `margin` behind the incumbent that they met; without a margin those that equalled it.
pub fn misses(points: &[Point], direction: Direction, baseline: Option<usize>, margin: Option<Margin>) -> Vec<Miss> {
    let mut rival: Option<(usize, f64)> = None;
    let mut found = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let Some(value) = point.value.as_ref().map(|number| number.value) else { continue };
        match (point.outcome, rival) {
            (Some(Outcome::Keep), _) => rival = Some((index, value)),
            (None, _) if Some(index) == baseline => rival = Some((index, value)),
            (Some(Outcome::Discard), Some((rival, best))) => {
                let gain = direction.gain(value, best);
                if -gain <= margin.map_or(0.0, |margin| margin.size) {
                    found.push(Miss { index, rival, gain });
                }
            }
            _ => {}
        }
    }
    found.sort_by(|one, other| other.gain.total_cmp(&one.gain));
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::point;
    use super::*;

    fn near(points: &[(&str, Outcome)], margin: Option<f64>) -> Vec<(usize, usize)> {
        let points: Vec<Point> =
            (0..).zip(points).map(|(id, (value, outcome))| point(id, Some(value), *outcome)).collect();
        let margin = margin.map(|size| Margin { size, by: MarginBy::Spread });
        misses(&points, Direction::Lower, Some(0), margin).iter().map(|miss| (miss.index, miss.rival)).collect()
    }

    #[test]
    fn a_miss_is_near_to_what_it_had_to_beat_and_not_to_what_came_later() {
        use Outcome::{Crash, Discard, Keep};
        let points = [
            ("2.0", Keep),
            ("2.125", Discard),
            ("2.25", Discard),
            ("1.0", Keep),
            ("1.5", Discard),
            ("1.0", Discard),
            ("0.5", Discard),
            ("0.25", Crash),
        ];
        assert_eq!(
            near(&points, Some(0.125)),
            [(6, 3), (5, 3), (1, 0)],
            "better but refused, equal, within the margin"
        );
        assert_eq!(near(&points, None), [(6, 3), (5, 3)], "without a margin only what was as good");
        assert_eq!(near(&points[1..3], Some(1.0)), [], "nothing to beat");
        let many: Vec<_> = [("2.0", Keep)].into_iter().chain([("2.0", Discard); 9]).collect();
        assert_eq!(near(&many, Some(0.0)).len(), MOST);
    }
}
