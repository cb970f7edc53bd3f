//! Names that people give to experiments.

use std::fmt;
use std::str::FromStr;

use super::{ExperimentId, Tag, nearest};

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
