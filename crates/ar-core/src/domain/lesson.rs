//! Lessons of earlier experiments, from this session and others.

use std::str::FromStr;

use jiff::Timestamp;

/// The outcome of a lesson from a kept experiment.
pub const KEPT: &str = "keep";

/// The identity of a lesson.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display)]
pub enum LessonId {
    /// A lesson from one point of a session.
    #[strum(to_string = "{session}/{point}")]
    Point {
        /// The session's tag.
        session: String,
        /// The point: an experiment's number, `pivot-2`, `summary-17`.
        point: String,
    },
    /// A merger of several older lessons of one strategy.
    #[strum(to_string = "folded {lessons} {kept}")]
    Folded {
        /// The number of merged lessons.
        lessons: u32,
        /// The number of them from kept experiments.
        kept: u32,
    },
}

impl FromStr for LessonId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((lessons, kept)) = text.strip_prefix("folded ").and_then(|counts| counts.split_once(' ')) {
            let number = |text: &str| text.parse().map_err(drop);
            return Ok(LessonId::Folded { lessons: number(lessons)?, kept: number(kept)? });
        }
        let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
        match text.split_once('/') {
            Some((session, point)) if is_word(session) && is_word(point) => {
                Ok(LessonId::Point { session: session.to_owned(), point: point.to_owned() })
            }
            _ => Err(()),
        }
    }
}

/// One entry of `autoresearch-lessons.md`. Each text is one line; empty ones are omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// Its identity.
    pub id: LessonId,
    /// Its direction.
    pub strategy: String,
    /// Its outcome: `keep`, `pivot`, `summary`, or how many lessons it merges.
    pub outcome: String,
    /// The lesson.
    pub insight: String,
    /// The session, the metric, and its values before and after.
    pub context: String,
    /// The experiments that taught it.
    pub experiment: String,
    /// When it was learned.
    pub time: Timestamp,
}
