//! What commands can print, and of what.

use autoresearch::domain::IdeaKind;
use autoresearch::report::Format;
use autoresearch::rules::{Ended, SortBy};
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

/// What a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
}

impl From<OutputFormat> for Format {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Table => Format::Table,
            OutputFormat::Json => Format::Json,
            OutputFormat::Csv => Format::Csv,
            OutputFormat::Md => Format::Markdown,
        }
    }
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
            ReportFormat::Md => Some(Format::Markdown),
            ReportFormat::Html => None,
        }
    }
}

/// In which order experiments are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum SortOrder {
    /// The best number first
    Best,
    /// By number
    Id,
    /// The newest first
    Time,
}

impl From<SortOrder> for SortBy {
    fn from(order: SortOrder) -> Self {
        match order {
            SortOrder::Best => SortBy::Best,
            SortOrder::Id => SortBy::Id,
            SortOrder::Time => SortBy::Time,
        }
    }
}

/// What became of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum OutcomeName {
    /// Kept
    Keep,
    /// Measured and not kept
    Discard,
    /// Run, and without a number that counts
    Crash,
    /// Refused before it ran: out of scope, protected, too large, measured before, or in a tried direction
    Refused,
}

impl From<OutcomeName> for Ended {
    fn from(name: OutcomeName) -> Self {
        match name {
            OutcomeName::Keep => Ended::Keep,
            OutcomeName::Discard => Ended::Discard,
            OutcomeName::Crash => Ended::Crash,
            OutcomeName::Refused => Ended::Refused,
        }
    }
}

/// What an entry of the backlog is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum IdeaKindName {
    /// Something to try
    Idea,
    /// Something to read
    Source,
}

impl From<IdeaKindName> for IdeaKind {
    fn from(name: IdeaKindName) -> Self {
        match name {
            IdeaKindName::Idea => IdeaKind::Idea,
            IdeaKindName::Source => IdeaKind::Source,
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
    /// A folder that MLflow opens
    Mlflow,
}
