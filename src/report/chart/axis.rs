//! The ticks of an axis, and labels placed so that none hides another one, a mark or the staircase.

use super::Limits;

/// A tick of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Its value on the axis.
    pub(super) value: f64,
    /// Its label, with enough digits to tell it from its neighbours.
    pub(super) label: String,
}

/// From this on a number is written with an exponent.
const LARGE: f64 = 1e7;

/// The most decimals of a number that is written without an exponent.
const MOST_DECIMALS: i32 = 7;

/// At most `most` ticks between the limits, at multiples of 1, 2 or 5 times a power of ten; at the limits themselves
/// where there are not two such numbers between them.
pub(super) fn ticks(limits: Limits, most: usize) -> Vec<Tick> {
    let most = most.max(2);
    let (step, exponent) = step_of((limits.high - limits.low) / most as f64);
    let decimals = usize::try_from(-exponent).unwrap_or(0);
    let largest = limits.low.abs().max(limits.high.abs());
    let digits = (largest.log10().floor() - f64::from(exponent)).clamp(0.0, 16.0) as usize;
    let is_plain = largest < LARGE && exponent >= -MOST_DECIMALS;
    let first = (limits.low / step).ceil();
    let mut ticks: Vec<Tick> = (0..most)
        // Adding zero turns -0 into 0.
        .map(|index| (first + index as f64) * step + 0.0)
        .filter(|value| limits.beyond(*value).is_none())
        .map(|value| Tick {
            value,
            label: if is_plain || value == 0.0 { format!("{value:.decimals$}") } else { format!("{value:.digits$e}") },
        })
        .collect();
    ticks.dedup_by(|a, b| a.label == b.label);
    if ticks.len() < 2 {
        // Two digits of what is between the limits.
        let decimals = (1.0 - (limits.high - limits.low).log10().floor()).clamp(0.0, 16.0) as usize;
        let at =
            |label: &dyn Fn(f64) -> String| [limits.low, limits.high].map(|value| Tick { value, label: label(value) });
        ticks = at(&|value| if is_plain { format!("{value:.decimals$}") } else { format!("{value:e}") }).into();
        if ticks[0].label == ticks[1].label {
            ticks = at(&|value| format!("{value:e}")).into();
        }
    }
    ticks
}

/// At most `most` ticks at whole numbers from `first` to `last`.
pub(super) fn whole_ticks(first: u32, last: u32, most: usize) -> Vec<Tick> {
    let (step, _) = step_of((f64::from(last - first) / most.max(2) as f64).max(1.0));
    let step = step as u32;
    (first.div_ceil(step)..=last / step)
        .take(most)
        .map(|index| index * step)
        .map(|number| Tick { value: f64::from(number), label: number.to_string() })
        .collect()
}

/// The smallest 1, 2 or 5 times a power of ten that is no less than `least`, and the exponent of that power.
/// Below the smallest number that an `f64` holds the step is 0.
fn step_of(least: f64) -> (f64, i32) {
    let exponent = least.log10().floor();
    let power = 10f64.powf(exponent);
    let (factor, exponent) = match least / power {
        // A rounding error of the division must not lead to the next step.
        share if share <= 1.0 + 1e-9 => (1.0, exponent),
        share if share <= 2.0 + 1e-9 => (2.0, exponent),
        share if share <= 5.0 + 1e-9 => (5.0, exponent),
        _ => (1.0, exponent + 1.0),
    };
    (factor * 10f64.powf(exponent), exponent.max(-400.0) as i32)
}

/// A rectangle of the picture; y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rectangle {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rectangle {
    /// The square of this side around a point.
    pub(super) fn around((x, y): (f64, f64), side: f64) -> Rectangle {
        let half = side / 2.0;
        Rectangle { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    fn touches(self, other: Rectangle) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(self, other: Rectangle) -> bool {
        self.left >= other.left && self.right <= other.right && self.top >= other.top && self.bottom <= other.bottom
    }

    fn nearest_to(self, (x, y): (f64, f64)) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    /// Returns whether a line crosses it.
    fn is_crossed_by(self, [from, to]: [(f64, f64); 2]) -> bool {
        // The part of the line that is within both pairs of sides (Liang and Barsky).
        let (mut enters, mut leaves) = (0.0f64, 1.0f64);
        for (start, way, low, high) in
            [(from.0, to.0 - from.0, self.left, self.right), (from.1, to.1 - from.1, self.top, self.bottom)]
        {
            if way == 0.0 {
                if start <= low || start >= high {
                    return false;
                }
                continue;
            }
            let (a, b) = ((low - start) / way, (high - start) / way);
            enters = enters.max(a.min(b));
            leaves = leaves.min(a.max(b));
        }
        enters < leaves
    }
}

/// A label that is to stand near a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wish {
    /// The point.
    pub(super) at: (f64, f64),
    /// The width of its text.
    pub(super) width: f64,
}

