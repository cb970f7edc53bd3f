//! The arguments of all commands.

mod driving;
mod exchange;
mod formats;
mod reading;
mod shell;
mod taking;

use clap::{Parser, Subcommand};

pub(super) use driving::{DemoArgs, IdeaArgs, IdeaCommand, InitArgs, ResumeArgs, RunArgs, StopArgs, TryArgs};
pub(super) use exchange::{ExportArgs, ImportArgs};
pub(super) use formats::{AnswerFormat, ExportFormat, OutputFormat, StreamFormat};
pub(super) use reading::{
    BriefArgs, DiffArgs, DoctorArgs, ExtractArgs, LedgerArgs, LogArgs, ReportArgs, SaidArgs, ShowArgs, StatusArgs,
};
pub(super) use shell::{CompletionsArgs, ManArgs, Shell};
pub(super) use taking::{FinalizeArgs, NoteArgs, ReproArgs, RestoreArgs};

use super::globals::Globals;

/// Drives experiments on a git repository: branch, modify, commit, run, measure, keep or reset.
#[derive(Debug, Parser)]
#[command(name = "ar", version = concat!("(autoresearch) ", env!("CARGO_PKG_VERSION")), about)]
#[command(disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) globals: Globals,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a session, or continue it: the loop
    Run(RunArgs),
    /// One experiment from the working tree, then return
    Try(TryArgs),
    /// Continue after any interruption
    Resume(ResumeArgs),
    /// What the session found
    Report(ReportArgs),
    /// What is happening now
    Status(StatusArgs),
    /// Finish the current experiment, then stop
    Stop(StopArgs),
    /// The experiments as a table
    Log(LogArgs),
    /// One experiment: record, diff, log tail
    Show(ShowArgs),
    /// Two experiments: code, metrics, environment, settings
    Diff(DiffArgs),
    /// Note something on an experiment
    Note(NoteArgs),
    /// The code of an experiment on a new branch
    Restore(RestoreArgs),
    /// Run an experiment again: whether its number comes back
    Repro(ReproArgs),
    /// What was kept, as a clean branch to review
    Finalize(FinalizeArgs),
    /// A session made of a ledger that another tool wrote
    Import(ImportArgs),
    /// A session for other tools: JSON lines, CSV, Markdown, MLflow
    Export(ExportArgs),
    /// What an agent has to know for the next experiment
    Brief(BriefArgs),
    /// The backlog of ideas: add one, list them, drop one
    Idea(IdeaArgs),
    /// What is read out of a log file
    Extract(ExtractArgs),
    /// Whether everything is in order, and what to do if not
    Doctor(DoctorArgs),
    /// Write ar.toml and program.md to start from
    Init(InitArgs),
    /// The whole loop on a built-in example
    Demo(DemoArgs),
    /// What a shell needs to complete commands, sessions and experiments
    Completions(CompletionsArgs),
    /// The manual pages
    Man(ManArgs),
}
