//! A table of text, in any of the formats.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::domain::one_line;

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
    /// Starts a table with these columns.
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        Grid { columns: columns.into_iter().map(|(name, align)| (name.into(), align)).collect(), rows: Vec::new() }
    }

    /// Adds a row; a control character in a cell becomes a space.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
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
            column.set_padding((0, 2));
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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
        let escape = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
        let mut text = line(self.columns.iter().map(|(name, _)| escape(name)).collect());
        text += &line(
            self.columns
                .iter()
                .map(|(_, align)| if *align == Align::Right { "---:".into() } else { "---".into() })
                .collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escape(cell)).collect());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_keeps_cells_apart() {
        let mut grid = Grid::new([("#", Align::Right), ("what", Align::Left)]);
        grid.push(["1".into(), "a, \"b\" | <c>\td".into()]);
        grid.push(["10".into(), "e".into()]);
        assert_eq!(grid.to_csv(), "#,what\n1,\"a, \"\"b\"\" | <c> d\"\n10,e\n");
        assert_eq!(grid.to_markdown(), "| # | what |\n| ---: | --- |\n| 1 | a, \"b\" \\| &lt;c> d |\n| 10 | e |\n");
        assert_eq!(grid.to_table(None), " #  what\n 1  a, \"b\" | <c> d\n10  e\n");
    }
}
