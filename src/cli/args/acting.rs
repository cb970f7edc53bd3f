//! The arguments of the commands that make experiments, act on single ones, take code out of a session, or exchange
//! sessions with other tools.
//!
//! The arguments of the commands beside all sessions: `ar guard`, and what makes `ar` at home in a shell.

use std::path::PathBuf;
use std::time::Duration;

use autoresearch::agent::Skill;
use autoresearch::domain::setting_values::{duration, finite, positive};
use autoresearch::domain::{Asked, ExperimentId, ExperimentName, GpuChoice, IdeaKind, PRESETS, Rating, Tag};
use autoresearch::guardian::Scheduler;
use autoresearch::report::Format;
use autoresearch::session::FreshTerms;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use strum::VariantArray;

use super::reading::{AnswerFormat, ExportFormat, SaidArgs, SessionArgs, StreamFormat};
use crate::cli::settings::SettingsArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Make the uncommitted change, or your commits on the session's branch, an experiment
    #[arg(long)]
    pub(in crate::cli) adopt: bool,
    /// Take over a session that another host drove; only if nothing of it runs there any more
    #[arg(long)]
    pub(in crate::cli) take_over: bool,
    /// As a batch job of Slurm: end in good order at its time limit or at SIGUSR1, and have it requeued to go on
    #[arg(long, requires = "tag")]
    pub(in crate::cli) requeue: bool,
    /// Start without asking
    #[arg(long, short)]
    pub(in crate::cli) yes: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResumeArgs {
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(id = "session", value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Take over a session that another host drove; only if nothing of it runs there any more
    #[arg(long)]
    pub(in crate::cli) take_over: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: StreamFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TryArgs {
    /// Description of the change, on one line
    #[arg(long, short, value_name = "TEXT")]
    pub(in crate::cli) message: Option<String>,
    /// Strategy that the change belongs to, without its parameters: `warmup`, not `warmup=0.1`
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(in crate::cli) direction: Option<String>,
    /// JSON file that describes the change, with the fields of $AR_PROPOSAL; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(in crate::cli) proposal: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
    /// Exit with 10 for a discarded experiment, 20 for a crashed one, 30 for one that is still running
    #[arg(long)]
    pub(in crate::cli) exit_code: bool,
    /// Time after which to return, even if the run has not finished
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) wait: Option<Duration>,
    /// Keep waiting for the current run
    #[arg(long = "continue", conflicts_with = "message")]
    pub(in crate::cli) resume: bool,
    /// Bring the last change, which failed a guard, back into the working tree; the next `ar try` is its next version
    #[arg(long, conflicts_with_all = ["message", "direction", "proposal", "resume", "wait"])]
    pub(in crate::cli) rework: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: AnswerFormat,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StopArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Terminate the current run, roll back and stop
    #[arg(long)]
    pub(in crate::cli) now: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "ar tell [OPTIONS] <TEXT>...\n       ar tell [OPTIONS] --list\n       ar tell [OPTIONS] --drop <ID>"
)]
pub(in crate::cli) struct TellArgs {
    /// What the next agent is told, in quotes or as several words; `-` for standard input
    #[arg(value_name = "TEXT", required_unless_present_any = ["list", "drop"], conflicts_with_all = ["list", "drop"])]
    pub(in crate::cli) text: Vec<String>,
    /// Tell every agent from now on, not only the next one
    #[arg(long, conflicts_with_all = ["list", "drop"])]
    pub(in crate::cli) standing: bool,
    /// List undelivered and standing messages
    #[arg(long, conflicts_with = "drop")]
    pub(in crate::cli) list: bool,
    /// Drop what was said, by its number in the list
    #[arg(long, value_name = "ID", value_parser = positive::<u32>)]
    pub(in crate::cli) drop: Option<u32>,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format of --list
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// Run the command once, for up to 60 s, and list the numbers that it prints, with their direction
    #[arg(long, conflicts_with_all = ["research", "skills", "mcp", "remove"])]
    pub(in crate::cli) probe: bool,
    /// Begin a research session: write and commit program.md, research.toml, the artifact, sources/ and ar.toml
    #[arg(long, value_name = "QUESTION", help_heading = "Research")]
    pub(in crate::cli) research: Option<String>,
    /// Sub-topic that an answer must cover; repeatable [default: one call of --agent names them]
    #[arg(long = "subtopic", value_name = "NAME", requires = "research", help_heading = "Research")]
    pub(in crate::cli) subtopics: Vec<String>,
    /// Type of the question, which weighs the axes [default: equal]
    #[arg(
        long = "type",
        value_name = "TYPE",
        requires = "research",
        help_heading = "Research",
        value_parser = PRESETS.map(|(name, _)| name)
    )]
    pub(in crate::cli) kind: Option<String>,
    /// Also write search.py, which searches arXiv and Wikipedia without a key, and search by it
    #[arg(long, requires = "research", help_heading = "Research")]
    pub(in crate::cli) keyless_search: bool,
    /// Write instructions for an agent that drives by itself, instead of ar.toml and program.md; without a form: agents;
    /// repeatable
    #[arg(
        long = "skill", value_name = "FORM", num_args = 0..=1, default_missing_value = "agents",
        conflicts_with = "research", help_heading = "Instructions for agents"
    )]
    pub(in crate::cli) skills: Vec<Skill>,
    /// Add the server of this program to .mcp.json, instead of writing ar.toml and program.md
    #[arg(long, conflicts_with = "research", help_heading = "Instructions for agents")]
    pub(in crate::cli) mcp: bool,
    #[command(flatten)]
    pub(in crate::cli) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Show a session of research: a question, sources and axes
    #[arg(long)]
    pub(in crate::cli) research: bool,
    /// Folder for the example [default: a new temporary folder]
    pub(in crate::cli) dir: Option<PathBuf>,
}

