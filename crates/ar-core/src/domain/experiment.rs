//! An experiment: its number, its name, its step, its outcome, and whose working tree it is in.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Layout, Tag, nearest};

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
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(ExperimentId)
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
