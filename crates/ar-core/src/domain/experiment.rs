//! An experiment: its number, its name, its step, its outcome, and whose working tree it is in.
//!
//! The name of a session.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{Layout, nearest};

/// The number of an experiment within its session. It is given when the attempt is opened, and numbers may have gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExperimentId(u32);

impl ExperimentId {
    /// The baseline, the first experiment of every session.
    pub const BASELINE: ExperimentId = ExperimentId(0);

    /// Returns whether this is the baseline.
    pub fn is_baseline(self) -> bool {
        self == ExperimentId::BASELINE
    }

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> ExperimentId {
        ExperimentId(self.0 + 1)
    }

    /// The number before this one; the baseline stays where it is.
    #[must_use]
    pub fn previous(self) -> ExperimentId {
        ExperimentId(self.0.saturating_sub(1))
    }

    /// The bare number, to place it on an axis or to look for gaps.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl From<u32> for ExperimentId {
    fn from(number: u32) -> Self {
        ExperimentId(number)
    }
}

impl FromStr for ExperimentId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(ExperimentId).map_err(|_| "must be the number of an experiment")
    }
}

impl fmt::Display for ExperimentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With the width that the caller asks for: refs and run folders write `00007`.
        self.0.fmt(f)
    }
}

/// The fewest digits that name a commit, as in git.
pub const FEWEST_DIGITS: usize = 4;

/// The name of an experiment within a session.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Which {
    /// The best one that was kept.
    Best,
    /// Experiment 0.
    Baseline,
    /// The newest one.
    Last,
    /// The experiment with this number, else the one whose commit starts with these lower-case hexadecimal digits.
    #[strum(to_string = "{0}")]
    Digits(String),
}

/// The name of an experiment as the user writes it: `7`, `3fa9c1`, `best`, `baseline`, `last`, or of another session:
/// `nov20/7`, or `nov20:7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentName {
    /// The session, if named.
    pub tag: Option<Tag>,
    /// The experiment.
    pub which: Which,
}

/// The error for a text that is not an [`ExperimentName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no experiment{meant}: write its number, at least {FEWEST_DIGITS} digits of its commit, best, baseline or \
     last, as in 7, or nov20/7 for one of another session",
    text = .0,
    meant = meant(.0)
)]
pub struct ExperimentNameError(String);

/// The experiments with a name of their own.
const NAMED: [&str; 3] = ["best", "baseline", "last"];

fn meant(text: &str) -> String {
    let name = text.rsplit('/').next().unwrap_or(text);
    nearest(name, NAMED).map(|name| format!(", did you mean {name}?")).unwrap_or_default()
}

impl FromStr for ExperimentName {
    type Err = ExperimentNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ExperimentNameError(text.to_owned());
        let (tag, name) = match text.split_once(['/', ':']) {
            Some((tag, name)) => (Some(tag.parse().map_err(|_| wrong())?), name),
            None => (None, text),
        };
        let which = match name {
            "best" => Which::Best,
            "baseline" => Which::Baseline,
            "last" => Which::Last,
            digits => {
                let is_number =
                    digits.parse::<ExperimentId>().is_ok() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let is_hash = digits.len() >= FEWEST_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                if !is_number && !is_hash {
                    return Err(wrong());
                }
                Which::Digits(digits.to_ascii_lowercase())
            }
        };
        Ok(ExperimentName { tag, which })
    }
}

impl fmt::Display for ExperimentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tag {
            Some(tag) => write!(f, "{tag}/{}", self.which),
            None => write!(f, "{}", self.which),
        }
    }
}

/// Whose working tree an experiment is made, or run, in. All that differs between *in place* and slots is a question here:
///
/// | Question | The user's tree | A tree of `ar`'s own |
/// |---|---|---|
/// | [`TreeOwner::follows_branch`] | `HEAD` is on the branch and moves with it | `HEAD` is detached; the branch moves alone |
/// | [`TreeOwner::has_user`] | the user's edits, files and settings are noted, reported and kept | only `ar` and jobs work in it |
/// | [`TreeOwner::is_disposable`] | it is never cleared; the loop ends without it | it is cleared for each job, and rebuilt |
/// | [`TreeOwner::is_one_of_many`] | an attempt stays from its call to its record | a commit under `open/` leaves it and waits |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeOwner {
    /// The user's, *in place*.
    User,
    /// A linked one that `ar` made, for a slot or a seat.
    Program,
}

