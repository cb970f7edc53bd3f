//! The settings of a session, each described once.
//!
//! The macro makes of each the field of [`Contract`] and of [`Asked`]; flag, variable, key of `ar.toml`, the line of its
//! template and the line that is confirmed are made of the description. The few settings that are known by name elsewhere
//! are in `core_settings`, the caps in `cap_settings`, and those that are no terms of the contract in `layout_settings`.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::setting::{Form, Heading, Held, Kind, SettingOf, choices, joined, line, stored, texts};
use super::settings_macro::settings;
use super::values::{command_line, non_negative, not_zero, up_to_three};
use super::{
    Cadence, Caps, Carry, CommitId, Composite, Decide, Direction, Draw, EngineCommands, Escalate, ExecutorName,
    Follows, GpuChoice, Ladder, LedgerDialect, Limit, MetricSource, MetricSpec, Prices, Sandbox, SizeLimit, StopRule,
    Tag, Target, VerifyFor, count_of, duration_text, money_text, time_of_day_text, tokens_text,
};

/// How long a run may take unless the user says otherwise: 10 minutes, twice the fixed training time of
/// Karpathy's program.md, which kills a run after 10.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a process has between TERM and KILL: 10 seconds.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// How long one call of the agent may go on unless the user says otherwise: 30 minutes, the round cap of agent protocols
/// for overnight training.
pub const DEFAULT_AGENT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long an outage of the agent may last unless the user says otherwise: 8 hours, a night, and longer than the windows
/// of five hours in which subscriptions count their use.
pub const DEFAULT_OUTAGE_LIMIT: Duration = Duration::from_secs(8 * 3600);

/// How long a search command may take unless the user says otherwise: a minute, which searches over slow networks need.
const DEFAULT_SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The space of a session's logs unless the user says otherwise: 10 GB, a night of a hundred runs with 100 MB each.
const DEFAULT_KEEP_LOGS: SizeLimit = SizeLimit::Bytes(10_000_000_000);

/// The space of a session's artifacts unless the user says otherwise: 20 GB, a few checkpoints of a model of a billion parameters.
const DEFAULT_KEEP_ARTIFACTS: SizeLimit = SizeLimit::Bytes(20_000_000_000);

/// The most fresh runs that decide on a change.
pub(super) const MOST_FRESH_RUNS: u32 = 4;

/// The version of contracts that this program writes.
pub const CONTRACT_VERSION: u32 = 1;

/// A setting, from which flag, variable, key of `ar.toml`, template and confirmation are made.
pub type Setting = SettingOf<Asked, Contract>;

/// A setting whose values are those of a field of [`Asked`], for the table to complete.
macro_rules! asked {
    ($field:ident: $type:ty) => {
        Setting {
            set: |asked, texts| <$type as Form>::read(texts).map(|value| asked.$field = Some(value)),
            asked: |asked| texts(asked.$field.as_ref()),
            ..Setting::of::<$type>()
        }
    };
}

/// A table of settings, each as what it starts from `=>` its description.
macro_rules! described {
    ($($base:expr => { $($part:ident: $value:expr),* $(,)? })*) => {
        &[$(Setting { $($part: $value,)* ..$base },)*]
    };
}

pub(super) use {asked, described};

