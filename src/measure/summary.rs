//! The end of a log: its last lines, every number there that has a name, and the words of a failed run.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::{Cleaner, Decoder, MetricMention, is_elsewhere, is_marker, value_at, whole};
use crate::domain::{FailureClass, Number, WordList, word_list};

/// Number of bytes to keep from the end of a log.
pub(super) const KEPT: usize = 64 * 1024;

/// Longest line of the text, in bytes.
const LONGEST_LINE: usize = 4 * 1024;

/// Maximum number of names to report.
const MOST_NAMES: usize = 256;

/// Longest name, in bytes and in words.
const LONGEST_NAME: usize = 64;

const MOST_WORDS: usize = 4;

/// Longest line of an excerpt, in characters.
const EXCERPT_WIDTH: usize = 400;

/// The last [`KEPT`] of the plain bytes of a log, from the start of a line where there is one; `forgotten` says that there
/// were more before those that are given.
pub(super) fn last_lines_of(plain: &[u8], forgotten: bool) -> &[u8] {
    let last = &plain[plain.len().saturating_sub(KEPT)..];
    let partial = if forgotten || plain.len() > KEPT { last.iter().position(|&byte| is_break(byte)) } else { None };
    partial.map_or(last, |at| &last[at + 1..])
}

/// Plain lines as a terminal would show them, the last [`KEPT`] bytes of that.
pub(super) fn shown(lines: &[u8]) -> String {
    let mut text = String::new();
    let overwrites = lines.contains(&b'\n');
    for line in lines.split(|&byte| byte == b'\n' || (!overwrites && byte == b'\r')) {
        let shown = line.split(|&byte| byte == b'\r').rfind(|part| !part.trim_ascii().is_empty());
        let shown = shown.unwrap_or_default();
        let shown = String::from_utf8_lossy(&shown[..shown.len().min(LONGEST_LINE)]);
        text.extend(shown.chars().filter(|c| *c == '\t' || !c.is_control()));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    let start = text.len().saturating_sub(KEPT);
    let start = (start..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text.split_off(start)
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The last lines of `bytes` as a terminal would show them: at most 64 KiB of text without escapes.
pub fn plain_text(bytes: &[u8]) -> String {
    let (mut decoder, mut text, mut plain) = (Decoder::default(), Vec::new(), Vec::new());
    decoder.push(bytes, &mut text);
    decoder.finish(&mut text);
    Cleaner::default().push(&text, &mut plain);
    shown(last_lines_of(&plain, false))
}

/// The last `count` lines of `bytes` as a terminal would show them, long ones cut.
pub fn last_lines(bytes: &[u8], count: usize) -> String {
    let text = plain_text(bytes);
    let lines: Vec<&str> = text.lines().collect();
    excerpt(&lines[lines.len().saturating_sub(count)..])
}

/// A few lines as they are, long ones cut.
pub(super) fn excerpt(lines: &[&str]) -> String {
    let cut = |line: &&str| line.trim_end().chars().take(EXCERPT_WIDTH).collect::<String>();
    let text: Vec<String> = lines.iter().map(cut).collect();
    text.join("\n").trim_matches('\n').to_owned()
}

/// The finite number of a line that consists of this name and it: `val_bpb:  0.9979`.
pub fn summary_number(line: &str, name: &str) -> Option<Number> {
    let value = line.trim().strip_prefix(name)?.trim_start().strip_prefix([':', '='])?;
    whole(value.as_bytes())?.number()
}

/// Every number in `log` that has a name; each name once, with its last number, in the log's order. Then the names whose
/// last number is not finite, the last one first.
pub(super) fn pairs(log: &[u8]) -> (Vec<(String, Number)>, Vec<String>) {
    let mut seen = HashSet::new();
    let (mut found, mut not_finite) = (Vec::new(), Vec::new());
    for line in outside_traces(log).iter().rev() {
        for (name, value) in in_line(line).into_iter().rev() {
            if seen.len() == MOST_NAMES || !seen.insert(name.clone()) {
                continue;
            }
            match value.named(&name, None) {
                MetricMention::Number(number) => found.push((name, number)),
                MetricMention::NotFinite(_) => not_finite.push(name),
            }
        }
    }
    found.reverse();
    (found, not_finite)
}

/// The lines of a log that are no part of a Python traceback: neither a frame, nor the code below it, nor the exception.
fn outside_traces(log: &[u8]) -> Vec<Cow<'_, str>> {
    let mut frame: Option<String> = None;
    let mut outside = Vec::new();
    for line in log.split(|&byte| is_break(byte)).map(String::from_utf8_lossy) {
        if let Some(column) = frame_column(&line) {
            frame = Some(line[..column].to_owned());
            continue;
        }
        if let Some(before) = frame.take() {
            if line.strip_prefix(before.as_str()).is_some_and(|code| code.starts_with(char::is_whitespace)) {
                frame = Some(before);
                continue;
            }
            let own = line.strip_prefix(before.trim_end()).unwrap_or(&line);
            let name = own.split(':').next().unwrap_or_default();
            if name.ends_with("Error") || name.ends_with("Exception") {
                continue;
            }
        }
        outside.push(line);
    }
    outside
}

/// Returns the byte offset in `line` of a traceback's frame, such as `File "train.py", line 10, in main`.
fn frame_column(line: &str) -> Option<usize> {
    let column = line.find("File \"")?;
    let (_, number) = line[column..].split_once("\", line ")?;
    number.starts_with(|c: char| c.is_ascii_digit()).then_some(column)
}

fn in_line(line: &str) -> Vec<(String, MetricMention)> {
    let mut found = Vec::new();
    for (at, sign) in line.match_indices([':', '=']) {
        let behind = &line[at + sign.len()..];
        let behind = behind.strip_prefix('=').unwrap_or(behind);
        let value = behind.trim_start();
        let Some((number, length)) = value_at(value.as_bytes()) else { continue };
        let tight = value.len() == behind.len() && !line[..at].ends_with(char::is_whitespace);
        let location = tight && value.as_bytes().get(length) == Some(&b':');
        if !location
            && !is_elsewhere(&line[..at])
            && let Some(name) = name_before(&line[..at], tight)
        {
            found.push((name, number));
        }
    }
    if found.is_empty() { in_cells(line) } else { found }
}

/// The pairs of a line without `:` and `=`: a name and a number in one cell, or in two cells side by side.
fn in_cells(line: &str) -> Vec<(String, MetricMention)> {
    let cells: Vec<&str> = line.split(['|', '│', '┃', '\t', ',', ';']).map(str::trim).collect();
    let mut found = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let (name, value) = match cell.rsplit_once(char::is_whitespace) {
            Some((name, value)) if whole(value.as_bytes()).is_some() => (name, value),
            _ => (*cell, cells.get(at + 1).copied().unwrap_or_default()),
        };
        let complete = name_before(name, false).filter(|found| {
            let first = name.split_whitespace().find(|word| !is_marker(word)).unwrap_or_default();
            found.starts_with(first)
        });
        if let (Some(name), Some(value)) = (complete, whole(value.as_bytes())) {
            found.push((name, value));
        }
    }
    found
}

/// The name at the end of `text`: what is in quotes, or the last words; only the last one where the number follows
/// without a blank, as several pairs stand side by side then.
fn name_before(text: &str, tight: bool) -> Option<String> {
    let text = text.trim_end().trim_end_matches('.');
    let quoted = text.ends_with(['"', '\'', '`', '*']);
    let text = text.trim_end_matches(['"', '\'', '`', '*', '\\']);
    let ends = |c: char| "|│┃,;()[]{}<>\"'`*=:\t\u{ff1a}".contains(c) || c.is_control();
    let phrase = text.rsplit(ends).next().unwrap_or_default();
    let phrase = if quoted { phrase } else { phrase.rsplit("  ").find(|part| !part.is_empty())? };
    let most = if tight && !quoted { 1 } else { MOST_WORDS };
    let mut words: Vec<&str> = Vec::new();
    for word in phrase.split_whitespace().rev() {
        let begins = word.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
        if words.len() == most || !begins {
            break;
        }
        words.push(word);
    }
    while words.len() > 1 && words.last().is_some_and(|word| is_marker(word)) {
        words.pop();
    }
    words.reverse();
    let name = words.join(" ");
    (!name.is_empty() && name.len() <= LONGEST_NAME).then_some(name)
}

/// Number of lines at the end of a log that can show a failure class.
const NEAR_END: usize = 400;

/// Number of lines at the end in which a word outside a traceback counts.
const LAST_WORDS: usize = 100;

/// Number of lines at the end, without blank ones, in which a bare `nan` counts.
const LAST_NUMBERS: usize = 12;

/// Number of lines to show of a worker's report.
const WORKER: usize = 3;

/// Number of lines to read of an exception's message.
const MESSAGE: usize = 6;

const HEADER: &str = "Traceback (most recent call last)";

/// The text between a traceback and one that it caused.
const CAUSED: &str = "The above exception was the direct cause";

/// Exceptions that a launcher raises because a worker failed: the worker's own traceback stands before it.
const LAUNCHERS: &[&str] = &["ChildFailedError", "CalledProcessError", "ProcessExitedException"];

/// Messages of runtimes, allocators and kernels that run out of memory, in lower case.
static OUT_OF_MEMORY: WordList = WordList::new(|| word_list(include_str!("lists/out_of_memory.txt")));

/// Messages of shells, Node.js and Julia about code that does not parse or a module that is missing, in lower case.
const OF_OTHER_LANGUAGES: &[(&str, FailureClass)] = &[
    (": syntax error near unexpected token", FailureClass::SyntaxError),
    (": syntax error: ", FailureClass::SyntaxError),
    ("error: cannot find module '", FailureClass::ImportError),
    ("[err_module_not_found]", FailureClass::ImportError),
    (" not found in current path", FailureClass::ImportError),
];

/// Message of Rust's allocator, in lower case; a size follows.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// Words next to `RESOURCE_EXHAUSTED` if XLA or TensorFlow ran out of memory, in lower case.
const EXHAUSTED_MEMORY: &[&str] = &["alloc", "memory", "oom", "hbm", "xla", "jax", "tensorflow"];

/// Words next to it if a request exceeded a quota or the largest message of an API, which has nothing to do with memory.
const EXHAUSTED_QUOTA: &[&str] =
    &["429", "quota", "rate limit", "too many requests", "larger than max", "grpc", "statuscode"];

/// Messages of batch systems and kernels that terminate a run for its memory, in lower case.
const KILLED_FOR_MEMORY: &[&str] =
    &["oom-kill", "oom_kill", "oom kill", "oomkilled", "term_memlimit", "out of memory: killed"];

/// A class with the lines that show it.
pub(super) type Evidence = (FailureClass, Range<usize>);

/// Finds the failure class that the end of a failed run's log shows; absent if the log says only that the run failed.
pub(super) fn evidence(lines: &[&str]) -> Option<Evidence> {
    let near = lines.len().saturating_sub(NEAR_END);
    let raised = exceptions(lines, near);
    let last = raised.iter().rposition(|raised| !LAUNCHERS.contains(&raised.name)).or(raised.len().checked_sub(1));
    let Some(last) = last else { return words(lines, 0) };
    let exception = &raised[last];
    let class = match exception.class(lines) {
        FailureClass::Crash => {
            // A wrapper that names its cause takes over the class of the cause.
            let cause = last
                .checked_sub(1)
                .map(|before| &raised[before])
                .filter(|cause| lines[cause.at..exception.at].iter().any(|line| line.contains(CAUSED)));
            match cause.map(|cause| cause.class(lines)) {
                Some(FailureClass::Oom) => FailureClass::Oom,
                _ => return words(lines, exception.message.end).or(Some((FailureClass::Crash, exception.shown()))),
            }
        }
        class => class,
    };
    Some((class, exception.shown()))
}

/// The last lines, in lower case and newest first, in which words count.
fn last_words(lines: &[&str]) -> impl Iterator<Item = (usize, String)> {
    let start = lines.len().saturating_sub(LAST_WORDS);
    (start..lines.len()).rev().map(|at| (at, lines[at].to_lowercase()))
}

/// Finds the line by which a kernel or a batch system reports that it ended the run.
pub(super) fn ended_from_outside(lines: &[&str]) -> Option<Evidence> {
    last_words(lines).find_map(|(at, line)| {
        let class = if contains(&line, KILLED_FOR_MEMORY) {
            FailureClass::Oom
        } else if is_over_time(&line) {
            FailureClass::Timeout
        } else if line.contains("slurmstepd") && line.contains("due to node failure") {
            FailureClass::Lost
        } else {
            return None;
        };
        Some((class, at..at + 1))
    })
}

/// Finds the line by which a run that ended itself reports that memory ran out.
pub(super) fn out_of_memory(lines: &[&str]) -> Option<Evidence> {
    last_words(lines).find_map(|(at, line)| says_out_of_memory(&line).then(|| (FailureClass::Oom, at..at + 1)))
}

/// The signal that ended a worker, with the lines in which `torchrun` reports it: `exitcode  : -9 (pid: 7)`. It reports the
/// worker that failed first last.
pub(super) fn worker_signal(lines: &[&str]) -> Option<(i32, Range<usize>)> {
    let near = lines.len().saturating_sub(NEAR_END);
    let reported = |line: &str| {
        let (_, behind) = line.split_once("exitcode")?;
        let code = behind.trim_start().strip_prefix(':')?.trim_start();
        code.split(|c: char| !c.is_ascii_digit() && c != '-').next()?.parse::<i32>().ok()
    };
    let (at, code) = (near..lines.len()).rev().find_map(|at| Some((at, reported(lines[at])?)))?;
    (code < 0).then(|| (-code, at..lines.len().min(at + WORKER)))
}

/// The end of the run's own output: without the page that a batch system prints behind it.
pub(super) fn without_report<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let page = lines.iter().rposition(|line| line.starts_with("Sender: LSF System"));
    let Some(page) = page else { return lines };
    let rule = page.checked_sub(1).filter(|&at| lines[at].starts_with("-----"));
    let own = &lines[..rule.unwrap_or(page)];
    if own.iter().all(|line| line.trim().is_empty()) { lines } else { own }
}

