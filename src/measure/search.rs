//! The search for mentions of a metric in plain bytes: by its name, or by a pattern.

use std::ops::Range;

use memchr::{memchr2, memmem, memrchr2};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::name::{LEFT, RIGHT, value_between};
use super::number::{Value, whole};
use crate::domain::Number;

/// How far back names are looked for in one go, in bytes: little enough that a name on every line costs little, and enough
/// that its absence costs no more than in one search.
const STRETCH: usize = 8 * 1024;

/// How much of a line a pattern sees at once, in bytes; a longer line is seen in pieces that overlap by [`OVERLAP`].
pub(super) const PIECE: usize = 64 * 1024;

pub(super) const OVERLAP: usize = 8 * 1024;

/// What the last mention of the metric said.
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

/// Why a metric cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The name is empty or spans lines.
    #[error("`{0}` cannot be the name of a metric in a log")]
    Name(String),
    /// The pattern is no regular expression.
    #[error("cannot parse the metric's pattern")]
    Syntax(#[source] regex::Error),
    /// The pattern does not say where the number stands.
    #[error("the metric's pattern `{pattern}` has {groups} groups, not one")]
    Groups {
        /// The pattern.
        pattern: String,
        /// How many groups it has.
        groups: usize,
    },
}

impl PatternError {
    /// What to do about it.
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

/// What the mentions of a name said.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// The last one.
    pub(super) found: Option<Found>,
    /// The last one that is finite.
    pub(super) finite: Option<Number>,
}

impl Hits {
    /// Takes what the last and the last finite mention in a later part of the log said.
    pub(super) fn go_on(&mut self, found: Option<Found>, finite: Option<Number>) {
        self.found = found.or(self.found.take());
        self.finite = finite.or(self.finite.take());
    }
}

/// The search for a name.
#[derive(Debug, Clone)]
pub(super) struct Named {
    finder: memmem::Finder<'static>,
}

impl Named {
    pub(super) fn new(name: &str) -> Self {
        Named { finder: memmem::Finder::new(name).into_owned() }
    }

    /// The name.
    pub(super) fn name(&self) -> &[u8] {
        self.finder.needle()
    }

    /// What the last of the names that begin in `range` says, and the last finite number, with where its name begins. No
    /// name before that one is looked at.
    pub(super) fn last_in(&self, window: &[u8], range: Range<usize>) -> (Option<Found>, Option<(usize, Number)>) {
        let mut last = None;
        let mut names = Vec::new();
        let mut to = range.end;
        while to > range.start {
            let from = to.saturating_sub(STRETCH).max(range.start);
            let stretch = &window[from..window.len().min(to + self.name().len() - 1)];
            let mut next = 0;
            while let Some(offset) = self.finder.find(&stretch[next..]) {
                names.push(from + next + offset);
                next += offset + 1;
            }
            while let Some(at) = names.pop() {
                match self.value(window, at) {
                    Some(Value::Finite(number)) => {
                        return (last.or(Some(Found::Number(number.clone()))), Some((at, number)));
                    }
                    Some(value) => last = last.or(Some(value.into())),
                    None => {}
                }
            }
            to = from;
        }
        (last, None)
    }

    /// The value of the name at `at`, where it is the metric's own.
    fn value(&self, window: &[u8], at: usize) -> Option<Value> {
        let behind = &window[at + self.name().len()..];
        let behind = &behind[..behind.len().min(RIGHT)];
        let line_end = memchr2(b'\n', b'\r', behind);
        let before = &window[at.saturating_sub(LEFT)..at];
        let left = &before[memrchr2(b'\n', b'\r', before).map_or(0, |brk| brk + 1)..];
        let right = &behind[..line_end.unwrap_or(behind.len())];
        value_between(left, right, line_end.is_none() && behind.len() == RIGHT)
    }
}

/// The search for a pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// The start of a line that is not complete.
    line: Vec<u8>,
    /// Where in `line` matches may begin: those before were seen in the piece before.
    from: usize,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(pattern).map_err(PatternError::Syntax)?;
        let groups = regex.captures_len() - 1;
        if groups != 1 {
            return Err(PatternError::Groups { pattern: pattern.to_owned(), groups });
        }
        Ok(Pattern::of(regex))
    }

    fn of(regex: Regex) -> Self {
        Pattern { regex, line: Vec::new(), from: 0 }
    }

    /// The same search from the start of a line on.
    pub(super) fn anew(&self) -> Self {
        Pattern::of(self.regex.clone())
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], end: bool, hits: &mut Hits) {
        while let Some(line_end) = memchr2(b'\n', b'\r', bytes) {
            if self.line.is_empty() && line_end < PIECE {
                self.look(&bytes[..line_end], 0, usize::MAX, hits);
            } else {
                self.grow(&bytes[..line_end], hits);
                self.close(hits);
            }
            bytes = &bytes[line_end + 1..];
        }
        self.grow(bytes, hits);
        if end {
            self.close(hits);
        }
    }

    fn grow(&mut self, mut bytes: &[u8], hits: &mut Hits) {
        while self.line.len() + bytes.len() >= PIECE {
            let (now, later) = bytes.split_at(PIECE - self.line.len());
            self.line.extend_from_slice(now);
            bytes = later;
            let piece = std::mem::take(&mut self.line);
            self.look(&piece, self.from, PIECE - OVERLAP / 2, hits);
            self.line.extend_from_slice(&piece[PIECE - OVERLAP..]);
            self.from = OVERLAP / 2;
        }
        self.line.extend_from_slice(bytes);
    }

    fn close(&mut self, hits: &mut Hits) {
        let line = std::mem::take(&mut self.line);
        self.look(&line, self.from, usize::MAX, hits);
        self.from = 0;
    }

    /// Takes the matches in `piece` that begin in `from..to`.
    fn look(&self, piece: &[u8], from: usize, to: usize, hits: &mut Hits) {
        for captures in self.regex.captures_iter(piece) {
            let begins = captures.get(0).map_or(0, |all| all.start());
            if let Some(group) = captures.get(1)
                && (from..to).contains(&begins)
                && let Some(value) = whole(group.as_bytes())
            {
                let finite = match &value {
                    Value::Finite(number) => Some(number.clone()),
                    Value::NotFinite(_) => None,
                };
                hits.go_on(Some(value.into()), finite);
            }
        }
    }
}
