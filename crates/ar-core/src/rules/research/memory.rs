//! The memory of sessions: the lessons of keeps, abandoned strategies and finished loops, their order, which are
//! merged, the findings of earlier agent calls, and the next idea from the backlog.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashSet};

use sha2::{Digest, Sha256};

use crate::domain::{
    Draw, ExperimentId, Idea, IdeaKind, IdeaState, KEPT, Lesson, LessonId, Outcome, Record, Tag, TriedDirection, USER,
    count_of,
};
use crate::rules::history::{History, direction_key, directions_tried, is_sound, same_direction};

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

/// The number of lessons from discards and crashes that a summary quotes.
const QUOTED: usize = 3;

/// The text for a missing direction.
const NO_DIRECTION: &str = "no direction named";

/// The lesson of a keep: the agent's own, else the reason for the keep.
pub fn keep_lesson(history: &History, record: &Record) -> Lesson {
    Lesson {
        id: point(&record.tag, record.id.to_string()),
        strategy: record.direction.clone().unwrap_or_else(|| NO_DIRECTION.into()),
        outcome: KEPT.into(),
        insight: match record.lesson() {
            Some(lesson) => lesson,
            None => format!("{}: {}", record.description, record.reason),
        },
        context: context(record, history.had_to_beat(record), Some(record)),
        experiment: record.id.to_string(),
        time: record.origin.finished,
    }
}

/// The lesson of the strategy abandoned at pivot `turn`; `None` in a session without experiments.
pub fn pivot_lesson(history: &History, turn: u32) -> Option<Lesson> {
    let last = history.records().iter().rev().find(|record| !record.id.is_baseline())?;
    let named = history.records().iter().rev().find_map(|record| record.direction.as_deref());
    let is_member = |record: &&Record| match (named, &record.direction) {
        (Some(named), Some(direction)) => same_direction(named, direction),
        (Some(_), None) => false,
        (None, _) => !record.id.is_baseline(),
    };
    let members: Vec<&Record> = history.records().iter().filter(is_member).collect();
    let kept = members.iter().filter(|record| record.outcome == Outcome::Keep).count();
    let best = best_of(members.iter().copied().filter(|record| is_sound(record)));
    let number = |record: &Record| record.metric.number().map_or("-".into(), |number| number.raw);
    let made_of_numbers = || {
        let best = best.map_or("none with a number".into(), |best| {
            format!("best {} ({}: {})", number(best), best.id, best.description)
        });
        format!("left after {}, {kept} kept, {best}", count_of(members.len(), "experiment"))
    };
    let said = members.iter().rev().find_map(|record| record.lesson());
    Some(Lesson {
        id: point(&last.tag, format!("pivot-{turn}")),
        strategy: named.unwrap_or(NO_DIRECTION).to_owned(),
        outcome: format!("pivot: {}, {kept} kept", count_of(members.len(), "experiment")),
        insight: said.unwrap_or_else(made_of_numbers),
        context: context(last, history.incumbent(), best),
        experiment: range(&members),
        time: last.origin.finished,
    })
}

