//! The name of a session.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::ExperimentId;

/// A session's tag: what follows `autoresearch/` in its branch; matches `[a-z0-9][a-z0-9._-]*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tag(String);

/// The error for a text that is not a [`Tag`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// It does not match `[a-z0-9][a-z0-9._-]*`.
    #[error(
        "`{0}` is not a tag: it must start with a lower-case letter or a digit and hold only those and `.`, `_`, `-`"
    )]
    Characters(String),
    /// It is well-formed, but not valid in a git ref name.
    #[error("`{0}` is not a tag: git refuses names that hold `..`, or end in `.` or `.lock`")]
    RefFormat(String),
    /// Windows treats it as a device, whatever follows a dot.
    #[error("`{0}` is not a tag: Windows reserves the name `{1}`, so nobody could check its branch out there")]
    Reserved(String, String),
}

/// The names of Windows devices, which exist in every folder.
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The Windows device that a text would name, if any.
fn reserved(text: &str) -> Option<&str> {
    let stem = text.split('.').next().unwrap_or(text);
    let is_numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|number| number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit()))
    };
    (RESERVED.contains(&stem) || is_numbered("com") || is_numbered("lpt")).then_some(stem)
}

impl Tag {
    /// The tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first free tag for a day: month and day (`nov20`), then `nov20-2` and so on.
    pub fn for_day(day: Date, mut taken: impl FnMut(&Tag) -> bool) -> Tag {
        let first = day.strftime("%b%d").to_string().to_lowercase();
        (1u32..)
            .map(|n| Tag(if n == 1 { first.clone() } else { format!("{first}-{n}") }))
            .find(|tag| !taken(tag))
            .unwrap_or(Tag(first))
    }

    /// The first free tag behind this one: `s-2`, then `s-3`; behind `s-2` it is `s-3`, where `s` is known.
    pub fn next(&self, mut is_known: impl FnMut(&Tag) -> bool) -> Tag {
        let numbered = self.0.rsplit_once('-').and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?)));
        let (base, from) = match numbered {
            Some((base, number)) if number > 1 && is_known(&Tag(base.to_owned())) => (base, number.saturating_add(1)),
            _ => (self.0.as_str(), 2),
        };
        let tag = |number: u32| Tag(format!("{base}-{number}"));
        (from..).map(tag).find(|tag| !is_known(tag)).unwrap_or(tag(from))
    }

    /// The session's branch as a full ref name.
    pub fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.branch())
    }

    /// The session's branch as git shows it.
    pub fn branch(&self) -> String {
        format!("autoresearch/{}", self.0)
    }

    /// The folder of the session's record refs, without a closing slash.
    pub fn ref_prefix(&self) -> String {
        format!("refs/autoresearch/{}", self.0)
    }

    /// The record ref of experiment `id`.
    pub fn record_ref(&self, id: ExperimentId) -> String {
        format!("{}/{id:05}", self.ref_prefix())
    }

    /// The ref of what fresh runs say of two experiments; the first one may be of the session `other`.
    pub fn verified_ref(&self, other: Option<&Tag>, a: ExperimentId, b: ExperimentId) -> String {
        let other = other.map(|other| format!("{other}-")).unwrap_or_default();
        format!("{}/verified/{other}{a:05}-{b:05}", self.ref_prefix())
    }

    /// The ref of what the kept changes of the best experiment carry.
    pub fn ablated_ref(&self, best: ExperimentId) -> String {
        format!("{}/ablated/{best:05}", self.ref_prefix())
    }

    /// The ref that keeps the commit of attempt `id` while it is open.
    pub fn open_ref(&self, id: ExperimentId) -> String {
        format!("{}/open/{id:05}", self.ref_prefix())
    }

    /// The ref that keeps the commit that experiment `id` had before it was kept with a train.
    pub fn merged_ref(&self, id: ExperimentId) -> String {
        format!("{}/merged/{id:05}", self.ref_prefix())
    }
}

impl FromStr for Tag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match reserved(text) {
            Some(device) => Err(TagError::Reserved(text.to_owned(), device.to_owned())),
            None => Tag::stored(text),
        }
    }
}

impl Tag {
    /// A tag that a session already has.
    fn stored(text: &str) -> Result<Self, TagError> {
        let mut chars = text.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let rest = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'));
        if !first || !rest {
            return Err(TagError::Characters(text.to_owned()));
        }
        if text.contains("..") || text.ends_with('.') || text.ends_with(".lock") {
            return Err(TagError::RefFormat(text.to_owned()));
        }
        Ok(Tag(text.to_owned()))
    }
}

impl TryFrom<String> for Tag {
    type Error = TagError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Tag::stored(&text)
    }
}

impl From<Tag> for String {
    fn from(tag: Tag) -> Self {
        tag.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_design_and_git() {
        for good in ["nov20", "nov20-2", "0", "a.b_c-d"] {
            assert!(good.parse::<Tag>().is_ok(), "{good}");
        }
        for bad in ["", "Nov20", "-a", ".a", "a/b", "a b", "a..b", "a.", "a.lock", "ä", "a~1", "a@{b"] {
            assert!(bad.parse::<Tag>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_what_windows_reserves() {
        for reserved in ["con", "aux", "nul.2", "com1", "lpt9"] {
            let error = reserved.parse::<Tag>().unwrap_err().to_string();
            assert!(error.contains("Windows reserves"), "{error}");
        }
        for free in ["console", "com", "com10", "aux-2", "null"] {
            assert!(free.parse::<Tag>().is_ok(), "{free}");
        }
        assert!(serde_json::from_str::<Tag>("\"aux\"").is_ok(), "a session that is there can be read");
    }

    #[test]
    fn defaults_to_month_and_day_and_counts_on() {
        let day = jiff::civil::date(2026, 11, 5);
        assert_eq!(Tag::for_day(day, |_| false).as_str(), "nov05");
        assert_eq!(Tag::for_day(day, |tag| tag.as_str() != "nov05-3").as_str(), "nov05-3");
    }
}
