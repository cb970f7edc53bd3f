//! Places labels inside the picture so that none hides another label, a mark or the staircase.

/// A rectangle of the picture; y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// The square of this side around a point.
    pub(super) fn around((x, y): (f64, f64), side: f64) -> Area {
        let half = side / 2.0;
        Area { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    fn touches(self, other: Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(self, other: Area) -> bool {
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
pub(super) struct Placed {
    /// The area of its text.
    pub(super) area: Area,
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
    picture: Area,
    obstacles: &[Area],
    spared: &[Area],
) -> Vec<Option<Placed>> {
    let mut placed: Vec<Placed> = Vec::new();
    let mut found = Vec::new();
    for wish in wishes {
        let is_own = |area: &Area| area.touches(Area::around(wish.at, 1.0));
        let is_free = |candidate: &Placed| {
            candidate.area.is_within(picture)
                && !obstacles.iter().any(|area| candidate.area.touches(*area))
                && !placed.iter().any(|other| clash(candidate, other))
                && candidate
                    .leader
                    .is_none_or(|leader| !obstacles.iter().any(|area| !is_own(area) && area.is_crossed_by(leader)))
        };
        let mut free = candidates(wish, height).into_iter().filter(|(_, candidate)| is_free(candidate)).peekable();
        let furthest = free.peek().map_or(0.0, |(distance, _)| distance + DETOUR);
        let hidden = |placed: &Placed| spared.iter().filter(|area| placed.area.touches(**area)).count();
        let best = free
            .take_while(|(distance, _)| *distance <= furthest)
            .map(|(_, candidate)| candidate)
            .min_by_key(|candidate| hidden(candidate));
        placed.extend(best);
        found.push(best);
    }
    found
}

fn clash(one: &Placed, other: &Placed) -> bool {
    one.area.touches(other.area)
        || one.leader.is_some_and(|leader| other.area.is_crossed_by(leader))
        || other.leader.is_some_and(|leader| one.area.is_crossed_by(leader))
}

/// The places around a point and how far they are, the nearest first; of those that are as near the upper right one.
fn candidates(wish: &Wish, height: f64) -> Vec<(f64, Placed)> {
    let (x, y) = wish.at;
    let mut found = Vec::new();
    for line in 0..=FURTHEST {
        for up in [1.0, -1.0] {
            let middle = y - up * f64::from(line) * height;
            let away = GAP + 2.0 * f64::from(line);
            for left in [x + away, x - wish.width - away, x - wish.width / 2.0] {
                let area =
                    Area { left, top: middle - height / 2.0, right: left + wish.width, bottom: middle + height / 2.0 };
                let end = area.nearest_to(wish.at);
                let distance = (end.0 - x).hypot(end.1 - y);
                let leader = (distance > 1.5 * GAP).then_some([wish.at, end]);
                found.push((distance, Placed { area, leader }));
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PICTURE: Area = Area { left: 0.0, top: 0.0, right: 400.0, bottom: 200.0 };

    #[test]
    fn a_label_alone_stands_beside_its_mark() {
        let mark = [Area::around((100.0, 100.0), 13.0)];
        let found = place(&[Wish { at: (100.0, 100.0), width: 50.0 }], 12.0, PICTURE, &mark, &[]);
        let placed = found[0].unwrap();
        assert_eq!((placed.area.left, placed.leader), (107.0, None));
        let at_the_edge = place(&[Wish { at: (395.0, 100.0), width: 50.0 }], 14.0, PICTURE, &[], &[]);
        assert!(at_the_edge[0].unwrap().area.right < 395.0);
    }

    #[test]
    fn a_label_goes_a_little_further_to_hide_nothing() {
        let spared = [Area::around((120.0, 100.0), 6.0)];
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
            let marks: Vec<Area> = wishes.iter().map(|wish| Area::around(wish.at, 8.0)).collect();
            let found: Vec<Placed> = place(&wishes, 12.0, PICTURE, &marks, &[]).into_iter().flatten().collect();
            for (index, one) in found.iter().enumerate() {
                prop_assert!(one.area.is_within(PICTURE));
                prop_assert!(!marks.iter().any(|mark| mark.touches(one.area)));
                prop_assert!(!found[index + 1..].iter().any(|other| clash(one, other)));
            }
        }
    }
}
