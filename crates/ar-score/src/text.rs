//! Texts as they are compared.

/// The reason why bytes are not a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, on line {line}")]
pub struct NotText {
    /// The line, from 1.
    pub line: usize,
    /// The problem there.
    pub what: &'static str,
}

/// The bytes as a text.
///
/// # Errors
///
/// They are not UTF-8, or hold a NUL byte, which no text has.
pub fn as_text(bytes: &[u8]) -> Result<&str, NotText> {
    let line = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(NotText { line: line(at), what: "it holds a NUL byte" });
    }
    std::str::from_utf8(bytes)
        .map_err(|error| NotText { line: line(error.valid_up_to()), what: "it is not valid UTF-8" })
}

/// Returns whether a character is invisible and separates nothing: soft hyphens, joiners and marks of direction.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// The words of a claim, in lower case, with single spaces: without punctuation, but with the signs that change what a
/// number means. Claims with equal keys are the same claim.
pub(super) fn key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let space = |key: &mut String| {
        if !key.is_empty() && !key.ends_with(' ') {
            key.push(' ');
        }
    };
    let mut chars = text.chars().filter(|c| !is_invisible(*c)).peekable();
    while let Some(c) = chars.next() {
        let is_apart = key.is_empty() || key.ends_with(' ');
        if c.is_alphanumeric() {
            key.extend(c.to_lowercase());
        } else if is_apart && matches!(c, '-' | '−') && chars.peek().is_some_and(char::is_ascii_digit) {
            key.push('-');
        } else if matches!(c, '<' | '>' | '=' | '≤' | '≥' | '+' | '±' | '≈') {
            space(&mut key);
            key.push(c);
            key.push(' ');
        } else {
            space(&mut key);
        }
    }
    key.truncate(key.trim_end().len());
    key
}

/// A text in which quotations are looked for: in lower case, with single spaces and plain quotation marks, and without the
/// backslash before a sign.
pub(super) fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut chars = text.chars().filter(|c| !is_invisible(*c)).peekable();
    while let Some(c) = chars.next() {
        match c {
            // Markdown and TeX write a sign like this that has a meaning there.
            '\\' if chars.peek().is_some_and(char::is_ascii_punctuation) => {}
            _ if c.is_whitespace() => {
                if !normal.is_empty() && !normal.ends_with(' ') {
                    normal.push(' ');
                }
            }
            '“' | '”' | '„' | '‟' | '«' | '»' | '″' => normal.push('"'),
            '‘' | '’' | '‚' | '‛' | '′' | '‹' | '›' => normal.push('\''),
            _ => normal.extend(c.to_lowercase()),
        }
    }
    normal.truncate(normal.trim_end().len());
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_without_punctuation_case_and_spacing() {
        let same = "pagedattention wastes under 4 of memory";
        for text in ["PagedAttention wastes under 4 % of memory.", "  pagedAttention, wastes\nunder 4% of “memory”!"]
        {
            assert_eq!(key(text), same, "{text}");
        }
        assert_eq!(key("Ünder ÄÖ"), "ünder äö");
        assert_eq!(key("wa\u{ad}st\u{200b}es\u{feff} \u{202e}it"), "wastes it");
        assert_ne!(key("a < 4"), key("a > 4"));
        assert_eq!(key("a<4"), key("a < 4"));
        assert_eq!([key("by -5 points"), key("by 5 points - or 3-5")], ["by -5 points", "by 5 points or 3 5"]);
        assert_eq!([key(""), key(" .,— ")], ["", ""]);
    }

    #[test]
    fn a_quotation_is_compared_without_whitespace_case_and_typographic_marks() {
        assert_eq!(normal(" “Waste”\n of\u{a0} UNDER\t4%, it’s "), "\"waste\" of under 4%, it's");
        assert_eq!(normal("\\_a\\% \\alpha \\"), "_a% \\alpha \\");
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_their_line() {
        assert_eq!(as_text(b"a\nb"), Ok("a\nb"));
        assert_eq!(as_text(b"a\nb\0").unwrap_err().to_string(), "it holds a NUL byte, on line 2");
        assert_eq!(as_text(b"a\n\nb\xff").unwrap_err().to_string(), "it is not valid UTF-8, on line 3");
    }
}
