//! Text of programs, as a part of a prompt.

/// The last characters of a text, at most `bytes` of it.
pub(super) fn tail(text: &str, bytes: usize) -> &str {
    let from = text.len().saturating_sub(bytes);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}

/// A block of foreign text in a fence that the text does not contain.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_cannot_close_its_fence() {
        assert_eq!(fenced("a\n```\nb\n"), "````text\na\n```\nb\n````\n");
        assert_eq!(fenced("a"), "```text\na\n```\n");
    }
}
