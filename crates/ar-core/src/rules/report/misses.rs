//! Near misses: discards worth another look.

use serde::Serialize;

use super::summary::{KeptStep, Point};
use crate::domain::{Direction, FailureClass, Outcome};
use crate::rules::history::Spread;
use crate::rules::history::spread::median;

/// The most near misses named: nobody would look at more.
const MOST: usize = 5;

/// The source of the margin of near misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarginBy {
    /// The spread of two measurements of the same code.
    Spread,
    /// The median gain of keeps: a typical step of this session.
    MedianGain,
}

/// The largest distance of a near miss behind the incumbent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Margin {
    /// In the metric's unit, 0 or more.
    pub size: f64,
    /// Its source.
    pub by: MarginBy,
}

/// The margin of a series: its spread, else the median gain of its keeps.
pub fn margin(kept: &[KeptStep], spread: Option<&Spread>) -> Option<Margin> {
    if let Some(spread) = spread {
        return Some(Margin { size: spread.limit, by: MarginBy::Spread });
    }
    let gains = kept.iter().filter_map(KeptStep::gain_of_each).filter(|gain| *gain > 0.0);
    median(gains).map(|size| Margin { size, by: MarginBy::MedianGain })
}

/// A discard and its incumbent, by their indices among the points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Miss {
    /// The experiment.
    pub index: usize,
    /// Its incumbent.
    pub rival: usize,
    /// Its gain over the incumbent, in the metric's unit; above 0 if a guard, a limit or the minimum gain refused it.
    pub gain: f64,
}

/// The near misses, best gain first: discards with a better value than their incumbent, whatever refused them, and
/// those at most `margin` behind it. Without a margin, those equal to it. `rivals` are the places of their incumbents, where
/// those are known; else it is the keep before.
pub fn misses(
    points: &[Point],
    rivals: &[Option<usize>],
    direction: Direction,
    baseline: Option<usize>,
    margin: Option<Margin>,
) -> Vec<Miss> {
    let value_of = |index: usize| points[index].value.as_ref().map(|number| number.value);
    let mut rival: Option<(usize, f64)> = None;
    let mut found = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let Some(value) = value_of(index) else { continue };
        let own = rivals.get(index).copied().flatten();
        match (point.outcome, own.and_then(|own| Some((own, value_of(own)?))).or(rival)) {
            (Some(Outcome::Keep), _) => rival = Some((index, value)),
            (None, _) if Some(index) == baseline => rival = Some((index, value)),
            // A number that was not earned is near nothing.
            (Some(Outcome::Discard), Some((rival, best))) if point.failure != Some(FailureClass::ReviewFailed) => {
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
        near_to(points, &[], margin)
    }

    fn near_to(points: &[(&str, Outcome)], rivals: &[Option<usize>], margin: Option<f64>) -> Vec<(usize, usize)> {
        let points: Vec<Point> =
            (0..).zip(points).map(|(id, (value, outcome))| point(id, Some(value), *outcome)).collect();
        let margin = margin.map(|size| Margin { size, by: MarginBy::Spread });
        misses(&points, rivals, Direction::Lower, Some(0), margin).iter().map(|miss| (miss.index, miss.rival)).collect()
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
        let stale = [("2.0", Keep), ("1.0", Keep), ("2.0", Discard)];
        assert_eq!(near_to(&stale, &[None, Some(0), Some(0)], Some(0.125)), [(2, 0)], "as good as its own base");
        assert_eq!(near(&stale, Some(0.125)), []);
        let many: Vec<_> = [("2.0", Keep)].into_iter().chain([("2.0", Discard); 9]).collect();
        assert_eq!(near(&many, Some(0.0)).len(), MOST);
    }
}