/// The place of a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PlacedLabel {
    /// The area of its text.
    pub(super) area: Rectangle,
    /// The line from its point to the label, if they are far apart.
    pub(super) leader: Option<[(f64, f64); 2]>,
}

/// The distance of a label from its point.
const GAP: f64 = 7.0;

/// The largest distance of a label above or below its point, in lines of text.
const FURTHEST: i32 = 14;

/// The extra distance that a label may move away from its point to avoid hiding a spared area.
const DETOUR: f64 = 40.0;

/// Finds a place for each label, in the order given; `None` where no room is left. No label may hide one of the
/// `obstacles`. A label hides one of the `spared` areas only if it would otherwise be too far from its point. `height`
/// is the height of a line of text.
pub(super) fn place(
    wishes: &[Wish],
    height: f64,
    picture: Rectangle,
    obstacles: &[Rectangle],
    spared: &[Rectangle],
) -> Vec<Option<PlacedLabel>> {
    let mut placed: Vec<PlacedLabel> = Vec::new();
    let mut found = Vec::new();
    for wish in wishes {
        let is_own = |area: &Rectangle| area.touches(Rectangle::around(wish.at, 1.0));
        let is_free = |candidate: &PlacedLabel| {
            candidate.area.is_within(picture)
                && !obstacles.iter().any(|area| candidate.area.touches(*area))
                && !placed.iter().any(|other| clash(candidate, other))
                && candidate
                    .leader
                    .is_none_or(|leader| !obstacles.iter().any(|area| !is_own(area) && area.is_crossed_by(leader)))
        };
        let mut free = candidates(wish, height).into_iter().filter(|(_, candidate)| is_free(candidate)).peekable();
        let furthest = free.peek().map_or(0.0, |(distance, _)| distance + DETOUR);
        let hidden = |placed: &PlacedLabel| spared.iter().filter(|area| placed.area.touches(**area)).count();
        let best = free
            .take_while(|(distance, _)| *distance <= furthest)
            .map(|(_, candidate)| candidate)
            .min_by_key(|candidate| hidden(candidate));
        placed.extend(best);
        found.push(best);
    }
    found
}

fn clash(one: &PlacedLabel, other: &PlacedLabel) -> bool {
    one.area.touches(other.area)
        || one.leader.is_some_and(|leader| other.area.is_crossed_by(leader))
        || other.leader.is_some_and(|leader| one.area.is_crossed_by(leader))
}

