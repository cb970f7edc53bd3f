//! What the user approved before a session starts.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CommitId, FORMAT_VERSION, KeepLogs, Ladder, Limit, MetricSpec, Prices, Tag};

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

/// Files that pin the versions of what a project depends on, in the order of their names.
pub const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Manifest.toml",
    "Pipfile.lock",
    "bun.lock",
    "conda-lock.yml",
    "environment.yml",
    "flake.lock",
    "go.sum",
    "package-lock.json",
    "pdm.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pylock.toml",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
];

/// The dialect in which a new results.tsv is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LedgerDialect {
    /// `commit_hash … improved|rejected|failed`, 8-character hashes, `nan` for no number.
    #[default]
    Ar,
    /// `commit … keep|discard|crash`, 7-character hashes, `0.000000` for no number.
    Karpathy,
}

/// A session's terms, stored with it as `state/contract.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// The format's version.
    pub version: u32,
    /// The session.
    pub tag: Tag,
    /// The metric, its direction and where it stands.
    pub metric: MetricSpec,
    /// The measuring command, for `sh -c` in the root of the working tree.
    pub command: String,
    /// The agent's command line; absent when an agent drives by itself with `ar try`.
    pub agent: Option<String>,
    /// The name of the preset that the command line is, where it is one.
    #[serde(default)]
    pub agent_preset: Option<String>,
    /// How much better than the incumbent a number must be; 0 or more.
    pub min_delta: f64,
    /// How far behind the incumbent a number may be that is kept because its change makes the program shorter; 0 or more.
    #[serde(default)]
    pub simpler_wins: Option<f64>,
    /// The commands that a change must pass before it is kept, in order, each for `sh -c` as the measuring command.
    #[serde(default)]
    pub guards: Vec<String>,
    /// The bounds that a change must keep to before it is kept.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// The value at which the session has reached its goal.
    pub goal: Option<f64>,
    /// What the session is for, in the user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_text: Option<String>,
    /// Steps on the way to the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<String>,
    /// What counts as success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub success: Vec<String>,
    /// A run's deadline.
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// The time between TERM and KILL.
    #[serde(with = "seconds")]
    pub grace: Duration,
    /// How long one call of the agent may go on.
    #[serde(with = "seconds", default = "default_agent_timeout")]
    pub agent_timeout: Duration,
    /// How long an outage of the agent may last before the loop stops.
    #[serde(with = "seconds", default = "default_outage_limit")]
    pub outage_limit: Duration,
    /// How many experiments the session may have, the baseline not counted.
    pub max_experiments: Option<u32>,
    /// What the calls of the session's agent may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// How many tokens they may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// What models cost, for agents that report only tokens.
    #[serde(default, skip_serializing_if = "Prices::is_empty")]
    pub prices: Prices,
    /// How long one call of `ar run` may go on.
    #[serde(with = "optional_seconds", rename = "for")]
    pub budget: Option<Duration>,
    /// The time of day, on the user's clock, at which a call of `ar run` ends: the next one after its start.
    #[serde(default)]
    pub until: Option<Time>,
    /// After how many crashes in a row the loop stops.
    #[serde(default)]
    pub max_crashes: Option<u32>,
    /// The dialect of a new results.tsv.
    pub ledger: LedgerDialect,
    /// The globs of the files that an experiment may change; all files when empty.
    #[serde(default)]
    pub scope: Vec<String>,
    /// The globs of the files that no experiment may change.
    #[serde(default)]
    pub protect: Vec<String>,
    /// How many files an experiment may change.
    #[serde(default)]
    pub max_files: Option<u32>,
    /// How many lines of one file an experiment may add and delete.
    #[serde(default)]
    pub max_file_lines: Option<u32>,
    /// Whether a change that was measured before is measured again.
    #[serde(default)]
    pub allow_repeats: bool,
    /// By what the session goes when keeps fail to come.
    #[serde(default)]
    pub ladder: Ladder,
    /// Whether the agent may look for ideas outside the repository when it is stuck.
    #[serde(default)]
    pub research: bool,
    /// Whether the loop stops when the session is flagged for review.
    #[serde(default)]
    pub stop_when_flagged: bool,
    /// The command that is told what happens, for `sh -c`; it gets each event as JSON on standard input.
    #[serde(default)]
    pub on_event: Option<String>,
    /// How much of the logs is kept.
    #[serde(default)]
    pub keep_logs: KeepLogs,
    /// Whether the session's commits stay unsigned whatever git's configuration asks for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_sign: bool,
    /// The commit that the session started from.
    pub start: CommitId,
    /// The branch that the session started from, as a full ref name; absent for a detached HEAD.
    pub started_from: Option<String>,
    /// When the session was opened.
    #[serde(with = "crate::domain::millis")]
    pub created: Timestamp,
    /// Whether it was made of another tool's ledger: there is no command, and nothing goes on from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

