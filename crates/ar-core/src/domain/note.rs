//! The user's notes on experiments.

use jiff::Timestamp;
use serde::Serialize;

use super::{ExperimentId, Tag, exact_time, one_line};

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