/// The places around a point and how far they are, the nearest first; of those that are as near the upper right one.
fn candidates(wish: &Wish, height: f64) -> Vec<(f64, PlacedLabel)> {
    let (x, y) = wish.at;
    let mut found = Vec::new();
    for line in 0..=FURTHEST {
        for up in [1.0, -1.0] {
            let middle = y - up * f64::from(line) * height;
            let away = GAP + 2.0 * f64::from(line);
            for left in [x + away, x - wish.width - away, x - wish.width / 2.0] {
                let area = Rectangle {
                    left,
                    top: middle - height / 2.0,
                    right: left + wish.width,
                    bottom: middle + height / 2.0,
                };
                let end = area.nearest_to(wish.at);
                let distance = (end.0 - x).hypot(end.1 - y);
                let leader = (distance > 1.5 * GAP).then_some([wish.at, end]);
                found.push((distance, PlacedLabel { area, leader }));
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(low: f64, high: f64, most: usize) -> Vec<String> {
        ticks(Limits { low, high }, most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn labels_have_the_digits_that_tell_neighbours_apart() {
        assert_eq!(labels(0.9969, 0.9983, 4), ["0.9970", "0.9975", "0.9980"]);
        assert_eq!(labels(-1.0, 1.0, 5), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(17.0, 240.0, 5), ["50", "100", "150", "200"]);
        assert_eq!(labels(1.2e-9, 3.1e-9, 4), ["1.5e-9", "2.0e-9", "2.5e-9", "3.0e-9"]);
        assert_eq!(labels(0.9057, 1.0123, 2), ["0.91", "1.01"]);
        assert_eq!(labels(1e10, 1.00004e10, 4), ["1.00000e10", "1.00001e10", "1.00002e10", "1.00003e10"]);
    }

    #[test]
    fn there_are_labels_however_close_or_far_the_limits_are() {
        let cases = [(1.0, 1.0 + f64::EPSILON), (-1e306, 1e306), (0.0, 5e-324), (1e17, 1.000_000_000_000_000_1e17)];
        for (low, high) in cases {
            let found = labels(low, high, 6);
            assert!((2..=6).contains(&found.len()), "{low} {high}: {found:?}");
            assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{low} {high}: {found:?}");
        }
    }

    #[test]
    fn numbers_of_experiments_are_whole() {
        let labels =
            |first, last| -> Vec<_> { whole_ticks(first, last, 5).into_iter().map(|tick| tick.label).collect() };
        assert_eq!(labels(0, 3), ["0", "1", "2", "3"]);
        assert_eq!(labels(0, 300), ["0", "100", "200", "300"]);
        assert_eq!(labels(7, 7), ["7"]);
        assert_eq!(labels(0, 10_000), ["0", "2000", "4000", "6000", "8000"]);
    }

    const PICTURE: Rectangle = Rectangle { left: 0.0, top: 0.0, right: 400.0, bottom: 200.0 };

    #[test]
    fn a_label_alone_stands_beside_its_mark() {
        let mark = [Rectangle::around((100.0, 100.0), 13.0)];
        let found = place(&[Wish { at: (100.0, 100.0), width: 50.0 }], 12.0, PICTURE, &mark, &[]);
        let placed = found[0].unwrap();
        assert_eq!((placed.area.left, placed.leader), (107.0, None));
        let at_the_edge = place(&[Wish { at: (395.0, 100.0), width: 50.0 }], 14.0, PICTURE, &[], &[]);
        assert!(at_the_edge[0].unwrap().area.right < 395.0);
    }

    #[test]
    fn a_label_goes_a_little_further_to_hide_nothing() {
        let spared = [Rectangle::around((120.0, 100.0), 6.0)];
        let found = place(&[Wish { at: (100.0, 100.0), width: 50.0 }], 14.0, PICTURE, &[], &spared);
        assert!(!found[0].unwrap().area.touches(spared[0]));
    }

    #[test]
    fn what_has_no_room_is_left_out_and_the_first_ones_stay() {
        let wishes = [Wish { at: (200.0, 100.0), width: 390.0 }; 40];
        let found = place(&wishes, 12.0, PICTURE, &[], &[]);
        assert!(found[0].is_some() && found[39].is_none());
        assert!(place(&[Wish { at: (9.0, 9.0), width: 401.0 }], 12.0, PICTURE, &[], &[])[0].is_none());
    }

    proptest! {
        #[test]
        fn no_label_hides_another_or_a_mark_or_leaves_the_picture(
            points in prop::collection::vec((0.0..400.0f64, 0.0..200.0f64, 5.0..150.0f64), 1..40)
        ) {
            let wishes: Vec<Wish> = points.iter().map(|(x, y, width)| Wish { at: (*x, *y), width: *width }).collect();
            let marks: Vec<Rectangle> = wishes.iter().map(|wish| Rectangle::around(wish.at, 8.0)).collect();
            let found: Vec<PlacedLabel> = place(&wishes, 12.0, PICTURE, &marks, &[]).into_iter().flatten().collect();
            for (index, one) in found.iter().enumerate() {
                prop_assert!(one.area.is_within(PICTURE));
                prop_assert!(!marks.iter().any(|mark| mark.touches(one.area)));
                prop_assert!(!found[index + 1..].iter().any(|other| clash(one, other)));
            }
        }
    }
}