/// Words outside a traceback, from line `from` on.
fn words(lines: &[&str], from: usize) -> Option<Evidence> {
    let start = from.max(lines.len().saturating_sub(LAST_WORDS));
    for at in (start..lines.len()).rev() {
        let line = lines[at].to_lowercase();
        if says_out_of_memory(&line) {
            return Some((FailureClass::Oom, at..at + 1));
        }
        if (line.contains("python") && line.contains(": no module named ")) || names_missing_module(lines[at]) {
            return Some((FailureClass::ImportError, at..at + 1));
        }
        if let Some((_, class)) = OF_OTHER_LANGUAGES.iter().find(|(message, _)| line.contains(message)) {
            return Some((*class, at..at + 1));
        }
    }
    let mut filled = (start..lines.len()).rev().filter(|&at| !lines[at].trim().is_empty()).take(LAST_NUMBERS);
    filled.find(|&at| says_nan(lines[at])).map(|at| (FailureClass::Nan, at..at + 1))
}

/// Returns whether a line, in lower case, reports that a batch system terminated the run for its time.
fn is_over_time(line: &str) -> bool {
    (line.contains("slurmstepd") && line.contains("due to time limit")) || line.starts_with("term_runlimit")
}

/// Returns whether a line is a `ModuleNotFoundError` that was printed without its traceback.
fn names_missing_module(line: &str) -> bool {
    let Some((before, missing)) = line.split_once("ModuleNotFoundError: No module named ") else { return false };
    let before = before.trim_end();
    (before.is_empty() || before.ends_with([':', ']'])) && missing.starts_with(['\'', '"'])
}

