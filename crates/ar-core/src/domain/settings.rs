//! The settings of a session, each described once.
//!
//! `key value in heading for field: type` is the flag with its value, the place in the help, and the field of [`Asked`]; the
//! comment in its braces is its help. `as type` is the field of [`Contract`] or [`Caps`] that stores it, with what it is by
//! default, and after the braces is the line that confirms it where it is set. Variable, key of `ar.toml` and template follow.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::setting::{Form, Heading, Kind, Setting, line, set, stored, take, texts};
use super::setting_values::{command_line, non_negative, not_zero, up_to_three};
use super::{
    Cadence, Carry, CommitId, Composite, Decide, Direction, Draw, EngineCommands, Escalate, ExecutorName, Follows,
    GpuChoice, Ladder, LedgerDialect, Limit, MetricSource, MetricSpec, Prices, Sandbox, SizeLimit, StopRule, Tag,
    Target, VerifyFor, count_of, duration_text, is_default, money_text, or_default, setting, table, time_of_day_text,
    tokens_text,
};

/// How long a run may take unless the user says otherwise: 10 minutes, twice the fixed training time of
/// Karpathy's program.md, which kills a run after 10.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Time between TERM and KILL: 10 seconds.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// How long one call of the agent may go on unless the user says otherwise: 30 minutes, the round cap of agent protocols
/// for overnight training.
pub const DEFAULT_AGENT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long an outage of the agent may last unless the user says otherwise: 8 hours, a night, and longer than the windows
/// of five hours in which subscriptions count their use.
pub const DEFAULT_OUTAGE_LIMIT: Duration = Duration::from_secs(8 * 3600);

/// Default time limit of a search command: a minute, which searches over slow networks need.
const DEFAULT_SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The space of a session's logs unless the user says otherwise: 10 GB, a night of a hundred runs with 100 MB each.
const DEFAULT_KEEP_LOGS: SizeLimit = SizeLimit::Bytes(10_000_000_000);

/// The space of a session's artifacts unless the user says otherwise: 20 GB, a few checkpoints of a model of a billion parameters.
const DEFAULT_KEEP_ARTIFACTS: SizeLimit = SizeLimit::Bytes(20_000_000_000);

/// The most fresh runs that decide on a change.
pub(super) const MOST_FRESH_RUNS: u32 = 4;

/// The version of contracts that this program writes.
pub const CONTRACT_VERSION: u32 = 1;