/// What is done with the backlog.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum IdeaCommand {
    /// Add an idea, unless it is listed already
    Add {
        /// Idea, on one line; or the address of a source
        #[arg(value_parser = crate::cli::messages::text)]
        text: String,
        /// Strategy that the idea belongs to
        #[arg(long, value_name = "NAME", value_parser = crate::cli::messages::text)]
        direction: Option<String>,
        /// Kind: something to try, or a source to read
        #[arg(long, value_name = "KIND", default_value = "idea")]
        kind: IdeaKind,
        /// Score on a scale of your own; higher is better
        #[arg(long, value_name = "SCORE", value_parser = finite, allow_negative_numbers = true)]
        score: Option<f64>,
    },
    /// List all ideas, also those that were tried or dropped
    List {
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: Format,
    },
    /// Stop offering an idea to agents
    Drop {
        /// Number of the idea
        #[arg(value_parser = positive::<u32>, allow_negative_numbers = true)]
        idea: u32,
    },
    /// Replace the text of an idea
    Edit {
        /// Number of the idea
        #[arg(value_parser = positive::<u32>, allow_negative_numbers = true)]
        idea: u32,
        /// New text, on one line
        #[arg(value_parser = crate::cli::messages::text)]
        text: String,
    },
}

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
    #[arg(long, conflicts_with = "holdout")]
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
    /// Measure on the hidden split, too: its evaluator follows each run, and no agent can read the values
    #[arg(long)]
    pub(in crate::cli) holdout: bool,
}

impl FreshArgs {
    /// The number of runs, and where they are made.
    pub(in crate::cli) fn terms(self) -> (u32, FreshTerms) {
        let asked = Asked { slots: self.slots, gpus: self.gpus, ..Asked::default() };
        (self.runs, FreshTerms { links: self.link, asked, holdout: self.holdout })
    }
}