/// Summarises the records after place `after`; `None` if there are none. Quotes the newest lessons of discards and
/// crashes, unless they are among `lessons`.
pub fn summary_lesson(history: &History, after: u32, lessons: &[Lesson]) -> Option<Lesson> {
    let new: Vec<&Record> = history.records().iter().filter(|record| record.sequence() > after).collect();
    let last = new.last()?;
    let kept = new.iter().filter(|record| record.outcome == Outcome::Keep).count();
    let mut insight = format!("{}, {kept} kept", count_of(new.len(), "experiment"));
    if let Some(best) = history.best_kept_record() {
        let number = best.metric.number().map_or("-".into(), |number| number.raw);
        insight += &format!("; best {number} (experiment {}: {})", best.id, best.description);
    }
    let tried = directions_tried(new.iter().copied());
    let vain = tried.iter().filter(|known| known.kept == 0).map(|known| known.direction.as_str());
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    for failure in new.iter().filter_map(|record| record.failure.as_ref()) {
        *failures.entry(failure.class.to_string()).or_default() += 1;
    }
    let failures = failures.iter().map(|(class, count)| format!("{class} {count}"));
    let is_known = |text: &String| lessons.iter().any(|lesson| lesson.insight == *text);
    let said = new.iter().rev().filter(|record| record.outcome != Outcome::Keep).filter_map(|record| record.lesson());
    let said = said.filter(|text| !is_known(text)).take(QUOTED);
    for (what, names) in [
        ("in vain", vain.collect::<Vec<_>>().join(", ")),
        ("failed", failures.collect::<Vec<_>>().join(", ")),
        ("learned", said.collect::<Vec<_>>().join("; ")),
    ] {
        if !names.is_empty() {
            insight += &format!("; {what}: {names}");
        }
    }
    let before = new.first().and_then(|first| history.had_to_beat(first));
    Some(Lesson {
        id: summary_id(last),
        strategy: "the session as a whole".into(),
        outcome: "summary".into(),
        insight,
        context: context(last, before, history.incumbent()),
        experiment: range(&new),
        time: last.origin.finished,
    })
}

/// The place of the last record covered by a summary: `after`, or a later one with a summary among `lessons`. A summary
/// of an earlier session with the same tag has another time.
pub fn summed_up(history: &History, lessons: &[Lesson], after: u32) -> u32 {
    let is_last = |record: &&Record| {
        lessons.iter().any(|lesson| lesson.time == record.origin.finished && lesson.id == summary_id(record))
    };
    history.records().iter().rev().find(is_last).map_or(after, |record| record.sequence().max(after))
}

fn summary_id(last: &Record) -> LessonId {
    point(&last.tag, format!("summary-{}", last.id))
}

fn point(tag: &Tag, point: String) -> LessonId {
    LessonId::Point { session: tag.to_string(), point }
}

/// The record with the best value.
fn best_of<'a>(records: impl Iterator<Item = &'a Record>) -> Option<&'a Record> {
    let mut best: Option<&Record> = None;
    for record in records {
        let (Some(value), known) = (record.metric.value, best.and_then(|best| best.metric.value)) else { continue };
        if known.is_none_or(|known| record.metric.direction.better(value, known)) {
            best = Some(record);
        }
    }
    best
}

/// The session, the metric, and its values before and after.
fn context(of: &Record, from: Option<&Record>, to: Option<&Record>) -> String {
    let number = |record: Option<&Record>| record.and_then(|record| record.metric.number()).map(|number| number.raw);
    let mut text = format!("{}, {}", of.tag, of.metric.name);
    if let (Some(from), Some(to)) = (number(from), number(to)) {
        text += &format!(" {from} → {to}");
    }
    text
}

/// The first and last number of some experiments.
fn range(records: &[&Record]) -> String {
    match records {
        [] => String::new(),
        [only] => only.id.to_string(),
        [first, .., last] => format!("{} to {}", first.id, last.id),
    }
}

/// The weight of a lesson relative to a finding; a lesson is a conclusion.
const LESSON: f64 = 2.0;

/// The number of experiments after which a note's weight halves.
const FADES_AFTER: u32 = 10;

/// A note by an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// The experiment of its call.
    pub experiment: ExperimentId,
    /// The outcome of that experiment; absent if the call made none.
    pub outcome: Option<Outcome>,
    /// The finding.
    pub text: String,
    /// True for a lesson, false for a finding.
    pub is_lesson: bool,
}

