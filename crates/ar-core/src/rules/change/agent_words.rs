//! An agent's last words: the description of its change, or a question whose answer it waits for.

use crate::domain::{Stall, WordList, one_line, word_list};

/// Characters around the end of a question: emphasis, quotes, brackets, box frames.
const AROUND: &[char] =
    &['*', '_', '`', '~', '"', '\'', '”', '’', '»', '›', '」', '』', ')', ']', '}', '）', '>', ':', '|', '│', '┃'];

/// The marks that end a question.
const QUESTION_MARKS: &[char] = &['?', '？', '؟'];

/// The longest list of answers after a question, in bytes: `(y/n)`, `[Y/n/always]`.
const CHOICE: usize = 24;

/// Tells how a call stalled, if it did. `said` is the last line of its output.
pub fn stall(changed: bool, said: Option<&str>) -> Option<Stall> {
    match said.and_then(question) {
        Some(_) => Some(Stall::Question),
        None => (!changed).then_some(Stall::NoChange),
    }
}

/// The question at the end of an agent's last line of output: its last sentence.
pub fn question(said: &str) -> Option<&str> {
    let mut end = bare(said);
    if !end.ends_with(QUESTION_MARKS) {
        let choice = end.rfind(['(', '['])?;
        end = bare(&end[..choice]);
        if !end.ends_with(QUESTION_MARKS) || said.len() - choice > CHOICE {
            return None;
        }
    }
    let body = end.trim_end_matches(QUESTION_MARKS);
    let sentence_ends = |(at, mark): (usize, &str)| {
        let next = &body[at + mark.len()..];
        (!mark.is_ascii() || next.starts_with(' ')).then_some(at + mark.len())
    };
    let from = body.match_indices(['.', '!', '?', '。', '！', '？']).filter_map(sentence_ends).next_back().unwrap_or(0);
    let sentence = end[from..].trim_start_matches(|c: char| c.is_whitespace() || AROUND.contains(&c) || c == '-');
    Some(sentence).filter(|sentence| !sentence.trim_matches(QUESTION_MARKS).trim().is_empty())
}

/// A text without decoration around its end.
fn bare(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || AROUND.contains(&c))
}

/// Beginnings of an offer of more help, in lower case with straight apostrophes.
static OFFERS: WordList = WordList::new(|| word_list(include_str!("../lists/offers.txt")));

/// Beginnings that end with a word: a "mayor" offers nothing.
const WHOLE_WORDS: &[&str] = &["should i ", "shall i ", "may i ", "happy to ", "glad to "];

/// Markdown marks at the start of a line.
const LINE_MARKS: &[&str] = &["- ", "* ", "+ ", "• ", "> ", "# ", "## ", "### ", "#### "];

/// The last line of an agent's output that can describe its change, without code, rules, questions and offers of help.
pub fn described(words: &str) -> Option<String> {
    let lines: Vec<&str> = words.lines().map(str::trim).collect();
    let fences = lines.iter().filter(|line| is_fence(line)).count();
    // An unpaired fence does not tell which side is code.
    let mut in_code = false;
    lines.iter().rev().find_map(|line| {
        if is_fence(line) {
            in_code = fences.is_multiple_of(2) && !in_code;
            return None;
        }
        if in_code { None } else { description(line) }
    })
}

/// Returns whether a text contains more than punctuation.
pub fn has_words(text: &str) -> bool {
    !is_fence(text.trim()) && text.chars().any(char::is_alphanumeric)
}

fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

/// A line without offers and questions at its end.
fn description(line: &str) -> Option<String> {
    let mut rest = bare_line(line);
    loop {
        let last = rest.rfind(['.', '!', '?']).and_then(|end| last_sentence(rest, end)).unwrap_or(0);
        let sentence = rest[last..].trim();
        if !has_words(sentence) {
            return None;
        }
        if !is_offer(sentence) && question(sentence).is_none() {
            return Some(one_line(&without_emphasis(rest)));
        }
        rest = rest[..last].trim_end();
    }
}

/// Removes pairs of `**` that begin and end at the edge of a word. A `2**18` stays.
fn without_emphasis(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let before = |at: usize| rest[..at].chars().next_back().or_else(|| plain.chars().next_back());
        let Some(at) = marks(rest).find(|at| opens(before(*at), &rest[at + 2..])) else { break };
        let inside = &rest[at + 2..];
        let Some(end) = marks(inside).find(|end| closes(&inside[..*end], &inside[end + 2..])) else { break };
        plain.push_str(&rest[..at]);
        plain.push_str(&inside[..end]);
        rest = &inside[end + 2..];
    }
    plain + rest
}

