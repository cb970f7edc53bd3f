//! The arguments of the commands that read: session, formats and the rest.
//!
//! Parts of the help beside the options: the commands in groups, and examples.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use autoresearch::domain::setting_values::{duration, positive, whole};
use autoresearch::domain::{ExperimentName, Tag};
use autoresearch::report::{ChartStyle, Format};
use autoresearch::rules::{CountedOutcome, SortBy};
use clap::builder::StyledStr;
use clap::{Arg, Args, Command, CommandFactory, ValueEnum};
use regex::Regex;

use super::Cli;
use crate::cli::settings::chart_file;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReportArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Sessions to show beside that one
    #[arg(value_name = "OTHER", conflicts_with_all = ["file", "weights"])]
    pub(in crate::cli) others: Vec<Tag>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// File for a chart of the experiments, .svg or .png; without --format only the chart is written
    #[arg(long, value_name = "FILE", value_parser = chart_file)]
    pub(in crate::cli) chart: Option<PathBuf>,
    /// Colours of that chart: dark on white paper, or light on dark paper [default: light]
    #[arg(long, value_name = "STYLE", requires = "chart", conflicts_with = "weights")]
    pub(in crate::cli) style: Option<ChartStyle>,
    /// Print weights for the axes, learned from the ratings of sessions with the same axes and type (`ar rate`)
    #[arg(long, conflicts_with_all = ["file", "chart"])]
    pub(in crate::cli) weights: bool,
    /// Output format [default: table]
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) format: Option<ReportFormat>,
}

/// A ledger in place of a session.
#[derive(Debug, Args)]
pub(in crate::cli) struct LedgerArgs {
    /// Ledger to read instead of a session, also one of another tool
    #[arg(long = "ledger", value_name = "FILE", conflicts_with_all = ["session", "tag"])]
    pub(in crate::cli) file: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) said: SaidArgs,
}

/// What a ledger does not say itself.
#[derive(Debug, Args)]
pub(in crate::cli) struct SaidArgs {
    /// Column of the ledger that holds the metric
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(in crate::cli) metric: Option<String>,
    /// Treat lower values as better
    #[arg(long, conflicts_with = "higher", requires = "file")]
    pub(in crate::cli) lower: bool,
    /// Treat higher values as better
    #[arg(long, requires = "file")]
    pub(in crate::cli) higher: bool,
    /// Segment of a JSON-lines ledger, as the file numbers it, else from 0 [default: the newest with rows]
    #[arg(long, value_name = "N", requires = "file", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub(in crate::cli) segment: Option<usize>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    /// Session [default: that of HEAD, else all of them; with `--watch`, the active one, else the newest]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Show all sessions of this user on this machine, a line for each
    #[arg(long, conflicts_with_all = ["session", "tag"])]
    pub(in crate::cli) all: bool,
    /// Fill the terminal and refresh it each second until `q` is pressed; quitting does not stop the loop
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) watch: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ServeArgs {
    /// Sessions to show, several of them in one chart [default: that of HEAD, else the active one, else the newest]
    #[arg(id = "session", value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) sessions: Vec<Tag>,
    /// Session, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Port to listen at; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 8765)]
    pub(in crate::cli) port: u16,
    /// Address to listen at; any other than the default lets other machines in, without encryption
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(in crate::cli) bind: IpAddr,
}

