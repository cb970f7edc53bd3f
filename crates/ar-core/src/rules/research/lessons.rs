//! The order of lessons, and which ones are merged if there are many: about fifty entries stay, as in the lesson files of
//! autonomous research protocols.

use std::cmp::Reverse;

use crate::domain::{KEPT, Lesson, LessonId, count_of};
use crate::rules::history::same_direction;

/// The most entries before older ones are merged.
const MOST: usize = 50;
/// The most merged entries among them: half, to leave space for new ones.
const MOST_FOLDED: usize = MOST / 2;
/// The direction of merged lessons of several strategies.
const SEVERAL: &str = "several strategies";

/// The lessons, newest first.
pub fn newest_first(mut lessons: Vec<Lesson>) -> Vec<Lesson> {
    lessons.reverse();
    lessons.sort_by_key(|lesson| Reverse(lesson.time));
    lessons
}

/// Merges lessons until about fifty remain: the oldest first, by strategy, without those of `spared` sessions. Of the merged
/// ones, the two oldest become one where there are too many.
pub fn fold(mut lessons: Vec<Lesson>, spared: impl Fn(&str) -> bool) -> Vec<Lesson> {
    let is_folded = |lesson: &Lesson| matches!(lesson.id, LessonId::Folded { .. });
    let is_foldable = |lesson: &Lesson| matches!(&lesson.id, LessonId::Point { session, .. } if !spared(session));
    while lessons.len() > MOST
        && let Some(at) = oldest(&lessons, is_foldable)
    {
        let lesson = lessons.remove(at);
        let is_alike = |known: &&mut Lesson| is_folded(known) && same_direction(&known.strategy, &lesson.strategy);
        match lessons.iter_mut().find(is_alike) {
            Some(known) => *known = merged(&known.strategy, &[known, &lesson]),
            None => lessons.insert(at, merged(&lesson.strategy, &[&lesson])),
        }
        if lessons.iter().filter(|lesson| is_folded(lesson)).count() > MOST_FOLDED
            && let Some(one) = oldest(&lessons, is_folded).map(|at| lessons.remove(at))
            && let Some(other) = oldest(&lessons, is_folded)
        {
            lessons[other] = merged(SEVERAL, &[&one, &lessons[other]]);
        }
    }
    lessons
}

/// The place of the oldest lesson that is meant.
fn oldest(lessons: &[Lesson], meant: impl Fn(&Lesson) -> bool) -> Option<usize> {
    let places = lessons.iter().enumerate().filter(|(_, lesson)| meant(lesson));
    places.min_by_key(|(_, lesson)| lesson.time).map(|(at, _)| at)
}

/// Merges lessons of one strategy.
fn merged(strategy: &str, members: &[&Lesson]) -> Lesson {
    let (lessons, kept) = members
        .iter()
        .map(|lesson| counts(lesson))
        .fold((0u32, 0u32), |sum, counts| (sum.0.saturating_add(counts.0), sum.1.saturating_add(counts.1)));
    // Lessons of keeps are worth more than others, and newer ones more than older ones.
    let best = members.iter().max_by_key(|lesson| (counts(lesson).1 > 0, lesson.time));
    Lesson {
        id: LessonId::Folded { lessons, kept },
        strategy: strategy.to_owned(),
        outcome: format!("{} folded together, {kept} kept", count_of(lessons, "lesson")),
        insight: best.map(|best| best.insight.clone()).unwrap_or_default(),
        context: String::new(),
        experiment: String::new(),
        time: members.iter().map(|lesson| lesson.time).max().unwrap_or_default(),
    }
}

/// The number of lessons that one represents, and the number of those that came from keeps.
fn counts(lesson: &Lesson) -> (u32, u32) {
    match lesson.id {
        LessonId::Folded { lessons, kept } => (lessons, kept),
        LessonId::Point { .. } => (1, u32::from(lesson.outcome == KEPT)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan};
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

    fn folded(lessons: &[Lesson], spared: &str) -> Vec<Lesson> {
        fold(lessons.to_vec(), |session| session == spared)
    }

    #[test]
    fn what_is_older_than_a_month_is_folded_first_by_strategy() {
        let mut lessons: Vec<_> = (1..=45).map(|point| lesson("new", point, "width", 20)).collect();
        lessons.extend((1..=9).map(|point| lesson("old", point, ["Warm up", "warmup", "depth"][point % 3], 31)));
        let left = folded(&lessons, "");
        let merged: Vec<&Lesson> = left.iter().filter(|lesson| matches!(lesson.id, LessonId::Folded { .. })).collect();
        assert_eq!((left.len(), merged.len()), (50, 2), "{left:?}");
        assert_eq!(left[..45], lessons[..45], "the younger ones stay");
        let warm_up = merged.iter().find(|lesson| same_direction(&lesson.strategy, "warmup")).unwrap();
        assert_eq!(warm_up.insight, "of old/6", "the newest kept one's: {warm_up:?}");
        assert_eq!(folded(&lessons[..50], ""), lessons[..50]);
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
        let order: Vec<_> = newest_first(lessons).into_iter().map(|lesson| lesson.experiment).collect();
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
