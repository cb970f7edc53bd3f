//! The words of a failed run: the final traceback, and what other programs say when memory runs out.

use std::ops::Range;

use crate::domain::{FailureClass, WordList, word_list};

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

/// Message of Rust's allocator, in lower case; a size follows.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// Words next to `RESOURCE_EXHAUSTED` if XLA or TensorFlow ran out of memory, in lower case.
const EXHAUSTED_MEMORY: &[&str] = &["alloc", "memory", "oom", "hbm", "xla", "jax", "tensorflow"];

/// Words next to it if a request exceeded a quota or the largest message of an API, which has nothing to do with memory.
const EXHAUSTED_QUOTA: &[&str] =
    &["429", "quota", "rate limit", "too many requests", "larger than max", "grpc", "statuscode"];

/// Messages of batch systems and kernels that terminate a run for its memory, in lower case.
const KILLED_FOR_MEMORY: &[&str] = &["oom-kill", "oom_kill", "oom kill", "term_memlimit", "out of memory: killed"];

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
