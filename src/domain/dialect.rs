//! The dialects of results.tsv.

use serde::{Deserialize, Serialize};

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

impl LedgerDialect {
    /// Each dialect by its name, with what the help says of it.
    pub(super) const ALL: &[(&'static str, &'static str, LedgerDialect)] = &[
        ("ar", "commit_hash, improved / rejected / failed", LedgerDialect::Ar),
        ("karpathy", "commit, keep / discard / crash", LedgerDialect::Karpathy),
    ];
}
