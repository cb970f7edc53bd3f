//! The search for mentions of a metric in complete lines: by its name, or by a pattern.

use std::ops::Range;

use memchr::{memchr2, memmem, memrchr2};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::name::{LEFT, RIGHT, Reading, reading_between};
use super::number::{Value, whole};
use super::standing::Standing;
use crate::domain::Number;

/// The value in the last mention of the metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// A finite number.
    Number(Number),
    /// `nan`, `inf` or a number too large or too small for a double, as it was written.
    NotFinite(String),
}

impl From<Value> for Found {
    fn from(value: Value) -> Self {
        match value {
            Value::Finite(number) => Found::Number(number),
            Value::NotFinite(raw) => Found::NotFinite(raw),
        }
    }
}

/// An error in the name or pattern of a metric.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The name is empty or spans lines.
    #[error("`{0}` cannot be the name of a metric in a log")]
    Name(String),
    /// The pattern is not a regular expression.
    #[error("cannot parse the metric's pattern")]
    Syntax(#[source] regex::Error),
    /// The pattern does not say where the number stands.
    #[error("the metric's pattern `{pattern}` has {groups} groups, not one")]
    Groups {
        /// The pattern.
        pattern: String,
        /// The number of groups in it.
        groups: usize,
    },
}

impl PatternError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            PatternError::Name(_) => "give the metric's name as the log prints it: `--metric val_bpb`".to_owned(),
            PatternError::Syntax(_) => concat!(
                "put the pattern in single quotes and escape `(`, `[`, `+` with a backslash: ",
                r"`--metric-regex 'loss \(mean\): ([0-9.]+)'`"
            )
            .to_owned(),
            PatternError::Groups { .. } => {
                "put parentheses around the number and nothing else; `(?:…)` groups without counting: \
                 `--metric-regex 'loss: ([0-9.]+)'`"
                    .to_owned()
            }
        })
    }
}

/// Finds mentions in lines without escapes.
#[derive(Debug)]
pub(super) enum Search {
    /// By names.
    Names(Vec<memmem::Finder<'static>>),
    /// By a regular expression with one group, line by line.
    Pattern(Regex),
}

impl Search {
    /// Searches for names.
    pub(super) fn names(names: &[&str]) -> Self {
        Search::Names(names.iter().map(|name| memmem::Finder::new(name).into_owned()).collect())
    }

    /// Searches for a pattern.
    ///
    /// # Errors
    ///
    /// The pattern is invalid, or has not exactly one group.
    pub(super) fn pattern(pattern: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(pattern).map_err(PatternError::Syntax)?;
        let groups = regex.captures_len() - 1;
        if groups != 1 {
            return Err(PatternError::Groups { pattern: pattern.to_owned(), groups });
        }
        Ok(Search::Pattern(regex))
    }

    /// Passes the mentions that begin in a range of `lines` to `take`, last one first, until it returns true.
    /// Each comes with the index of its name.
    pub(super) fn backwards(&self, lines: &[u8], range: &Range<usize>, mut take: impl FnMut(usize, Reading) -> bool) {
        match self {
            Search::Names(names) => {
                let mut found = Vec::new();
                for (which, name) in names.iter().enumerate() {
                    let mut at = range.start;
                    while let Some(offset) = name.find(&lines[at..]).filter(|offset| at + offset < range.end) {
                        found.push((at + offset, which));
                        at += offset + 1;
                    }
                }
                found.sort_unstable();
                for (at, which) in found.into_iter().rev() {
                    if named_value(lines, at, names[which].needle()).is_some_and(|reading| take(which, reading)) {
                        return;
                    }
                }
            }
            Search::Pattern(regex) => {
                let mut end = lines.len();
                loop {
                    let start = memrchr2(b'\n', b'\r', &lines[..end]).map_or(0, |brk| brk + 1);
                    let values: Vec<Value> = regex
                        .captures_iter(&lines[start..end])
                        .filter(|found| found.get(0).is_some_and(|all| range.contains(&(start + all.start()))))
                        .filter_map(|found| whole(found.get(1)?.as_bytes()))
                        .collect();
                    if values.into_iter().rev().any(|value| take(0, Reading::Value(Standing::WHOLE, value))) {
                        return;
                    }
                    let Some(before) = start.checked_sub(1) else { return };
                    end = before;
                }
            }
        }
    }
}

/// The mention of a name at `at`, if it is the metric's own.
fn named_value(plain: &[u8], at: usize, name: &[u8]) -> Option<Reading> {
    let behind = &plain[at + name.len()..];
    let behind = &behind[..behind.len().min(RIGHT)];
    let line_end = memchr2(b'\n', b'\r', behind);
    let before = &plain[at.saturating_sub(LEFT)..at];
    let left = &before[memrchr2(b'\n', b'\r', before).map_or(0, |brk| brk + 1)..];
    let right = &behind[..line_end.unwrap_or(behind.len())];
    let is_cut = line_end.is_none() && behind.len() == RIGHT;
    reading_between(std::str::from_utf8(name).ok()?, left, right, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_come_last_one_first_until_one_is_taken() {
        let log = [&b"a: 1\nb: 2\n"[..], &b"step 7\n".repeat(5000), b"a: 3 | b: 4\nb: x\n"].concat();
        let mut seen = Vec::new();
        Search::names(&["a", "b"]).backwards(&log, &(0..log.len()), |which, reading| {
            if let Reading::Value(_, Value::Finite(number)) = reading {
                seen.push((which, number.raw));
            }
            seen.len() == 3
        });
        assert_eq!(seen, [(1, "4".to_owned()), (0, "3".to_owned()), (1, "2".to_owned())]);
    }
}
