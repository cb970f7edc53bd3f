//! The words and signs that decide whether a name in front of a number is the metric's own.

use crate::domain::{Unit, WordList, word_list};

/// Words in front of a name that only say where the line comes from or that the number is final.
const MARKERS: &[&str] = &[
    "critical", "current", "debug", "done", "error", "final", "finished", "info", "metric", "metrics", "notice",
    "result", "results", "summary", "trace", "warn", "warning",
];

/// Words that make the number that of another time: the best of some earlier night is not this run's number.
static STALE: WordList = WordList::new(|| word_list(include_str!("lists/stale.txt")));

/// Words that may stand between such a word and the name: `previous run`.
const BETWEEN: &[&str] = &["experiment", "number", "result", "results", "run", "score", "session", "value"];

/// Programs and functions whose arguments a source line shows, while it is not run.
const PRINTERS: &[&str] = &["echo", "print", "printf", "println"];

/// Words that make the name another metric's: `test loss` is not `loss`.
static QUALIFIERS: WordList = WordList::new(|| word_list(include_str!("lists/qualifiers.txt")));

/// Words around a name that say that its number is of all parts.
pub(super) static AGGREGATES: WordList = WordList::new(|| word_list(include_str!("lists/aggregates.txt")));

/// Words between such a word and what it is of: `average of val_loss`, `mean over all folds`.
pub(super) const LINKS: &[&str] = &["across", "all", "for", "of", "over", "the"];

/// Words before the number of a part.
pub(super) static PARTS: WordList = WordList::new(|| word_list(include_str!("lists/parts.txt")));

/// Words before the number of a process, those that name the rank of all processes first.
pub(super) static PROCESSES: WordList = WordList::new(|| word_list(include_str!("lists/processes.txt")));

/// Words that count steps.
pub(super) const PROGRESS: &[&str] = &["batch", "ep", "epoch", "it", "iter", "iteration", "round", "step", "update"];

/// Returns whether `word` between a value and a name belongs to the value: `12 epochs`, `5 ms`.
pub(super) fn counts_value(word: &str) -> bool {
    Unit::new(word).is_known() || (word.ends_with('s') && !word.ends_with("ss"))
}

/// Returns whether `word` before a name says nothing about the number.
pub(super) fn is_marker(word: &str) -> bool {
    contains(MARKERS, word)
}

/// Returns whether `word` before a name marks the number as one of another time.
pub(super) fn is_stale(word: &str) -> bool {
    contains(&STALE, word)
}

/// Returns whether `word` may stand between a word that [`is_stale`] and a name.
pub(super) fn is_between(word: &str) -> bool {
    contains(BETWEEN, word)
}

/// Returns whether `word` before a name marks the line as source code.
pub(super) fn prints(word: &str) -> bool {
    contains(PRINTERS, word)
}

/// Returns whether a part of `word` before a name makes it another name.
pub(super) fn qualifies(word: &str) -> bool {
    word.split(|c: char| !c.is_alphabetic()).any(|part| is_stale(part) || contains(&QUALIFIERS, part))
}

/// Quotes and Markdown emphasis, which may stand around a name.
pub(super) fn is_decoration(c: char) -> bool {
    matches!(c, '\'' | '"' | '`' | '*' | '\\')
}

/// Blanks and control characters.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

pub(super) fn contains(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}
