//! What earlier experiments taught, of this session and of others.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

/// The outcome of a lesson that a kept experiment taught.
pub const KEPT: &str = "keep";

/// What tells a lesson from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LessonId {
    /// It was learned at one point of a session.
    Point {
        /// The session's tag.
        session: String,
        /// Which point: an experiment's number, `pivot-2`, `summary-17`.
        point: String,
    },
    /// Several older lessons of one strategy, folded together.
    Folded {
        /// How many.
        lessons: u32,
        /// How many of them were of kept experiments.
        kept: u32,
    },
}

impl fmt::Display for LessonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LessonId::Point { session, point } => write!(f, "{session}/{point}"),
            LessonId::Folded { lessons, kept } => write!(f, "folded {lessons} {kept}"),
        }
    }
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

/// One entry of `autoresearch-lessons.md`. Its texts are one line each; one that is empty is not said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// Which one it is.
    pub id: LessonId,
    /// The direction that it is about.
    pub strategy: String,
    /// What came of it: `keep`, `pivot`, `summary`, or how much is folded together.
    pub outcome: String,
    /// What is to be known.
    pub insight: String,
    /// The session, the metric, and from which number to which.
    pub context: String,
    /// The experiments that it is from.
    pub experiment: String,
    /// When it was learned.
    pub time: Timestamp,
}
