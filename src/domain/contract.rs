//! What the user approved before a session starts.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CommitId, KeepLogs, Ladder, MetricSpec, Tag};

/// How long a run may take unless the user says otherwise: 10 minutes, twice the fixed training time of
/// Karpathy's program.md, which kills a run after 10.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a process has between TERM and KILL: 10 seconds.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

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
    /// The value at which the session has reached its goal.
    pub goal: Option<f64>,
    /// A run's deadline.
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// The time between TERM and KILL.
    #[serde(with = "seconds")]
    pub grace: Duration,
    /// How many experiments the session may have, the baseline not counted.
    pub max_experiments: Option<u32>,
    /// How long one call of `ar run` may go on.
    #[serde(with = "optional_seconds", rename = "for")]
    pub budget: Option<Duration>,
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
    /// Whether the loop stops when the session is flagged for a person.
    #[serde(default)]
    pub stop_when_flagged: bool,
    /// How much of the logs is kept.
    #[serde(default)]
    pub keep_logs: KeepLogs,
    /// The commit that the session started from.
    pub start: CommitId,
    /// The branch that the session started from, as a full ref name; absent for a detached HEAD.
    pub started_from: Option<String>,
    /// When the session was opened.
    pub created: Timestamp,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Contract {
    /// The agent's command line, after the name of its preset where it is one.
    pub fn agent_text(&self) -> Option<String> {
        let command = self.agent.as_ref()?;
        Some(match &self.agent_preset {
            Some(preset) => format!("{preset}: {command}"),
            None => command.clone(),
        })
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
