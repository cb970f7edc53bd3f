//! The one pass over a log.

use memchr::memrchr2;
use serde::{Deserialize, Serialize};

use super::clean::Cleaner;
use super::name::{LEFT, RIGHT};
use super::search::{Found, Hits, Named, Pattern, PatternError};
use super::summary::{KEPT, last_lines_of, pairs, shown};
use crate::domain::{MetricSource, MetricSpec, Number};

/// How much of a push is worked on at a time, in bytes.
const BLOCK: usize = 64 * 1024;

/// How many plain bytes are held before all but the last ones are forgotten.
const WINDOW: usize = 4 * KEPT;

/// What a log says, of bounded size whatever the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogSummary {
    /// What the last mention of the metric said; absent when there is none. For a metric that stands in a file it is
    /// the caller's to fill in with [`metric_file`](super::metric_file).
    pub found: Option<Found>,
    /// Every number that the last 64 KiB give with a name, in the log's order; each name once, with its last number;
    /// at most 256 names.
    pub metrics: Vec<(String, Number)>,
    /// Memory in GiB: `memory_gb` of the last 64 KiB, else what the last of `memory_gb` and `peak_vram_mb` / 1024 says.
    pub memory_gb: Option<f64>,
    /// Whether the log holds nothing but blanks.
    pub empty: bool,
    /// The last lines, at most 64 KiB of text: no escapes, lines cut at 4 KiB, and of progress that carriage returns
    /// overwrote only what stayed.
    pub tail: String,
}

/// Reads a log in any pieces, while it grows if need be, and remembers the last number of the metric.
///
/// What it finds does not depend on how the log was cut into pieces. Memory stays under 1 MiB whatever the log.
#[derive(Debug)]
pub struct Scanner {
    cleaner: Cleaner,
    metric: Metric,
    hits: Hits,
    memory_gb: Named,
    peak_vram_mb: Named,
    /// What the last mention of memory that is finite said, in GiB.
    memory: Option<f64>,
    /// The last plain bytes: those that are not searched yet behind as many as the summary needs.
    window: Vec<u8>,
    /// Whether there were plain bytes before those in the window.
    forgotten: bool,
    /// Where in the window names are not looked for yet.
    resume: usize,
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
        Ok(Scanner::of(metric, Cleaner::new()))
    }

    fn of(metric: Metric, cleaner: Cleaner) -> Self {
        Scanner {
            cleaner,
            metric,
            hits: Hits::default(),
            memory_gb: Named::new("memory_gb"),
            peak_vram_mb: Named::new("peak_vram_mb"),
            memory: None,
            window: Vec::with_capacity(WINDOW + 2 * BLOCK),
            forgotten: false,
            resume: 0,
            blank: true,
        }
    }

    /// Reads the log's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            let start = self.window.len();
            self.cleaner.push(block, &mut self.window);
            self.take(start, false);
        }
    }

    /// A scanner for the same metric that has read nothing, for a part of a log without a byte order mark: whole lines, from
    /// behind a line break or the log's start on.
    pub fn for_part(&self) -> Self {
        let metric = match &self.metric {
            Metric::Named { name, search } => Metric::Named { name: name.clone(), search: search.clone() },
            Metric::Pattern { name, search } => Metric::Pattern { name: name.clone(), search: Box::new(search.anew()) },
            Metric::Elsewhere => Metric::Elsewhere,
        };
        Scanner::of(metric, Cleaner::behind_break())
    }

    /// Takes what a scanner for the lines right before this one's part found there: then this is the scanner of both.
    pub fn put_before(&mut self, earlier: Scanner) {
        self.hits.found = self.hits.found.take().or(earlier.hits.found);
        self.hits.finite = self.hits.finite.take().or(earlier.hits.finite);
        self.memory = self.memory.or(earlier.memory);
        self.blank &= earlier.blank;
        if self.forgotten || self.window.len() > KEPT {
            self.forgotten |= !earlier.window.is_empty();
        } else {
            self.forgotten = earlier.forgotten;
            self.resume += earlier.window.len();
            self.window.splice(..0, earlier.window);
        }
    }

    /// Whether nothing that stands before the lines of this scanner can change what they say.
    pub fn is_settled(&self) -> bool {
        let has_metric = self.hits.found.is_some() || matches!(self.metric, Metric::Elsewhere);
        has_metric && self.memory.is_some() && (self.forgotten || self.window.len() > KEPT)
    }

    /// The last finite number of the metric so far; a line counts when it is complete.
    pub fn last(&self) -> Option<&Number> {
        self.hits.finite.as_ref()
    }

    /// What the log said, now that it is over.
    pub fn finish(mut self) -> LogSummary {
        let start = self.window.len();
        self.cleaner.finish(&mut self.window);
        self.take(start, true);
        let found = self.hits.found;
        let lines = last_lines_of(&self.window, self.forgotten);
        let mut metrics = pairs(lines);
        if let Metric::Named { name, .. } | Metric::Pattern { name, .. } = &self.metric {
            match &found {
                Some(Found::Number(number)) => match metrics.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => known.clone_from(number),
                    None => metrics.push((name.clone(), number.clone())),
                },
                _ => metrics.retain(|(known, _)| known != name),
            }
        }
        let named = metrics.iter().find(|(name, _)| name == "memory_gb").map(|(_, number)| number.value);
        let memory_gb = named.or(self.memory).filter(|memory| *memory >= 0.0);
        LogSummary { found, metrics, memory_gb, empty: self.blank, tail: shown(lines) }
    }

    /// Works on the plain bytes from `start` on.
    fn take(&mut self, start: usize, end: bool) {
        let new = &self.window[start..];
        self.blank = self.blank && new.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
        let names = self.resume..if end { self.window.len() } else { self.complete() };
        match &mut self.metric {
            Metric::Named { search, .. } => {
                let (found, finite) = search.last_in(&self.window, names.clone());
                self.hits.go_on(found, finite.map(|(_, number)| number));
            }
            Metric::Pattern { search, .. } => search.push(new, end, &mut self.hits),
            Metric::Elsewhere => {}
        }
        let gigabytes = self.memory_gb.last_in(&self.window, names.clone()).1;
        let megabytes = self.peak_vram_mb.last_in(&self.window, names.clone()).1;
        let gigabytes = gigabytes.map(|(at, number)| (at, number.value));
        let megabytes = megabytes.map(|(at, number)| (at, number.value / 1024.0));
        let newest = gigabytes.into_iter().chain(megabytes).max_by_key(|(at, _)| *at);
        self.memory = newest.map(|(_, memory)| memory).or(self.memory);
        self.resume = names.end;
        if self.window.len() > WINDOW {
            let done = self.resume.saturating_sub(LEFT).min(self.window.len() - KEPT);
            self.window.drain(..done);
            self.resume -= done;
            self.forgotten |= done > 0;
        }
    }

    /// Up to where names have all of their right side in the window, whatever comes.
    fn complete(&self) -> usize {
        let longest = match &self.metric {
            Metric::Named { search, .. } => search.length.max(self.peak_vram_mb.length),
            _ => self.peak_vram_mb.length,
        };
        let unsure = (self.window.len() + 1).saturating_sub(longest + RIGHT).max(self.resume);
        memrchr2(b'\n', b'\r', &self.window[unsure..]).map_or(unsure, |brk| unsure + brk + 1)
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
