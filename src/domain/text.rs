//! Text that must stand on one line.

/// Folds `text` to one line: each run of tabs, line breaks and other control characters becomes one space.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut in_run = false;
    for c in text.trim().chars() {
        let breaks = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if !breaks {
            line.push(c);
        } else if !in_run {
            line.push(' ');
        }
        in_run = breaks;
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn tabs_line_breaks_and_escapes_become_spaces() {
        assert_eq!(one_line(" a\tb\r\nc\u{1b}[31m  d\u{2028}e \n"), "a b c [31m  d e");
        assert_eq!(one_line("\n"), "");
    }
}