impl TreeOwner {
    /// Returns the kind of tree in which a session with this layout makes and runs its experiments.
    pub fn of(layout: Option<&Layout>) -> TreeOwner {
        if layout.is_some() { TreeOwner::Program } else { TreeOwner::User }
    }

    /// Returns whether `HEAD` is on the session's branch. Then a record moves branch, index and files together.
    pub fn follows_branch(self) -> bool {
        self == TreeOwner::User
    }

    /// Returns whether the user may work in it meanwhile. Then a session locks it, and separates the user's files from
    /// those of jobs.
    pub fn has_user(self) -> bool {
        self == TreeOwner::User
    }

    /// Returns whether `ar` may clear it before a job, and rebuilds it if an agent deleted it.
    pub fn is_disposable(self) -> bool {
        self == TreeOwner::Program
    }

    /// Returns whether attempts are open side by side. Each gets its number in advance, and waits as a commit for a
    /// free tree.
    pub fn is_one_of_many(self) -> bool {
        self == TreeOwner::Program
    }
}

/// The step that an experiment is in; ARCHITECTURE.md has the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// No experiment is open.
    Idle,
    /// The agent edits the working tree.
    Proposing,
    /// The change is a commit whose run is not prepared yet.
    Committing,
    /// The measuring command runs or is about to start.
    Running,
    /// The value would be kept, and the guards run.
    Guarding,
    /// Fresh runs decide whether the value is kept.
    Confirming,
    /// An independent reviewer judges whether the value was earned.
    Reviewing,
    /// It beat its own base while another experiment was kept, and waits for a train.
    Waiting,
    /// The best experiment runs once again, since change after change crashed. No experiment is open but for that.
    Checking,
    /// `ar` records the verdict.
    Recording,
    /// The record exists; row, branch and working tree follow.
    Settling,
}

/// The verdict on an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    /// Better than the incumbent: the branch stays at it.
    Keep,
    /// Measured, but not better: the branch returns to its base.
    Discard,
    /// Without a measured value: it failed, or `ar` refused it before it ran.
    Crash,
}

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
    /// Files and refs are named after it, with more behind it.
    #[error("a tag has at most {LONGEST} characters, and this one has {0}")]
    Long(usize),
}

/// The most characters of a new session's tag.
const LONGEST: usize = 100;

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

    /// It, if a new session can have it.
    ///
    /// # Errors
    ///
    /// It has more than 100 characters; a session that exists may have such a tag.
    pub fn for_new_session(self) -> Result<Tag, TagError> {
        let length = self.0.chars().count();
        if length > LONGEST { Err(TagError::Long(length)) } else { Ok(self) }
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
    fn names_read_as_people_write_them() {
        for text in ["0", "7", "00007", "3fa9", "best", "baseline", "last", "nov20/7", "nov20-lr/best"] {
            assert_eq!(text.parse::<ExperimentName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("3FA9".parse::<ExperimentName>().map(|name| name.to_string()), Ok("3fa9".to_owned()));
        for wrong in ["", "-1", "+7", "3fa", "first", "nov20/", "/7", "nov 20/7", "a/b/7", "99999999999999x"] {
            assert!(wrong.parse::<ExperimentName>().is_err(), "{wrong}");
        }
    }
}

#[cfg(test)]
mod tag_tests {
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
    fn a_long_one_is_refused_where_a_session_begins_alone() {
        let tag = |length: usize| "a".repeat(length).parse::<Tag>().unwrap();
        assert_eq!(tag(LONGEST).for_new_session(), Ok(tag(LONGEST)));
        assert_eq!(tag(LONGEST + 1).for_new_session(), Err(TagError::Long(LONGEST + 1)));
    }

    #[test]
    fn defaults_to_month_and_day_and_counts_on() {
        let day = jiff::civil::date(2026, 11, 5);
        assert_eq!(Tag::for_day(day, |_| false).as_str(), "nov05");
        assert_eq!(Tag::for_day(day, |tag| tag.as_str() != "nov05-3").as_str(), "nov05-3");
    }
}
