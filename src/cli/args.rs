//! The arguments of all commands.

mod acting;
mod reading;

use clap::{Parser, Subcommand};

use super::words::Globals;
pub(super) use acting::*;
pub(crate) use reading::*;

/// Drives experiments on a git repository: branch, modify, commit, run, measure, keep or reset.
#[derive(Debug, Parser)]
#[command(name = "ar", version = concat!("(autoresearch) ", env!("CARGO_PKG_VERSION")), about)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) globals: Globals,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Command {
    /// Start or continue a session and loop
    Run(RunArgs),
    /// Measure the change in the working tree as one experiment
    Try(TryArgs),
    /// Continue a session after any interruption
    Resume(ResumeArgs),
    /// Report what a session found
    Report(ReportArgs),
    /// Show what is happening now
    Status(StatusArgs),
    /// Serve a page that shows sessions live, in a browser or on a phone
    Serve(ServeArgs),
    /// Finish the current experiment, then stop
    Stop(StopArgs),
    /// Say something to the agents of a session, also while it is active
    Tell(TellArgs),
    /// List the experiments of a session
    Log(LogArgs),
    /// Show one experiment: record, diff, end of the log
    Show(ShowArgs),
    /// Compare two experiments: code, metrics, environment, settings
    Diff(DiffArgs),
    /// Add a note to an experiment
    Note(NoteArgs),
    /// Rate a session from 0 to 1, or print the ratings
    Rate(RateArgs),
    /// Put the code of an experiment on a new branch
    Restore(RestoreArgs),
    /// Rerun an experiment and compare its value
    Repro(ReproArgs),
    /// Compare two experiments by fresh runs of both
    Verify(VerifyArgs),
    /// Measure what each kept change carries, by fresh runs without it
    Ablate(AblateArgs),
    /// Ask the reviewer now about keeps without a verdict
    Review(ReviewArgs),
    /// Put what was kept on a clean branch for review
    Finalize(FinalizeArgs),
    /// Create a session from another tool's ledger
    Import(ImportArgs),
    /// Write a session for other tools: JSON lines, CSV, Markdown, W&B, TensorBoard, MLflow
    Export(ExportArgs),
    /// Remove a session, after a bundle of its refs: branch, records, working trees, files
    Delete(DeleteArgs),
    /// Print what an agent must know for the next experiment
    Brief(BriefArgs),
    /// Add, list, edit or drop ideas for the agents
    #[command(subcommand)]
    Idea(IdeaCommand),
    /// Print the values found in a log
    Extract(ExtractArgs),
    /// Score a research artifact: axes, composite, what would raise them
    Score(ScoreArgs),
    /// Check for problems and suggest fixes
    Doctor(DoctorArgs),
    /// Patrol all sessions: restart dead loops, nudge silent drivers; or have patrols come by themselves
    Guard(GuardArgs),
    /// Write ar.toml and program.md to start from, or instructions for agents
    Init(InitArgs),
    /// Run the whole loop on a built-in example
    Demo(DemoArgs),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
    /// Serve the commands as tools of the Model Context Protocol, on standard input and output
    Mcp,
    /// Show or write the manual pages
    Man(ManArgs),
    /// Print the version
    Version,
}

impl Command {
    /// The name of a command that acts on a session, under which it is refused inside a call of the loop.
    pub(super) fn acting(&self) -> Option<&'static str> {
        match self {
            Command::Export(args) => args.hidden.then_some("export --hidden"),
            Command::Doctor(args) => args.repair.then_some("doctor --repair"),
            Command::Tell(TellArgs { list: true, .. }) => None,
            Command::Rate(args) if !args.rates() => None,
            Command::Report(_)
            | Command::Status(_)
            | Command::Serve(_)
            | Command::Log(_)
            | Command::Show(_)
            | Command::Diff(_)
            | Command::Note(_)
            | Command::Brief(_)
            | Command::Idea(_)
            | Command::Extract(_)
            | Command::Score(_)
            | Command::Demo(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Mcp
            | Command::Version => None,
            acting => Some(acting.into()),
        }
    }
}
