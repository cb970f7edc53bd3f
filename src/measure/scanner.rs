//! The one pass over a log.

use memchr::{memchr2, memmem, memrchr2};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::clean::Cleaner;
use super::name::{LEFT, RIGHT, value_between};
use super::number::{Value, whole};
use super::summary::{Tail, pairs};
use crate::domain::{MetricSource, MetricSpec, Number};

/// How much of a push is worked on at a time, in bytes.
const BLOCK: usize = 64 * 1024;

/// How much of a line a pattern sees at once, in bytes; a longer line is seen in pieces that overlap by [`OVERLAP`].
const PIECE: usize = 64 * 1024;

const OVERLAP: usize = 8 * 1024;

/// What the last mention of the metric said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// A finite number.
    Number(Number),
    /// `nan`, `inf` or a number too large for a double, as it was written.
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

/// What a log says, of bounded size whatever the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogSummary {
    /// What the last mention of the metric said; absent when there is none. For a metric that stands in a file it is
    /// the caller's to fill in with [`metric_file`](super::metric_file).
    pub found: Option<Found>,
    /// Every number that the last 64 KiB give with a name, in the log's order; each name once, with its last number;
    /// at most 256 names.
    pub metrics: Vec<(String, Number)>,
    /// Memory in GiB: the last `memory_gb`, else the last `peak_vram_mb` / 1024.
    pub memory_gb: Option<f64>,
    /// Whether the log holds nothing but blanks.
    pub empty: bool,
    /// The last lines, at most 64 KiB of text: no escapes, lines cut at 4 KiB, and of progress that carriage returns
    /// overwrote only what stayed.
    pub tail: String,
}

/// Why a metric cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The name is empty or spans lines.
    #[error("`{0}` is no name that a line of a log can hold")]
    Name(String),
    /// The pattern is no regular expression.
    #[error("the metric's pattern cannot be read")]
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
            PatternError::Syntax(_) => {
                r"put the pattern into single quotes and escape `(`, `[`, `+` with a backslash: `--metric-regex 'loss \(mean\): ([0-9.]+)'`"
                    .to_owned()
            }
            PatternError::Groups { .. } => {
                "put parentheses around the number and nothing else; `(?:…)` groups without counting: \
                 `--metric-regex 'loss: ([0-9.]+)'`"
                    .to_owned()
            }
        })
    }
}

/// Reads a log in any pieces, while it grows if need be, and remembers the last number of the metric.
///
/// What it finds does not depend on how the log was cut into pieces. Memory stays under 1 MiB whatever the log.
#[derive(Debug)]
pub struct Scanner {
    cleaner: Cleaner,
    metric: Metric,
    memory_gb: Named,
    peak_vram_mb: Named,
    /// Plain bytes that are not searched yet, behind as many searched ones as a name's left side may need.
    window: Vec<u8>,
    tail: Tail,
    blank: bool,
}

#[derive(Debug)]
enum Metric {
    Named { name: String, search: Box<Named> },
    Pattern { name: String, search: Box<Pattern> },
    Elsewhere,
}

impl Scanner {
    /// Makes a scanner for a metric.
    ///
    /// A pattern is matched line by line; its one group must hold the number, with a unit if it likes. For a metric
    /// that stands in a file the log is read for all but the metric.
    ///
    /// # Errors
    ///
    /// The name is empty or has a line break, or the pattern is invalid or has not exactly one group.
    pub fn new(spec: &MetricSpec) -> Result<Self, PatternError> {
        let metric = match &spec.source {
            MetricSource::Log if spec.name.trim().is_empty() || spec.name.contains(['\n', '\r']) => {
                return Err(PatternError::Name(spec.name.clone()));
            }
            MetricSource::Log => {
                Metric::Named { name: spec.name.clone(), search: Box::new(Named::new(spec.name.trim())) }
            }
            MetricSource::Regex(pattern) => {
                Metric::Pattern { name: spec.name.clone(), search: Box::new(Pattern::new(pattern)?) }
            }
            MetricSource::File { .. } => Metric::Elsewhere,
        };
        Ok(Scanner {
            cleaner: Cleaner::new(),
            metric,
            memory_gb: Named::new("memory_gb"),
            peak_vram_mb: Named::new("peak_vram_mb"),
            window: Vec::new(),
            tail: Tail::default(),
            blank: true,
        })
    }

