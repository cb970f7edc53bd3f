//! Observations of a session in which a loop may be active.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::activity::Activity;
use super::history::History;
use crate::domain::{Contract, ExperimentId, Number, Outage, Spent, StopWhen, Tag};

/// The observed state of a session at one moment.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// The session.
    pub tag: Tag,
    /// The session's working tree, if it is not the caller's.
    pub worktree: Option<PathBuf>,
    /// Its activity.
    pub activity: Activity,
    /// Whether only its refs exist here, as in a clone that fetched them.
    pub is_fetched: bool,
    /// Why the last loop ended, if none is active.
    pub ended: Option<String>,
    /// The outage for whose end the loop waits.
    pub outage: Option<OutageStatus>,
    /// The open experiment.
    pub open: Option<OpenStatus>,
    /// The active process, by its own description.
    pub owner: Option<String>,
    /// The request of `ar stop` to the active process.
    pub stopping: Option<StopWhen>,
    /// The id of the active process.
    pub process: Option<u32>,
    /// How long it has been active, in seconds.
    pub at_work: Option<f64>,
    /// When the journal was written last.
    pub last_seen: Option<Timestamp>,
    /// The seconds since then, or since the last write to the active log if that is shorter.
    pub silent: Option<f64>,
    /// The contract.
    pub contract: Option<Contract>,
    /// The log of the active agent, run or guard; else that of the newest run, compressed or not.
    pub log: Option<PathBuf>,
    /// The experiments.
    pub history: Arc<History>,
    /// The usage of all agent calls.
    pub spent: Spent,
    /// What could not be read, one sentence each.
    pub damage: Vec<String>,
}

/// An outage of the agent for whose end the loop waits.
#[derive(Debug, Clone)]
pub struct OutageStatus {
    /// Its cause, and the agent's message.
    pub outage: Outage,
    /// When it started.
    pub since: Timestamp,
    /// When the loop calls the agent again.
    pub again: Timestamp,
}

/// The open experiment of a session.
#[derive(Debug, Clone)]
pub struct OpenStatus {
    /// Its value.
    pub id: ExperimentId,
    /// Its description; empty while the agent works.
    pub description: String,
    /// Whether an earlier version of it was measured.
    pub is_again: bool,
    /// How long its agent or run has been active, in seconds; absent if neither is.
    pub elapsed: Option<f64>,
    /// Its time limit, in seconds.
    pub deadline: Option<f64>,
    /// The newest value in its run's log.
    pub newest: Option<Number>,
}