fn default_agent_timeout() -> Duration {
    DEFAULT_AGENT_TIMEOUT
}

fn default_outage_limit() -> Duration {
    DEFAULT_OUTAGE_LIMIT
}

impl Contract {
    /// The contract of a session for which nothing was asked but what it cannot be without.
    pub fn new(tag: Tag, metric: MetricSpec, command: String, start: CommitId, created: Timestamp) -> Self {
        Contract {
            version: FORMAT_VERSION,
            tag,
            metric,
            command,
            agent: None,
            agent_preset: None,
            min_delta: 0.0,
            simpler_wins: None,
            guards: Vec::new(),
            limits: Vec::new(),
            goal: None,
            goal_text: None,
            milestones: Vec::new(),
            success: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            grace: DEFAULT_GRACE,
            agent_timeout: DEFAULT_AGENT_TIMEOUT,
            outage_limit: DEFAULT_OUTAGE_LIMIT,
            max_experiments: None,
            max_cost: None,
            max_tokens: None,
            prices: Prices::new(),
            budget: None,
            until: None,
            max_crashes: None,
            ledger: LedgerDialect::default(),
            scope: Vec::new(),
            protect: Vec::new(),
            max_files: None,
            max_file_lines: None,
            allow_repeats: false,
            ladder: Ladder::default(),
            research: false,
            stop_when_flagged: false,
            on_event: None,
            keep_logs: KeepLogs::default(),
            no_sign: false,
            start,
            started_from: None,
            created,
            imported: false,
            more: Map::new(),
        }
    }

    /// The commit that the session starts from, with its branch where HEAD was on one.
    pub fn start_text(&self) -> String {
        let commit = self.start.short(8);
        match &self.started_from {
            Some(branch) => format!("{} at {commit}", branch.trim_start_matches("refs/heads/")),
            None => commit.to_owned(),
        }
    }

    /// The agent's command line, after the name of its preset where it is one.
    pub fn agent_text(&self) -> Option<String> {
        let command = self.agent.as_ref()?;
        Some(match &self.agent_preset {
            Some(preset) => format!("{preset}: {command}"),
            None => command.clone(),
        })
    }

    /// The terms that decide what is kept, each with its name and in words. They hold for the whole session; budgets, caps,
    /// deadlines and the agent may change.
    pub fn fixed_terms(&self) -> [(&'static str, String); 12] {
        let limits: Vec<_> = self.limits.iter().map(Limit::to_string).collect();
        let or_none = |list: String| if list.is_empty() { "none".to_owned() } else { list };
        [
            ("metric", self.metric.name.clone()),
            ("direction", self.metric.direction.to_string()),
            ("metric source", self.metric.source.to_string()),
            ("command", self.command.clone()),
            ("minimum gain", self.min_delta.to_string()),
            ("margin for simpler changes", self.simpler_wins.map_or("none".into(), |margin| margin.to_string())),
            ("list of guards", or_none(self.guards.join("; "))),
            ("list of limits", or_none(limits.join(", "))),
            ("scope", or_none(self.scope.join(", "))),
            ("list of protected files", or_none(self.protect.join(", "))),
            ("session", self.tag.to_string()),
            ("start", self.start.to_string()),
        ]
    }
}

/// A fixed term on which two contracts of a session do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// What it is called.
    pub field: &'static str,
    /// What was approved.
    pub approved: String,
    /// What stands in its place.
    pub found: String,
}

impl Drift {
    /// The flag that asks for it; absent for what no flag says.
    pub fn flag(&self) -> Option<&'static str> {
        Some(match self.field {
            "metric" => "--metric",
            "direction" => {
                if self.found == "higher" {
                    "--higher"
                } else {
                    "--lower"
                }
            }
            "metric source" => {
                if self.found.contains(":/") {
                    "--metric-file"
                } else {
                    "--metric-regex"
                }
            }
            "command" => "--cmd",
            "minimum gain" => "--min-delta",
            "margin for simpler changes" => "--simpler-wins",
            "list of guards" => "--guard",
            "list of limits" => "--limit",
            "scope" => "--scope",
            "list of protected files" => "--protect",
            _ => return None,
        })
    }

    /// All fixed terms that differ from those that were approved.
    pub fn all(approved: &Contract, found: &Contract) -> Vec<Drift> {
        let pairs = approved.fixed_terms().into_iter().zip(found.fixed_terms());
        let differing = pairs.filter(|((_, approved), (_, found))| approved != found);
        differing.map(|((field, approved), (_, found))| Drift { field, approved, found }).collect()
    }
}

/// Durations as seconds, with a fraction.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Like [`seconds`], for a duration that may be absent.
mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_some(&duration.as_secs_f64()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?
            .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(D::Error::custom))
            .transpose()
    }
}
