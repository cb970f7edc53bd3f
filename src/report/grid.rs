//! A table of text, in any of the formats.
//!
//! Text that is fit for terminals and pages: its width, its styles, and nothing in it that controls either.

use std::borrow::Cow;

use anstyle::{AnsiColor, Effects};
use clap::ValueEnum;
use console::{measure_text_width, truncate_str};
use maud::{Markup, html};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::domain::{Number, one_line};
use crate::measure::plain_text;

/// The output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
}

/// The number of blanks behind each column of a table.
const BETWEEN: usize = 2;

/// The indentation of a line below a row.
const BELOW: usize = 4;

/// The longest name of a field up to which all values begin in one column.
const LONGEST_NAME: usize = 24;

/// The alignment of a column, and what happens to its text on a narrow terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words, which stay whole.
    Left,
    /// Numbers, which stay whole.
    Right,
    /// Sentences, which are cut.
    Text,
    /// Remarks, which go to a line below their row.
    Below,
}

/// Named columns and rows of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    /// The columns to omit on a narrow terminal, the least important first.
    spare: Vec<Cow<'static, str>>,
}

/// A column of a table of items: its name, its alignment and what it shows of an item.
type ItemColumn<'a, T> = (&'a str, Align, &'a dyn Fn(&T) -> String);

