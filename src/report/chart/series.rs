//! The data of a chart: marks, the running best as a staircase, the limits of the picture, and the lines above it.

use crate::domain::{Direction, Outcome, count_of, cut, money_text, one_line, percent_text};
use crate::report::{Report, Times};
use crate::rules::{CountedOutcome, Point};

/// The least distance that the picture reaches beyond best and baseline, as a share of the distance between the two.
/// The notebook `analysis.ipynb` in karpathy/autoresearch uses the same share.
const MARGIN: f64 = 0.15;

/// The largest distance beyond best and baseline at which marks extend the picture, as a share of the same distance.
/// With half of it on either side, the staircase has half of the height.
const REACH: f64 = 0.5;

/// Room between such a mark and the edge, as a share of the same distance.
const ROOM: f64 = 0.05;

/// The least share of the staircase's height for the keeps after the baseline. Below it, the picture leaves the
/// baseline out.
const LEAST_SHARE: f64 = 0.1;

/// Tukey's inner fences: the distance from the quartiles, in quartile distances, beyond which a value is an outlier.
const FENCE: f64 = 1.5;

/// The largest magnitude of a value: larger ones are clamped to it, so that distances between values stay finite.
const LARGEST: f64 = f64::MAX / 64.0;

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Its place in the order of recording, from 0.
    pub place: u32,
    /// Its number.
    pub number: u32,
    /// Its value; absent for one without a result, which has its place below the picture.
    pub value: Option<f64>,
    /// The value as it was printed; empty where there is none.
    pub raw: String,
    /// Its outcome.
    pub kind: CountedOutcome,
    /// The description of its change.
    pub description: String,
}

impl Mark {
    /// Returns whether it was kept without a value of its own: a baseline with nothing to measure yet, or a car of a
    /// train.
    pub(super) fn is_numberless(&self) -> bool {
        self.kind == CountedOutcome::Keep && self.value.is_none()
    }
}

/// From this experiment on the best number so far is this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The experiment's place in the order of recording, from 0.
    pub place: u32,
    /// The best value so far.
    pub value: f64,
}

/// The lowest and the highest value of a picture; the first is less than the second, and both are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the type says it")]
pub struct Limits {
    pub low: f64,
    pub high: f64,
}

/// The edge of the picture that a value lies beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// It is higher than the picture.
    Above,
    /// It is lower than the picture.
    Below,
}

/// The data of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The metric's name.
    pub metric: String,
    /// The better direction of the metric.
    pub direction: Direction,
    /// The experiments in the order of recording.
    pub marks: Vec<Mark>,
    /// The running best, each step better than the one before.
    pub best: Vec<Step>,
    /// The values between which the picture is drawn; absent if no experiment has a value.
    pub limits: Option<Limits>,
    /// The value from which on experiments are kept whatever the best is, where a composite has one.
    pub threshold: Option<f64>,
    /// The panels below the chart, one for each axis of a composite.
    pub panels: Vec<Panel>,
    /// Where the running best would be by the gains of kept changes on a hidden split; empty without one.
    pub hidden: Vec<Step>,
}

/// The course of one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Its name.
    pub name: String,
    /// The summary of its values, with its name; absent if no experiment has a value.
    pub figure: Option<(&'static str, f64)>,
    /// The value below which it is weak.
    pub floor: Option<f64>,
    /// The experiments, each with its number brought to 0..1 as its value.
    pub marks: Vec<Mark>,
}