table! {

// Known by name beyond their own rule, or no terms of the contract, as those of slots.
asked {
    "metric" "NAME" in Measuring for metric: String {
        /// Name of the metric to improve, as the log prints it
        example: "\"val_bpb\"", is_required: true,
        lines: |it| {
            let metric = format!("metric    {}, {} is better", it.metric.name, it.metric.direction);
            let axes = it.composite.as_ref().map(|composite| format!("axes      {composite}"));
            let artifact =
                it.artifact_form.map(|form| format!("artifact  {form} of the same axes over all that was kept"));
            [Some(metric), axes, artifact].into_iter().flatten().collect()
        },
    };

    "lower" "" in Measuring: bool {
        /// Treat lower values as better [default for names such as loss, error, latency and size]
        excludes: Some("higher"),
        set: |asked, _| { asked.direction = Some(Direction::Lower); Ok(()) },
        asked: |asked| texts((asked.direction == Some(Direction::Lower)).then_some(&true)),
    };

    "higher" "" in Measuring: bool {
        /// Treat higher values as better
        example: "true",
        set: |asked, _| { asked.direction = Some(Direction::Higher); Ok(()) },
        asked: |asked| texts((asked.direction == Some(Direction::Higher)).then_some(&true)),
    };

    "metric-regex" "REGEX" in Measuring: String {
        /// Pattern whose one group is the value, used instead of the metric's name
        excludes: Some("metric-file"),
        lines: |it| line(pattern(&it.metric.source), |pattern| format!("pattern   {pattern}")),
        set: |asked, texts| String::read(texts).map(|pattern| asked.source = Some(MetricSource::Regex(pattern))),
        asked: |asked| texts(asked.source.as_ref().and_then(pattern)),
    };

    "metric-file" "PATH:/json/pointer" in Measuring: MetricSource {
        /// JSON file that holds the value, or the object with a composite's axes, read instead of the log; also JSON
        /// lines, or a CSV or TSV file with PATH:COLUMN; a pattern such as 'out/*/m.csv' is its newest file
        lines: |it| line(file(&it.metric.source), |file| format!("read from {file}")),
        set: |asked, texts| MetricSource::read(texts).map(|file| asked.source = Some(file)),
        asked: |asked| texts(asked.source.as_ref().and_then(file)),
    };

    "cmd" "COMMAND" in Measuring for command: String {
        /// Command that trains and measures
        example: "\"uv run train.py\"", is_required: true,
        lines: |it| vec![format!("command   {}", it.command)],
    };

    "agent" "COMMAND" in Agent for agent: String {
        /// Command that changes the code once and exits, with the prompt on standard input; or {presets}; or none
        /// [default: the only one installed]
        example: "\"claude\"", check: command_line,
        lines: |it| {
            let agent = it.agent_text().unwrap_or_else(|| "none: an agent drives with `ar try`".into());
            vec![format!("agent     {agent}")]
        },
    };

    "reviewer" "COMMAND" in Keeping for reviewer: Option<String> {
        /// Command that judges whether the number of a change was earned before it is kept, with the prompt on
        /// standard input; runs in a tree of its own, $AR_ROOT is the repository; or {presets}, or none [default:
        /// none]
        example: "\"claude\"", check: command_line,
        lines: |it| line(it.reviewer.as_ref(), |command| format!("reviewer  {command}")),
    };

    "tag" "TAG" in Session for tag: Tag {
        /// Session name; the branch is autoresearch/TAG [default: month and day]
    };

    "ledger" "DIALECT" in Session for ledger: LedgerDialect {
        /// Dialect of a new results.tsv [default: the one that program.md or a notebook uses, else ar]
        example: "\"ar\"",
    };

    "slots" "N" in Slots for slots: u32 {
        /// Number of runs at a time, each in a linked working tree of its own
        example: "4", check: not_zero,
    };

    "gpus" "GPUS" in Slots for gpus: GpuChoice {
        /// GPUs to divide among the slots: all, indices as in 0,1,3, or UUIDs; one slot each unless --slots is given
        example: "\"all\"",
    };

    "gpus-per-run" "N" in Slots for gpus_per_run: u32 {
        /// Number of GPUs that a run uses [default: 1]
        example: "1", check: not_zero,
    };

    "ahead" "N" in Slots for ahead: u32 {
        /// Number of proposals that may wait, ready to run, beyond the free slots [default: 1 with one slot, else 2]
        example: "1",
    };

    "calls" "N" in Slots for calls: u32 {
        /// Largest number of agents at a time [default: as many as keep the slots busy, at most 4]
        example: "2", check: not_zero,
    };

    "link" "PATH" in Slots for links: Vec<PathBuf> {
        /// Untracked file or folder to link into each slot's working tree, PATH:rw for a cache; repeatable
        example: "[\"data\"]",
    };

    "executor" "WHERE" in Slots for executor: ExecutorName {
        /// Where runs and guards are executed [default: local]
        example: "\"slurm\"",
    };

    "sbatch" "OPTIONS" in Slots for sbatch: String {
        /// Options of `sbatch` for each job, as in "--partition gpu --gres gpu:1 --time 20"
        is_of_options: true, example: "\"--partition gpu --gres gpu:1 --time 20\"",
    };

    "lost-after" "DURATION" in Slots for lost_after: Duration {
        /// Time after which a job counts as lost that the cluster does not know [default: 5m]
        example: "\"5m\"",
    };
}

// Limits on unattended work and on a whole session.
caps {
    #[serde(with = "crate::domain::seconds::option")]
    "silence" "DURATION" in Measuring for silence: Option<Duration> as Duration {
        /// Time after which a run is ended that prints nothing and leaves its GPU idle, or without a GPU uses no
        /// processor [default: none]
        example: "\"20m\"",
    } |&limit| format!("silence   {} at most in a run", duration_text(limit));

    #[serde(with = "crate::domain::seconds::option")]
    "agent-silence" "DURATION" in Agent for agent_silence: Option<Duration> as Duration {
        /// Time after which an agent call is ended that prints nothing and uses no processor [default: none]
        example: "\"10m\"",
    } |&limit| format!("silence   {} at most in a call", duration_text(limit));

    "agent-rounds" "N" in Agent for agent_rounds: u32 as u32 {
        /// Largest number of rounds in an agent call, for agents that report them: claude, gemini and opencode
        /// [default: none]
        example: "15", check: not_zero,
    } |&rounds| format!("at most   {} in a call", count_of(rounds, "round"));

    "max-file-total" "N" in Changes for max_file_total: u32 as u32 {
        /// Largest file, in lines, that an experiment may add or change
        example: "300", check: not_zero,
    } |&lines| format!("files     of at most {} in a change", count_of(lines, "line"));

    "session-max-experiments" "N" in Stopping for session_max_experiments: u32 as u32 {
        /// Largest number of experiments in the session, in all nights together
        example: "1000", ends_loop: true,
    } |&limit| format!("at most   {} in the session", count_of(limit, "experiment"));

    "session-max-cost" "COST" in Stopping for session_max_cost: f64 as f64 {
        /// Cost of all agent calls of the session at which the loop stops
        example: "200.0", check: non_negative, ends_loop: true,
    } |&cost| format!("at most   {} in the session", money_text(cost));

    "session-max-tokens" "N" in Stopping for session_max_tokens: u64 as u64 {
        /// Tokens of all agent calls of the session at which the loop stops
        example: "500000000", ends_loop: true,
    } |&tokens| format!("at most   {} tokens in the session", tokens_text(tokens));
}

terms {
    "min-delta" "DELTA" in Keeping for min_delta: Target as Target = Target::from(0.0), {
        /// Minimum gain over the best value so far, as in 0.01 or 20ms [default: 0]
        example: "0.0", fixed: Some("minimum gain"), check: non_negative,
    } |delta| format!("kept      when better by more than {delta}");

    "decide" "RULE" in Keeping for decide: Decide as Decide, default {
        /// How a change is decided on [default: once]
        example: "\"confirmed\"", fixed: Some("rule of decision"),
    } |&decide| format!("decided   {decide}: a keep takes up to {} runs", 1 + MOST_FRESH_RUNS);

    #[serde(default = "default::control")]
    "control" "true|false" in Keeping for control: bool as bool = true, {
        /// With --decide once, run the experiment to beat once more before the first change that beats it is kept,
        /// and again where its value moved; a train has none of its own [default: true]
        example: "true", kind: Kind::OnOff,
    };

    "baseline-runs" "N" in Keeping for baseline_runs: u32 as Option<u32>, default {
        /// Number of runs of the baseline at the start [default: 1 in place, one on each slot; with --decide
        /// confirmed 4, in place once a change first beats it]
        example: "4", check: not_zero,
    };

    "recheck" "N" in Keeping for recheck: u32 as u32, default {
        /// Run the best experiment again after every N experiments without a keep, and warn if its value drifts; 0
        /// for never [default: 0]
        example: "20",
    } |&every| format!("checked   the best one again after every {} without a keep", count_of(every, "experiment"));

    #[serde(default = "default::second_look")]
    "second-look" "N" in Keeping for second_look: u32 as u32 = 15, {
        /// Unless --decide is once, measure the closest discard again after every N discards and crashes without a
        /// keep; 0 for never [default: 15]
        example: "15",
    };

    "holdout" "COMMAND" in Keeping for holdout: String as Option<String>, default {
        /// Command that evaluates what a fresh run left on a hidden split, which no agent sees: its values decide;
        /// needs walls
        example: "\"python3 holdout.py\"", fixed: Some("hidden split"), check: command_line,
    } |command, all| format!(
        "hidden    {command}{}{}",
        if all.holdout_report { ", which never decides" } else { "" },
        if all.holdout_unsealed { ", which agents can read" } else { "" },
    );

    "holdout-metric" "NAME" in Keeping for holdout_metric: String as Option<String>, default {
        /// Name of the metric that --holdout prints [default: that of --metric]
        example: "\"test_loss\"", fixed: Some("metric of the hidden split"),
    } |name| format!("hidden    {name}");

    "holdout-lower" "" in Keeping for holdout_lower: bool as bool, default {
        /// Treat lower hidden values as better [default: as --metric]
        fixed: Some("direction of the hidden split"), excludes: Some("holdout-higher"),
    };

    "holdout-higher" "" in Keeping for holdout_higher: bool as bool, default {
        /// Treat higher hidden values as better [default: as --metric]
        example: "true", fixed: Some("direction of the hidden split"),
    };

    "holdout-report" "" in Keeping for holdout_report: bool as bool, default {
        /// Let hidden values never decide: they are only reported
        example: "true", fixed: Some("use of the hidden split"),
    };

    "hide" "GLOB" in Keeping for hide: Vec<String> as Vec<String>, default {
        /// Files and folders that agents, runs and reviewers cannot read, such as the data of --holdout: a path, also
        /// outside of the repository, or a glob for untracked files in it; repeatable
        example: "[\"holdout/**\"]", fixed: Some("list of hidden files"),
    } |paths| format!("hides     {}", paths.join(", "));

    #[serde(with = "crate::domain::seconds::option")]
    "holdout-timeout" "DURATION" in Keeping for holdout_timeout: Duration as Option<Duration>, default {
        /// Time limit for one run of --holdout [default: that of --timeout]
        example: "\"10m\"",
    } |&limit| format!("hidden    {} at most", duration_text(limit));

    "holdout-unsealed" "" in Keeping for holdout_unsealed: bool as bool, default {
        /// Accept a hidden split that agents can read, as without walls; report and contract say so
        example: "true", fixed: Some("walls around the hidden split"),
    };

    #[serde(default = "default::holdout_warn")]
    "holdout-warn" "N" in Keeping for holdout_warn: u32 as u32 = 20, {
        /// Number of verdicts by the same hidden split at which to warn that its values are biased; 0 for never
        /// [default: 20]
        example: "20",
    };

    "verify-for" "TIME" in Keeping for verify_for: VerifyFor as Option<VerifyFor>, default {
        /// Time at the end of a night in which fresh runs verify its best experiment: 1h, or 10% of the night
        example: "\"10%\"",
    } |&time| format!("verified  for {time} at the end of a night");

    "simpler-wins" "EPS" in Keeping for simpler_wins: Target as Option<Target>, default {
        /// Largest loss against the best value at which a change that makes the program shorter is still kept
        example: "0.001", fixed: Some("margin for simpler changes"), check: non_negative,
    } |margin| format!("simpler   is kept within {margin} of the best one, and longer is not");

    "keep-above" "VALUE" in Keeping for keep_above: Target as Option<Target>, default {
        /// Value at which an experiment is kept, regardless of the best one; at or below it if lower is better
        example: "0.45", fixed: Some("threshold of keeps"), excludes: Some("simpler-wins"),
    } |threshold| format!("kept      when it reaches {threshold}");

    "guard" "COMMAND" in Keeping for guards: Vec<String> as Vec<String>, default {
        /// Command that must pass before a change is kept; repeatable
        example: "[\"sh tests.sh\"]", fixed: Some("list of guards"), check: command_line,
        lines: |it| it.guards.iter().map(|guard| format!("guard     {guard}")).collect(),
    };

    "limit" "LIMIT" in Keeping for limits: Vec<Limit> as Vec<Limit>, default {
        /// Bound on a value in the log, as in 'memory_gb<=40'; repeatable
        example: "[\"memory_gb<=40\"]", fixed: Some("list of limits"),
    } |limits| format!("limits    {}", limits.texts().join(", "));

    "scope" "GLOB" in Changes for scope: Vec<String> as Vec<String>, default {
        /// Files that an experiment may change; repeatable [default: all but those that measure]
        example: "[\"src/**\"]", fixed: Some("scope"),
    } |scope| format!("scope     {}", scope.join(", "));

    "protect" "GLOB" in Changes for protect: Vec<String> as Vec<String>, default {
        /// Files that no experiment may change; repeatable
        example: "[\"eval/**\"]", fixed: Some("list of protected files"),
    };

    "allow-import-changes" "" in Changes for allow_import_changes: bool as bool, default {
        /// Allow changes of Python files that drop an import from a protected file
    };

    "max-files" "N" in Changes for max_files: u32 as Option<u32>, default {
        /// Largest number of files that an experiment may change
        example: "5", check: not_zero,
    };

    "max-file-lines" "N" in Changes for max_file_lines: u32 as Option<u32>, default {
        /// Largest number of lines that an experiment may add and delete in one file
        example: "300", check: not_zero,
    };

    "allow-repeats" "" in Changes for allow_repeats: bool as bool, default {
        /// Allow changes that were measured before
    };

    "count-partial" "" in Measuring for count_partial: bool as bool, default {
        /// Count the last number of a run that reached its deadline or crashed, marked as partial
    } |_| "partial   a run that reaches its deadline or crashes counts by its last number".to_owned();

    #[serde(with = "crate::domain::seconds")]
    "timeout" "DURATION" in Measuring for timeout: Duration as Duration = DEFAULT_TIMEOUT, {
        /// Time limit for one run [default: 10m]
        example: "\"10m\"",
        lines: |it| vec![format!(
            "deadline  {} a run, {} a call of the agent",
            duration_text(it.timeout),
            duration_text(it.agent_timeout)
        )],
    };

    "carry" "WHAT" in Measuring for carry: Carry as Carry, default {
        /// Untracked files that runs in place find of earlier runs [default: found]
        example: "\"all\"",
    } |&carry| format!("carries   {carry}");

    #[serde(with = "crate::domain::seconds")]
    "grace" "DURATION" in Measuring for grace: Duration as Duration = DEFAULT_GRACE, {
        /// Time a process gets to exit by itself before it is killed [default: 10s]
        example: "\"10s\"",
    };

    #[serde(with = "crate::domain::seconds", default = "default::agent_timeout")]
    "agent-timeout" "DURATION" in Agent for agent_timeout: Duration as Duration = DEFAULT_AGENT_TIMEOUT, {
        /// Time limit for one agent call [default: 30m]
        example: "\"30m\"",
    };

    #[serde(with = "crate::domain::seconds", default = "default::outage_limit")]
    "outage-limit" "DURATION" in Agent for outage_limit: Duration as Duration = DEFAULT_OUTAGE_LIMIT, {
        /// Longest time to wait for an agent that is unreachable, rate-limited or out of credit [default: 8h]
        example: "\"8h\"",
    };

    "ladder" "LADDER" in Agent for ladder: Ladder as Ladder, default {
        /// Directives to the agent after several experiments without a keep [default: refine]
        example: "\"structural\"",
    } |&ladder| format!("ladder    {ladder}");

    "draw" "DRAW" in Agent for draw: Draw as Draw, default {
        /// How an idea and a source are drawn from the backlog: best, or uniform:K for one of the K best [default:
        /// uniform:50]
        example: "\"uniform:50\"",
    } |&draw| format!("ideas     {draw} of the backlog");

    "explore" "N" in Agent for explore: u32 as u32, default {
        /// Number of calls that make proposals before the change at a pivot: investigate, refute, analogy [default:
        /// 0]
        example: "3", check: up_to_three,
    } |&count| format!("explore   {} at each pivot", count_of(count, "proposal"));

    "goal-text" "TEXT" in Agent for goal_text: String as Option<String>, default {
        /// Goal in words, for the prompt
        example: "\"Lower val_bpb without using more memory.\"",
    };

    "milestone" "TEXT" in Agent for milestones: Vec<String> as Vec<String>, default {
        /// Milestone on the way to the goal, for the prompt; repeatable
        example: "[\"val_bpb below 1.0\"]",
    };

    "success" "TEXT" in Agent for success: Vec<String> as Vec<String>, default {
        /// Success criterion, for the prompt; repeatable
        example: "[\"val_bpb below 0.95 within the same time\"]",
    };

    "allow-search" "" in Agent for allow_search: bool as bool, default {
        /// Let the agent look for ideas outside the repository at the second pivot in a row, on the ladder `refine`
        example: "true",
    } |_| "search    outside the repository, at the second pivot in a row".to_owned();

    "search" "COMMAND" in Agent for search: Vec<String> as Vec<String>, default {
        /// Command that searches for ideas at the second pivot in a row, in research before each experiment: JSON
        /// with question, directive, metric, direction, best and tried on standard input, text or lines {"text",
        /// "url", "score"} on standard output; runs outside the working tree, $AR_ROOT; repeatable. `ar init
        /// --research --search engines` writes a script over sixteen web engines
        example: "[\"sh ~/search.sh\"]", check: command_line,
        lines: |it| it.search.iter().map(|command| format!("search    {command}")).collect(),
    };

    #[serde(with = "crate::domain::seconds", default = "default::search_timeout")]
    "search-timeout" "DURATION" in Agent for search_timeout: Duration as Duration = DEFAULT_SEARCH_TIMEOUT, {
        /// Time limit for each search command [default: 60s]
        example: "\"60s\"",
    };

    "cadence" "CADENCE" in Agent for cadence: Cadence as Option<Cadence>, default {
        /// Pause between experiments: adaptive, novelty, or a duration such as 2h [default: none]
        example: "\"adaptive\"",
    } |&cadence, all| format!("cadence   {cadence}{}", if all.unattended { ", 90m at most" } else { "" });

    "unattended" "" in Agent for unattended: bool as bool, default {
        /// Limit the pauses of --cadence to 90 minutes; with novelty, stop at the third such pause in a row
        example: "true",
    };

    "max-experiments" "N" in Stopping for max_experiments: u32 as Option<u32>, default {
        /// Largest number of experiments in a night, without the baseline; each `ar run` begins a night
        example: "100", ends_loop: true,
    } |&limit| format!("at most   {}", count_of(limit, "experiment"));

    "max-cost" "COST" in Stopping for max_cost: f64 as Option<f64>, default {
        /// Cost of a night's agent calls at which the loop stops, in the currency that the agent reports
        note: "An agent that reports no cost needs prices, below.",
        example: "20.0", check: non_negative, ends_loop: true,
    } |&cost| format!("at most   {} for the agent's calls", money_text(cost));

    "max-tokens" "N" in Stopping for max_tokens: u64 as Option<u64>, default {
        /// Tokens of a night's agent calls at which the loop stops
        example: "50000000", ends_loop: true,
    } |&tokens| format!("at most   {} tokens in the agent's calls", tokens_text(tokens));

    #[serde(with = "crate::domain::seconds::option", rename = "for")]
    "for" "DURATION" in Stopping for budget: Duration as Option<Duration>, default {
        /// Time limit for a night, from its `ar run` on; interruptions count
        example: "\"8h\"", ends_loop: true,
    } |&budget| format!("for       {}", duration_text(budget));

    "until" "TIME" in Stopping for until: Time as Option<Time>, default {
        /// Time of day at which a night ends, as in 07:00
        example: "\"07:00\"", ends_loop: true,
    } |&until| format!("until     {}", time_of_day_text(until));

    "goal" "VALUE" in Stopping for goal: Target as Option<Target>, default {
        /// Metric value at which the loop stops, as in 0.95, 95% or 0.2s
        note: "A unit goes in quotes, as in \"95%\".", example: "0.95", ends_loop: true,
    } |goal| format!("goal      {goal}");

    "stop-rule" "RULE" in Stopping for stop_rules: Vec<StopRule> as Vec<StopRule>, default {
        /// Rule on the course of values that stops the loop: kill, kill2, plateau:N or above:VALUE:N; repeatable
        example: "[\"plateau:30\"]", ends_loop: true,
        lines: |it| it.stop_rules.iter().map(|rule| format!("until     {}", rule.meaning())).collect(),
    };

    "max-crashes" "N" in Stopping for max_crashes: u32 as Option<u32>, default {
        /// Number of crashes in a row at which the loop stops
        example: "10", check: not_zero,
    } |&crashes| format!("or until  {} in a row", count_of(crashes, "crash"));

    "max-idle" "N" in Stopping for max_idle: u32 as Option<u32>, default {
        /// Number of agent calls in a row without a change at which the loop stops, with slots of each agent; 0 for
        /// no limit [default: 10, and 3 before the session's first change]
        example: "10",
    } |&limit| match limit {
        0 => "calls     without a change never stop the loop".to_owned(),
        limit => format!("or until  {} in a row without a change", count_of(limit, "call")),
    };

    "stop-when-flagged" "" in Stopping for stop_when_flagged: bool as bool, default {
        /// Stop when the session is flagged for review, instead of starting over in another direction
        example: "true", ends_loop: true,
    } |_| "until     it is flagged for review".to_owned();

    "on-event" "COMMAND" in Session for on_event: String as Option<String>, default {
        /// Command that receives events as JSON on standard input: keep, best, pivot, outage, stopped and more
        example: "\"sh ~/notify.sh\"", check: command_line,
    } |command| format!("events    {command}");

    #[serde(with = "crate::domain::seconds::option")]
    "checkpoint" "DURATION" in Session for checkpoint: Duration as Option<Duration>, default {
        /// Interval at which the report and what is open are written to the session's folder checkpoints/
        example: "\"2h\"",
    } |&every| format!("written   every {}, into checkpoints/", duration_text(every));

    #[serde(with = "crate::domain::seconds::option")]
    "summary-at" "DURATION" in Session for summary_at: Duration as Option<Duration>, default {
        /// Age of the session at which the agent summarises it once, in checkpoints/summary.md
        example: "\"5h\"",
    } |&age| format!("summary   by the agent after {}", duration_text(age));

    "sandbox" "WHEN" in Session for sandbox: Sandbox as Sandbox, default {
        /// Wall around agents, runs, guards and reviewers, which keeps them from writing to the evaluator, the record
        /// and each other's trees; needs bubblewrap [default: auto]
        example: "\"require\"",
    } |&when| format!("sandbox   {when}");

    "escalate" "HOW" in Session for escalate: Escalate as Escalate, default {
        /// What to do about an outage over its limit, a full disk or another error, once state/escalation.md is
        /// written [default: stop]
        example: "\"wait\"",
    } |_| "trouble   waits for you, by `ar tell`, or for its end".to_owned();

    #[serde(default = "default::keep_logs")]
    "keep-logs" "SIZE" in Session for keep_logs: SizeLimit as SizeLimit = DEFAULT_KEEP_LOGS, {
        /// Space for retained run logs, as in 2GB; `all`, or 0 for the best and the newest ten [default: 10GB]
        example: "\"10GB\"",
    };

    "artifact" "GLOB" in Session for artifacts: Vec<String> as Vec<String>, default {
        /// Untracked files, such as checkpoints, to save from each kept run that wrote them; repeatable, `none` for
        /// no files
        key_in_file: "artifacts", example: "[\"checkpoints/best.*\"]",
    } |globs, all| format!("artifacts {} of each keep, within {}", globs.join(", "), all.keep_artifacts);

    #[serde(default = "default::keep_artifacts")]
    "keep-artifacts" "SIZE" in Session for keep_artifacts: SizeLimit as SizeLimit = DEFAULT_KEEP_ARTIFACTS, {
        /// Space for artifacts, as in 50GB; `all`, or 0 for those of the best alone [default: 20GB]
        example: "\"20GB\"",
    };

    "no-sign" "" in Session for no_sign: bool as bool, default {
        /// Leave the session's commits unsigned, whatever commit.gpgSign says
        example: "true",
    };
}

}

/// The pattern of a metric.
fn pattern(source: &MetricSource) -> Option<&String> {
    match source {
        MetricSource::Regex(pattern) => Some(pattern),
        MetricSource::Log | MetricSource::File { .. } => None,
    }
}

/// The file of a metric.
fn file(source: &MetricSource) -> Option<&MetricSource> {
    Some(source).filter(|source| matches!(source, MetricSource::File { .. }))
}