    /// Reads the log's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            let start = self.window.len();
            self.cleaner.push(block, &mut self.window);
            self.take(start, false);
        }
    }

    /// The last finite number of the metric so far; a line counts when it is complete.
    pub fn last(&self) -> Option<&Number> {
        match &self.metric {
            Metric::Named { search, .. } => search.hits.last(),
            Metric::Pattern { search, .. } => search.hits.last(),
            Metric::Elsewhere => None,
        }
    }

    /// What the log said, now that it is over.
    pub fn finish(mut self) -> LogSummary {
        let start = self.window.len();
        self.cleaner.finish(&mut self.window);
        self.take(start, true);
        let found = match &self.metric {
            Metric::Named { search, .. } => search.hits.found.clone(),
            Metric::Pattern { search, .. } => search.hits.found.clone(),
            Metric::Elsewhere => None,
        };
        let mut metrics = pairs(self.tail.bytes());
        if let Metric::Named { name, .. } | Metric::Pattern { name, .. } = &self.metric {
            match &found {
                Some(Found::Number(number)) => match metrics.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => known.clone_from(number),
                    None => metrics.push((name.clone(), number.clone())),
                },
                _ => metrics.retain(|(known, _)| known != name),
            }
        }
        let gigabytes = self.memory_gb.number();
        let memory_gb = gigabytes.or_else(|| self.peak_vram_mb.number().map(|megabytes| megabytes / 1024.0));
        LogSummary { found, metrics, memory_gb, empty: self.blank, tail: self.tail.text() }
    }

    /// Works on the plain bytes from `start` on.
    fn take(&mut self, start: usize, end: bool) {
        let new = &self.window[start..];
        self.tail.push(new);
        self.blank = self.blank && new.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
        let mut keep = self.memory_gb.search(&self.window, end).min(self.peak_vram_mb.search(&self.window, end));
        match &mut self.metric {
            Metric::Named { search, .. } => {
                keep = keep.min(search.search(&self.window, end));
            }
            Metric::Pattern { search, .. } => {
                search.push(&self.window[start..], end);
            }
            Metric::Elsewhere => {}
        }
        let done = keep.saturating_sub(LEFT);
        self.window.drain(..done);
        self.memory_gb.resume -= done;
        self.peak_vram_mb.resume -= done;
        if let Metric::Named { search, .. } = &mut self.metric {
            search.resume -= done;
        }
    }
}

/// What the mentions of a name said.
#[derive(Debug, Default)]
struct Hits {
    found: Option<Found>,
    /// The last finite number, where `found` is none.
    finite: Option<Number>,
}

impl Hits {
    fn add(&mut self, value: Value) {
        if let Some(Found::Number(number)) = self.found.replace(value.into()) {
            self.finite = Some(number);
        }
    }

    fn last(&self) -> Option<&Number> {
        match &self.found {
            Some(Found::Number(number)) => Some(number),
            _ => self.finite.as_ref(),
        }
    }
}

/// The search for a name.
#[derive(Debug)]
struct Named {
    finder: memmem::Finder<'static>,
    length: usize,
    /// Where in the window the search goes on.
    resume: usize,
    hits: Hits,
}

impl Named {
    fn new(name: &str) -> Self {
        Named { finder: memmem::Finder::new(name).into_owned(), length: name.len(), resume: 0, hits: Hits::default() }
    }

    fn number(&self) -> Option<f64> {
        match &self.hits.found {
            Some(Found::Number(number)) if number.value >= 0.0 => Some(number.value),
            _ => None,
        }
    }

    /// Looks at every name in `window` whose right side is complete; returns where the search will go on.
    fn search(&mut self, window: &[u8], end: bool) -> usize {
        while let Some(offset) = self.finder.find(&window[self.resume..]) {
            let at = self.resume + offset;
            let behind = &window[at + self.length..];
            let limit = behind.len().min(RIGHT);
            let line_end = memchr2(b'\n', b'\r', &behind[..limit]);
            if line_end.is_none() && limit < RIGHT && !end {
                self.resume = at;
                return at;
            }
            let before = &window[at.saturating_sub(LEFT)..at];
            let left = &before[memrchr2(b'\n', b'\r', before).map_or(0, |brk| brk + 1)..];
            let right = &behind[..line_end.unwrap_or(limit)];
            let cut = line_end.is_none() && limit == RIGHT;
            if let Some(value) = value_between(left, right, cut) {
                self.hits.add(value);
            }
            self.resume = at + 1;
        }
        self.resume = self.resume.max((window.len() + 1).saturating_sub(self.length));
        self.resume
    }
}

/// The search for a pattern.
#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// The start of a line that is not complete.
    line: Vec<u8>,
    /// Where in `line` matches may begin: those before were seen in the piece before.
    from: usize,
    hits: Hits,
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(pattern).map_err(PatternError::Syntax)?;
        let groups = regex.captures_len() - 1;
        if groups != 1 {
            return Err(PatternError::Groups { pattern: pattern.to_owned(), groups });
        }
        Ok(Pattern { regex, line: Vec::new(), from: 0, hits: Hits::default() })
    }

    fn push(&mut self, mut bytes: &[u8], end: bool) {
        while let Some(line_end) = memchr2(b'\n', b'\r', bytes) {
            if self.line.is_empty() && line_end < PIECE {
                self.look(&bytes[..line_end], 0, usize::MAX);
            } else {
                self.grow(&bytes[..line_end]);
                self.close();
            }
            bytes = &bytes[line_end + 1..];
        }
        self.grow(bytes);
        if end {
            self.close();
        }
    }

    fn grow(&mut self, mut bytes: &[u8]) {
        while self.line.len() + bytes.len() >= PIECE {
            let (now, later) = bytes.split_at(PIECE - self.line.len());
            self.line.extend_from_slice(now);
            bytes = later;
            let piece = std::mem::take(&mut self.line);
            self.look(&piece, self.from, PIECE - OVERLAP / 2);
            self.line.extend_from_slice(&piece[PIECE - OVERLAP..]);
            self.from = OVERLAP / 2;
        }
        self.line.extend_from_slice(bytes);
    }

    fn close(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.look(&line, self.from, usize::MAX);
        self.from = 0;
    }

    /// Takes the matches in `piece` that begin in `from..to`.
    fn look(&mut self, piece: &[u8], from: usize, to: usize) {
        for captures in self.regex.captures_iter(piece) {
            let begins = captures.get(0).map_or(0, |all| all.start());
            if let Some(group) = captures.get(1)
                && (from..to).contains(&begins)
                && let Some(value) = whole(group.as_bytes())
            {
                self.hits.add(value);
            }
        }
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
