//! The record of an experiment, as it stands in its tag object.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Direction, Environment, Failure, GuardRun, Imported, Metrics, NewIdea, Number, Outcome, Tag, Tokens, Unparsed,
    Usage, Version,
};

/// The version of the on-disk formats that this program writes.
pub const FORMAT_VERSION: u32 = 1;

/// A commit's full object name in hexadecimal, 40 or 64 digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(String);

impl CommitId {
    /// Wraps a full hexadecimal object name.
    pub fn new(hex: impl Into<String>) -> Self {
        CommitId(hex.into())
    }

    /// A commit that is not known, as git writes the name of no object: as many zeros as the name of `other` has digits.
    pub fn unknown(other: &CommitId) -> Self {
        CommitId("0".repeat(other.0.len()))
    }

    /// Whether it names a commit.
    pub fn is_known(&self) -> bool {
        self.0.bytes().any(|digit| digit != b'0')
    }

    /// All digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first `digits` digits; nothing where the commit is not known.
    pub fn short(&self, digits: usize) -> &str {
        if self.is_known() { &self.0[..digits.min(self.0.len())] } else { "" }
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The measured metric of an experiment; `value` is absent when there is no number that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The metric's name.
    pub name: String,
    /// Which way is better.
    pub direction: Direction,
    /// The number, finite.
    pub value: Option<f64>,
    /// The number's text in the log.
    pub raw: Option<String>,
}

impl MetricValue {
    /// Whether it is a number that is better than `other`'s.
    pub fn is_better_than(&self, other: &MetricValue) -> bool {
        self.value.zip(other.value).is_some_and(|(value, other)| self.direction.better(value, other))
    }

    /// The number with its text, where there is one.
    pub fn number(&self) -> Option<Number> {
        let value = self.value?;
        let raw = self.raw.clone().unwrap_or_else(|| value.to_string());
        Some(Number { value, raw })
    }
}

/// One execution of the measuring command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command line, as `sh -c` got it.
    pub command: String,
    /// The seed, where the session sets one.
    pub seed: Option<u64>,
    /// When it was started.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Its exit status; absent when a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it measured.
    pub value: Option<f64>,
}

/// How much a change changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// Files added, deleted, renamed or modified.
    pub files: u32,
    /// Lines added in text files.
    pub added: u32,
    /// Lines deleted in text files.
    pub deleted: u32,
}

impl fmt::Display for DiffStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.files == 1 { "" } else { "s" };
        write!(f, "{} file{plural} changed, +{} -{}", self.files, self.added, self.deleted)
    }
}

/// What tells whether two changes are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The tree of the experiment's commit, in hexadecimal.
    pub tree: String,
    /// A SHA-256 of what the change takes away and puts in, wherever in a file it stands.
    pub patch: String,
}

/// The call of the agent that made the change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentCall {
    /// The agent's command line.
    pub command: String,
    /// How long it worked, in seconds.
    pub seconds: f64,
    /// The model that it used, where it reports that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its tokens, where it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// What they cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl AgentCall {
    /// A call that took so long and used so much.
    pub fn new(command: String, seconds: f64, usage: Usage) -> AgentCall {
        let Usage { model, tokens, cost } = usage;
        AgentCall { command, seconds, model, tokens, cost }
    }

    /// The same with another call for the same change.
    #[must_use]
    pub fn with(self, seconds: f64, more: Usage) -> AgentCall {
        let mut usage = Usage { model: self.model, tokens: self.tokens, cost: self.cost };
        usage.add(more);
        AgentCall::new(self.command, self.seconds + seconds, usage)
    }
}

