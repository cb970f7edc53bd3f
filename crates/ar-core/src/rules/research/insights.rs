//! Lessons of a session: from keeps, from abandoned strategies, and from finished loops.

use std::collections::BTreeMap;

use crate::domain::{KEPT, Lesson, LessonId, Outcome, Record, Tag, count_of};
use crate::rules::history::{History, directions_tried, is_sound, same_direction};

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
        time: record.finished,
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
        time: last.finished,
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
        time: last.finished,
    })
}

/// The place of the last record covered by a summary: `after`, or a later one with a summary among `lessons`. A summary
/// of an earlier session with the same tag has another time.
pub fn summed_up(history: &History, lessons: &[Lesson], after: u32) -> u32 {
    let is_last = |record: &&Record| {
        lessons.iter().any(|lesson| lesson.time == record.finished && lesson.id == summary_id(record))
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