/// The findings and lessons of a session, heaviest first, then newest, each text once. `noted` are findings with the
/// experiment of their call, also of calls without an experiment.
pub fn learned(records: &[Record], noted: &[(ExperimentId, String)]) -> Vec<Learned> {
    let last = records.iter().map(|record| record.id).max().unwrap_or(ExperimentId::BASELINE);
    let outcome = |id: ExperimentId| records.iter().find(|record| record.id == id).map(|record| record.outcome);
    let finding = |experiment, text| Learned { experiment, outcome: outcome(experiment), text, is_lesson: false };
    let mut all: Vec<Learned> = Vec::new();
    for record in records.iter().filter(|record| record.origin.proposal.is_some()) {
        let lesson = record.lesson().into_iter();
        all.extend(lesson.map(|text| Learned { is_lesson: true, ..finding(record.id, text) }));
        all.extend(record.findings().into_iter().map(|text| finding(record.id, text)));
    }
    all.extend(noted.iter().map(|(id, text)| finding(*id, text.clone())));
    let weight = |note: &Learned| {
        let age = f64::from(last.number().saturating_sub(note.experiment.number())) / f64::from(FADES_AFTER);
        if note.is_lesson { LESSON * 0.5_f64.powf(age) } else { 0.5_f64.powf(age) }
    };
    all.sort_by(|one, other| weight(other).total_cmp(&weight(one)).then(other.experiment.cmp(&one.experiment)));
    let mut kept: Vec<Learned> = Vec::new();
    for note in all {
        if !kept.iter().any(|known| known.text == note.text) {
            kept.push(note);
        }
    }
    kept
}

/// Draws one of the best open ideas of a kind, each with the same chance, or the best one. The same `seed` draws the same
/// one unless it is gone or a new one wins. Skips those whose direction is among `tried`. If none is open, it draws from
/// those offered but not used, and of these from those that the session `offered` the fewest times, so that each gets its
/// turn.
///
/// [`by_rank`] says which are the best.
pub fn draw<'a>(
    ideas: &'a [Idea],
    kind: IdeaKind,
    how: Draw,
    seed: &str,
    tried: &[TriedDirection],
    offered: impl Fn(&Idea) -> usize,
) -> Option<&'a Idea> {
    let tried: HashSet<String> = tried.iter().map(|known| direction_key(&known.direction)).collect();
    let was_tried =
        |idea: &Idea| idea.idea.direction.as_ref().is_some_and(|direction| tried.contains(&direction_key(direction)));
    let pool = |is_meant: fn(&Idea) -> bool| {
        ideas.iter().filter(|idea| idea.idea.kind == kind && is_meant(idea) && !was_tried(idea)).collect::<Vec<&Idea>>()
    };
    let mut open = pool(|idea| idea.state == IdeaState::Open);
    if open.is_empty() {
        open = pool(|idea| idea.state == IdeaState::Drawn && idea.unused);
        let counted: Vec<(usize, &Idea)> = open.into_iter().map(|idea| (offered(idea), idea)).collect();
        let fewest = counted.iter().map(|(count, _)| *count).min();
        open = counted.into_iter().filter(|(count, _)| Some(*count) == fewest).map(|(_, idea)| idea).collect();
    }
    open.sort_by(|one, other| by_rank(one, other));
    open.truncate(match how {
        Draw::Best => 1,
        Draw::Uniform(among) => usize::try_from(among).unwrap_or(usize::MAX),
    });
    open.into_iter().min_by_key(|idea| Sha256::digest(format!("{seed} {}", idea.id)).to_vec())
}

/// The order of ideas, the best one first: those of the user without a score, as asked for by a person, then scored ones by
/// score, then the rest; of equal ones the older first.
pub fn by_rank(one: &Idea, other: &Idea) -> Ordering {
    let rank = |idea: &Idea| match idea.idea.score {
        Some(score) => score,
        None if idea.by == USER => f64::INFINITY,
        None => f64::NEG_INFINITY,
    };
    rank(other).total_cmp(&rank(one)).then_with(|| one.id.cmp(&other.id))
}

/// Returns whether an experiment used the idea offered to its agent. If the agent names the idea that it used, that
/// decides. Otherwise, the direction must match, or the agent's texts must contain at least half of the idea's words.
pub fn is_used(record: &Record, idea: &Idea) -> bool {
    if let Some(used) = record.used(idea.idea.kind) {
        return used == idea.id;
    }
    let direction = idea.idea.direction.as_ref().zip(record.direction.as_ref());
    if direction.is_some_and(|(one, other)| same_direction(one, other)) {
        return true;
    }
    let said = [Some(record.description.clone()), record.direction.clone(), record.hypothesis()];
    let said: Vec<String> = said.iter().flatten().flat_map(|text| words(text)).collect();
    let wanted = words(&idea.idea.text);
    let found = wanted.iter().filter(|word| said.contains(word)).count();
    !wanted.is_empty() && 2 * found >= wanted.len()
}

