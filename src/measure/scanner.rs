//! The one pass over a log.

use std::ops::Range;

use memchr::{memchr2, memrchr2};
use serde::{Deserialize, Serialize};

use super::{Cleaner, Decoder, KEPT, Mentions, MetricMention, last_lines_of, pairs, plain_text, shown};
use crate::domain::{Composite, MetricSpec, Number, PartOf, UserError};

/// Bytes of a log to search at a time.
const BLOCK: usize = 64 * 1024;

/// Bytes of a line to search at once. A longer line is searched in pieces that overlap by [`OVERLAP`].
const PIECE: usize = 2 * BLOCK;

/// Overlap of the pieces of a long line, in bytes. Half of it is longer than the text that belongs to a name.
const OVERLAP: usize = 16 * 1024;

/// The findings in a log, bounded in size for a log of any length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogSummary {
    /// The value in the last mention of the metric; absent if there is none. For a metric in a file, the caller sets it with
    /// [`metric_file`](super::metric_file).
    pub found: Option<MetricMention>,
    /// The part of the run that the value is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
    /// What there is instead of the metric's number, as a clause: several numbers, of which any can be
    /// meant, a similar name, or a metric file without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Every named number in the last 64 KiB, in the log's order; each name once, with its last number; at most 256 names. Then
    /// the metric and the axes, wherever they stand.
    pub metrics: Vec<(String, Number)>,
    /// The names among these whose last number is not finite.
    #[serde(default)]
    pub not_finite: Vec<String>,
    /// Memory in GiB: `memory_gb` of the last 64 KiB, else what the last of `memory_gb` and `peak_vram_mb` / 1024 says.
    pub memory_gb: Option<f64>,
    /// True if the log contains only blanks.
    pub empty: bool,
    /// The last lines, at most 64 KiB of text. It has no escapes, lines are cut at 4 KiB, and of progress that carriage
    /// returns overwrote, only the last remains.
    pub tail: String,
}

/// Reads a log in any pieces, also while it grows, and remembers the last number of the metric.
///
/// The result does not depend on how the log was cut into pieces. Memory stays under 5 MiB whatever the log.
#[derive(Debug)]
pub struct Scanner {
    decoder: Decoder,
    cleaner: Cleaner,
    mentions: Mentions,
    /// The log's last bytes without escapes: those that were searched, and those of a line that is not complete yet.
    text: Vec<u8>,
    /// Offset in `text` of the first byte to search.
    searched: usize,
    /// Number of bytes from that offset that the search of the last piece already covered; it skips mentions that begin in
    /// them.
    seen: usize,
    /// True if the log has bytes before those of `text`.
    forgotten: bool,
    blank: bool,
}

impl Scanner {
    /// Makes a scanner for a metric.
    ///
    /// A pattern is matched line by line. Its one group must hold the number, with or without a unit. For a metric in a file,
    /// the scanner reads all but the metric.
    ///
    /// # Errors
    ///
    /// The name is empty or has a line break, or the pattern is invalid or has not exactly one group.
    pub fn new(spec: &MetricSpec) -> Result<Self, UserError> {
        Ok(Scanner {
            decoder: Decoder::default(),
            cleaner: Cleaner::default(),
            mentions: Mentions::new(spec)?,
            text: Vec::new(),
            searched: 0,
            seen: 0,
            forgotten: false,
            blank: true,
        })
    }

    /// The same, which looks for the axes of a composite as for the metric, wherever the log has them.
    #[must_use]
    pub fn with_axes(mut self, of: Option<&Composite>) -> Self {
        self.mentions.look_for(of.iter().flat_map(|of| of.axes.keys().map(String::as_str)));
        self
    }

    /// Reads the log's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            let mut decoded = Vec::with_capacity(block.len());
            self.decoder.push(block, &mut decoded);
            self.take(&decoded);
            if self.text.len() > 4 * KEPT {
                self.forget();
            }
        }
    }

    fn take(&mut self, decoded: &[u8]) {
        let start = self.text.len();
        self.cleaner.push(decoded, &mut self.text);
        self.search_lines(start);
    }

    /// Searches the lines that are complete with the bytes from `new` on, and the first pieces of a long one.
    fn search_lines(&mut self, new: usize) {
        let line = memchr2(b'\n', b'\r', &self.text[new..]).map(|brk| new + brk + 1);
        while line.unwrap_or(self.text.len()) - self.searched > PIECE {
            self.search(self.searched..self.searched + PIECE, PIECE - OVERLAP / 2);
            self.searched += PIECE - OVERLAP;
            self.seen = OVERLAP / 2;
        }
        if let Some(line) = line {
            let end = memrchr2(b'\n', b'\r', &self.text[line..]).map_or(line, |brk| line + brk + 1);
            self.search(self.searched..end, end - self.searched);
            (self.searched, self.seen) = (end, 0);
        }
    }

    /// Searches a part of `text` for mentions that begin in its first `length` bytes.
    fn search(&mut self, part: Range<usize>, length: usize) {
        let lines = &self.text[part];
        self.mentions.look(lines, &(self.seen..length));
        self.blank = self.blank && lines.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
    }

    /// Searches what is left, now that no more bytes come.
    fn end(&mut self) {
        let mut decoded = Vec::new();
        self.decoder.finish(&mut decoded);
        self.take(&decoded);
        let rest = self.searched..self.text.len();
        self.search(rest.clone(), rest.len());
        (self.searched, self.seen) = (rest.end, 0);
        self.forget();
    }

    /// Drops the bytes that nobody needs any more.
    fn forget(&mut self) {
        let dropped = self.text.len().saturating_sub(KEPT).min(self.searched);
        self.text.drain(..dropped);
        self.searched -= dropped;
        self.forgotten |= dropped > 0;
    }

    /// The last finite number of the metric so far; a line counts once it is complete.
    pub fn last(&self) -> Option<&Number> {
        self.mentions.last()
    }

    /// Ends the log of a run that was cut off, and returns its summary: a last line without its end has no numbers.
    pub fn finish_cut(mut self) -> LogSummary {
        let mut decoded = Vec::new();
        self.decoder.finish(&mut decoded);
        self.take(&decoded);
        let rest = plain_text(&self.text.split_off(self.searched));
        let mut summary = self.finish();
        summary.empty &= rest.is_empty();
        summary.tail = format!("{}\n{rest}", summary.tail).trim_matches('\n').to_owned();
        summary
    }

    /// Ends the log and returns its summary.
    pub fn finish(mut self) -> LogSummary {
        self.end();
        self.mentions.settle();
        let lines = last_lines_of(&self.text, self.forgotten);
        let (mut metrics, mut not_finite) = pairs(lines);
        let instead = self.mentions.instead(&metrics);
        let (claims, memory) = self.mentions.finish(&mut metrics, &mut not_finite);
        let named = metrics.iter().find(|(name, _)| name == "memory_gb").map(|(_, number)| number.value);
        let memory_gb = named.or(memory).filter(|memory| *memory >= 0.0);
        let (found, part) = (claims.found().cloned(), claims.part());
        LogSummary { found, part, instead, metrics, not_finite, memory_gb, empty: self.blank, tail: shown(lines) }
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
