//! What a report is told of a session beside its records.

use super::spread::Elsewhere;
use super::time_split::Waits;
use crate::domain::{CommitId, Spent};

/// What is known of a session beside its records.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// The name of the repository's folder.
    pub repository: Option<String>,
    /// The experiments after which it was flagged for review.
    pub flagged: Vec<u32>,
    /// Why its last loop ended.
    pub ended: Option<String>,
    /// What its event logs tell of its time.
    pub waits: Waits,
    /// What other sessions measured of its commits.
    pub elsewhere: Vec<Elsewhere>,
    /// The commit at the tip of its branch; absent while an experiment is open.
    pub tip: Option<CommitId>,
    /// What all calls of its agent used, where that is known.
    pub spent: Spent,
    /// How often uncommitted or unfinished work was put away.
    pub saved: usize,
}
