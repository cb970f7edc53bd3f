//! The weights of lessons, and which ones are merged if there are many.
//!
//! The numbers follow the lesson files of autonomous research protocols: about fifty entries, with less weight after
//! two weeks, and merged first after a month.

use jiff::Timestamp;

use crate::domain::{KEPT, Lesson, LessonId, count_of};
use crate::rules::history::same_direction;

/// The most entries before older ones are merged.
const MOST: usize = 50;
/// The most merged entries among them: half, to leave space for new ones.
const MOST_FOLDED: usize = MOST / 2;
/// The age in days from which a lesson weighs less.
const FADES_AFTER: i64 = 14;
/// The age in days from which a lesson is merged before all younger ones.
const OLD_AFTER: i64 = 30;
/// The direction of merged lessons of several strategies.
const SEVERAL: &str = "several strategies";

/// Entries to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Their places in the list, in rising order.
    pub members: Vec<usize>,
    /// The merged lesson.
    pub line: Lesson,
}

/// The weight of a lesson: 1, a half after two weeks, a quarter after a month.
fn weight(lesson: &Lesson, now: Timestamp) -> f64 {
    match now.duration_since(lesson.time).as_hours() / 24 {
        ..FADES_AFTER => 1.0,
        FADES_AFTER..OLD_AFTER => 0.5,
        OLD_AFTER.. => 0.25,
    }
}

/// The lessons by value: heaviest first, then newest.
pub fn heaviest_first(mut lessons: Vec<Lesson>, now: Timestamp) -> Vec<Lesson> {
    lessons.reverse();
    lessons
        .sort_by(|one, other| weight(other, now).total_cmp(&weight(one, now)).then_with(|| other.time.cmp(&one.time)));
    lessons
}

/// The lessons to merge so that about fifty entries remain: the lightest and oldest first, by strategy, without those
/// of `spared` sessions. Empty while there is space.
pub fn fold(lessons: &[&Lesson], spared: impl Fn(&str) -> bool, now: Timestamp) -> Vec<Fold> {
    let mut groups: Vec<Group> = Vec::new();
    let mut foldable = Vec::new();
    for (index, lesson) in lessons.iter().enumerate() {
        match &lesson.id {
            LessonId::Folded { .. } => groups.push(Group::of(index, lesson)),
            LessonId::Point { session, .. } if !spared(session) => foldable.push(index),
            LessonId::Point { .. } => {}
        }
    }
    foldable.sort_by(|one, other| {
        let (one, other) = (lessons[*one], lessons[*other]);
        weight(one, now).total_cmp(&weight(other, now)).then_with(|| one.time.cmp(&other.time))
    });
    let mut count = lessons.len();
    for index in foldable {
        if count <= MOST {
            break;
        }
        match groups.iter_mut().find(|group| same_direction(&group.strategy, &lessons[index].strategy)) {
            Some(group) => {
                group.members.push(index);
                count -= 1;
            }
            None => groups.push(Group::of(index, lessons[index])),
        }
        if groups.len() > MOST_FOLDED {
            join_oldest(&mut groups, lessons);
            count -= 1;
        }
    }
    groups.into_iter().filter_map(|group| group.fold(lessons)).collect()
}

/// Lessons of one strategy to merge.
struct Group {
    strategy: String,
    members: Vec<usize>,
}

impl Group {
    fn of(index: usize, lesson: &Lesson) -> Self {
        Group { strategy: lesson.strategy.clone(), members: vec![index] }
    }

    fn newest(&self, lessons: &[&Lesson]) -> Option<Timestamp> {
        self.members.iter().map(|index| lessons[*index].time).max()
    }

    /// `None` for a merged lesson.
    fn fold(mut self, lessons: &[&Lesson]) -> Option<Fold> {
        self.members.sort_unstable();
        let members = || self.members.iter().map(|index| lessons[*index]);
        let first = members().next()?;
        if self.members.len() == 1 && matches!(first.id, LessonId::Folded { .. }) {
            return None;
        }
        let (lessons, kept) = members()
            .map(counts)
            .fold((0u32, 0u32), |sum, counts| (sum.0.saturating_add(counts.0), sum.1.saturating_add(counts.1)));
        // Lessons of keeps are worth more than others, and newer ones more than older ones.
        let best = members().max_by_key(|lesson| (counts(lesson).1 > 0, lesson.time)).unwrap_or(first);
        let time = members().map(|lesson| lesson.time).max().unwrap_or(first.time);
        Some(Fold {
            line: Lesson {
                id: LessonId::Folded { lessons, kept },
                strategy: self.strategy,
                outcome: format!("{} folded together, {kept} kept", count_of(lessons, "lesson")),
                insight: best.insight.clone(),
                context: String::new(),
                experiment: String::new(),
                time,
            },
            members: self.members,
        })
    }
}