/// The number of an experiment for the reviewer. Other commands have a session in its place.
fn reviewed(text: &str) -> Result<ExperimentId, String> {
    text.parse().map_err(|error| format!("{error}, as in `ar review 3 --tag {text}`"))
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReviewArgs {
    /// Kept experiments [default: those without a verdict]
    #[arg(value_name = "N", value_parser = reviewed)]
    pub(in crate::cli) experiments: Vec<ExperimentId>,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
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
    /// Include keeps on which the reviewer gave no verdict, without asking it
    #[arg(long)]
    pub(in crate::cli) unreviewed: bool,
    /// Record winners that wait for a train as discards
    #[arg(long)]
    pub(in crate::cli) drop_winners: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Session to remove
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    /// Session to remove, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
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
    /// Write the runs and verdicts of the hidden split instead, which records do not have; with --to jsonl
    #[arg(long)]
    pub(in crate::cli) hidden: bool,
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

/// What a patrol prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum PatrolFormat {
    /// One line for each session
    Table,
    /// One JSON document a line for each session
    Json,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct GuardArgs {
    /// Repository whose sessions to patrol; repeatable [default: all sessions of this user on this machine]
    #[arg(value_name = "PATH")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// Time without progress after which a session with a silent driver is stalled, and between two nudges [default: 2h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) stall: Option<Duration>,
    /// Time without progress after which a loop is stuck [default: 4h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) stuck: Option<Duration>,
    /// Command that continues the work of a stalled or stuck session; the text is on its standard input [default: the loop's
    /// own agent; none for sessions driven by `ar try`]
    #[arg(long, value_name = "COMMAND")]
    pub(in crate::cli) nudge: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: PatrolFormat,
    #[command(flatten)]
    pub(in crate::cli) service: GuardServiceArgs,
}

/// What is started or printed instead of a patrol.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Patrols that come by themselves",
    group = ArgGroup::new("service").args(["print", "resident", "print_sh"])
)]
pub(in crate::cli) struct GuardServiceArgs {
    /// Print the unit of a scheduler that makes patrols by itself, with the other options given and where to save it
    #[arg(long, value_name = "SCHEDULER", value_parser = schedulers())]
    pub(in crate::cli) print: Option<Scheduler>,
    /// Time between two patrols, from 1m to 24h [default: 1h]
    #[arg(long, value_name = "DURATION", requires = "print", value_parser = every)]
    pub(in crate::cli) every: Option<Duration>,
    /// Be the resident guard, in the foreground: call a patrol whenever the last one is too old. From then on, each patrol
    /// and each loop starts it again in the background when it is gone
    #[arg(long)]
    pub(in crate::cli) resident: bool,
    /// Print the resident guard as a shell script, for a machine without `ar` on its PATH
    #[arg(long)]
    pub(in crate::cli) print_sh: bool,
    /// Age of the last patrol at which the resident guard calls one [default: 2h]
    #[arg(long, value_name = "DURATION", requires = "service", conflicts_with = "print", value_parser = duration)]
    pub(in crate::cli) beat: Option<Duration>,
    /// Time between two looks of the resident guard [default: 1m]
    #[arg(long, value_name = "DURATION", requires = "service", conflicts_with = "print", value_parser = duration)]
    pub(in crate::cli) wake: Option<Duration>,
    /// Command line that the resident guard calls instead of `ar guard`: an emergency patrol
    #[arg(long, value_name = "COMMAND", requires = "service", conflicts_with = "print", value_parser = command)]
    pub(in crate::cli) patrol: Option<String>,
}

fn schedulers() -> impl TypedValueParser<Value = Scheduler> {
    PossibleValuesParser::new(Scheduler::VARIANTS.iter().map(Scheduler::to_string))
        .try_map(|name| name.parse::<Scheduler>())
}

/// A time that all schedulers can keep.
fn every(text: &str) -> Result<Duration, String> {
    let (shortest, longest) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));
    let every = duration(text)?;
    if (shortest..=longest).contains(&every) { Ok(every) } else { Err("must be from 1m to 24h".into()) }
}

fn command(text: &str) -> Result<String, String> {
    autoresearch::domain::setting_values::command_line(text).map(|()| text.to_owned())
}

/// A shell that completions are there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Shell {
    /// For `eval` in ~/.bashrc
    Bash,
    /// For ~/.config/fish/completions/ar.fish
    Fish,
    /// For `eval` in ~/.zshrc, after `compinit`
    Zsh,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell
    pub(in crate::cli) shell: Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// Command [default: the whole program]
    pub(in crate::cli) command: Option<String>,
    /// Folder to write the pages of all commands to
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(in crate::cli) dir: Option<PathBuf>,
}
