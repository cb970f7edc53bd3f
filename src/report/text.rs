//! Text that is fit for terminals and pages: its width, its styles, and nothing in it that controls either.

use anstyle::{AnsiColor, Effects};
use console::{measure_text_width, truncate_str};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::domain::one_line;
use crate::measure::plain_text;

/// The number of columns that a line takes, styles not counted.
pub fn columns(line: &str) -> usize {
    measure_text_width(line)
}

/// A line cut to `width` columns, with `…` for what is missing; unchanged where there is no terminal.
pub fn fit(line: &str, width: Option<u16>) -> String {
    width.map_or(line.into(), |width| truncate_str(line, usize::from(width), "…")).into_owned()
}

/// A text with arrows and signs of what is missing that are made of ASCII; where a line has no room for them, they take
/// that of the characters before.
pub fn in_ascii(text: &str, width: Option<u16>) -> String {
    let line = |line: &str| {
        let roomy = line.replace('→', "->").replace('…', "...");
        if width.is_none_or(|width| columns(&roomy) <= usize::from(width)) {
            return roomy;
        }
        let mut tight = String::new();
        for c in line.chars() {
            match c {
                '→' => tight.push('>'),
                '…' => {
                    let cut = tight.char_indices().rev().take(2).last().map_or(0, |(at, _)| at);
                    tight.truncate(cut);
                    tight.push_str("...");
                }
                c => tight.push(c),
            }
        }
        fit(&tight, width).replace('…', "~")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A text in lines of at most `width` columns, broken at spaces, the later ones behind `indent` spaces; each line is
/// ended. A word that is longer than a line is broken anywhere. One line where there is no terminal.
pub fn wrap(text: &str, indent: usize, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from).filter(|width| columns(text) > *width) else { return format!("{text}\n") };
    // On a terminal that is too narrow for the indent the lines begin at its edge.
    let indent = " ".repeat(if indent + indent < width { indent } else { 0 });
    let options = Options::new(width)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::fill(text, options) + "\n"
}

/// The text of styled lines, each line ended.
pub(super) fn ansi_text(lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    for line in lines {
        for span in line {
            let style = ansi_style(line.style.patch(span.style));
            text += &format!("{style}{}{style:#}", span.content);
        }
        text.push('\n');
    }
    text
}

/// The same style for a terminal, as far as this program uses styles.
fn ansi_style(style: Style) -> anstyle::Style {
    let colour = match style.fg {
        Some(Color::Green) => Some(AnsiColor::Green),
        Some(Color::Red) => Some(AnsiColor::Red),
        Some(Color::Yellow) => Some(AnsiColor::Yellow),
        _ => None,
    };
    let dim = if style.add_modifier.contains(Modifier::DIM) { Effects::DIMMED } else { Effects::new() };
    anstyle::Style::new().fg_color(colour.map(Into::into)).effects(dim)
}

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
    fn a_line_is_cut_to_the_terminal_and_never_elsewhere() {
        assert_eq!(fit("a long line", None), "a long line");
        assert_eq!(fit("a long line", Some(11)), "a long line");
        assert_eq!(fit("a long line", Some(10)), "a long li…");
        assert_eq!(fit("你好吗", Some(5)), "你好…");
        assert_eq!(fit("\u{1b}[32mkeep\u{1b}[0m it", Some(3)), "\u{1b}[32mke…\u{1b}[0m");
        assert_eq!(columns("\u{1b}[32mkeep\u{1b}[0m 你"), 7);
    }

    #[test]
    fn signs_of_ascii_keep_to_the_width() {
        assert_eq!(in_ascii("1 → 2 a…\n", Some(80)), "1 -> 2 a...\n");
        assert_eq!(in_ascii("descript…  b\n", Some(12)), "descri...  b\n");
        assert_eq!(in_ascii("1 → 2\n", Some(5)), "1 > 2\n");
    }

    #[test]
    fn a_long_text_goes_on_below_its_beginning() {
        assert_eq!(wrap("best   1.5 of many", 7, None), "best   1.5 of many\n");
        assert_eq!(wrap("best   1.5 of many", 7, Some(16)), "best   1.5 of\n       many\n");
        assert_eq!(wrap("best   1.5 of many", 7, Some(8)), "best\n1.5 of\nmany\n", "no room for the indent");
        assert_eq!(wrap("a 0123456789", 2, Some(6)), "a 0123\n  4567\n  89\n");
        assert_eq!(wrap("你好 你好吗", 0, Some(5)), "你好\n你好\n吗\n");
    }

    #[test]
    fn escapes_and_characters_that_nobody_sees_are_gone() {
        assert_eq!(safe_line("a\u{1b}]0;title\u{7}b\u{1b}[31mc\n\u{202e}d\u{0}\u{ffff}"), "abc d");
        assert_eq!(safe_code("\tif x:\u{1b}[2J  y\u{8}\u{202e}"), "\tif x:  y");
        assert_eq!(safe_line("<b>你好 é</b>"), "<b>你好 é</b>");
    }
}
