//! Facts for a report on a session that are not in its records.

use std::time::Duration;

use crate::domain::{CommitId, ExperimentId, Layout, Spent};
use crate::rules::decide::Check;
use crate::rules::history::Elsewhere;

/// Facts about a session that are not in its records.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// The name of the repository's folder.
    pub repository: Option<String>,
    /// The experiments after which it was flagged for review.
    pub flagged: Vec<ExperimentId>,
    /// The reason why its last loop ended.
    pub ended: Option<String>,
    /// The time limit of a call of its agent.
    pub agent_timeout: Option<Duration>,
    /// The files that each of its experiments changed, in the order of the records.
    pub changed: Vec<Vec<String>>,
    /// Measurements of its commits by other sessions.
    pub elsewhere: Vec<Elsewhere>,
    /// The reruns of its best experiments, in order.
    pub checks: Vec<Check>,
    /// The program that its command starts, where that is known.
    pub program: Option<String>,
    /// The commit at the tip of its branch; absent while an experiment is open.
    pub tip: Option<CommitId>,
    /// The usage of all agent calls, if known.
    pub spent: Spent,
    /// The current layout of slots and seats; absent *in place*.
    pub layout: Option<Layout>,
    /// True if it has a reviewer now.
    pub has_reviewer: bool,
    /// The number of times that `ar` saved uncommitted or unfinished work.
    pub saved: usize,
}
