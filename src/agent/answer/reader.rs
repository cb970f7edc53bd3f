//! Reading the output of an agent line by line, as what agents' formats contain.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::{aider, claude, codex, gemini, opencode};
use crate::domain::{Refusal, Usage};
use crate::fs::open_regular;
use crate::measure::plain_text;

/// The longest line, and the longest JSON document over several lines, that is understood, in bytes.
const LONGEST: usize = 4 << 20;

/// The number of last lines outside a stream to keep, and the most bytes of each.
const PLAIN_LINES: usize = 50;

const PLAIN_LINE: usize = 4096;

/// The bytes to read at once.
const CHUNK: usize = 64 << 10;

/// Reads the answer out of what stands in `log` from byte `from` on; an empty one where the log cannot be read.
pub fn read_answer(log: &Path, from: u64) -> Answer {
    let mut reader = Reader::default();
    let Ok(mut file) = open_regular(log) else { return reader.finish() };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return reader.finish();
    }
    reader.push_all(&mut file);
    reader.finish()
}

/// The output of an agent while it works.
pub struct Progress {
    log: File,
    reader: Reader,
}

impl Progress {
    /// Reads what is written to `log` from byte `from` on; `None` where the log cannot be read.
    pub fn of(log: &Path, from: u64) -> Option<Progress> {
        let mut log = open_regular(log).ok()?;
        log.seek(SeekFrom::Start(from)).ok()?;
        Some(Progress { log, reader: Reader::default() })
    }

    /// Reads what was written since. Returns whether that is anything.
    pub fn read(&mut self) -> bool {
        self.reader.push_all(&mut self.log)
    }

    /// The number of rounds that it has begun.
    pub fn rounds(&self) -> u32 {
        self.reader.answer.rounds
    }

    /// Returns whether the last line is the result with which its program ends.
    pub fn is_complete(&self) -> bool {
        self.reader.answer.is_complete
    }
}

/// Takes output in any pieces and makes an answer of it, in bounded memory.
#[derive(Default)]
struct Reader {
    line: Vec<u8>,
    /// A JSON document over several lines that has begun.
    document: Option<Vec<u8>>,
    plain: VecDeque<Vec<u8>>,
    is_stream: bool,
    claude: claude::Stream,
    in_gemini_round: bool,
    aider: aider::Lines,
    answer: Answer,
}

impl Reader {
    /// Takes all that a log has by now. Returns whether that is anything.
    fn push_all(&mut self, log: &mut File) -> bool {
        let mut chunk = vec![0; CHUNK];
        let mut has_more = false;
        while let Ok(count @ 1..) = log.read(&mut chunk) {
            self.push(&chunk[..count]);
            has_more = true;
        }
        has_more
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            let line = std::mem::take(&mut self.line);
            self.take_line(&line);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// Adds to the current line what there is room for.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn finish(mut self) -> Answer {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line);
        self.claude.finish(&mut self.answer);
        self.aider.finish(&mut self.answer);
        if self.is_stream {
            let plain = self.plain.iter().map(|line| plain_text(line));
            let words: Vec<String> = plain.chain(self.answer.text.clone()).collect();
            self.answer.words = Some(words.join("\n"));
        }
        self.answer
    }

    fn take_line(&mut self, line: &[u8]) {
        if line.len() > LONGEST {
            return;
        }
        self.answer.is_complete &= line.trim_ascii().is_empty();
        if let Some(document) = &mut self.document {
            document.extend_from_slice(line);
            if document.len() > LONGEST {
                self.document = None;
            } else if line.trim_ascii_end() == b"}" {
                let document = self.document.take().unwrap_or_default();
                self.is_stream |= gemini::take_document(&document, &mut self.answer);
            }
        }
        match line.trim_ascii() {
            b"" => {}
            b"{" if self.document.is_none() => self.document = Some(b"{".to_vec()),
            json if json.starts_with(b"{") && self.take_json(json) => self.is_stream = true,
            plain => {
                self.aider.take_line(&plain_text(&plain[..plain.len().min(PLAIN_LINE)]), &mut self.answer);
                if self.plain.len() == PLAIN_LINES {
                    self.plain.pop_front();
                }
                self.plain.push_back(plain[..plain.len().min(PLAIN_LINE)].to_vec());
            }
        }
    }

    /// Takes a line that holds a JSON object. Returns whether its form is known.
    fn take_json(&mut self, line: &[u8]) -> bool {
        let answer = &mut self.answer;
        // An error of codex is a message alone; what else has one, has more.
        self.claude.take_line(line, answer)
            || gemini::take_line(line, &mut self.in_gemini_round, answer)
            || opencode::take_line(line, answer)
            || codex::take_line(line, answer)
    }
}

/// The answer of an agent.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The refusal that its answer ends with, if any.
    pub refusal: Option<Refusal>,
    /// Its tokens and cost.
    pub usage: Usage,
    /// The number of rounds that it has begun: answers of its model, each with the actions that follow. 0 if its output
    /// does not show them.
    pub rounds: u32,
    /// True if its last line is the result with which its program ends.
    pub is_complete: bool,
    /// True if it ended itself after as many rounds as allowed.
    pub rounds_are_up: bool,
    /// Its final words.
    pub text: Option<String>,
    /// The last lines of its output that belong to no stream, and its final words; absent where the output is no
    /// machine-readable stream.
    pub words: Option<String>,
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
