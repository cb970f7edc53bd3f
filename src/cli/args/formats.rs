//! Output formats of commands.

use autoresearch::report::{ChartStyle, Format};
use clap::ValueEnum;

/// What the loop prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum StreamFormat {
    /// One line for each experiment
    Table,
    /// One JSON document a line for each event
    Json,
}

/// What one experiment prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum AnswerFormat {
    /// The outcome, for people
    Table,
    /// The record as one JSON document on one line
    Json,
}

/// What a report is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ReportFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
    /// A page that needs no other file and no network
    Html,
}

impl ReportFormat {
    /// The format as other commands have it too; absent for a page.
    pub(in crate::cli) fn as_text(self) -> Option<Format> {
        match self {
            ReportFormat::Table => Some(Format::Table),
            ReportFormat::Json => Some(Format::Json),
            ReportFormat::Csv => Some(Format::Csv),
            ReportFormat::Md => Some(Format::Md),
            ReportFormat::Html => None,
        }
    }
}

/// What a session is written out as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ExportFormat {
    /// The records, one JSON document a line
    Jsonl,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
    /// Weights & Biases: offline runs, or with --uri a server
    Wandb,
    /// Event files for TensorBoard
    Tensorboard,
    /// MLflow: a SQLite store, or with --uri a server
    Mlflow,
}

/// The colours of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Style {
    /// Light on dark paper
    Dark,
    /// Dark on white paper
    Light,
}

impl From<Style> for ChartStyle {
    fn from(style: Style) -> ChartStyle {
        match style {
            Style::Dark => ChartStyle::Dark,
            Style::Light => ChartStyle::Light,
        }
    }
}