/// The number of lessons that one represents, and the number of those that came from keeps.
fn counts(lesson: &Lesson) -> (u32, u32) {
    match lesson.id {
        LessonId::Folded { lessons, kept } => (lessons, kept),
        LessonId::Point { .. } => (1, u32::from(lesson.outcome == KEPT)),
    }
}

/// Joins the two oldest groups.
fn join_oldest(groups: &mut Vec<Group>, lessons: &[&Lesson]) {
    groups.sort_by_key(|group| std::cmp::Reverse(group.newest(lessons)));
    if let (Some(one), Some(mut other)) = (groups.pop(), groups.pop()) {
        other.strategy = SEVERAL.to_owned();
        other.members.extend(one.members);
        groups.push(other);
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-20T22:00:00Z".parse().unwrap()
    }

    fn lesson(session: &str, point: usize, strategy: &str, days: i64) -> Lesson {
        Lesson {
            id: LessonId::Point { session: session.into(), point: point.to_string() },
            strategy: strategy.into(),
            outcome: if point.is_multiple_of(3) { KEPT.into() } else { "pivot".into() },
            insight: format!("of {session}/{point}"),
            context: String::new(),
            experiment: point.to_string(),
            time: now() - (days * 24).hours(),
        }
    }

    fn fold_all(lessons: &[Lesson], spared: &str) -> Vec<Fold> {
        fold(&lessons.iter().collect::<Vec<_>>(), |session| session == spared, now())
    }

    /// The lessons after merging.
    fn folded(lessons: &[Lesson], spared: &str) -> Vec<Lesson> {
        let folds = fold_all(lessons, spared);
        let gone: Vec<usize> = folds.iter().flat_map(|fold| fold.members.clone()).collect();
        let left = (0..lessons.len()).filter(|index| !gone.contains(index)).map(|index| lessons[index].clone());
        left.chain(folds.into_iter().map(|fold| fold.line)).collect()
    }

    #[test]
    fn what_is_older_than_a_month_is_folded_first_by_strategy() {
        let mut lessons: Vec<_> = (1..=45).map(|point| lesson("new", point, "width", 20)).collect();
        lessons.extend((1..=9).map(|point| lesson("old", point, ["Warm up", "warmup", "depth"][point % 3], 31)));
        let folds = fold_all(&lessons, "");
        let members: usize = folds.iter().map(|fold| fold.members.len()).sum();
        assert_eq!((lessons.len() - members + folds.len(), folds.len()), (50, 2), "{folds:?}");
        assert!(folds.iter().all(|fold| fold.members.iter().all(|index| *index >= 45)), "{folds:?}");
        let warm_up = folds.iter().find(|fold| same_direction(&fold.line.strategy, "warmup")).unwrap();
        assert_eq!(warm_up.line.insight, "of old/6", "the newest kept one's: {warm_up:?}");
        assert!(fold_all(&lessons[..50], "").is_empty());
    }

    #[test]
    fn what_is_two_weeks_old_comes_behind_what_is_new() {
        let lessons = vec![
            lesson("a", 1, "x", 40),
            lesson("a", 2, "x", 15),
            lesson("a", 3, "x", 13),
            lesson("a", 4, "x", 0),
            lesson("a", 5, "x", 14),
        ];
        let order: Vec<_> = heaviest_first(lessons, now()).into_iter().map(|lesson| lesson.experiment).collect();
        assert_eq!(order, ["4", "3", "5", "2", "1"]);
    }

    proptest! {
        #[test]
        fn nothing_of_a_spared_session_is_folded_and_no_lesson_is_lost(
            points in prop::collection::vec((0..4usize, 0..40usize, 0..60i64), 0..150),
        ) {
            let lessons: Vec<_> = points
                .iter()
                .enumerate()
                .map(|(point, (session, strategy, days))| lesson(&format!("s{session}"), point, &format!("d{strategy}"), *days))
                .collect();
            let count = |lessons: &[Lesson]| lessons.iter().map(|lesson| counts(lesson).0).sum::<u32>();
            let spared = |lessons: &[Lesson]| {
                let is_spared = |lesson: &&Lesson| matches!(&lesson.id, LessonId::Point { session, .. } if session == "s1");
                lessons.iter().filter(is_spared).count()
            };
            let once = folded(&lessons, "s1");
            prop_assert_eq!(count(&once), count(&lessons));
            prop_assert_eq!(spared(&once), spared(&lessons));
            prop_assert!(once.len() <= MOST.max(spared(&lessons) + MOST_FOLDED), "{}", once.len());
            prop_assert_eq!(&folded(&once, "s1").len(), &once.len(), "a second time changes nothing");
        }
    }
}
