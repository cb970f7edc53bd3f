//! Recognises text before a name that marks its number as another run's, or as part of source code.

use super::vocabulary::{is_between, is_blank, is_decoration, is_stale};

/// Number of words to check before a name.
const WORDS: usize = 4;

/// Returns whether `left`, the line up to a name, marks all numbers behind it as not this run's. Either its last tag names
/// another run, such as `[baseline]`, or it ends inside a call with a text as its argument, as in `print('val_bpb: 0.1')`.
pub(super) fn is_elsewhere(left: &str) -> bool {
    let tag = left.rfind(']').and_then(|end| Some(&left[left[..end].rfind('[')? + 1..end]));
    tag.is_some_and(is_of_another_run) || is_in_call(left)
}

/// Returns whether the last words of `text` name another run: `best`, `previous run:`, `(old)`, `best so far`. Ignores
/// brackets and punctuation around them.
pub(super) fn is_of_another_run(text: &str) -> bool {
    let mut rest = text;
    let mut far = false;
    for _ in 0..WORDS {
        rest = rest.trim_end_matches(|c: char| is_blank(c) || is_decoration(c) || ":()[]{}<>-—–|│┃".contains(c));
        let word = word_before(rest);
        if is_stale(word) || (far && word.eq_ignore_ascii_case("so")) || word.eq_ignore_ascii_case("so_far") {
            return true;
        }
        far = word.eq_ignore_ascii_case("far");
        if !far && !is_between(word) {
            return false;
        }
        rest = &rest[..rest.len() - word.len()];
    }
    false
}

/// The word at the end of `text`.
pub(super) fn word_before(text: &str) -> &str {
    let start = text
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[start..]
}

/// Returns whether `left` ends inside a quoted text that is the first argument of a call.
fn is_in_call(left: &str) -> bool {
    left.match_indices('(').any(|(at, _)| {
        let is_call = left[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        // `f"…"`, `rb'…'`
        let argument = left[at + 1..].trim_start_matches(|c: char| "bBfFrRuU".contains(c));
        let quote = argument.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'));
        is_call && quote.is_some_and(|quote| !argument[1..].contains(quote))
    })
}