/// The meaningful words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    const FILLERS: [&str; 16] =
        ["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with", "use", "try"];
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| !word.is_empty() && !FILLERS.contains(&word.as_str())).collect()
}

/// The text of an idea without differences of case and white space: two with the same one are the same idea.
pub fn idea_key(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The state of an idea after an experiment whose agent was offered it, and whether it was offered in vain. An idea that was
/// used or kept stays so.
pub fn offered_state(idea: &Idea, is_used: bool, is_kept: bool) -> (IdeaState, bool) {
    match idea.state {
        IdeaState::Kept => (IdeaState::Kept, false),
        _ if is_used && is_kept => (IdeaState::Kept, false),
        state => (IdeaState::Drawn, !is_used && (state != IdeaState::Drawn || idea.unused)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::{Timestamp, ToSpan};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::NewIdea;
    use crate::rules::sample::record;

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

    #[test]
    fn what_is_new_and_what_is_a_lesson_comes_first_and_nothing_twice() {
        let records = [
            record(json!({"id": 1, "outcome": "crash", "proposal": {"findings": ["oldest", "twice"]}})),
            record(json!({"id": 2, "outcome": "discard", "proposal": {"lesson": "old lesson"}})),
            record(json!({"id": 9, "outcome": "discard", "proposal": {"findings": ["twice"], "lesson": "lesson"}})),
            record(json!({"id": 11})),
        ];
        let noted = [(9.into(), "twice".to_owned()), (12.into(), "of an idle call".to_owned())];
        let texts: Vec<_> = learned(&records, &noted)
            .into_iter()
            .map(|note| format!("{} {:?} {}", note.experiment, note.outcome.map(<&str>::from), note.text))
            .collect();
        let expected = [
            "9 Some(\"discard\") lesson",
            "2 Some(\"discard\") old lesson",
            "12 None of an idle call",
            "9 Some(\"discard\") twice",
            "1 Some(\"crash\") oldest",
        ];
        assert_eq!(texts, expected);
        assert!(learned(&[], &[]).is_empty());
    }

    fn idea(id: u32, score: Option<f64>, by: &str) -> Idea {
        let direction = Some(format!("d{}", id % 10));
        Idea {
            id,
            idea: NewIdea { text: format!("idea {id}"), direction, score, ..NewIdea::default() },
            by: by.into(),
            time: Timestamp::UNIX_EPOCH,
            state: IdeaState::Open,
            unused: false,
        }
    }

    /// An idea drawn as by default.
    fn draw<'a>(ideas: &'a [Idea], seed: &str, tried: &[TriedDirection]) -> Option<&'a Idea> {
        super::draw(ideas, IdeaKind::Idea, Draw::default(), seed, tried, |_| 0)
    }

    #[test]
    fn sources_are_drawn_apart_from_ideas_and_as_asked_for() {
        let mut ideas: Vec<_> = (1..=9).map(|id| idea(id, Some(f64::from(id)), USER)).collect();
        ideas.iter_mut().filter(|idea| idea.id > 3).for_each(|idea| idea.idea.kind = IdeaKind::Source);
        // One that the user did not score comes before all that are scored, among its own kind.
        ideas.push(idea(10, None, USER));
        let drawn = |kind: IdeaKind, how: Draw| -> Vec<u32> {
            let of = |n: u32| super::draw(&ideas, kind, how, &format!("t/{n}"), &[], |_| 0).unwrap().id;
            let mut ids: Vec<u32> = (0..200).map(of).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(drawn(IdeaKind::Source, Draw::Best), [9]);
        assert_eq!(drawn(IdeaKind::Source, Draw::Uniform(1)), [9]);
        assert_eq!(drawn(IdeaKind::Source, Draw::Uniform(3)), [7, 8, 9]);
        assert_eq!(drawn(IdeaKind::Source, Draw::Uniform(u32::MAX)), [4, 5, 6, 7, 8, 9]);
        assert_eq!(drawn(IdeaKind::Idea, Draw::Best), [10]);
        assert_eq!(drawn(IdeaKind::Idea, Draw::Uniform(2)), [3, 10]);
    }

    #[test]
    fn each_of_the_best_fifty_has_its_turn_and_no_other() {
        let mut ideas: Vec<_> = (1..=70).map(|id| idea(id, Some(f64::from(id)), "agent of t/1")).collect();
        ideas.push(idea(71, None, USER));
        ideas.push(idea(72, None, "agent of t/1"));
        ideas[69].state = IdeaState::Dropped;
        let mut drawn: BTreeMap<u32, u32> = BTreeMap::new();
        for experiment in 0..5000 {
            *drawn.entry(draw(&ideas, &format!("t/{experiment}"), &[]).unwrap().id).or_default() += 1;
        }
        let expected: Vec<u32> = (21..=69).chain([71]).collect();
        assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), expected);
        assert!(drawn.values().all(|times| (50..200).contains(times)), "{drawn:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same_one_also_when_others_are_gone() {
        let mut ideas: Vec<_> = (1..=9).map(|id| idea(id, None, USER)).collect();
        let first = draw(&ideas, "t/7", &[]).unwrap().id;
        ideas.retain(|idea| idea.id == first || idea.id % 2 == 0);
        assert_eq!(draw(&ideas, "t/7", &[]).unwrap().id, first);
        let tried =
            |direction: String| TriedDirection { direction, experiments: 1, kept: 0, best: None, last: 1.into() };
        let all: Vec<_> = ideas.iter().map(|idea| tried(format!("D{}", idea.id))).collect();
        assert_eq!(draw(&ideas, "t/7", &all), None);
    }

    #[test]
    fn what_was_offered_and_not_used_comes_in_turn() {
        let mut ideas = vec![idea(1, Some(0.1), USER), idea(2, Some(0.9), USER), idea(3, None, USER)];
        let mut offered: Vec<u32> = Vec::new();
        for n in 0..8 {
            let count = |idea: &Idea| offered.iter().filter(|id| **id == idea.id).count();
            let id = super::draw(&ideas, IdeaKind::Idea, Draw::Best, &format!("t/{n}"), &[], count).unwrap().id;
            offered.push(id);
            let drawn = ideas.iter_mut().find(|idea| idea.id == id).unwrap();
            (drawn.state, drawn.unused) = (IdeaState::Drawn, true);
        }
        // The idea without a score comes first, then the others by score, then all in turn again.
        assert_eq!(offered, [3, 2, 1, 3, 2, 1, 3, 2]);
    }

    #[test]
    fn an_idea_is_used_where_the_agent_says_so_or_its_words_do() {
        let idea =
            |text: &str| Idea { idea: NewIdea { text: text.into(), ..NewIdea::default() }, ..idea(3, None, USER) };
        let is_used = |text: &str, fields: serde_json::Value| is_used(&record(fields), &idea(text));
        assert!(is_used("warm restarts", json!({"description": "raise lr", "proposal": {"idea": 3}})));
        assert!(!is_used("warm restarts", json!({"description": "warm restarts", "proposal": {"idea": 4}})));
        assert!(is_used("half the rate at the end", json!({"description": "lower the rate at the end"})));
        assert!(!is_used("half the rate at the end", json!({"description": "a deeper model at the end"})));
        let mut unused = Idea { state: IdeaState::Drawn, unused: true, ..idea("x") };
        assert_eq!(draw(std::slice::from_ref(&unused), "t/7", &[]).map(|idea| idea.id), Some(3));
        unused.unused = false;
        assert_eq!(draw(std::slice::from_ref(&unused), "t/7", &[]), None);
    }

    #[test]
    fn an_idea_is_the_same_in_other_letters_and_not_with_another_sign() {
        assert_eq!(idea_key("Half the  rate"), idea_key("half the rate "));
        assert_ne!(idea_key("lr*2"), idea_key("lr/2"));
    }
}
