//! Texts as they are compared.

/// Why bytes are not a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, on line {line}")]
pub struct NotText {
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
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

/// The number of the line at a byte of a text, from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
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
    for c in text.chars() {
        if c.is_alphanumeric() {
            key.extend(c.to_lowercase());
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

/// A text in which quotations are looked for: in lower case, with single spaces and plain quotation marks.
pub(super) fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
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
        assert_ne!(key("a < 4"), key("a > 4"));
        assert_eq!(key("a<4"), key("a < 4"));
        assert_eq!([key(""), key(" .,— ")], ["", ""]);
    }

    #[test]
    fn a_quotation_is_compared_without_whitespace_case_and_typographic_marks() {
        assert_eq!(normal(" “Waste”\n of\u{a0} UNDER\t4%, it’s "), "\"waste\" of under 4%, it's");
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_their_line() {
        assert_eq!(as_text(b"a\nb"), Ok("a\nb"));
        assert_eq!(as_text(b"a\nb\0").unwrap_err().to_string(), "it holds a NUL byte, on line 2");
        assert_eq!(as_text(b"a\n\nb\xff").unwrap_err().to_string(), "it is not valid UTF-8, on line 3");
    }
}
