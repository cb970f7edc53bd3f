//! The agent's proposal.

use std::path::Path;
use std::{io, slice};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::domain::{IdeaKind, NewIdea, one_line};
use crate::fs::{read_at_most, read_tail};
use crate::measure::plain_text;

/// The most characters of a description: the longest in public ledgers has 661.
const MAX_DESCRIPTION: usize = 1000;

/// The largest file, in bytes: hundreds of the longest texts.
const LARGEST: u64 = 1 << 20;

/// The most ideas of one proposal: more than a serious agent has.
const MAX_IDEAS: usize = 20;

/// The fields that hold one text each.
const TEXTS: [&str; 5] = ["description", "direction", "hypothesis", "expected", "lesson"];

/// The content of `$AR_PROPOSAL`. Every field is optional; those of a wrong type are skipped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposal {
    /// The description, on one line.
    pub description: Option<String>,
    /// The strategy that it belongs to.
    pub direction: Option<String>,
    /// The reason to expect that it works.
    pub hypothesis: Option<String>,
    /// The expected value.
    pub expected: Option<String>,
    /// The agent's findings from earlier experiments.
    pub findings: Vec<String>,
    /// A lesson for later sessions.
    pub lesson: Option<String>,
    /// Ideas for later experiments.
    pub ideas: Vec<NewIdea>,
    /// The number of the backlog's idea that the change uses.
    pub idea: Option<u32>,
    /// The number of the backlog's source that it uses.
    pub source: Option<u32>,
    /// The reason that `ar` ignored the file, or a part of it.
    pub error: Option<String>,
}

impl Proposal {
    /// Reads the file. A missing or empty one proposes nothing. So does an unreadable one or one without a JSON object,
    /// with the reason in `error`.
    pub fn read(path: &Path) -> Self {
        let failed = |error: String| Proposal { error: Some(one_line(&error)), ..Proposal::default() };
        match read_at_most(path, LARGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Proposal::default(),
            Err(error) => failed(format!("cannot read it: {error}")),
            Ok(bytes) if bytes.trim_ascii().is_empty() => Proposal::default(),
            Ok(bytes) => {
                Proposal::parse(&bytes).unwrap_or_else(|error| failed(format!("it is not a JSON object: {error}")))
            }
        }
    }

