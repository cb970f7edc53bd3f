//! The arguments of the commands that act on single experiments, take code out of a session, or exchange sessions with other tools.

use std::path::PathBuf;

use clap::Args;

use autoresearch::domain::{Asked, ExperimentId, ExperimentName, GpuChoice, Rating, Tag};
use autoresearch::report::Format;
use autoresearch::session::FreshTerms;

use super::reading::{ExportFormat, SaidArgs, SessionArgs};

#[derive(Debug, Args)]
pub(in crate::cli) struct NoteArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Note, on one line
    #[arg(value_parser = crate::cli::messages::text)]
    pub(in crate::cli) text: String,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
}

#[derive(Debug, Args)]
#[command(override_usage = "ar rate [OPTIONS] <SESSION> <RATING>\n       ar rate [OPTIONS] [SESSION]")]
pub(in crate::cli) struct RateArgs {
    /// Session to rate, or whose rating to print [default: print those of all sessions]
    #[arg(allow_negative_numbers = true)]
    pub(in crate::cli) session: Option<String>,
    /// Rating, from 0 for useless to 1 for as good as it could be; it replaces an earlier one
    #[arg(value_parser = Rating::value, allow_negative_numbers = true)]
    pub(in crate::cli) rating: Option<f64>,
    /// Session, as an option
    #[arg(long, conflicts_with = "rating")]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format of the ratings that are printed
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

impl RateArgs {
    /// Returns whether a session is rated. If an option names the session, the only word is the rating.
    pub(in crate::cli) fn rates(&self) -> bool {
        self.rating.is_some() || (self.session.is_some() && self.tag.is_some())
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RestoreArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// New branch [default: tag and number, as in nov20-7]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) branch: Option<String>,
    /// Folder for a new working tree with the branch
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) worktree: Option<PathBuf>,
    /// Folder to copy the experiment's artifacts into, without a branch
    #[arg(long, value_name = "DIR", conflicts_with_all = ["branch", "worktree"])]
    pub(in crate::cli) artifacts: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReproArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Folder for the working tree of the run, which is kept
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) worktree: Option<PathBuf>,
    /// Untracked file or folder that the run needs, such as a data set; repeatable
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) link: Vec<PathBuf>,
    /// Run on this machine, also where the session's runs are executed elsewhere
    #[arg(long, value_name = "WHERE", value_parser = ["local"])]
    pub(in crate::cli) executor: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArgs {
    /// Experiment to verify against the one that it was made on; with B, the one to compare with [default: baseline and best]
    #[arg(value_name = "A")]
    pub(in crate::cli) first: Option<ExperimentName>,
    /// Experiment to compare with A; nov20:7 in another session
    #[arg(value_name = "B")]
    pub(in crate::cli) second: Option<ExperimentName>,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) fresh: FreshArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AblateArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    #[command(flatten)]
    pub(in crate::cli) fresh: FreshArgs,
    /// Make the branch TAG-dropped without the changes that carry nothing; it takes up to as many runs again
    #[arg(long)]
    pub(in crate::cli) drop: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

/// How many fresh runs, and where.
#[derive(Debug, Args)]
pub(in crate::cli) struct FreshArgs {
    /// Number of fresh runs of each
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..))]
    pub(in crate::cli) runs: u32,
    /// Untracked file or folder that the runs need, such as a data set; repeatable [default: what the session links]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) link: Vec<PathBuf>,
    /// Number of runs at a time [default: that of the session]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) slots: Option<u32>,
    /// GPUs to divide among the slots: all, indices as in 0,1,3, or UUIDs [default: those of the session]
    #[arg(long, value_name = "GPUS")]
    pub(in crate::cli) gpus: Option<GpuChoice>,
}

impl FreshArgs {
    /// The number of runs, and where they are made.
    pub(in crate::cli) fn terms(self) -> (u32, FreshTerms) {
        let asked = Asked { slots: self.slots, gpus: self.gpus, ..Asked::default() };
        (self.runs, FreshTerms { links: self.link, asked })
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FinalizeArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Combine all kept experiments into one commit
    #[arg(long)]
    pub(in crate::cli) squash: bool,
    /// New branch [default: tag and final, as in nov20-final]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) branch: Option<String>,
    /// Leave out a kept experiment and merge later ones without it; repeatable
    #[arg(long, value_name = "N")]
    pub(in crate::cli) without: Vec<ExperimentId>,
    /// Include keeps that the reviewer calls not earned
    #[arg(long)]
    pub(in crate::cli) with_not_earned: bool,
    /// Record winners that wait for a train as discards
    #[arg(long)]
    pub(in crate::cli) drop_winners: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// Ledger, also one of another tool
    pub(in crate::cli) file: PathBuf,
    /// Name of the new session [default: month and day, as in nov20]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) said: SaidArgs,
    /// Show what would be imported, without writing anything
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Format
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) to: ExportFormat,
    /// Output file, or folder of a tracker [default: standard output, or .autoresearch/TAG/TRACKER]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) tracker: TrackerArgs,
}

/// What is only for trackers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trackers")]
pub(in crate::cli) struct TrackerArgs {
    /// Server to write to: MLflow's tracking URI, or the base URL of W&B [default: files in the folder]
    #[arg(long, value_name = "URI")]
    pub(in crate::cli) uri: Option<String>,
    /// Write new experiments too, until the loop ends
    #[arg(long)]
    pub(in crate::cli) follow: bool,
    /// Python that has the tracker's client [default: that of .venv, else python3]
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) python: Option<PathBuf>,
    /// Let uv install the client if no Python has it
    #[arg(long)]
    pub(in crate::cli) install: bool,
    /// Print the script that writes to the tracker, and exit
    #[arg(long)]
    pub(in crate::cli) print_script: bool,
}

impl TrackerArgs {
    /// The first of these flags that was passed.
    pub(in crate::cli) fn first(&self) -> Option<&'static str> {
        let passed = [
            (self.uri.is_some(), "--uri"),
            (self.follow, "--follow"),
            (self.python.is_some(), "--python"),
            (self.install, "--install"),
            (self.print_script, "--print-script"),
        ];
        passed.into_iter().find_map(|(is_passed, flag)| is_passed.then_some(flag))
    }
}