/// Returns whether a line, in lower case, reports that memory ran out.
fn says_out_of_memory(line: &str) -> bool {
    let is_exhausted = || contains(line, &["resource_exhausted"]) && contains(line, EXHAUSTED_MEMORY);
    contains(line, &OUT_OF_MEMORY)
        || line.contains(ALLOCATION_FAILED)
        || (is_exhausted() && !contains(line, EXHAUSTED_QUOTA))
}

/// Returns whether a line contains `nan` as a separate word, or reports that something is not finite.
fn says_nan(line: &str) -> bool {
    let lower = line.to_lowercase();
    lower.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| matches!(word, "nan" | "nans"))
        || ["non-finite", "not finite", "nonfinite"].iter().any(|words| lower.contains(words))
}

/// An exception at the end of a traceback.
struct Raised<'a> {
    /// Its class without the module.
    name: &'a str,
    /// The traceback's first line.
    header: usize,
    /// The line with the class.
    at: usize,
    message: Range<usize>,
}

impl Raised<'_> {
    fn class(&self, lines: &[&str]) -> FailureClass {
        let message = &lines[self.message.clone()];
        let says = |test: &dyn Fn(&str) -> bool| message.iter().any(|line| test(line));
        match self.name {
            "SyntaxError" | "IndentationError" | "TabError" => FailureClass::SyntaxError,
            "ImportError" | "ModuleNotFoundError" => FailureClass::ImportError,
            "MemoryError" | "_ArrayMemoryError" | "OutOfMemoryError" => FailureClass::Oom,
            "ResourceExhaustedError" if !says(&|line| contains(&line.to_lowercase(), EXHAUSTED_QUOTA)) => {
                FailureClass::Oom
            }
            _ if says(&|line| says_out_of_memory(&line.to_lowercase())) => FailureClass::Oom,
            "FloatingPointError" => FailureClass::Nan,
            _ if says(&says_nan) => FailureClass::Nan,
            "AssertionError"
                if lines[..self.at]
                    .last()
                    .is_some_and(|line| line.contains("isnan(") || line.contains("isfinite(")) =>
            {
                FailureClass::Nan
            }
            _ => FailureClass::Crash,
        }
    }

    /// The last frame and the message.
    fn shown(&self) -> Range<usize> {
        self.at.saturating_sub(4).max(self.header)..self.message.end
    }
}

