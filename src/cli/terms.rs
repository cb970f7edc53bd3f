//! The flags that are terms of a session.

use std::time::Duration;

use autoresearch::domain::{Direction, KeepLogs, Ladder, LedgerDialect, Limit, MetricSource, Tag};
use autoresearch::session::Asked;
use clap::{Args, ValueEnum};
use jiff::civil::Time;

use super::values::{MetricFile, Span};

/// The terms of a session: flag, then variable (`AR_METRIC`), then `ar.toml`, then default.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct SettingsArgs {
    /// The number to improve, by the name that the log prints it under
    #[arg(long, value_name = "NAME")]
    pub(super) metric: Option<String>,
    /// The command that trains and measures
    #[arg(long, value_name = "COMMAND")]
    pub(super) cmd: Option<String>,
    /// The command that changes the code once and exits, with the prompt on standard input; or aider, claude, codex,
    /// gemini or opencode
    #[arg(long, value_name = "COMMAND", value_parser = super::values::command_line)]
    pub(super) agent: Option<String>,
    /// The session's name; its branch is autoresearch/TAG [default: month and day]
    #[arg(long)]
    pub(super) tag: Option<Tag>,
    /// Less of the metric is better [default, unless its name says otherwise]
    #[arg(long, conflicts_with = "higher")]
    pub(super) lower: bool,
    /// More of the metric is better
    #[arg(long)]
    pub(super) higher: bool,
    /// How much better than the best one so far a number must be [default: 0]
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true, value_parser = super::values::non_negative)]
    pub(super) min_delta: Option<f64>,
    /// Also keep a change that makes the program shorter, when its number is at most this far behind the best one
    #[arg(long, value_name = "EPS", allow_negative_numbers = true, value_parser = super::values::non_negative)]
    pub(super) simpler_wins: Option<f64>,
    /// A command that must pass before a change is kept, several times if need be
    #[arg(long, value_name = "COMMAND", value_parser = super::values::command_line)]
    pub(super) guard: Vec<String>,
    /// A bound on a number of the log that a change must keep to, as in 'memory_gb<=40', several times if need be
    #[arg(long, value_name = "LIMIT")]
    pub(super) limit: Vec<Limit>,
    /// A run's deadline [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<Span>,
    /// How long a process has to end by itself before it is killed [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub(super) grace: Option<Span>,
    /// How long one call of the agent may go on [default: 30m]
    #[arg(long, value_name = "DURATION")]
    pub(super) agent_timeout: Option<Span>,
    /// How long the agent may be out of reach, rate-limited or out of credit before the loop stops [default: 8h]
    #[arg(long, value_name = "DURATION")]
    pub(super) outage_limit: Option<Span>,
    /// How many experiments the session may have, the baseline not counted
    #[arg(long, value_name = "N")]
    pub(super) max_experiments: Option<u32>,
    /// How long this call may go on
    #[arg(long = "for", value_name = "DURATION")]
    pub(super) budget: Option<Span>,
    /// The time of day at which this call ends, as in 07:00
    #[arg(long, value_name = "TIME", value_parser = super::values::time_of_day)]
    pub(super) until: Option<Time>,
    /// Stop when the metric reaches this value
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true, value_parser = super::values::finite)]
    pub(super) goal: Option<f64>,
    /// Stop after so many crashes in a row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_crashes: Option<u32>,
    /// Read the number with this pattern's one group instead of by its name
    #[arg(long, value_name = "REGEX", conflicts_with = "metric_file")]
    pub(super) metric_regex: Option<String>,
    /// Read the number from this JSON file instead of the log
    #[arg(long, value_name = "PATH:/json/pointer")]
    pub(super) metric_file: Option<MetricFile>,
    /// The dialect of a new results.tsv
    #[arg(long, value_name = "DIALECT")]
    pub(super) ledger: Option<Dialect>,
    /// The files that an experiment may change, several times if need be [default: all but those that measure]
    #[arg(long, value_name = "GLOB")]
    pub(super) scope: Vec<String>,
    /// Files that no experiment may change, several times if need be
    #[arg(long, value_name = "GLOB")]
    pub(super) protect: Vec<String>,
    /// How many files an experiment may change
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_files: Option<u32>,
    /// How many lines of one file an experiment may add and delete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_file_lines: Option<u32>,
    /// Measure a change again that was measured before
    #[arg(long)]
    pub(super) allow_repeats: bool,
    /// What the agent is told when keeps fail to come [default: refine]
    #[arg(long, value_name = "LADDER")]
    pub(super) ladder: Option<LadderName>,
    /// The agent may look for ideas outside the repository at the second pivot in a row, on the ladder `refine`
    #[arg(long)]
    pub(super) research: bool,
    /// Stop when the session is flagged for a person, instead of beginning anew in another direction
    #[arg(long)]
    pub(super) stop_when_flagged: bool,
    /// A command that is told what happens, as JSON on standard input: keep, best, pivot, outage, stopped and more
    #[arg(long, value_name = "COMMAND", value_parser = super::values::command_line)]
    pub(super) on_event: Option<String>,
    /// How much of the runs' logs is kept, as in 2GB; `all`, or 0 for the best one and the newest ten [default: 10GB]
    #[arg(long, value_name = "SIZE")]
    pub(super) keep_logs: Option<KeepLogs>,
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

/// What the agent is told when keeps fail to come.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LadderName {
    /// Refine after 3 experiments, pivot after 5, flag for a person in place of the third pivot
    Refine,
    /// Pivot the structure after 2 experiments without a finding, flag for a person after 4
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
            timeout: settings.timeout.map(Duration::from),
            grace: settings.grace.map(Duration::from),
            agent_timeout: settings.agent_timeout.map(Duration::from),
            outage_limit: settings.outage_limit.map(Duration::from),
            max_experiments: settings.max_experiments,
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
        }
    }
}

/// The values of a flag that can be given several times; nothing where it was not given.
fn several<T>(values: Vec<T>) -> Option<Vec<T>> {
    (!values.is_empty()).then_some(values)
}
