//! The origin of an imported experiment's record.

use serde::{Deserialize, Serialize};

/// The row of a foreign ledger from which a record was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The ledger's path as the user gave it.
    pub file: String,
    /// The row's line in it, from 1.
    pub line: u64,
    /// The outcome of the row: keep, discard, crash, baseline or other.
    pub status: String,
    /// The commit's cell, unchanged; absent if the ledger has no such column.
    pub commit_text: Option<String>,
    /// True if the repository has that commit. Otherwise the record's commit is all zeros. Its tag then points to the
    /// session's assumed starting commit, which says nothing about the experiment.
    pub commit_known: bool,
}
