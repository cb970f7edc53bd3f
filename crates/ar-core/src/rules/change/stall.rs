//! Detecting an agent that waits for an answer.

use crate::domain::Stall;

/// Characters around the end of a question: emphasis, quotes, brackets, box frames.
const AROUND: &[char] =
    &['*', '_', '`', '~', '"', '\'', '”', '’', '»', '›', '」', '』', ')', ']', '}', '）', '>', ':', '|', '│', '┃'];

/// The marks that end a question.
const MARKS: &[char] = &['?', '？', '؟'];

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
    if !end.ends_with(MARKS) {
        let choice = end.rfind(['(', '['])?;
        end = bare(&end[..choice]);
        if !end.ends_with(MARKS) || said.len() - choice > CHOICE {
            return None;
        }
    }
    let body = end.trim_end_matches(MARKS);
    let sentence_ends = |(at, mark): (usize, &str)| {
        let next = &body[at + mark.len()..];
        (!mark.is_ascii() || next.starts_with(' ')).then_some(at + mark.len())
    };
    let from = body.match_indices(['.', '!', '?', '。', '！', '？']).filter_map(sentence_ends).next_back().unwrap_or(0);
    let sentence = end[from..].trim_start_matches(|c: char| c.is_whitespace() || AROUND.contains(&c) || c == '-');
    Some(sentence).filter(|sentence| !sentence.trim_matches(MARKS).trim().is_empty())
}

/// A text without decoration around its end.
fn bare(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || AROUND.contains(&c))
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
}