#[derive(Debug, Args)]
#[command(override_usage = "ar log [OPTIONS] [TAG]\n       ar log [OPTIONS] --ledger <FILE>")]
pub(in crate::cli) struct LogArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Order: the best first, by number, or the newest first
    #[arg(long, value_name = "ORDER", default_value = "id")]
    pub(in crate::cli) sort: SortBy,
    /// Outcome to list; repeatable
    #[arg(long, value_name = "OUTCOME")]
    pub(in crate::cli) outcome: Vec<CountedOutcome>,
    /// Largest number of experiments to list
    #[arg(long, value_name = "N", value_parser = positive::<usize>, allow_negative_numbers = true)]
    pub(in crate::cli) top: Option<usize>,
    /// Pattern to find in the description, reason, direction, failure or notes
    #[arg(long, value_name = "REGEX")]
    pub(in crate::cli) grep: Option<Regex>,
    /// Columns, with commas between: id, commit, outcome, value, gain, memory, seconds, agent, failure, when, direction, reason,
    /// notes, replaced_by, description, and any value of the logs by its name. By default a narrow terminal omits seconds, memory,
    /// gain, commit and failure, in this order
    #[arg(long, conflicts_with = "file", value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::cli) columns: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "N")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Print the whole log instead of its end
    #[arg(long)]
    pub(in crate::cli) log: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BriefArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// Experiment: its number, a hash prefix, best, baseline or last; nov20/7 in another session
    #[arg(value_name = "A")]
    pub(in crate::cli) experiment: ExperimentName,
    /// Experiment to compare it with
    #[arg(value_name = "B")]
    pub(in crate::cli) other: ExperimentName,
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExtractArgs {
    /// Log, compressed or not; `-` for standard input
    pub(in crate::cli) file: PathBuf,
    /// Name of the metric [default: from --tag, AR_METRIC, ar.toml or the session]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) metric: Option<String>,
    /// Session whose metric to look for
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Pattern whose one group is the value, used instead of the metric's name
    #[arg(long, value_name = "REGEX")]
    pub(in crate::cli) metric_regex: Option<String>,
    /// Exit status of the run; above 128 it is a signal
    #[arg(long, value_name = "STATUS", default_value_t = 0, allow_negative_numbers = true)]
    pub(in crate::cli) exit_status: i32,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ScoreArgs {
    /// Session to compare with [default: $AR_TAG, else that of HEAD's branch, else none: then HEAD's files]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    pub(in crate::cli) session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    pub(in crate::cli) tag: Option<Tag>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorArgs {
    #[command(flatten)]
    pub(in crate::cli) session: SessionArgs,
    #[command(flatten)]
    pub(in crate::cli) foreign: LedgerArgs,
    /// Repair what needs no guess; replaced files are kept beside the new ones
    #[arg(long, conflicts_with = "file")]
    pub(in crate::cli) repair: bool,
    /// Test the executor of the runs with one short job: what it sees of files here, and whether `ar` starts there
    #[arg(long, conflicts_with = "file")]
    pub(in crate::cli) job: bool,
    /// Time to wait for that job to start
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m", requires = "job")]
    pub(in crate::cli) wait: Duration,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

/// A session's tag, as an argument or an option.
#[derive(Debug, Args)]
pub(in crate::cli) struct SessionArgs {
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    tag: Option<Tag>,
}

impl SessionArgs {
    /// The session that was named.
    pub(in crate::cli) fn tag(self) -> Option<Tag> {
        self.session.or(self.tag)
    }
}

/// What the loop prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum StreamFormat {
    /// One line for each experiment
    #[default]
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

/// The commands, each in one group, as the help lists them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run experiments", &["init", "run", "try", "resume", "stop", "tell", "idea", "mcp"]),
    ("Read results", &["status", "serve", "report", "log", "show", "diff", "brief", "extract", "score", "doctor"]),
    ("Check results", &["verify", "ablate", "repro", "review", "note", "rate"]),
    ("Watch over sessions", &["guard"]),
    ("Move results", &["restore", "finalize", "import", "export", "delete"]),
    ("Setup and help", &["demo", "completions", "man", "help", "version"]),
];

/// The commands, by name.
pub(crate) fn commands() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect()
}

/// A command line, and what it does.
pub(in crate::cli) type Example = (&'static str, &'static str);

