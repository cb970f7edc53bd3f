//! A table of text, in any of the formats.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use maud::{Markup, html};

use super::safe::safe_line;
use super::width::{columns, fit};

/// What a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// Comma-separated values.
    Csv,
    /// Markdown.
    Markdown,
}

/// How many columns are left free behind each column of a table.
const BETWEEN: usize = 2;

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Named columns and rows of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Starts a table with these columns; their names are cleaned as cells are.
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        let named = columns.into_iter().map(|(name, align)| (safe_line(&name.into()), align));
        Grid { columns: named.collect(), rows: Vec::new() }
    }

    /// Adds a row; a cell is one line without terminal escapes, whatever it is made of.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| safe_line(&cell)).collect());
    }

    /// Renders it for people, at most `width` columns wide where one is given, each line ended.
    pub fn to_table(&self, width: Option<u16>) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = width {
            table.set_width(width);
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        table.set_header(self.columns.iter().map(|(name, _)| name.as_str()));
        for row in &self.rows {
            table.add_row(row);
        }
        for (column, (_, align)) in table.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, BETWEEN as u16));
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// The same with a line for each row: what is too long in the last column is cut, and wrapped only where the other
    /// columns leave it less than a quarter of the width.
    pub fn to_lines(&self, width: Option<u16>) -> String {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell));
            cells.chain([columns(&self.columns[column].0)]).max().unwrap_or(0) + BETWEEN
        };
        let taken: usize = (0..self.columns.len().saturating_sub(1)).map(widest).sum();
        let left = width.map(|width| usize::from(width).saturating_sub(taken));
        match (width, left.and_then(|left| u16::try_from(left).ok())) {
            (Some(width), Some(left)) if left >= width / 4 => {
                let cut = |row: &Vec<String>| {
                    let mut row = row.clone();
                    if let Some(last) = row.last_mut() {
                        *last = fit(last, Some(left));
                    }
                    row
                };
                Grid { columns: self.columns.clone(), rows: self.rows.iter().map(cut).collect() }.to_table(None)
            }
            _ => self.to_table(width),
        }
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

    /// Renders it as comma-separated values, by RFC 4180 with line feeds.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header: Vec<_> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        // Writing to memory cannot fail, and the rows are as long as the header.
        let _ = writer.write_record(&header);
        for row in &self.rows {
            let _ = writer.write_record(row);
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

/// A text that Markdown shows as it is: no table, no HTML, no link and no image begins in it.
pub(super) fn escape_markdown(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('[', "\\[").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut grid = Grid::new([("#", Align::Right), ("what", Align::Left)]);
        grid.push(["1".into(), "a change with a long name".into()]);
        assert_eq!(grid.to_lines(None), "#  what\n1  a change with a long name\n");
        assert_eq!(grid.to_lines(Some(14)), "#  what\n1  a change w…\n");
        grid.push(["1000000000".into(), "b".into()]);
        assert!(grid.to_lines(Some(14)).lines().all(|line| columns(line) <= 14), "{}", grid.to_lines(Some(14)));
    }
}
