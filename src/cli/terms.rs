//! The flags that are settings of a session.

use std::time::Duration;

use autoresearch::domain::{Direction, KeepLogs, Ladder, LedgerDialect, Limit, MetricSource, Tag};
use autoresearch::session::Asked;
use clap::{Args, ValueEnum};
use jiff::civil::Time;

use super::values::{MetricFile, Span};

/// The headings of the settings in the help, in their order there.
const MEASURING: &str = "Measuring";
const AGENT: &str = "Agent";
const KEEPING: &str = "Keeping";
const CHANGES: &str = "Changes";
const STOPPING: &str = "Stopping";
const SESSION: &str = "Session";

/// The settings of a session: flag, then variable (`AR_METRIC`), then `ar.toml`, then default.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct SettingsArgs {
    /// Name of the metric to improve, as the log prints it
    #[arg(long, value_name = "NAME", help_heading = MEASURING)]
    pub(super) metric: Option<String>,
    /// Command that trains and measures
    #[arg(long, value_name = "COMMAND", help_heading = MEASURING)]
    pub(super) cmd: Option<String>,
    /// Treat lower values as better [default, unless the metric's name says otherwise]
    #[arg(long, conflicts_with = "higher", help_heading = MEASURING)]
    pub(super) lower: bool,
    /// Treat higher values as better
    #[arg(long, help_heading = MEASURING)]
    pub(super) higher: bool,
    /// Pattern whose one group is the value, used instead of the metric's name
    #[arg(long, value_name = "REGEX", conflicts_with = "metric_file", help_heading = MEASURING)]
    pub(super) metric_regex: Option<String>,
    /// JSON file that holds the value, read instead of the log
    #[arg(long, value_name = "PATH:/json/pointer", help_heading = MEASURING)]
    pub(super) metric_file: Option<MetricFile>,
    /// Time limit for one run [default: 10m]
    #[arg(long, value_name = "DURATION", help_heading = MEASURING)]
    pub(super) timeout: Option<Span>,
    /// Time a process gets to exit by itself before it is killed [default: 10s]
    #[arg(long, value_name = "DURATION", help_heading = MEASURING)]
    pub(super) grace: Option<Span>,
    /// Command that changes the code once and exits, with the prompt on standard input; or aider, claude, codex, gemini or
    /// opencode
    #[arg(long, value_name = "COMMAND", value_parser = super::values::command_line, help_heading = AGENT)]
    pub(super) agent: Option<String>,
    /// Time limit for one agent call [default: 30m]
    #[arg(long, value_name = "DURATION", help_heading = AGENT)]
    pub(super) agent_timeout: Option<Span>,
    /// Longest time to wait for an agent that is unreachable, rate-limited or out of credit [default: 8h]
    #[arg(long, value_name = "DURATION", help_heading = AGENT)]
    pub(super) outage_limit: Option<Span>,
    /// Directives to the agent after several experiments without a keep [default: refine]
    #[arg(long, value_name = "LADDER", help_heading = AGENT)]
    pub(super) ladder: Option<LadderName>,
    /// Goal in words, for the prompt
    #[arg(long, value_name = "TEXT", help_heading = AGENT)]
    pub(super) goal_text: Option<String>,
    /// Milestone on the way to the goal, for the prompt; repeatable
    #[arg(long, value_name = "TEXT", help_heading = AGENT)]
    pub(super) milestone: Vec<String>,
    /// Success criterion, for the prompt; repeatable
    #[arg(long, value_name = "TEXT", help_heading = AGENT)]
    pub(super) success: Vec<String>,
    /// Let the agent look for ideas outside the repository at the second pivot in a row, on the ladder `refine`
    #[arg(long, help_heading = AGENT)]
    pub(super) research: bool,
    /// Minimum gain over the best value so far [default: 0]
    #[arg(
        long,
        value_name = "DELTA",
        allow_negative_numbers = true,
        value_parser = super::values::non_negative,
        help_heading = KEEPING
    )]
    pub(super) min_delta: Option<f64>,
    /// Largest loss against the best value at which a change that makes the program shorter is still kept
    #[arg(
        long,
        value_name = "EPS",
        allow_negative_numbers = true,
        value_parser = super::values::non_negative,
        help_heading = KEEPING
    )]
    pub(super) simpler_wins: Option<f64>,
    /// Command that must pass before a change is kept; repeatable
    #[arg(long, value_name = "COMMAND", value_parser = super::values::command_line, help_heading = KEEPING)]
    pub(super) guard: Vec<String>,
    /// Bound on a value in the log, as in 'memory_gb<=40'; repeatable
    #[arg(long, value_name = "LIMIT", help_heading = KEEPING)]
    pub(super) limit: Vec<Limit>,
    /// Files that an experiment may change; repeatable [default: all but those that measure]
    #[arg(long, value_name = "GLOB", help_heading = CHANGES)]
    pub(super) scope: Vec<String>,
    /// Files that no experiment may change; repeatable
    #[arg(long, value_name = "GLOB", help_heading = CHANGES)]
    pub(super) protect: Vec<String>,
    /// Largest number of files that an experiment may change
    #[arg(long, value_name = "N", value_parser = super::values::positive::<u32>, allow_negative_numbers = true, help_heading = CHANGES)]
    pub(super) max_files: Option<u32>,
    /// Largest number of lines that an experiment may add and delete in one file
    #[arg(long, value_name = "N", value_parser = super::values::positive::<u32>, allow_negative_numbers = true, help_heading = CHANGES)]
    pub(super) max_file_lines: Option<u32>,
    /// Measure a change again that was measured before
    #[arg(long, help_heading = CHANGES)]
    pub(super) allow_repeats: bool,
    /// Largest number of experiments in the session, without the baseline
    #[arg(long, value_name = "N", value_parser = super::values::whole::<u32>, allow_negative_numbers = true, help_heading = STOPPING)]
    pub(super) max_experiments: Option<u32>,
    /// Cost of all agent calls at which the loop stops, in the currency that the agent reports
    #[arg(
        long,
        value_name = "COST",
        allow_negative_numbers = true,
        value_parser = super::values::non_negative,
        help_heading = STOPPING
    )]
    pub(super) max_cost: Option<f64>,
    /// Tokens of all agent calls at which the loop stops
    #[arg(long, value_name = "N", value_parser = super::values::whole::<u64>, allow_negative_numbers = true, help_heading = STOPPING)]
    pub(super) max_tokens: Option<u64>,
    /// Time limit for each invocation
    #[arg(long = "for", value_name = "DURATION", help_heading = STOPPING)]
    pub(super) budget: Option<Span>,
    /// Time of day at which each invocation stops, as in 07:00
    #[arg(long, value_name = "TIME", value_parser = super::values::time_of_day, help_heading = STOPPING)]
    pub(super) until: Option<Time>,
    /// Metric value at which the loop stops
    #[arg(
        long,
        value_name = "VALUE",
        allow_negative_numbers = true,
        value_parser = super::values::finite,
        help_heading = STOPPING
    )]
    pub(super) goal: Option<f64>,
    /// Number of crashes in a row at which the loop stops
    #[arg(long, value_name = "N", value_parser = super::values::positive::<u32>, allow_negative_numbers = true, help_heading = STOPPING)]
    pub(super) max_crashes: Option<u32>,
    /// Stop when the session is flagged for review, instead of starting over in another direction
    #[arg(long, help_heading = STOPPING)]
    pub(super) stop_when_flagged: bool,
    /// Session name; the branch is autoresearch/TAG [default: month and day]
    #[arg(long, help_heading = SESSION)]
    pub(super) tag: Option<Tag>,
    /// Dialect of a new results.tsv [default: the one that program.md or a notebook uses, else ar]
    #[arg(long, value_name = "DIALECT", help_heading = SESSION)]
    pub(super) ledger: Option<Dialect>,
    /// Command that receives events as JSON on standard input: keep, best, pivot, outage, stopped and more
    #[arg(long, value_name = "COMMAND", value_parser = super::values::command_line, help_heading = SESSION)]
    pub(super) on_event: Option<String>,
    /// Space for retained run logs, as in 2GB; `all`, or 0 for the best and the newest ten [default: 10GB]
    #[arg(long, value_name = "SIZE", help_heading = SESSION)]
    pub(super) keep_logs: Option<KeepLogs>,
    /// Leave the session's commits unsigned, whatever commit.gpgSign says
    #[arg(long, help_heading = SESSION)]
    pub(super) no_sign: bool,
}

