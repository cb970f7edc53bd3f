//! The dialects of results.tsv.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, VariantArray};

use super::{FailureClass, Outcome};

/// The dialect in which a new results.tsv is written: that of `ar` has hashes of 8 characters and `nan` for no number, Karpathy's
/// has hashes of 7 characters, `0.000000` for no number, and no row for a refused change. A new dialect is a variant here,
/// behind those that are there, with what the help says of it, and its format.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LedgerDialect {
    /// commit_hash, improved / rejected / failed
    #[default]
    Ar,
    /// commit, keep / discard / crash
    Karpathy,
}

/// The format of a dialect's rows.
#[derive(Debug, Clone, Copy)]
pub struct DialectFormat {
    /// The name of the commit's column.
    pub commit: &'static str,
    /// Digits of a commit.
    pub digits: usize,
    /// The words for keep, discard and crash.
    pub words: [&'static str; 3],
    /// The metric of an experiment without a number.
    pub no_value: &'static str,
    /// Memory that nobody measured.
    pub no_memory: &'static str,
    /// The failures whose word stands in place of the memory.
    pub in_memory: &'static [FailureClass],
    /// True if an experiment without a value has no memory either.
    pub forgets_memory: bool,
    /// True if a change that was refused without a run has no row.
    pub omits_refused: bool,
}

impl LedgerDialect {
    /// The outcome that a cell states in the words of any dialect.
    pub fn outcome_of(cell: &str) -> Option<Outcome> {
        let outcomes = [Outcome::Keep, Outcome::Discard, Outcome::Crash];
        LedgerDialect::VARIANTS.iter().find_map(|dialect| {
            let mut words = dialect.format().words.into_iter().zip(outcomes);
            words.find_map(|(word, outcome)| cell.eq_ignore_ascii_case(word).then_some(outcome))
        })
    }

    /// Returns the format of the dialect's rows.
    pub const fn format(self) -> DialectFormat {
        match self {
            LedgerDialect::Ar => DialectFormat {
                commit: "commit_hash",
                digits: 8,
                words: ["improved", "rejected", "failed"],
                no_value: "nan",
                no_memory: "nan",
                in_memory: &[FailureClass::Oom],
                forgets_memory: false,
                omits_refused: false,
            },
            LedgerDialect::Karpathy => DialectFormat {
                commit: "commit",
                digits: 7,
                words: ["keep", "discard", "crash"],
                no_value: "0.000000",
                no_memory: "0.0",
                in_memory: &[],
                forgets_memory: true,
                // Its notebook counts each row as an experiment that ran.
                omits_refused: true,
            },
        }
    }
}
