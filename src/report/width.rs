//! The width of text on a terminal, and fitting text in.

use console::{measure_text_width, truncate_str};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

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
}