/// The exceptions from line `near` on, in order.
fn exceptions<'a>(lines: &[&'a str], near: usize) -> Vec<Raised<'a>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    for at in near..lines.len() {
        let line = lines[at];
        if let Some(column) = line.find(HEADER) {
            open = Some((at, &line[..column]));
            continue;
        }
        let raised = match open {
            Some((header, prefix)) => {
                exception_name(line.strip_prefix(prefix).unwrap_or(line)).map(|name| (header, name))
            }
            // A file that cannot be compiled has no traceback when it is the program itself.
            None => exception_name(line)
                .filter(|name| matches!(*name, "SyntaxError" | "IndentationError" | "TabError"))
                .and_then(|name| {
                    let from = at.saturating_sub(MESSAGE);
                    let header = lines[from..at].iter().rposition(|line| line.trim_start().starts_with("File \""))?;
                    Some((from + header, name))
                }),
        };
        if let Some((header, name)) = raised {
            let limit = lines.len().min(at + MESSAGE);
            let end = (at + 1..limit).find(|&next| lines[next].trim().is_empty() || lines[next].contains(HEADER));
            found.push(Raised { name, header, at, message: at..end.unwrap_or(limit) });
            open = None;
        }
    }
    found
}

/// The class that a line names as an exception's last line does: `torch.OutOfMemoryError: CUDA out of memory`.
fn exception_name(line: &str) -> Option<&str> {
    let path = line.split(':').next()?.trim_end();
    let identifier = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    if line.starts_with(char::is_whitespace) || !path.split('.').all(identifier) {
        return None;
    }
    path.rsplit('.').next()
}