impl Grid {
    /// Starts a table with these columns; their names are cleaned as cells are.
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        let named = columns.into_iter().map(|(name, align)| (safe_line(&name.into()), align));
        Grid { columns: named.collect(), rows: Vec::new(), spare: Vec::new() }
    }

    /// A table of items, a row each.
    pub fn of<T>(items: impl IntoIterator<Item = T>, columns: &[ItemColumn<'_, T>]) -> Self {
        let mut grid = Grid::new(columns.iter().map(|(name, align, _)| (*name, *align)));
        for item in items {
            grid.push(columns.iter().map(|(.., cell)| cell(&item)));
        }
        grid
    }

    /// Omits those of these columns in which no row has anything.
    #[must_use]
    pub(super) fn without_if_empty(&self, names: &[&str]) -> Self {
        let is_empty = |column: usize| self.rows.iter().all(|row| row[column].is_empty());
        self.without(|column| names.contains(&self.columns[column].0.as_str()) && is_empty(column))
    }

    /// Omits these columns where there is no room for them, the least important first.
    #[must_use]
    pub fn sparing(mut self, columns: impl IntoIterator<Item = impl Into<Cow<'static, str>>>) -> Self {
        self.spare = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a row; a cell is one line without terminal escapes, whatever it is made of.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| safe_line(&cell)).collect());
    }

    /// Renders it in a format; as JSON it has no form, and people get it instead.
    pub fn render(&self, format: Format, width: Option<u16>) -> String {
        match format {
            Format::Csv => self.to_csv(),
            Format::Md => self.to_markdown(),
            Format::Table | Format::Json => self.to_lines(width),
        }
    }

    /// Renders it with padded cells, each line ended. Where a row is longer than `width`, its last cell continues below its
    /// beginning.
    fn to_table(&self, width: Option<u16>) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.widest(column)).collect();
        let indent = widths.iter().rev().skip(1).sum();
        let line = |cells: Vec<&str>| {
            let mut line = String::new();
            for ((cell, wide), (_, align)) in cells.into_iter().zip(&widths).zip(&self.columns) {
                let gap = " ".repeat(wide - BETWEEN - columns(cell));
                line += &if *align == Align::Right { gap + cell } else { cell.to_owned() + &gap };
                line += &" ".repeat(BETWEEN);
            }
            wrap(line.trim_end(), indent, width)
        };
        let heading = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(String::as_str).collect());
        std::iter::once(heading).chain(rows).map(line).collect()
    }

    /// Renders one line for each row, none wider than the terminal. Where there is too little room, remarks go below their row,
    /// then columns are omitted until sentences have 3/10 of the width, and sentences are cut to the rest. Without either, the
    /// last cell of a long row continues below its beginning.
    pub fn to_lines(&self, width: Option<u16>) -> String {
        if !self.columns.iter().any(|(_, align)| matches!(align, Align::Text | Align::Below)) {
            return self.to_table(width);
        }
        let Some(width) = width.map(usize::from).filter(|width| self.taken(|_| true) > *width + BETWEEN) else {
            return self.to_table(None);
        };
        let shown = self.without_spare(width);
        let room = (width + BETWEEN).saturating_sub(shown.taken(|align| align != Align::Text));
        let wanted = shown.columns.iter().enumerate().filter(|(_, (_, align))| *align == Align::Text);
        let mut wanted: Vec<_> = wanted.map(|(column, _)| (shown.widest(column), column)).collect();
        wanted.sort_unstable();
        let (mut shown, mut left, mut waiting) = (shown, room, wanted.len());
        for (wide, column) in wanted {
            let given = wide.min(left / waiting);
            let cut = |cell: &str| fit(cell, Some(u16::try_from(given.saturating_sub(BETWEEN)).unwrap_or(u16::MAX)));
            shown.columns[column].0 = cut(&shown.columns[column].0);
            shown.rows.iter_mut().for_each(|row| row[column] = cut(&row[column]));
            (left, waiting) = (left - given, waiting - 1);
        }
        let edge = u16::try_from(width).ok();
        let mut text = String::new();
        for (line, row) in shown.to_table(None).lines().zip(std::iter::once(None).chain(self.rows.iter().map(Some))) {
            text += &format!("{}\n", fit(line, edge));
            for remark in row.into_iter().flat_map(|row| self.remarks(row)) {
                text += &format!("{}\n", fit(&format!("{:BELOW$}{remark}", ""), edge));
            }
        }
        text
    }

    /// Renders a table of names and values as fields. A long value continues below its beginning; names stay whole.
    pub fn to_fields(&self, width: Option<u16>) -> String {
        let names = (0..self.rows.len()).map(|row| columns(&self.rows[row][0])).max().unwrap_or(0);
        let indent = names.min(LONGEST_NAME) + BETWEEN;
        let field = |row: &Vec<String>| {
            let name = &row[0];
            let gap = indent.saturating_sub(columns(name)).max(BETWEEN);
            wrap(&format!("{name}{:gap$}{}", "", row[1..].join(" ")), indent, width)
        };
        self.rows.iter().map(field).collect()
    }

    /// The width of a column with the blanks behind it.
    fn widest(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell));
        cells.chain([columns(&self.columns[column].0)]).max().unwrap_or(0) + BETWEEN
    }

    /// The width of all columns of a kind.
    fn taken(&self, is_meant: impl Fn(Align) -> bool) -> usize {
        let meant = (0..self.columns.len()).filter(|column| is_meant(self.columns[*column].1));
        meant.map(|column| self.widest(column)).sum()
    }

    /// The table without remarks and empty spare columns, and without as many other spare columns as the sentences need.
    fn without_spare(&self, width: usize) -> Grid {
        let is_said = |column: usize| self.rows.iter().any(|row| !row[column].is_empty());
        let mut shown = self.without(|column| {
            let (name, align) = &self.columns[column];
            *align == Align::Below || self.spare.iter().any(|spare| spare == name) && !is_said(column)
        });
        let wanted = shown.taken(|align| align == Align::Text).min(width * 3 / 10);
        for spare in &self.spare {
            if shown.taken(|align| align != Align::Text) + wanted <= width + BETWEEN {
                break;
            }
            shown = shown.without(|column| shown.columns[column].0 == *spare);
        }
        shown
    }

    fn without(&self, is_left_out: impl Fn(usize) -> bool) -> Grid {
        let keep = |row: &Vec<String>| {
            let cells = row.iter().enumerate().filter(|(column, _)| !is_left_out(*column));
            cells.map(|(_, cell)| cell.clone()).collect()
        };
        let columns = self.columns.iter().enumerate().filter(|(column, _)| !is_left_out(*column));
        Grid {
            columns: columns.map(|(_, column)| column.clone()).collect(),
            rows: self.rows.iter().map(keep).collect(),
            spare: self.spare.clone(),
        }
    }

    /// The remarks on a row, each behind the name of its column.
    fn remarks<'a>(&'a self, row: &'a [String]) -> impl Iterator<Item = String> + 'a {
        let remarks =
            self.columns.iter().zip(row).filter(|((_, align), cell)| *align == Align::Below && !cell.is_empty());
        remarks.map(|((name, _), cell)| format!("{name}: {cell}"))
    }

    /// Its rows, each with a cell for each column.
    pub(super) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Renders it as the table of a page.
    pub(super) fn to_html(&self) -> Markup {
        let is_number = |column: usize| self.columns[column].1 == Align::Right;
        html! {
            table {
                thead { tr {
                    @for (place, (name, _)) in self.columns.iter().enumerate() {
                        th.number[is_number(place)] scope="col" { (safe_line(name)) }
                    }
                } }
                tbody {
                    @for row in &self.rows {
                        tr {
                            @for (place, cell) in row.iter().enumerate() {
                                td.number[is_number(place)] data-name=(safe_line(&self.columns[place].0)) { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Renders it as comma-separated values, by RFC 4180 with line feeds. A text that a spreadsheet would take for a formula has
    /// a quote before it.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().map(|(name, _)| defused(name));
        // Writing to memory cannot fail, and the rows are as long as the header.
        let _ = writer.write_record(header);
        for row in &self.rows {
            let _ = writer.write_record(row.iter().map(|cell| defused(cell)));
        }
        writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Renders it as a Markdown table.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|(name, _)| escape_markdown(name)).collect());
        text += &line(
            self.columns
                .iter()
                .map(|(_, align)| if *align == Align::Right { "---:".into() } else { "---".into() })
                .collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escape_markdown(cell)).collect());
        }
        text
    }
}

/// A cell of what may be absent.
pub(super) fn text(cell: Option<impl ToString>) -> String {
    cell.map(|cell| cell.to_string()).unwrap_or_default()
}

/// A cell that no spreadsheet takes for a formula: text that begins like one has a quote before it, as they themselves mark text.
fn defused(cell: &str) -> String {
    // `-0.1 (5.3%), better` is what a comparison says.
    let is_number = || {
        let (number, rest) = cell.split_once(' ').unwrap_or((cell, ""));
        let is_harmless = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | ',' | '(' | ')' | '%');
        Number::value_of(number.trim_end_matches('%')).is_some() && rest.chars().all(is_harmless)
    };
    let begins = cell.trim_start().starts_with(['=', '+', '-', '@']) || cell.starts_with(['\t', '\r']);
    if begins && cell.len() > 1 && !is_number() { format!("'{cell}") } else { cell.to_owned() }
}

/// A text that Markdown shows as it is: no table, no HTML, no link and no image begins in it.
pub(super) fn escape_markdown(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('[', "\\[").replace('<', "&lt;")
}

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
    fn no_cell_of_a_csv_is_a_formula() {
        let mut grid = Grid::new([("=a", Align::Text), ("b", Align::Text)]);
        for [one, other] in
            [["=1+2", "+cmd|x"], ["-2.5", "+3 %"], ["@SUM", "-1+cmd|' /C calc'!A0"], ["\t=1", "-"], ["a=1", "1e-3"]]
        {
            grid.push([one.to_owned(), other.to_owned()]);
        }
        let csv = grid.to_csv();
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[..4], ["'=a,b", "'=1+2,'+cmd|x", "-2.5,+3 %", "'@SUM,'-1+cmd|' /C calc'!A0"]);
        assert!(lines[4].starts_with('\'') && lines[4].ends_with(",-"), "{csv}");
        assert_eq!(lines[5], "a=1,1e-3");
    }

    #[test]
    fn every_format_keeps_cells_apart() {
        let mut grid = Grid::new([("#", Align::Right), ("what\u{1b}", Align::Left)]);
        grid.push(["1".into(), "a, \"b\" | <c>\td".into()]);
        grid.push(["10".into(), "e".into()]);
        assert_eq!(grid.to_csv(), "#,what\n1,\"a, \"\"b\"\" | <c> d\"\n10,e\n");
        assert_eq!(grid.to_markdown(), "| # | what |\n| ---: | --- |\n| 1 | a, \"b\" \\| &lt;c> d |\n| 10 | e |\n");
        assert_eq!(grid.to_table(None), " #  what\n 1  a, \"b\" | <c> d\n10  e\n");
    }

    #[test]
    fn a_row_keeps_to_its_line_as_long_as_there_is_room() {
        let mut grid = Grid::new([("#", Align::Right), ("what", Align::Text)]);
        grid.push(["1".into(), "a change with a long name".into()]);
        assert_eq!(grid.to_lines(None), "#  what\n1  a change with a long name\n");
        assert_eq!(grid.to_lines(Some(14)), "#  what\n1  a change w…\n");
    }

    #[test]
    fn words_and_numbers_stay_whole_and_the_rest_makes_room_for_them() {
        let columns = [
            ("#", Align::Right),
            ("outcome", Align::Left),
            ("GiB", Align::Right),
            ("seconds", Align::Right),
            ("notes", Align::Below),
            ("description", Align::Text),
        ];
        let mut grid = Grid::new(columns).sparing(["seconds", "GiB"]);
        let long = "halve the learning rate and warm up";
        grid.push(["1", "discard", "", "12.5", "look at step 300", long].map(str::to_owned));
        grid.push(["2", "keep", "", "3.0", "", "你好"].map(str::to_owned));
        let at = |width| grid.to_lines(Some(width));
        assert_eq!(at(200), grid.to_table(None));
        assert_eq!(
            at(42),
            "#  outcome  seconds  description\n1  discard     12.5  halve the learning r…\n    \
             notes: look at step 300\n2  keep         3.0  你好\n"
        );
        assert_eq!(
            at(22),
            "#  outcome  descripti…\n1  discard  halve the…\n    notes: look at st…\n\
             2  keep     你好\n"
        );
        assert_eq!(at(14).lines().next(), Some("#  outcome  d…"));
        for width in 0..80 {
            assert!(at(width).lines().all(|line| super::columns(line) <= usize::from(width.max(1))), "{}", at(width));
        }
        let mut fields = Grid::new([("field", Align::Left), ("value", Align::Left)]);
        fields.push(["description".into(), long.into()]);
        fields.push([format!("a_{}", "long_".repeat(6)), "1.5".into()]);
        assert_eq!(
            fields.to_fields(Some(60)),
            format!(
                "description               halve the learning rate and warm\n{:26}up\n\
             a_{}  1.5\n",
                "",
                "long_".repeat(6)
            )
        );
    }
}

#[cfg(test)]
mod text_tests {
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