/// The examples of each command, as its help shows them; `ar` stands for the program itself.
static EXAMPLES: LazyLock<BTreeMap<&str, Vec<Example>>> = LazyLock::new(|| {
    let of_command = |paragraph: &'static str| {
        let (command, lines) = paragraph.split_once('\n').unwrap_or_default();
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        (command, lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    };
    include_str!("examples.txt").split("\n\n").map(of_command).collect()
});

/// Examples of a command.
pub(in crate::cli) fn examples(command: &str) -> &'static [Example] {
    EXAMPLES.get(command).map_or(&[], Vec::as_slice)
}

/// The command line, with examples in the help of each command.
pub(crate) fn program() -> Command {
    let program = Cli::command();
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let program = program.after_help(examples_text("ar"));
    names.into_iter().fold(program, |program, name| {
        let text = examples_text(&name);
        program.mut_subcommand(name, |command| {
            let is_shortened = command.get_arguments().any(Arg::is_hide_short_help_set);
            if !is_shortened {
                return command.after_help(text);
            }
            let more = format!("{}\n\n`ar {} --help` lists all settings.", text.ansi(), command.get_name());
            command.after_help(more).after_long_help(text)
        })
    })
}

/// The same with a help of its own, which lists the commands in groups.
pub(in crate::cli) fn with_groups(program: Command) -> Command {
    let mut built = program.clone();
    built.build();
    let header = *built.get_styles().get_header();
    let literal = *built.get_styles().get_literal();
    let width = built.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut groups = String::new();
    for (heading, commands) in GROUPS {
        groups += &format!("{header}{heading}:{header:#}\n");
        for command in commands.iter().filter_map(|name| built.find_subcommand(name)) {
            let name = command.get_name();
            let about = match name {
                // The text that clap has for it would fit any program.
                "help" => "Print help for a command".to_owned(),
                _ => command.get_about().map(ToString::to_string).unwrap_or_default(),
            };
            groups += &format!("  {literal}{name}{literal:#}{:pad$}  {about}\n", "", pad = width - name.len());
        }
        groups += "\n";
    }
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}");
    // Those are listed already.
    let flat = program.clone().help_template(template).override_usage("ar [OPTIONS] <COMMAND>");
    let mut flat = flat.disable_help_subcommand(true).mut_subcommands(|command| command.hide(true));
    let help = flat.render_long_help();
    program.override_help(help)
}

fn examples_text(command: &str) -> StyledStr {
    let styles = clap::builder::Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    for (what, line) in examples(command) {
        text += &format!("\n  {what}:\n    {literal}{line}{literal:#}");
    }
    match text.is_empty() {
        true => StyledStr::new(),
        false => format!("{header}Examples:{header:#}{text}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group_and_has_an_example_that_parses() {
        let mut built = program();
        built.build();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect();
        let mut known: Vec<&str> = built.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
        for name in known.into_iter().chain(["ar"]) {
            assert!(!examples(name).is_empty(), "{name}");
            for (what, line) in examples(name) {
                assert!(!what.starts_with("ar "), "{name} has two lines for one text: {what}");
                for line in line.split("; ").filter(|line| line.starts_with("ar ")) {
                    let words = shell_words(line);
                    if let Err(error) = program().try_get_matches_from(words) {
                        assert!(!error.use_stderr(), "{line}: {error}");
                    }
                }
            }
        }
    }

    /// The words of a line as a shell takes it apart, up to a `>` or the end of a subshell.
    fn shell_words(line: &str) -> Vec<String> {
        let line = [" > ", ") | "].iter().fold(line, |line, end| line.split(end).next().unwrap_or_default());
        let (mut words, mut quote, mut word) = (Vec::new(), None, String::new());
        for c in line.chars() {
            match (c, quote) {
                ('"' | '\'', None) => quote = Some(c),
                (_, Some(open)) if c == open => quote = None,
                (' ', None) => words.push(std::mem::take(&mut word)),
                _ => word.push(c),
            }
        }
        words.push(word);
        words
    }
}