    /// Reads a text that must hold a JSON object.
    ///
    /// # Errors
    ///
    /// It contains something else.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        let fields: Map<String, Value> = serde_json::from_slice(text)?;
        Ok(Proposal::from_json(&fields))
    }

    /// The rest of the proposal, as the record stores it.
    pub fn more(&self) -> Map<String, Value> {
        let all = [
            ("hypothesis", json!(self.hypothesis)),
            ("expected", json!(self.expected)),
            ("lesson", json!(self.lesson)),
            ("findings", json!(self.findings)),
            ("ideas", json!(self.ideas)),
            (IdeaKind::Idea.used_field(), json!(self.idea)),
            (IdeaKind::Source.used_field(), json!(self.source)),
        ];
        let said = all.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
        said.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Findings and lesson for later agent calls, if this call made no experiment.
    pub fn learned(&self) -> Vec<String> {
        self.findings.iter().chain(&self.lesson).cloned().collect()
    }

    /// Takes the known fields of a JSON object.
    fn from_json(value: &Map<String, Value>) -> Self {
        let text = |name: &str| value.get(name).and_then(plain);
        let used = |kind: IdeaKind| u32::try_from(value.get(kind.used_field())?.as_u64()?).ok();
        let mut findings: Vec<String> = Vec::new();
        let said =
            value.get("findings").map_or(&[][..], |said| said.as_array().map_or(slice::from_ref(said), Vec::as_slice));
        let is_wrong =
            |name: &&str| value.get(*name).is_some_and(|field| matches!(field, Value::Array(_) | Value::Object(_)));
        let wrong: Vec<&str> = TEXTS.into_iter().filter(is_wrong).collect();
        for finding in said.iter().filter_map(plain) {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        Proposal {
            description: text("description"),
            direction: text("direction"),
            hypothesis: text("hypothesis"),
            expected: text("expected"),
            findings,
            lesson: text("lesson"),
            ideas: match value.get("ideas") {
                Some(Value::Array(items)) => items.iter().filter_map(idea).take(MAX_IDEAS).collect(),
                Some(other) => idea(other).into_iter().collect(),
                None => Vec::new(),
            },
            idea: used(IdeaKind::Idea),
            source: used(IdeaKind::Source),
            error: (!wrong.is_empty()).then(|| format!("not a text: {}", wrong.join(", "))),
        }
    }
}

/// An idea: a text, or an object that has one.
fn idea(value: &Value) -> Option<NewIdea> {
    let Value::Object(fields) = value else {
        return Some(NewIdea { text: plain(value)?, ..NewIdea::default() });
    };
    Some(NewIdea {
        text: fields.get("text").and_then(plain)?,
        kind: fields.get("kind").and_then(|kind| IdeaKind::deserialize(kind).ok()).unwrap_or_default(),
        direction: fields.get("direction").and_then(plain),
        score: fields.get("score").and_then(Value::as_f64),
    })
}

/// A string or a number as one line of text; `None` for anything else or empty.
fn plain(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => one_line(text),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let text: String = text.chars().take(MAX_DESCRIPTION).collect();
    (!text.is_empty()).then_some(text)
}

/// The end of `log` after byte `from`, without escape sequences; `None` if it cannot be read.
pub fn last_words(log: &Path, from: u64) -> String {
    read_tail(log, from).map(|tail| plain_text(&tail)).unwrap_or_default()
}

/// The last meaningful line of a text.
pub fn last_line(text: &str) -> Option<String> {
    text.lines().rev().find_map(|line| plain(&Value::String(line.to_owned())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn takes_what_fits_and_passes_over_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proposal.json");
        fs::write(
        &path,
        r#"{"description": "warmup\n0.15 ", "direction": ["no"], "expected": 1.25, "findings": "one", "x": 1,
            "ideas": ["deeper", {"text": "wider", "score": 0.5, "direction": 7}, {"score": 1}, [], {"text": "u", "kind": "source"}]}"#,
    )
    .unwrap();
        let expected = Proposal {
            description: Some("warmup 0.15".into()),
            expected: Some("1.25".into()),
            findings: vec!["one".into()],
            ideas: vec![
                NewIdea { text: "deeper".into(), ..NewIdea::default() },
                NewIdea { text: "wider".into(), direction: Some("7".into()), score: Some(0.5), ..NewIdea::default() },
                NewIdea { text: "u".into(), kind: IdeaKind::Source, ..NewIdea::default() },
            ],
            error: Some("not a text: direction".into()),
            ..Proposal::default()
        };
        assert_eq!(Proposal::read(&path), expected);
        assert_eq!(Proposal::read(&folder.path().join("absent")), Proposal::default());
        for (content, error) in [
            ("not json", "it is not a JSON object: expected ident at line 1 column 2"),
            ("[1]", "it is not a JSON object: invalid type: sequence, expected a map at line 1 column 0"),
            ("{\"description\": \"a \"b\"\"}", "it is not a JSON object: expected `,` or `}` at line 1 column 21"),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(Proposal::read(&path), Proposal { error: Some(error.into()), ..Proposal::default() });
        }
        fs::write(&path, " \n").unwrap();
        assert_eq!(Proposal::read(&path), Proposal::default());
        // It takes no space on the disk and none in memory.
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(Proposal::read(&path).error.unwrap().starts_with("cannot read it: "));
    }

    #[test]
    fn the_last_line_is_of_this_call_and_without_colour() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.log");
        fs::write(&path, "old\n\u{1b}[32mraised the rate\u{1b}[0m\n\n  \n").unwrap();
        let said = |from| last_line(&last_words(&path, from));
        assert_eq!(said(4).as_deref(), Some("raised the rate"));
        assert_eq!(said(fs::metadata(&path).unwrap().len()), None);
    }
}
