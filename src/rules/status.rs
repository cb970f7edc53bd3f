//! What can be seen of a session while a loop may be active in it.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::activity::Activity;
use super::history::History;
use crate::domain::{Contract, Number, Outage, Spent, StopWhen, Tag};

/// What can be seen of a session at one moment.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// The session.
    pub tag: Tag,
    /// The working tree that somebody is or was at work in, when it is another one than that of the caller.
    pub worktree: Option<PathBuf>,
    /// What is happening.
    pub activity: Activity,
    /// Whether only its refs are here, as a clone that fetched them has them.
    pub is_fetched: bool,
    /// Why the last loop ended, when none is at work.
    pub ended: Option<String>,
    /// The outage of the agent that is waited out.
    pub outage: Option<OutageStatus>,
    /// The experiment that is open.
    pub open: Option<OpenStatus>,
    /// Whoever is at work, in its own words.
    pub owner: Option<String>,
    /// What whoever is at work was asked by `ar stop`.
    pub stopping: Option<StopWhen>,
    /// The process id of whoever is at work.
    pub process: Option<u32>,
    /// How long it has been at work, in seconds.
    pub at_work: Option<f64>,
    /// When the journal was last written.
    pub last_seen: Option<Timestamp>,
    /// How long ago that is, in seconds, or how long nothing was written into the log of what goes on, if that is less.
    pub silent: Option<f64>,
    /// The terms.
    pub contract: Option<Contract>,
    /// The log that the agent, the run or the guard at work writes; else that of the newest run, compressed or not.
    pub log: Option<PathBuf>,
    /// The experiments.
    pub history: Arc<History>,
    /// What all calls of the agent used.
    pub spent: Spent,
    /// What could not be read, a sentence each.
    pub damage: Vec<String>,
}

/// An outage of the agent that is waited out.
#[derive(Debug, Clone)]
pub struct OutageStatus {
    /// What keeps the agent from its work, and what it said.
    pub outage: Outage,
    /// When it began.
    pub since: Timestamp,
    /// When the agent is called again.
    pub again: Timestamp,
}

/// The open experiment of a session.
#[derive(Debug, Clone)]
pub struct OpenStatus {
    /// Its number.
    pub id: u32,
    /// What it tries; empty while the agent is at work.
    pub description: String,
    /// Whether a version of it was measured before.
    pub is_again: bool,
    /// How long its agent or its run has been going on, in seconds; absent when neither does.
    pub elapsed: Option<f64>,
    /// How long that may take, in seconds.
    pub deadline: Option<f64>,
    /// The newest number in the log of its run.
    pub newest: Option<Number>,
}