settings! {
    tag: Tag,
    metric: String,
    direction: Direction,
    source: MetricSource,
    command: String,
    agent: String,
    reviewer: Option<String>,
    ledger: LedgerDialect,
    prices: Prices,
    composite: Composite,
    slots: u32,
    gpus: GpuChoice,
    gpus_per_run: u32,
    ahead: u32,
    calls: u32,
    links: Vec<PathBuf>,
    executor: ExecutorName,
    sbatch: String,
    lost_after: Duration,
    engine: EngineCommands,
    silence: Option<Duration>,
    agent_silence: Option<Duration>,
    agent_rounds: u32,
    max_file_total: u32,
    session_max_experiments: u32,
    session_max_cost: f64,
    session_max_tokens: u64;
    /// How much better than the incumbent a number must be; 0 or more.
    min_delta: Target as Target = Target::from(0.0), {
        key: "min-delta", heading: Heading::Keeping, value: "DELTA",
        help: "Minimum gain over the best value so far, as in 0.01 or 20ms [default: 0]",
        comment: "How much better than the best one a number must be to be kept.", example: "0.0",
        fixed: Some("minimum gain"), check: non_negative,
        lines: |it| line(Some(&it.min_delta).filter(|delta| delta.value(None) > 0.0), |delta| {
            format!("kept      when better by more than {delta}")
        }),
    }

    /// How many runs decide on a change.
    #[serde(default, skip_serializing_if = "is_once")]
    decide: Decide as Decide = Decide::Once, {
        key: "decide", heading: Heading::Keeping, value: "RULE", choices: choices::<Decide>,
        help: "How a change is decided on [default: once]",
        comment: "How a change is decided on: once, by its first run; confirmed, by fresh runs after a good first one; \
                  or strict.",
        example: "\"confirmed\"",
        fixed: Some("rule of decision"),
        lines: |it| line(Some(it.decide).filter(|decide| *decide != Decide::Once), |decide| {
            format!("decided   {decide}: a keep takes up to {} runs", 1 + MOST_FRESH_RUNS)
        }),
    }

    /// Whether the experiment to beat runs once more before a change is kept by its first run.
    #[serde(default = "on", skip_serializing_if = "is_on")]
    control: bool as bool = true, {
        key: "control", heading: Heading::Keeping, value: "true|false",
        help: "With --decide once, run the experiment to beat once more before the first change that beats it is kept, and \
               again where its value moved; a train has none of its own [default: true]",
        comment: "Run the experiment to beat once more before the first change that beats it is kept.", example: "true",
        kind: Kind::OnOff,
    }

    /// How many runs of the baseline are made at the start; absent where the rule of decision says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    baseline_runs: u32 as Option<u32> = None, {
        key: "baseline-runs", heading: Heading::Keeping, value: "N",
        help: "Number of runs of the baseline at the start [default: 1 in place, one on each slot; with --decide \
               confirmed 4, in place once a change first beats it]",
        comment: "How many runs of the baseline are made at the start.", example: "4",
        check: not_zero,
    }

    /// After how many experiments since the last keep the incumbent is run again, and so on; 0 for never.
    #[serde(default, skip_serializing_if = "is_off")]
    recheck: u32 as u32 = 0, {
        key: "recheck", heading: Heading::Keeping, value: "N",
        help: "Run the best experiment again after every N experiments without a keep, and warn if its value drifts; 0 \
               for never [default: 0]",
        comment: "Run the best experiment again after so many experiments without a keep, and warn if its value drifts.",
        example: "20",
        lines: |it| line((it.recheck > 0).then_some(it.recheck), |every| {
            format!("checked   the best one again after every {} without a keep", count_of(every, "experiment"))
        }),
    }

    /// The time at the end of a night in which fresh runs verify its best experiment against the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verify_for: VerifyFor as Option<VerifyFor> = None, {
        key: "verify-for", heading: Heading::Keeping, value: "TIME",
        help: "Time at the end of a night in which fresh runs verify its best experiment: 1h, or 10% of the night",
        comment: "The time at the end of a night in which fresh runs verify its best experiment, or a part of the night.",
        example: "\"10%\"",
        lines: |it| line(it.verify_for, |time| format!("verified  for {time} at the end of a night")),
    }

    /// How far behind the incumbent a number may be that is kept because its change makes the program shorter; 0 or more.
    #[serde(default)]
    simpler_wins: Target as Option<Target> = None, {
        key: "simpler-wins", heading: Heading::Keeping, value: "EPS",
        help: "Largest loss against the best value at which a change that makes the program shorter is still kept",
        comment: "How far behind the best value a change may be that makes the program shorter.", example: "0.001",
        fixed: Some("margin for simpler changes"), check: non_negative,
        lines: |it| line(it.simpler_wins.as_ref(), |margin| {
            format!("simpler   is kept within {margin} of the best one, and longer is not")
        }),
    }

    /// The number from which an experiment is kept, whatever the best one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_above: Target as Option<Target> = None, {
        key: "keep-above", heading: Heading::Keeping, value: "VALUE",
        help: "Value at which an experiment is kept, regardless of the best one; at or below it if lower is better",
        comment: "Keep what reaches this value, regardless of the best one.", example: "0.45",
        fixed: Some("threshold of keeps"), excludes: Some("simpler-wins"),
        lines: |it| line(it.keep_above.as_ref(), |threshold| format!("kept      when it reaches {threshold}")),
    }

    /// The commands that a change must pass before it is kept, in order, each for `sh -c` as the measuring command.
    #[serde(default)]
    guards: Vec<String> as Vec<String> = Vec::new(), {
        key: "guard", heading: Heading::Keeping, value: "COMMAND",
        help: "Command that must pass before a change is kept; repeatable",
        comment: "Commands that must pass before a change is kept.", example: "[\"sh tests.sh\"]",
        fixed: Some("list of guards"), check: command_line,
        lines: |it| it.guards.iter().map(|guard| format!("guard     {guard}")).collect(),
    }

    /// The bounds that a change must keep to before it is kept.
    #[serde(default)]
    limits: Vec<Limit> as Vec<Limit> = Vec::new(), {
        key: "limit", heading: Heading::Keeping, value: "LIMIT",
        help: "Bound on a value in the log, as in 'memory_gb<=40'; repeatable",
        comment: "Bounds on numbers of the log that a kept change keeps to.", example: "[\"memory_gb<=40\"]",
        fixed: Some("list of limits"),
        lines: |it| line(joined(&it.limits.texts()), |limits| format!("limits    {limits}")),
    }

    /// The globs of the files that an experiment may change; all files when empty.
    #[serde(default)]
    scope: Vec<String> as Vec<String> = Vec::new(), {
        key: "scope", heading: Heading::Changes, value: "GLOB",
        help: "Files that an experiment may change; repeatable [default: all but those that measure]",
        comment: "The files that an experiment may change; by default all but those that measure.",
        example: "[\"src/**\"]",
        fixed: Some("scope"),
        lines: |it| line(joined(&it.scope), |scope| format!("scope     {scope}")),
    }

    /// The globs of the files that no experiment may change.
    #[serde(default)]
    protect: Vec<String> as Vec<String> = Vec::new(), {
        key: "protect", heading: Heading::Changes, value: "GLOB",
        help: "Files that no experiment may change; repeatable",
        comment: "Files that no experiment may change.", example: "[\"eval/**\"]",
        fixed: Some("list of protected files"),
    }

    /// How many files an experiment may change.
    #[serde(default)]
    max_files: u32 as Option<u32> = None, {
        key: "max-files", heading: Heading::Changes, value: "N",
        help: "Largest number of files that an experiment may change",
        comment: "How many files an experiment may change.", example: "5",
        check: not_zero,
    }

    /// How many lines of one file an experiment may add and delete.
    #[serde(default)]
    max_file_lines: u32 as Option<u32> = None, {
        key: "max-file-lines", heading: Heading::Changes, value: "N",
        help: "Largest number of lines that an experiment may add and delete in one file",
        comment: "How many lines of one file it may add and delete.", example: "200",
        check: not_zero,
    }

    /// Whether a change that was measured before is measured again.
    #[serde(default)]
    allow_repeats: bool as bool = false, {
        key: "allow-repeats", heading: Heading::Changes,
        help: "Allow changes that were measured before",
        comment: "Allow changes that were measured before.",
    }

    /// Whether the last number of a run that reached its deadline or crashed counts.
    #[serde(default)]
    count_partial: bool as bool = false, {
        key: "count-partial", heading: Heading::Measuring,
        help: "Count the last number of a run that reached its deadline or crashed, marked as partial",
        comment: "Count the last number of a run that reached its deadline or crashed.",
        lines: |it| line(it.count_partial.then_some(()), |()| {
            "partial   a run that reaches its deadline or crashes counts by its last number".into()
        }),
    }

    /// A run's deadline.
    #[serde(with = "crate::domain::seconds")]
    timeout: Duration as Duration = DEFAULT_TIMEOUT, {
        key: "timeout", heading: Heading::Measuring, value: "DURATION",
        help: "Time limit for one run [default: 10m]",
        comment: "Time limit for one run.", example: "\"10m\"",
        lines: |it| vec![format!(
            "deadline  {} a run, {} a call of the agent",
            duration_text(it.timeout),
            duration_text(it.agent_timeout)
        )],
    }

    /// What runs in the user's working tree find of earlier ones.
    #[serde(default, skip_serializing_if = "Carry::is_default")]
    carry: Carry as Carry = Carry::default(), {
        key: "carry", heading: Heading::Measuring, value: "WHAT", choices: choices::<Carry>,
        help: "Untracked files that runs in place find of earlier runs [default: found]",
        comment: "What a run in place finds of earlier ones: found sets aside what a run reads and changes, all sets \
                  nothing aside, none everything.",
        example: "\"all\"",
        lines: |it| line(Some(it.carry).filter(|carry| !carry.is_default()), |carry| format!("carries   {carry}")),
    }

    /// The time between TERM and KILL.
    #[serde(with = "crate::domain::seconds")]
    grace: Duration as Duration = DEFAULT_GRACE, {
        key: "grace", heading: Heading::Measuring, value: "DURATION",
        help: "Time a process gets to exit by itself before it is killed [default: 10s]",
        comment: "Time that a process has to end by itself before it is killed.", example: "\"10s\"",
    }

    /// How long one call of the agent may go on.
    #[serde(with = "crate::domain::seconds", default = "default_agent_timeout")]
    agent_timeout: Duration as Duration = DEFAULT_AGENT_TIMEOUT, {
        key: "agent-timeout", heading: Heading::Agent, value: "DURATION",
        help: "Time limit for one agent call [default: 30m]",
        comment: "Time limit for one agent call.", example: "\"30m\"",
    }

    /// How long an outage of the agent may last before the loop stops.
    #[serde(with = "crate::domain::seconds", default = "default_outage_limit")]
    outage_limit: Duration as Duration = DEFAULT_OUTAGE_LIMIT, {
        key: "outage-limit", heading: Heading::Agent, value: "DURATION",
        help: "Longest time to wait for an agent that is unreachable, rate-limited or out of credit [default: 8h]",
        comment: "How long the agent may be unreachable, rate-limited or out of credit before the loop stops.",
        example: "\"8h\"",
    }

    /// By what the session goes when keeps fail to come.
    #[serde(default)]
    ladder: Ladder as Ladder = Ladder::default(), {
        key: "ladder", heading: Heading::Agent, value: "LADDER", choices: choices::<Ladder>,
        help: "Directives to the agent after several experiments without a keep [default: refine]",
        comment: "What the agent is told when there are no recent keeps.", example: "\"structural\"",
        lines: |it| line((it.ladder == Ladder::Structural).then_some("structural"), |name| format!("ladder    {name}")),
    }

    /// How the idea and the source that the agent is offered are drawn from the backlog.
    #[serde(default)]
    draw: Draw as Draw = Draw::default(), {
        key: "draw", heading: Heading::Agent, value: "DRAW",
        help: "How an idea and a source are drawn from the backlog: best, or uniform:K for one of the K best \
               [default: uniform:50]",
        comment: "How an idea and a source are drawn from the backlog: best, or one of the K best.",
        example: "\"uniform:50\"",
        lines: |it| line((it.draw != Draw::default()).then_some(it.draw), |draw| {
            format!("ideas     {draw} of the backlog")
        }),
    }

    /// How many calls, each in another role, make proposals before the change at a pivot.
    #[serde(default, skip_serializing_if = "is_off")]
    explore: u32 as u32 = 0, {
        key: "explore", heading: Heading::Agent, value: "N",
        help: "Number of calls that make proposals before the change at a pivot: investigate, refute, analogy \
               [default: 0]",
        comment: "How many calls make proposals before the change at a pivot, each in another role.", example: "3",
        check: up_to_three,
        lines: |it| line((it.explore > 0).then_some(it.explore), |count| {
            format!("explore   {} at each pivot", count_of(count, "proposal"))
        }),
    }

    /// What the session is for, in the user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    goal_text: String as Option<String> = None, {
        key: "goal-text", heading: Heading::Agent, value: "TEXT",
        help: "Goal in words, for the prompt",
        comment: "The goal in words. The agent reads it in every prompt.",
        example: "\"Lower val_bpb without using more memory.\"",
    }

    /// Steps on the way to the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    milestones: Vec<String> as Vec<String> = Vec::new(), {
        key: "milestone", heading: Heading::Agent, value: "TEXT",
        help: "Milestone on the way to the goal, for the prompt; repeatable",
        comment: "Milestones on the way to the goal.", example: "[\"val_bpb below 1.0\"]",
    }

    /// What counts as success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    success: Vec<String> as Vec<String> = Vec::new(), {
        key: "success", heading: Heading::Agent, value: "TEXT",
        help: "Success criterion, for the prompt; repeatable",
        comment: "What counts as success.", example: "[\"val_bpb below 0.95 within the same time\"]",
    }

    /// Whether the agent may look for ideas outside the repository when it is stuck.
    #[serde(default, alias = "research")]
    allow_search: bool as bool = false, {
        key: "allow-search", heading: Heading::Agent,
        help: "Let the agent look for ideas outside the repository at the second pivot in a row, on the ladder `refine`",
        comment: "The agent may look for ideas outside the repository at the second pivot in a row.", example: "true",
        lines: |it| line(it.allow_search.then_some("outside the repository"), |where_| {
            format!("search    {where_}, at the second pivot in a row")
        }),
    }

    /// The commands that look for ideas outside the repository, for `sh -c`; each gets a question as JSON on standard input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    search: Vec<String> as Vec<String> = Vec::new(), {
        key: "search", heading: Heading::Agent, value: "COMMAND",
        help: "Command that searches for ideas at the second pivot in a row: JSON with question, directive, metric, \
               direction, best and tried on standard input, text or lines {\"text\", \"url\", \"score\"} on standard \
               output; runs outside the working tree, $AR_ROOT; repeatable",
        comment: "Commands that search for ideas at the second pivot in a row, outside the working tree ($AR_ROOT).",
        example: "[\"sh ~/search.sh\"]",
        check: command_line,
        lines: |it| it.search.iter().map(|command| format!("search    {command}")).collect(),
    }

    /// How long a search command may take.
    #[serde(with = "crate::domain::seconds", default = "default_search_timeout")]
    search_timeout: Duration as Duration = DEFAULT_SEARCH_TIMEOUT, {
        key: "search-timeout", heading: Heading::Agent, value: "DURATION",
        help: "Time limit for each search command [default: 60s]",
        comment: "Time limit for each search command.", example: "\"60s\"",
    }

    /// How the loop paces itself; without it, the next call follows at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cadence: Cadence as Option<Cadence> = None, {
        key: "cadence", heading: Heading::Agent, value: "CADENCE",
        help: "Pause between experiments: adaptive, novelty, or a duration such as 2h [default: none]",
        comment: "The pause between experiments: adaptive, novelty, or a duration.", example: "\"adaptive\"",
        lines: |it| line(it.cadence, |cadence| {
            let most = if it.unattended { ", 90m at most" } else { "" };
            format!("cadence   {cadence}{most}")
        }),
    }

    /// Whether nobody looks after the loop, so that no pause of its cadence is longer than 90 minutes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unattended: bool as bool = false, {
        key: "unattended", heading: Heading::Agent,
        help: "Limit the pauses of --cadence to 90 minutes; with novelty, stop at the third such pause in a row",
        comment: "Limit the pauses of the cadence to 90 minutes.", example: "true",
    }

    /// How many experiments a night may have, the baseline not counted.
    max_experiments: u32 as Option<u32> = None, {
        key: "max-experiments", heading: Heading::Stopping, value: "N",
        help: "Largest number of experiments in a night, without the baseline; each `ar run` begins a night",
        comment: "How many experiments a night may have; each `ar run` begins one.", example: "100",
        ends_loop: true,
        lines: |it| line(it.max_experiments, |limit| format!("at most   {}", count_of(limit, "experiment"))),
    }

    /// What the agent's calls of a night may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_cost: f64 as Option<f64> = None, {
        key: "max-cost", heading: Heading::Stopping, value: "COST",
        help: "Cost of a night's agent calls at which the loop stops, in the currency that the agent reports",
        comment: "Stop when a night's calls have cost this much; an agent that reports no cost needs prices, below.",
        example: "20.0",
        check: non_negative,
        ends_loop: true,
        lines: |it| line(it.max_cost, |cost| format!("at most   {} for the agent's calls", money_text(cost))),
    }

    /// How many tokens they may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: u64 as Option<u64> = None, {
        key: "max-tokens", heading: Heading::Stopping, value: "N",
        help: "Tokens of a night's agent calls at which the loop stops",
        comment: "Stop when they have used so many tokens.", example: "50000000",
        ends_loop: true,
        lines: |it| line(it.max_tokens, |tokens| format!("at most   {} tokens in the agent's calls", tokens_text(tokens))),
    }

    /// How long a night may go on, from its `ar run` on.
    #[serde(with = "crate::domain::seconds::option", rename = "for")]
    budget: Duration as Option<Duration> = None, {
        key: "for", heading: Heading::Stopping, value: "DURATION",
        help: "Time limit for a night, from its `ar run` on; interruptions count",
        comment: "Time limit for a night, from its `ar run` on.", example: "\"8h\"",
        ends_loop: true,
        lines: |it| line(it.budget, |budget| format!("for       {}", duration_text(budget))),
    }

    /// The time of day, on the user's clock, at which a night ends: the next one after its `ar run`.
    #[serde(default)]
    until: Time as Option<Time> = None, {
        key: "until", heading: Heading::Stopping, value: "TIME",
        help: "Time of day at which a night ends, as in 07:00",
        comment: "The time of day at which a night ends.", example: "\"07:00\"",
        ends_loop: true,
        lines: |it| line(it.until, |until| format!("until     {}", time_of_day_text(until))),
    }

    /// The value at which the session has reached its goal.
    goal: Target as Option<Target> = None, {
        key: "goal", heading: Heading::Stopping, value: "VALUE",
        help: "Metric value at which the loop stops, as in 0.95, 95% or 0.2s",
        comment: "Stop when the metric reaches this value; a unit goes in quotes, as in \"95%\".", example: "0.95",
        ends_loop: true,
        lines: |it| line(it.goal.as_ref(), |goal| format!("goal      {goal}")),
    }

    /// The rules on the course of the numbers by which the loop stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stop_rules: Vec<StopRule> as Vec<StopRule> = Vec::new(), {
        key: "stop-rule", heading: Heading::Stopping, value: "RULE",
        help: "Rule on the course of values that stops the loop: kill, kill2, plateau:N or above:VALUE:N; repeatable",
        comment: "Rules on the course of values that stop the loop.", example: "[\"plateau:30\"]",
        ends_loop: true,
        lines: |it| it.stop_rules.iter().map(|rule| format!("until     {}", rule.meaning())).collect(),
    }

    /// After how many crashes in a row the loop stops.
    #[serde(default)]
    max_crashes: u32 as Option<u32> = None, {
        key: "max-crashes", heading: Heading::Stopping, value: "N",
        help: "Number of crashes in a row at which the loop stops",
        comment: "Stop after so many crashes in a row.", example: "10",
        check: not_zero,
        lines: |it| line(it.max_crashes, |crashes| format!("or until  {} in a row", count_of(crashes, "crash"))),
    }

    /// After how many calls in a row that change nothing the loop stops, if the user said; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_idle: u32 as Option<u32> = None, {
        key: "max-idle", heading: Heading::Stopping, value: "N",
        help: "Number of agent calls in a row without a change at which the loop stops, with slots of each agent; 0 for no \
               limit [default: 10, and 3 before the session's first change]",
        comment: "Stop after so many calls of the agent in a row without a change; 0 for no limit.", example: "10",
        lines: |it| line(it.max_idle, |limit| match limit {
            0 => "calls     without a change never stop the loop".to_owned(),
            limit => format!("or until  {} in a row without a change", count_of(limit, "call")),
        }),
    }

    /// Whether the loop stops when the session is flagged for review.
    #[serde(default)]
    stop_when_flagged: bool as bool = false, {
        key: "stop-when-flagged", heading: Heading::Stopping,
        help: "Stop when the session is flagged for review, instead of starting over in another direction",
        comment: "Stop when the session is flagged for review instead of starting afresh in another direction.",
        example: "true",
        ends_loop: true,
        lines: |it| line(it.stop_when_flagged.then_some("it is flagged"), |what| format!("until     {what} for review")),
    }

    /// The command that is told what happens, for `sh -c`; it gets each event as JSON on standard input.
    #[serde(default)]
    on_event: String as Option<String> = None, {
        key: "on-event", heading: Heading::Session, value: "COMMAND",
        help: "Command that receives events as JSON on standard input: keep, best, pivot, outage, stopped and more",
        comment: "A command that gets each event as JSON on standard input.", example: "\"sh ~/notify.sh\"",
        check: command_line,
        lines: |it| line(it.on_event.as_ref(), |command| format!("events    {command}")),
    }

    /// How often the state of the session is written to a file.
    #[serde(with = "crate::domain::seconds::option", default, skip_serializing_if = "Option::is_none")]
    checkpoint: Duration as Option<Duration> = None, {
        key: "checkpoint", heading: Heading::Session, value: "DURATION",
        help: "Interval at which the report and what is open are written to the session's folder checkpoints/",
        comment: "How often the report and what is open are written to the session's folder checkpoints/.",
        example: "\"2h\"",
        lines: |it| line(it.checkpoint, |every| format!("written   every {}, into checkpoints/", duration_text(every))),
    }

    /// How long after its start the session is summed up by the agent, once.
    #[serde(with = "crate::domain::seconds::option", default, skip_serializing_if = "Option::is_none")]
    summary_at: Duration as Option<Duration> = None, {
        key: "summary-at", heading: Heading::Session, value: "DURATION",
        help: "Age of the session at which the agent summarises it once, in checkpoints/summary.md",
        comment: "The age of the session at which the agent summarises it once.", example: "\"5h\"",
        lines: |it| line(it.summary_at, |age| format!("summary   by the agent after {}", duration_text(age))),
    }

    /// When a wall surrounds agent calls, runs, guards, reviewers and the user's commands.
    #[serde(default, skip_serializing_if = "Sandbox::is_auto")]
    sandbox: Sandbox as Sandbox = Sandbox::default(), {
        key: "sandbox", heading: Heading::Session, value: "WHEN", choices: choices::<Sandbox>,
        help: "Wall around agents, runs, guards and reviewers, which keeps them from writing to the evaluator, the record \
               and each other's trees; needs bubblewrap [default: auto]",
        comment: "The wall that keeps agents and runs from writing to the evaluator, the record and each other's trees: auto, \
                  require or off.",
        example: "\"require\"",
        lines: |it| line(Some(it.sandbox).filter(|when| !when.is_auto()), |when| format!("sandbox   {when}")),
    }

    /// What the session does about what it cannot solve by itself.
    #[serde(default)]
    escalate: Escalate as Escalate = Escalate::default(), {
        key: "escalate", heading: Heading::Session, value: "HOW", choices: choices::<Escalate>,
        help: "What to do about an outage over its limit, a full disk or another error, once state/escalation.md is \
               written [default: stop]",
        comment: "What to do about what ar cannot solve by itself: stop, or wait for an answer.", example: "\"wait\"",
        lines: |it| line((it.escalate == Escalate::Wait).then_some("for you"), |whom| {
            format!("trouble   waits {whom}, by `ar tell`, or for its end")
        }),
    }

    /// How much of the logs is kept.
    #[serde(default = "default_keep_logs")]
    keep_logs: SizeLimit as SizeLimit = DEFAULT_KEEP_LOGS, {
        key: "keep-logs", heading: Heading::Session, value: "SIZE",
        help: "Space for retained run logs, as in 2GB; `all`, or 0 for the best and the newest ten [default: 10GB]",
        comment: "How much of the runs' logs is kept.", example: "\"10GB\"",
    }

    /// The globs of the files that a kept run leaves as artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<String> as Vec<String> = Vec::new(), {
        key: "artifact", key_in_file: "artifacts", heading: Heading::Session, value: "GLOB",
        help: "Untracked files, such as checkpoints, to save from each kept run that wrote them; repeatable, `none` for no files",
        comment: "Untracked files, such as checkpoints, to save from each kept run that wrote them.",
        example: "[\"checkpoints/best.*\"]",
        lines: |it| line(joined(&it.artifacts), |globs| {
            format!("artifacts {globs} of each keep, within {}", it.keep_artifacts)
        }),
    }

    /// How much of the artifacts is kept.
    #[serde(default = "default_keep_artifacts")]
    keep_artifacts: SizeLimit as SizeLimit = DEFAULT_KEEP_ARTIFACTS, {
        key: "keep-artifacts", heading: Heading::Session, value: "SIZE",
        help: "Space for artifacts, as in 50GB; `all`, or 0 for those of the best alone [default: 20GB]",
        comment: "How much of the kept runs' artifacts is kept: the best one's, then the newest.", example: "\"20GB\"",
    }

    /// Whether the session's commits stay unsigned whatever git's configuration asks for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    no_sign: bool as bool = false, {
        key: "no-sign", heading: Heading::Session,
        help: "Leave the session's commits unsigned, whatever commit.gpgSign says",
        comment: "Leave the session's commits unsigned.", example: "true",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_off(count: &u32) -> bool {
    *count == 0
}

fn on() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_on(switch: &bool) -> bool {
    *switch
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_once(decide: &Decide) -> bool {
    *decide == Decide::Once
}

fn default_agent_timeout() -> Duration {
    DEFAULT_AGENT_TIMEOUT
}

fn default_keep_logs() -> SizeLimit {
    DEFAULT_KEEP_LOGS
}

fn default_keep_artifacts() -> SizeLimit {
    DEFAULT_KEEP_ARTIFACTS
}

fn default_search_timeout() -> Duration {
    DEFAULT_SEARCH_TIMEOUT
}

fn default_outage_limit() -> Duration {
    DEFAULT_OUTAGE_LIMIT
}