fn contains(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(log: &str) -> Vec<String> {
        pairs(log.as_bytes()).0.into_iter().map(|(name, number)| format!("{name}={number}")).collect()
    }

    #[test]
    fn names_and_numbers_of_a_summary_are_all_found() {
        let log = "val_bpb:          1.448959\npeak_vram_mb:     1034.6\nmfu_percent: 0.22\ndataset: tinystories\n";
        assert_eq!(names(log), ["val_bpb=1.448959", "peak_vram_mb=1034.6", "mfu_percent=0.22"]);
        assert_eq!(names("{'train_loss': 1.25, 'epoch': 3.0}"), ["train_loss=1.25", "epoch=3.0"]);
        assert_eq!(names("step:5/20 val_loss:2.3 val_bpb:1.4 time:40ms"), ["val_loss=2.3", "val_bpb=1.4", "time=40"]);
        assert_eq!(names("[22:11] Best val_bpb: 1.17"), ["Best val_bpb=1.17"]);
        assert_eq!(names("2026-01-01 INFO val_bpb: 1.1"), ["val_bpb=1.1"]);
        assert_eq!(names("| End of training | test loss 5.2 | test ppl 180"), ["test loss=5.2", "test ppl=180"]);
        assert_eq!(names("| ep_rew_mean | 22.8 |"), ["ep_rew_mean=22.8"]);
        assert_eq!(names("a: 1\na: 2\nb: 3\nb: nan\n"), ["a=2"]);
        assert_eq!(names("loss: 2\n[baseline] loss: 3 acc=0.5\nprint('loss: 4, x: 5')\n"), ["loss=2"]);
        assert_eq!(names("compile_fx.py:2772: UserWarning"), [] as [&str; 0]);
    }

    #[test]
    fn a_traceback_is_no_summary() {
        for prefix in ["", "[rank0]: "] {
            let trace = [
                "Traceback (most recent call last):",
                "  File \"train.py\", line 10, in main",
                "    step(lr=0.5, beta = 2)",
                "         ^^^^^^",
                "  File \"model.py\", line 7",
                "    x: int = 3",
                "KeyError: 5",
            ];
            let trace: String = trace.iter().map(|line| format!("{prefix}{line}\n")).collect();
            assert_eq!(names(&format!("loss: 2.5\n{trace}retries: 1\n")), ["loss=2.5", "retries=1"], "{prefix}");
        }
        assert_eq!(names("step 10/10\nstep 10/10 loss 1.0550\n  line 10\n"), ["line=10"]);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let log: String = (0..1000).map(|i| format!("name{i}: {i}\n")).collect();
        let names = names(&log);
        assert_eq!((names.len(), names[255].as_str()), (256, "name999=999"));
    }

    #[test]
    fn the_tail_shows_what_progress_left_standing() {
        let text = |log: &[u8]| shown(last_lines_of(log, false));
        assert_eq!(text(b"step 1\rstep 2\r\nend\r\r\nlast\x07\n"), "step 2\nend\nlast");
        assert_eq!(text(b"a\rb\rc"), "a\nb\nc");
        let text = text(&[b"x".repeat(10_000), b"\n".to_vec()].concat().repeat(20));
        assert!(text.lines().all(|line| line.len() == 4096) && text.lines().count() == 6);
    }
}
