//! What a report knows of a session beside its records.

use super::spread::Elsewhere;
use super::time_split::Waits;
use crate::domain::{CommitId, ExperimentId, Layout, Spent};

/// What is known of a session beside its records.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// The name of the repository's folder.
    pub repository: Option<String>,
    /// The experiments after which it was flagged for review.
    pub flagged: Vec<ExperimentId>,
    /// Why its last loop ended.
    pub ended: Option<String>,
    /// The times from its event logs.
    pub waits: Waits,
    /// Measurements of its commits by other sessions.
    pub elsewhere: Vec<Elsewhere>,
    /// The commit at the tip of its branch; absent while an experiment is open.
    pub tip: Option<CommitId>,
    /// The usage of all agent calls, if known.
    pub spent: Spent,
    /// Where experiments are made and run beside each other, as it is now; absent *in place*.
    pub layout: Option<Layout>,
    /// Whether it has a reviewer now.
    pub has_reviewer: bool,
    /// How often `ar` saved uncommitted or unfinished work.
    pub saved: usize,
}