/// One numbered attempt, complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The format's version.
    pub version: u32,
    /// The experiment's number; 0 is the baseline.
    pub id: u32,
    /// The session.
    pub tag: Tag,
    /// The experiment's commit.
    pub commit: CommitId,
    /// The branch tip that it was made on; its own commit for the baseline.
    pub base: CommitId,
    /// What it tries, on one line.
    pub description: String,
    /// The strategy that it belongs to, where the proposal names one.
    pub direction: Option<String>,
    /// The verdict.
    pub outcome: Outcome,
    /// Why there is no number, or none that counts.
    pub failure: Option<Failure>,
    /// One sentence that says why the outcome is what it is, with the numbers in it.
    pub reason: String,
    /// The limits that its numbers broke, a few words each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet_limits: Vec<String>,
    /// What outside of the change may have made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_cause: Option<String>,
    /// The metric.
    pub metric: MetricValue,
    /// Every number that the log's summary gives, by name.
    pub metrics: Metrics,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The executions of the measuring command, in order, those of earlier versions first; empty when it never ran.
    pub runs: Vec<Run>,
    /// What the guard commands said, in order; empty when none ran.
    #[serde(default)]
    pub guards: Vec<GuardRun>,
    /// The versions of the change that were run before this one, in order. Their runs are the first of `runs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Version>,
    /// The size of the change.
    pub diff: DiffStat,
    /// What tells whether another change is the same; absent for the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Where it ran.
    #[serde(with = "super::environment::shared")]
    pub environment: Arc<Environment>,
    /// When the attempt began.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// When the verdict was reached.
    #[serde(with = "crate::domain::millis")]
    pub finished: Timestamp,
    /// The agent's call; absent for the baseline and for `ar try`.
    pub agent: Option<AgentCall>,
    /// The row that it was made of, where another tool made the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// What the agent said about its change beside description and direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Unparsed>,
    /// Why what the agent said about its change, or a part of it, was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_error: Option<String>,
    /// Fields of a newer program, and the contract in the baseline's record.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The field of a record's proposal that holds the text of the idea that the agent was offered.
pub const OFFERED_IDEA: &str = "offered_idea";

/// The field of a record that names the files that changed while it ran.
pub const CHANGED_WHILE_RUNNING: &str = "changed_while_running";

/// The field of a record that names the ignored files which changed while its agent was called.
pub const IGNORED_CHANGED: &str = "ignored_changed";

/// The field of a record that has the stamps of the ignored files which the command names.
pub const IGNORED_INPUTS: &str = "ignored_inputs";

impl Record {
    /// What the agent learned from earlier experiments, as it said with its proposal.
    pub fn findings(&self) -> Vec<String> {
        self.said("findings")
    }

    /// What later sessions should know, as the agent said with its proposal.
    pub fn lesson(&self) -> Option<String> {
        self.proposal.as_ref()?.field("lesson")
    }

    /// The ideas for later experiments that came with the proposal.
    pub fn ideas(&self) -> Vec<NewIdea> {
        self.said("ideas")
    }

    /// The number of the backlog's idea that the change is made of, as the agent said with its proposal.
    pub fn used_idea(&self) -> Option<u32> {
        self.proposal.as_ref()?.field("idea")
    }

    /// Why the change should work, as the agent said with its proposal.
    pub fn hypothesis(&self) -> Option<String> {
        self.proposal.as_ref()?.field("hypothesis")
    }

    /// The text of the idea that the agent was offered.
    pub fn offered_idea(&self) -> Option<String> {
        self.proposal.as_ref()?.field(OFFERED_IDEA)
    }

    /// What the experiment's maker said of it: the outcome, and nothing where the row that it was imported from does not say.
    pub fn verdict(&self) -> Option<Outcome> {
        let is_said = self.imported.as_ref().is_none_or(|row| !matches!(row.status.as_str(), "baseline" | "other"));
        is_said.then_some(self.outcome)
    }

    /// The items of a list in the proposal, those that are not as they should be apart.
    fn said<T: DeserializeOwned>(&self, list: &str) -> Vec<T> {
        let items: Option<Vec<Value>> = self.proposal.as_ref().and_then(|proposal| proposal.field(list));
        items.into_iter().flatten().filter_map(|item| serde_json::from_value(item).ok()).collect()
    }

    /// The total time of all runs, in seconds.
    pub fn run_seconds(&self) -> f64 {
        // The sum of nothing is -0.
        self.runs.iter().map(|run| run.seconds).sum::<f64>().abs()
    }
}

impl Version {
    /// The version that `record` would stand for, kept under the ref `saved`.
    pub fn of(record: &Record, saved: String) -> Version {
        Version {
            commit: record.commit.clone(),
            saved,
            failure: record.failure.clone(),
            reason: record.reason.clone(),
            value: record.metric.value,
            guards: record.guards.clone(),
        }
    }
}
