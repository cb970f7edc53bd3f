//! Memory beyond one call: lessons, the backlog of ideas, and the user's notes and messages.

use std::str::FromStr;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ExperimentId, Tag, exact_time, one_line};

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

/// The state of an idea.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IdeaState {
    /// No agent was offered it yet.
    Open,
    /// An agent was offered it and made an experiment.
    Drawn,
    /// An agent made an experiment of it, and `ar` kept that.
    Kept,
    /// The user or an agent dropped it.
    Dropped,
}

/// The kind of a backlog entry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::Display, strum::VariantArray, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IdeaKind {
    /// Something to try
    #[default]
    Idea,
    /// Something to read
    Source,
}

impl IdeaKind {
    /// The field of a record's proposal with the text of the one that the agent was offered.
    pub fn offered_field(self) -> &'static str {
        match self {
            IdeaKind::Idea => "offered_idea",
            IdeaKind::Source => "offered_source",
        }
    }

    /// The field of an agent's proposal with the number of the one that the change uses.
    pub fn used_field(self) -> &'static str {
        match self {
            IdeaKind::Idea => "idea",
            IdeaKind::Source => "source",
        }
    }
}

/// An idea that is not in the backlog yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewIdea {
    /// The thing to try or to read, on one line.
    pub text: String,
    /// Its kind: something to try, or to read.
    #[serde(default)]
    pub kind: IdeaKind,
    /// The strategy that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The author's score on a scale of their own; higher is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The author's name of the user's ideas.
pub const USER: &str = "user";

/// The author's name of an agent's ideas, by the experiment of its call.
pub fn agent_name(tag: &str, experiment: &str) -> String {
    format!("agent of {tag}/{experiment}")
}

/// The author's name of what search commands found, by the experiment that they were asked for.
pub fn search_name(tag: &str, experiment: &str) -> String {
    format!("search of {tag}/{experiment}")
}

/// One idea of the backlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idea {
    /// Its number, from 1.
    pub id: u32,
    /// The idea itself.
    #[serde(flatten)]
    pub idea: NewIdea,
    /// The author: `user`, or `agent of nov20/7`.
    pub by: String,
    /// When it was added.
    #[serde(with = "crate::domain::millis", alias = "ts")]
    pub time: Timestamp,
    /// Its state.
    pub state: IdeaState,
    /// True if an agent was offered it and made something else; then `ar` may offer it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unused: bool,
}

/// A note on an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// When it was written; absent if written with git alone.
    #[serde(serialize_with = "crate::domain::millis::option::serialize")]
    pub at: Option<Timestamp>,
    /// The author; absent if written with git alone.
    pub by: Option<String>,
    /// Its text, on one line.
    pub text: String,
}

impl Note {
    /// Formats its line among the notes on a commit: `2026-11-21T07:12:00.000Z nov20/7 Ada: a spike at step 300`.
    pub fn line(at: Timestamp, tag: &Tag, id: ExperimentId, by: &str, text: &str) -> String {
        // The first `: ` ends the name.
        let by = one_line(by).replace(": ", " ");
        format!("{} {tag}/{id} {by}: {}", exact_time(at), one_line(text))
    }

    /// Parses git's notes on a commit and returns those on experiment `id`. A line that names no experiment was written
    /// with git alone and counts. Lines that name another experiment of the same commit, a baseline, do not.
    pub fn read_all(text: &str, tag: &Tag, id: ExperimentId) -> Vec<Note> {
        let own = format!("{tag}/{id}");
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .filter_map(|line| match parts(line) {
                Some((_, of, ..)) if of != own => None,
                Some((at, _, by, text)) => Some(Note { at: Some(at), by: Some(by.to_owned()), text: one_line(text) }),
                None => Some(Note { at: None, by: None, text: one_line(line) }),
            })
            .collect()
    }
}

/// Parses a line: time, experiment, author, text.
fn parts(line: &str) -> Option<(Timestamp, &str, &str, &str)> {
    let (at, rest) = line.split_once(' ')?;
    let (of, rest) = rest.split_once(' ')?;
    let (by, text) = rest.split_once(": ")?;
    let (tag, id) = of.split_once('/')?;
    (tag.parse::<Tag>().is_ok() && id.parse::<ExperimentId>().is_ok()).then_some((at.parse().ok()?, of, by, text))
}

/// A word of the user to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Its number.
    pub id: u32,
    /// Its text, of several lines where the user wrote several.
    pub text: String,
    /// True if each prompt contains it, false if only the next one does.
    pub standing: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_those_of_others_are_left_out() {
        let at: Timestamp = "2026-11-21T07:12:00Z".parse().unwrap();
        let tag: Tag = "nov20".parse().unwrap();
        let lines = [
            Note::line(at, &tag, 7.into(), "A: Lovelace", "a spike:\nlook"),
            Note::line(at, &"other".parse().unwrap(), 7.into(), "B", "not this one"),
            String::new(),
            "made with git".to_owned(),
        ];
        assert_eq!(lines[0], "2026-11-21T07:12:00.000Z nov20/7 A Lovelace: a spike: look");
        let notes = Note::read_all(&lines.join("\n"), &tag, 7.into());
        let own = Note { at: Some(at), by: Some("A Lovelace".into()), text: "a spike: look".into() };
        assert_eq!(notes, [own, Note { at: None, by: None, text: "made with git".into() }]);
    }
}
