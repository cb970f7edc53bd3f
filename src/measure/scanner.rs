//! The one pass over a log.

use std::mem;

use memchr::{memchr2, memrchr2};
use serde::{Deserialize, Serialize};

use super::clean::Cleaner;
use super::mentions::Mentions;
use super::name::LEFT;
use super::search::{Found, PatternError};
use super::skim::Skim;
use super::summary::{KEPT, last_lines_of, pairs, shown};
use crate::domain::{MetricSpec, Number};

/// How much of a push is worked on at a time, in bytes.
const BLOCK: usize = 64 * 1024;

/// How many plain bytes are held before all but the last ones are forgotten.
const WINDOW: usize = 4 * KEPT;

/// How many bytes of a log are held as they are before all but the last ones are forgotten: what is held has to be a multiple of
/// [`LAST`], which is cleaned each time.
const HELD: usize = 16 * LAST;

/// How many bytes at the end of what is held are cleaned: as a rule the last [`KEPT`] plain ones are among them.
const LAST: usize = 4 * KEPT;

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
/// What it finds does not depend on how the log was cut into pieces. Memory stays under 6 MiB whatever the log.
///
/// Escapes are taken out only of lines that may mention a name, as `Skim` finds them, and of the last ones. That takes whole lines;
/// elsewhere, and where almost every line may mention one, all bytes are cleaned before they are looked at.
#[derive(Debug)]
pub struct Scanner {
    cleaner: Cleaner,
    mentions: Mentions,
    /// The last plain bytes: those that are not searched yet behind as many as the summary needs.
    window: Vec<u8>,
    /// Whether there were plain bytes before those in the window.
    forgotten: bool,
    /// Where in the window names are not looked for yet.
    resume: usize,
    blank: bool,
    /// Finds the lines that need to be cleaned; absent where all of them are.
    skim: Option<Skim>,
    /// The bytes behind those of the window, as they are in the log; from behind a line break on, where there are any.
    held: Vec<u8>,
    /// How many of them are lines that were looked at.
    looked: usize,
    /// Whether `held` begins behind a line break, though it be empty.
    holds: bool,
    /// How many bytes are cleaned before it is tried again whether few enough lines mention a name.
    pause: usize,
    /// Whether somebody asks for the last lines.
    keeps_last: bool,
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
        let scanner = Scanner::of(Mentions::new(spec)?, Cleaner::new());
        Ok(Scanner { skim: scanner.mentions.skim(), ..scanner })
    }

    fn of(mentions: Mentions, cleaner: Cleaner) -> Self {
        Scanner {
            cleaner,
            mentions,
            window: Vec::with_capacity(WINDOW + 2 * BLOCK),
            forgotten: false,
            resume: 0,
            blank: true,
            skim: None,
            held: Vec::new(),
            looked: 0,
            holds: false,
            pause: 0,
            keeps_last: true,
        }
    }

    /// Reads the log's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(LAST) {
            let mut rest = piece;
            if !self.holds {
                let is_tried = self.skim.is_some() && self.pause == 0;
                self.pause = self.pause.saturating_sub(piece.len());
                let line = memchr2(b'\n', b'\r', rest).filter(|_| is_tried).map_or(rest.len(), |brk| brk + 1);
                self.push_cleaned(&rest[..line]);
                rest = &rest[line..];
                self.holds = !rest.is_empty() && self.cleaner.is_bytes() && !self.blank;
            }
            if self.holds {
                self.hold(rest);
            } else {
                self.push_cleaned(rest);
            }
        }
    }

    /// Takes all escapes out before looking at the bytes.
    fn push_cleaned(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            let start = self.window.len();
            self.cleaner.push(block, &mut self.window);
            self.take(start, false);
        }
    }

    /// Looks at the lines that are complete with these bytes and may mention a name.
    fn hold(&mut self, bytes: &[u8]) {
        let end = memrchr2(b'\n', b'\r', bytes).map_or(0, |brk| brk + 1);
        let mut held = mem::take(&mut self.held);
        let is_done = if self.keeps_last {
            held.reserve_exact((HELD + LAST).saturating_sub(held.len()));
            let complete = if end > 0 { held.len() + end } else { self.looked };
            held.extend_from_slice(bytes);
            let is_done = self.look(&held[self.looked..complete]);
            if is_done {
                self.looked = complete;
            }
            is_done
        } else {
            // What is not complete is copied alone.
            let line = memchr2(b'\n', b'\r', bytes).map_or(0, |brk| brk + 1);
            held.extend_from_slice(&bytes[..line]);
            let is_done = (line == 0 || self.look(&held)) && self.look(&bytes[line..end]);
            if is_done && line > 0 {
                held.clear();
            }
            held.extend_from_slice(&bytes[if is_done { end } else { line }..]);
            is_done
        };
        self.held = held;
        if !is_done {
            self.pause = HELD;
        }
        if !is_done || self.held.len() > HELD {
            self.settle();
        }
    }

    /// Looks at those of complete lines that may mention a name; false when these are so many that it has not gone through.
    fn look(&mut self, lines: &[u8]) -> bool {
        let (Some(skim), mut plain) = (&self.skim, Vec::new()) else { return false };
        let mentions = &mut self.mentions;
        skim.lines(lines, |line| {
            plain.clear();
            Cleaner::behind_break().push(line, &mut plain);
            mentions.look(&plain, 0..plain.len());
        })
    }

    /// Cleans what is held, as far as anybody can ask for it: its last lines, and those that were not looked at.
    fn settle(&mut self) {
        let (mut held, looked) = (mem::take(&mut self.held), mem::take(&mut self.looked));
        self.holds = false;
        let last = held.len().saturating_sub(LAST).min(looked);
        let line = memrchr2(b'\n', b'\r', &held[..last]).map_or(0, |brk| brk + 1);
        if line == 0 || !self.forget_before(&held[line..]) {
            self.push_cleaned(&held);
        }
        held.clear();
        self.held = held;
    }

    /// Takes these lines as the log's last ones; false where their plain bytes are too few for that.
    fn forget_before(&mut self, lines: &[u8]) -> bool {
        let before = (mem::take(&mut self.window), mem::take(&mut self.resume), mem::take(&mut self.forgotten));
        self.push_cleaned(lines);
        let is_enough = self.has_last();
        if is_enough {
            self.forgotten = true;
        } else {
            // Almost nothing but escapes. What is looked at twice says the same twice.
            self.cleaner = Cleaner::behind_break();
            (self.window, self.resume, self.forgotten) = before;
        }
        is_enough
    }

    /// A scanner for the same metric that has read nothing, for a part of a log without a byte order mark: whole lines, from
    /// behind a line break or the log's start on.
    pub fn for_part(&self) -> Self {
        Scanner::of(self.mentions.anew(), Cleaner::behind_break())
    }

    /// The same for the lines before this one's part, which looks for nothing that they cannot change.
    pub fn for_earlier(&self) -> Self {
        let mentions = self.mentions.missing();
        let keeps_last = !self.has_last();
        let skim = if keeps_last || self.blank { None } else { mentions.skim() };
        let scanner = Scanner::of(mentions, Cleaner::behind_break());
        Scanner { holds: skim.is_some(), skim, blank: self.blank, keeps_last, ..scanner }
    }

    /// Takes what a scanner for the lines right before this one's part found there: then this is the scanner of both.
    pub fn put_before(&mut self, mut earlier: Scanner) {
        earlier.settle();
        self.mentions.put_before(earlier.mentions);
        self.blank &= earlier.blank;
        if self.has_last() {
            self.forgotten |= !earlier.window.is_empty();
        } else {
            self.forgotten = earlier.forgotten;
            self.resume += earlier.window.len();
            self.window.splice(..0, earlier.window);
        }
    }

    /// Whether nothing that stands before the lines of this scanner can change what they say.
    pub fn is_settled(&self) -> bool {
        self.mentions.are_known() && self.has_last()
    }

    /// Whether the last lines are all there.
    fn has_last(&self) -> bool {
        self.forgotten || self.window.len() > KEPT
    }

    /// The last finite number of the metric so far; a line counts when it is complete.
    pub fn last(&self) -> Option<&Number> {
        self.mentions.last()
    }

    /// What the log said, now that it is over.
    pub fn finish(mut self) -> LogSummary {
        self.settle();
        let start = self.window.len();
        self.cleaner.finish(&mut self.window);
        self.take(start, true);
        let lines = last_lines_of(&self.window, self.forgotten);
        let mut metrics = pairs(lines);
        let (found, memory) = self.mentions.finish(&mut metrics);
        let named = metrics.iter().find(|(name, _)| name == "memory_gb").map(|(_, number)| number.value);
        let memory_gb = named.or(memory).filter(|memory| *memory >= 0.0);
        LogSummary { found, metrics, memory_gb, empty: self.blank, tail: shown(lines) }
    }

    /// Works on the plain bytes from `start` on.
    fn take(&mut self, start: usize, end: bool) {
        let new = &self.window[start..];
        self.blank = self.blank && new.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
        self.mentions.match_pattern(new, end);
        let names = self.resume..if end { self.window.len() } else { self.complete() };
        self.mentions.look(&self.window, names.clone());
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
        let unsure = (self.window.len() + 1).saturating_sub(self.mentions.reach()).max(self.resume);
        memrchr2(b'\n', b'\r', &self.window[unsure..]).map_or(unsure, |brk| unsure + brk + 1)
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