/// The dialect of a new results.tsv.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Dialect {
    /// commit_hash, improved / rejected / failed
    Ar,
    /// commit, keep / discard / crash
    Karpathy,
}

impl From<Dialect> for LedgerDialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Ar => LedgerDialect::Ar,
            Dialect::Karpathy => LedgerDialect::Karpathy,
        }
    }
}

/// The directives to the agent after several experiments without a keep.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LadderName {
    /// Refine after 3 experiments, pivot after 5, flag for review instead of the third pivot
    Refine,
    /// Pivot the structure after 2 experiments without a finding, flag for review after 4
    Structural,
}

impl From<LadderName> for Ladder {
    fn from(name: LadderName) -> Self {
        match name {
            LadderName::Refine => Ladder::Refine,
            LadderName::Structural => Ladder::Structural,
        }
    }
}

impl From<SettingsArgs> for Asked {
    /// One layer of settings in the session's own words.
    fn from(settings: SettingsArgs) -> Asked {
        let direction = match (settings.lower, settings.higher) {
            (true, _) => Some(Direction::Lower),
            (false, true) => Some(Direction::Higher),
            (false, false) => None,
        };
        let source = match (settings.metric_regex, settings.metric_file) {
            (Some(pattern), _) => Some(MetricSource::Regex(pattern)),
            (None, Some(file)) => Some(file.into()),
            (None, None) => None,
        };
        Asked {
            tag: settings.tag,
            metric: settings.metric,
            direction,
            source,
            command: settings.cmd,
            agent: settings.agent,
            min_delta: settings.min_delta,
            simpler_wins: settings.simpler_wins,
            guards: several(settings.guard),
            limits: several(settings.limit),
            goal: settings.goal,
            goal_text: settings.goal_text,
            milestones: several(settings.milestone),
            success: several(settings.success),
            timeout: settings.timeout.map(Duration::from),
            grace: settings.grace.map(Duration::from),
            agent_timeout: settings.agent_timeout.map(Duration::from),
            outage_limit: settings.outage_limit.map(Duration::from),
            max_experiments: settings.max_experiments,
            max_cost: settings.max_cost,
            max_tokens: settings.max_tokens,
            // A table of ar.toml alone.
            prices: None,
            budget: settings.budget.map(Duration::from),
            until: settings.until,
            max_crashes: settings.max_crashes,
            ledger: settings.ledger.map(Into::into),
            scope: several(settings.scope),
            protect: several(settings.protect),
            max_files: settings.max_files,
            max_file_lines: settings.max_file_lines,
            allow_repeats: settings.allow_repeats.then_some(true),
            ladder: settings.ladder.map(Into::into),
            research: settings.research.then_some(true),
            stop_when_flagged: settings.stop_when_flagged.then_some(true),
            on_event: settings.on_event,
            keep_logs: settings.keep_logs,
            no_sign: settings.no_sign.then_some(true),
        }
    }
}

/// The values of a flag that can be given several times; nothing where it was not given.
fn several<T>(values: Vec<T>) -> Option<Vec<T>> {
    (!values.is_empty()).then_some(values)
}