impl Series {
    /// Makes a chart of experiments in the order in which they were recorded.
    ///
    /// The running best is that of the kept ones, or of all where nothing says of any what became of it.
    ///
    /// The picture goes from the best to the baseline and a little further on both sides: 15% of their distance, or as
    /// far as there are marks within half of it. What lies beyond is drawn at the edge, so that one bad experiment does
    /// not flatten the others. The baseline itself is left beyond the edge where what was kept after it would have less
    /// than a tenth of the height. Without a gain the picture shows all that is no outlier by Tukey's fences (beyond
    /// the quartiles by more than 1.5 times their distance).
    pub fn new(metric: &str, direction: Direction, points: &[Point]) -> Series {
        let is_verdict = |point: &Point| matches!(point.outcome, Some(Outcome::Keep | Outcome::Discard));
        let has_verdict = points.iter().any(is_verdict);
        let marks: Vec<Mark> = (0..).zip(points).map(|(place, point)| mark(place, point)).collect();
        let mut best: Vec<Step> = Vec::new();
        for (mark, point) in marks.iter().zip(points) {
            if point.may_be_best(has_verdict)
                && let Some(value) = mark.value
                && best.last().is_none_or(|step| direction.better(value, step.value))
            {
                best.push(Step { place: mark.place, value });
            }
        }
        let limits = limits(&marks, &best);
        Series {
            metric: metric.to_owned(),
            direction,
            marks,
            best,
            limits,
            threshold: None,
            panels: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// The same with the line of a hidden split, which the picture reaches: the baseline's value, and at each place of `gains` the one
    /// before and this gain, of which positive is better.
    #[must_use]
    pub(in crate::report) fn with_hidden(mut self, gains: &[(u32, f64)]) -> Series {
        let (Some(Step { place, value }), false) = (self.best.first().copied(), gains.is_empty()) else { return self };
        let sign = self.direction.gain(1.0, 0.0);
        self.hidden = vec![Step { place, value }];
        let mut value = value;
        for (place, gain) in gains {
            value += sign * gain;
            self.hidden.push(Step { place: *place, value });
        }
        if let Some(limits) = &mut self.limits {
            let room = ROOM * (limits.high - limits.low);
            let reached = self.hidden.iter().map(|step| step.value);
            *limits = reached.fold(*limits, |limits, value| Limits {
                low: limits.low.min(value - room),
                high: limits.high.max(value + room),
            });
        }
        self
    }

    /// The same with a line at a value, which the picture reaches.
    #[must_use]
    pub(in crate::report) fn with_threshold(mut self, threshold: Option<f64>) -> Series {
        self.threshold = threshold.filter(|value| value.is_finite() && value.abs() <= LARGEST);
        if let (Some(value), Some(limits)) = (self.threshold, &mut self.limits) {
            let room = ROOM * (limits.high - limits.low);
            *limits = Limits { low: limits.low.min(value - room), high: limits.high.max(value + room) };
        }
        self
    }

    /// Counts the marks of a kind.
    pub fn count(&self, kind: CountedOutcome) -> usize {
        self.marks.iter().filter(|mark| mark.kind == kind).count()
    }

    /// Counts the keeps with a value, and those without one.
    pub(super) fn kept(&self) -> (usize, usize) {
        let without = self.marks.iter().filter(|mark| mark.is_numberless()).count();
        (self.count(CountedOutcome::Keep) - without, without)
    }

    /// The first and the last experiment's place.
    pub fn places(&self) -> Option<(u32, u32)> {
        Some((self.marks.first()?.place, self.marks.last()?.place))
    }

    /// The horizontal position of a place, from 0 for the first experiment to 1 for the last one.
    pub(super) fn share(&self, place: u32) -> f64 {
        let (first, last) = self.places().unwrap_or_default();
        f64::from(place - first) / f64::from((last - first).max(1))
    }

    /// The number of the experiment at a place, as an axis names it.
    pub(super) fn number_at(&self, place: u32) -> String {
        self.marks.get(place as usize).map(|mark| mark.number.to_string()).unwrap_or_default()
    }
}

impl Limits {
    /// The edge that a value lies beyond.
    pub fn beyond(self, value: f64) -> Option<Edge> {
        match value {
            _ if value > self.high => Some(Edge::Above),
            _ if value < self.low => Some(Edge::Below),
            _ => None,
        }
    }

    /// The height of a value in the picture, from 0 at the low edge to 1 at the high one.
    pub fn share(self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

fn mark(place: u32, point: &Point) -> Mark {
    let kind = match point.ended() {
        CountedOutcome::Other => CountedOutcome::Discard,
        ended => ended,
    };
    let number = point.value.as_ref();
    Mark {
        place,
        number: point.id.number(),
        value: number
            .filter(|_| !matches!(kind, CountedOutcome::Crash | CountedOutcome::Refused))
            .map(|number| number.value.clamp(-LARGEST, LARGEST)),
        raw: number.map(|number| number.raw.clone()).unwrap_or_default(),
        kind,
        description: point.description.to_string(),
    }
}

fn limits(marks: &[Mark], best: &[Step]) -> Option<Limits> {
    let mut values: Vec<f64> = marks.iter().filter_map(|mark| mark.value).collect();
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let (low, high) = staircase(best).unwrap_or_else(|| within_fences(&values, best));
    let height = high - low;
    if height <= 0.0 {
        let room = if low == 0.0 { 1.0 } else { low.abs() * 0.01 };
        return Some(Limits { low: low - room, high: high + room });
    }
    let near = |value: &&f64| **value >= low - REACH * height && **value <= high + REACH * height;
    let lowest = values.iter().find(near).unwrap_or(&low);
    let highest = values.iter().rfind(near).unwrap_or(&high);
    Some(Limits {
        low: (low - MARGIN * height).min(lowest - ROOM * height),
        high: (high + MARGIN * height).max(highest + ROOM * height),
    })
}

/// The lowest and the highest value of the staircase, where it has a height.
fn staircase(best: &[Step]) -> Option<(f64, f64)> {
    let [baseline, second, .., last] = best else {
        return match best {
            [first, last] => Some(ordered(first.value, last.value)),
            _ => None,
        };
    };
    let flattened = (second.value - last.value).abs() < LEAST_SHARE * (baseline.value - last.value).abs();
    Some(ordered(if flattened { second.value } else { baseline.value }, last.value))
}

/// The lowest and the highest of sorted values that are no outliers, the best among them.
fn within_fences(sorted: &[f64], best: &[Step]) -> (f64, f64) {
    let quartile = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
    let fence = FENCE * (quartile(3) - quartile(1));
    let inside = |value: &&f64| **value >= quartile(1) - fence && **value <= quartile(3) + fence;
    let low = *sorted.iter().find(inside).unwrap_or(&sorted[0]);
    let high = *sorted.iter().rfind(inside).unwrap_or(&sorted[0]);
    best.iter().fold((low, high), |(low, high), step| (low.min(step.value), high.max(step.value)))
}

fn ordered(a: f64, b: f64) -> (f64, f64) {
    (a.min(b), a.max(b))
}

/// Experiments that ended so, numbered from 0, of a metric `loss`.
#[cfg(test)]
pub(super) fn test_series(direction: Direction, values: &[(Outcome, Option<&str>)]) -> Series {
    let points: Vec<Point> =
        (0..).zip(values).map(|(id, (outcome, value))| tests::point(id, *outcome, *value)).collect();
    Series::new("loss", direction, &points)
}

/// The most characters of a name.
const SHOWN: usize = 40;

impl Report {
    /// The two lines above a chart. The first counts the experiments and the keeps, and names baseline and best value
    /// with the gain in per cent. The second says what was verified, and then [`about`](Report::about).
    pub fn chart_title(&self) -> String {
        let after_baseline = self.points.len().saturating_sub(1);
        let kept = self.summary.kept.iter().filter(|step| Some(step.index) != self.summary.baseline).count();
        let experiments = count_of(after_baseline, "experiment");
        let mut title = format!("{experiments}, {kept} kept");
        let value = |point: Option<&Point>| Some(point?.value.as_ref()?.to_string());
        if let (Some(from), Some(to), Some(metric)) = (value(self.baseline()), value(self.best()), &self.metric) {
            title += &format!(", {} from {from} to {to}", cut(metric, SHOWN));
        }
        if let Some(gain) = self.summary.relative_gain.filter(|gain| *gain != 0.0) {
            let way = if gain > 0.0 { "better" } else { "worse" };
            title += &format!(" ({} {way})", percent_text(gain.abs()));
        }
        let lines = [self.verified_text(), Some(self.about()).filter(|about| !about.is_empty())];
        format!("{title}\n{}", lines.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// The origin of the data, as far as it is known: repository, session, hours, GPU, agent and model, cost.
    pub fn about(&self) -> String {
        let repository = self.origin.first().filter(|name| !name.is_empty()).cloned();
        let tag = self.tag.as_ref().map(|tag| format!("session {tag}"));
        let span = self.times.as_ref().filter(|times| times.hours * 3600.0 >= 1.0).map(Times::span);
        let more = self.origin.iter().skip(1).filter(|part| !part.is_empty()).cloned();
        let cost = self.cost().map(|cost| money_text(cost.total));
        let parts = [repository, tag, span].into_iter().flatten().chain(more).chain(cost);
        parts.map(|part| cut(&one_line(&part), SHOWN)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use Outcome::{Crash, Discard, Keep};

    use super::{test_series as series, *};
    use crate::domain::Outcome;

    pub(super) fn point(id: u32, outcome: Outcome, value: Option<&str>) -> Point {
        Point {
            id: id.into(),
            commit: None,
            value: value.map(|text| text.parse().unwrap()),
            outcome: Some(outcome),
            description: format!("change {id}").into(),
            ..Point::default()
        }
    }

    #[test]
    fn one_bad_run_lies_beyond_the_edge_and_the_others_keep_their_room() {
        let found = series(
            Direction::Lower,
            &[
                (Keep, Some("1.0")),
                (Discard, Some("900")),
                (Keep, Some("0.9")),
                (Discard, Some("1.02")),
                (Discard, Some("-3")),
            ],
        );
        let limits = found.limits.unwrap();
        assert_eq!(limits.beyond(900.0), Some(Edge::Above));
        assert_eq!(limits.beyond(-3.0), Some(Edge::Below));
        assert_eq!(limits.beyond(1.02), None);
        assert!(limits.share(1.0) - limits.share(0.9) >= 0.5, "{limits:?}");
    }

    #[test]
    fn a_baseline_that_would_flatten_all_that_came_after_is_beyond_the_edge() {
        let kept = ["90", "1.2", "1.1", "1.0"].map(|value| (Keep, Some(value)));
        let limits = series(Direction::Lower, &kept).limits.unwrap();
        assert_eq!((limits.beyond(90.0), limits.beyond(1.2)), (Some(Edge::Above), None));
        let even = ["8", "4", "2", "1"].map(|value| (Keep, Some(value)));
        assert_eq!(series(Direction::Lower, &even).limits.unwrap().beyond(8.0), None);
    }

    #[test]
    fn the_line_of_a_hidden_split_begins_at_the_baseline_and_the_picture_reaches_it() {
        let kept = ["9.0", "7.0", "5.0"].map(|value| (Keep, Some(value)));
        let whole = series(Direction::Lower, &kept).with_hidden(&[(1, 0.5), (2, -3.0)]);
        let steps: Vec<_> = whole.hidden.iter().map(|step| (step.place, step.value)).collect();
        assert_eq!(steps, [(0, 9.0), (1, 8.5), (2, 11.5)]);
        assert!(whole.limits.is_some_and(|limits| limits.low < 5.0 && limits.high > 11.5), "{:?}", whole.limits);
        assert!(series(Direction::Lower, &kept).with_hidden(&[]).hidden.is_empty());
    }

    #[test]
    fn the_running_best_is_that_of_what_was_kept_and_goes_the_better_way() {
        let values =
            [(Keep, Some("1")), (Discard, Some("9")), (Keep, Some("0.5")), (Crash, Some("8")), (Keep, Some("2"))];
        let steps = |direction| -> Vec<_> {
            series(direction, &values).best.iter().map(|step| (step.place, step.value)).collect()
        };
        assert_eq!(steps(Direction::Higher), [(0, 1.0), (4, 2.0)]);
        assert_eq!(steps(Direction::Lower), [(0, 1.0), (2, 0.5)]);
    }

    #[test]
    fn where_nothing_says_what_became_of_them_all_count() {
        let points =
            [(0, "3"), (1, "4"), (2, "2")].map(|(id, text)| Point { outcome: None, ..point(id, Discard, Some(text)) });
        let found = Series::new("loss", Direction::Lower, &points);
        assert_eq!(found.best.iter().map(|step| step.place).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn the_staircase_goes_by_the_order_of_recording() {
        let points =
            [(0, Some("4")), (3, None), (7, Some("3")), (2, Some("2"))].map(|(id, value)| point(id, Keep, value));
        let found = Series::new("loss", Direction::Lower, &points);
        let steps: Vec<_> = found.best.iter().map(|step| (step.place, step.value)).collect();
        assert_eq!(steps, [(0, 4.0), (2, 3.0), (3, 2.0)]);
        assert_eq!((found.places(), found.number_at(2)), (Some((0, 3)), "7".to_owned()));
    }

    #[test]
    fn limits_are_finite_and_in_order_whatever_the_values_are() {
        let cases: [&[&str]; 6] =
            [&["0"], &["5", "5", "5"], &["-1e308", "1e308"], &["1e308"], &["-2", "-3"], &["5e-324", "0"]];
        for values in cases {
            for outcome in [Keep, Discard] {
                let given: Vec<_> = values.iter().map(|value| (outcome, Some(*value))).collect();
                let limits = series(Direction::Lower, &given).limits.unwrap();
                assert!(limits.low < limits.high, "{values:?} {limits:?}");
                assert!((limits.high - limits.low).is_finite(), "{values:?} {limits:?}");
            }
        }
        assert_eq!(series(Direction::Lower, &[(Crash, Some("1")), (Crash, None)]).limits, None);
    }

    #[test]
    fn without_a_gain_outliers_alone_are_beyond_the_edge() {
        let mut values = vec![(Keep, Some("1.0"))];
        values.extend(["1.1", "1.2", "1.3", "1.4", "50"].map(|value| (Discard, Some(value))));
        let limits = series(Direction::Lower, &values).limits.unwrap();
        assert_eq!((limits.beyond(1.4), limits.beyond(1.0), limits.beyond(50.0)), (None, None, Some(Edge::Above)));
    }
}
