//! Text that others wrote, made fit for a page: without escapes, control characters and what turns the writing around.

use crate::domain::one_line;
use crate::measure::plain_text;

/// A text on one line as a terminal would show it.
pub(super) fn safe_line(text: &str) -> String {
    let line = if text.contains('\u{1b}') { one_line(&plain_text(text.as_bytes())) } else { one_line(text) };
    line.chars().filter(|c| is_shown(*c)).collect()
}

/// A line of a log or a diff, with its blanks and tabs.
pub(super) fn safe_code(line: &str) -> String {
    let text = plain_text(line.as_bytes());
    text.chars().map(|c| if c == '\n' { ' ' } else { c }).filter(|c| is_shown(*c)).collect()
}

/// Returns whether a character can be shown and keeps the direction of the writing. XML allows no other character below
/// the space, and no noncharacters.
fn is_shown(c: char) -> bool {
    !matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        && u32::from(c) & 0xfffe != 0xfffe
        && (!c.is_control() || c == '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_characters_that_nobody_sees_are_gone() {
        assert_eq!(safe_line("a\u{1b}]0;title\u{7}b\u{1b}[31mc\n\u{202e}d\u{0}\u{ffff}"), "abc d");
        assert_eq!(safe_code("\tif x:\u{1b}[2J  y\u{8}\u{202e}"), "\tif x:  y");
        assert_eq!(safe_line("<b>你好 é</b>"), "<b>你好 é</b>");
    }
}