/// The places of `**` in a text.
fn marks(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('*').map(|(at, _)| at).filter(|at| text[*at..].starts_with("**"))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn opens(before: Option<char>, after: &str) -> bool {
    !before.is_some_and(is_of_word) && after.starts_with(|c: char| !c.is_whitespace() && c != '*')
}

fn closes(before: &str, after: &str) -> bool {
    before.ends_with(|c: char| !c.is_whitespace() && c != '*') && !after.starts_with(is_of_word)
}

/// The start of a text's last sentence, given its last full stop.
fn last_sentence(text: &str, end: usize) -> Option<usize> {
    let is_last = text[end + 1..].trim_matches(|c: char| !c.is_alphanumeric()).is_empty();
    let before = if is_last { &text[..end] } else { text };
    let ends = [". ", "! ", "? "];
    ends.iter().filter_map(|end| before.rfind(end)).max().map(|at| at + 2)
}

fn is_offer(sentence: &str) -> bool {
    let plain = bare_line(sentence).replace('’', "'").to_lowercase();
    let plain = plain.trim_start_matches(|c: char| !c.is_alphanumeric());
    OFFERS.iter().chain(WHOLE_WORDS).any(|offer| plain.starts_with(offer))
}

/// A line without the marks of a list, a heading or a quotation.
fn bare_line(line: &str) -> &str {
    let mut line = line.trim();
    while let Some(rest) = LINE_MARKS.iter().find_map(|mark| line.strip_prefix(mark)) {
        line = rest.trim_start();
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_last_line_that_ends_in_a_question_is_one() {
        for (said, asked) in [
            ("Should I go on?", Some("Should I go on?")),
            ("I changed nothing. Should I raise lr to 0.5?", Some("Should I raise lr to 0.5?")),
            ("**Which one do you prefer?**", Some("Which one do you prefer?")),
            ("> _Shall I?_ ", Some("Shall I?")),
            ("He asked \"may I?\"", Some("He asked \"may I?")),
            ("(Ready?)", Some("(Ready?")),
            ("│ Do you want to proceed? │", Some("Do you want to proceed?")),
            ("续费吗？我应该继续吗？", Some("我应该继续吗？")),
            ("Apply the change? (y/n)", Some("Apply the change?")),
            ("Apply the change? [Y/n]: ", Some("Apply the change?")),
            ("Really??", Some("Really??")),
            ("?", None),
            ("", None),
            ("Why not? I did it.", None),
            ("raised the rate (was it too low before? the log says so and it is long)", None),
            ("see https://x.y/?q=1", None),
        ] {
            assert_eq!(question(said), asked, "{said}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_line_makes_it_panic(said in "[a?？ .!)(\\[\\]*\"é。]{0,40}") {
            prop_assert!(question(&said).is_none_or(|asked| said.contains(asked)));
        }
    }

    #[test]
    fn the_last_line_about_the_change_describes_it() {
        for (words, expected) in [
            ("raised the rate", Some("raised the rate")),
            ("raised the rate\n```", Some("raised the rate")),
            ("raised the rate\n```python\nlr = 0.02\n```\n---\n", Some("raised the rate")),
            ("raised the rate\n\nLet me know if you want another one.", Some("raised the rate")),
            ("Raised the rate. Would you like me to try 0.03?", Some("Raised the rate.")),
            ("raised the rate\n**If you’d like, I can also lower it.**", Some("raised the rate")),
            ("raised the rate\nI'd be happy to go on!", Some("raised the rate")),
            ("- **lr**: 0.01 to 0.02\n***", Some("lr: 0.01 to 0.02")),
            ("## Raised the rate", Some("Raised the rate")),
            ("-5% of the rate", Some("-5% of the rate")),
            (
                "val_bpb fell to 1.2. The rate is 0.5. Done. Shall I continue?",
                Some("val_bpb fell to 1.2. The rate is 0.5. Done."),
            ),
            ("set TOTAL_BATCH_SIZE to 2**18", Some("set TOTAL_BATCH_SIZE to 2**18")),
            ("from 2**18 to 2**19, f(**a, **b)", Some("from 2**18 to 2**19, f(**a, **b)")),
            ("**Batch**: 2**18, a ** b ** c, (**wider**)", Some("Batch: 2**18, a ** b ** c, (wider)")),
            ("Would you like me to continue?", None),
            ("```\n---\n***", None),
            ("", None),
        ] {
            assert_eq!(described(words).as_deref(), expected, "{words:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_words_make_it_panic(words in "[a?.! `~*#é。\\-\n]{0,60}") {
            prop_assert!(described(&words).is_none_or(|text| has_words(&text)));
        }
    }
}
