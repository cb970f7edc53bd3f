//! Where the record of an experiment is from that another tool made.

use serde::{Deserialize, Serialize};

/// The row of another tool's ledger that a record was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The ledger, as it was named.
    pub file: String,
    /// The row's line in it, from 1.
    pub line: u64,
    /// What the row counts as: keep, discard, crash, baseline or other.
    pub status: String,
    /// The commit's cell as it is; absent where the ledger has no such column.
    pub commit_text: Option<String>,
    /// Whether the repository has that commit. Without it the record's commit is all zeros, and its tag stands on the commit
    /// that the session is said to start from, which then says nothing of the experiment.
    pub commit_known: bool,
}
