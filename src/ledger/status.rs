//! The words for an outcome.

use serde::{Deserialize, Serialize};

/// What a row of a ledger is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowStatus {
    /// The experiment was kept.
    Keep,
    /// It was measured and refused.
    Discard,
    /// It failed.
    Crash,
    /// Any other word, or none.
    Other,
    /// The row cannot be read as one.
    Malformed,
}

const KEEP: &[&str] = &["keep", "kept", "improved"];
const DISCARD: &[&str] = &["discard", "discarded", "reject", "rejected", "revert", "reverted"];
const CRASH: &[&str] = &["crash", "crashed", "fail", "failed", "oom", "timeout"];

/// Words in front of which no letter case or word boundary says where they end.
const PREFIXES: &[(&str, RowStatus)] = &[("保留", RowStatus::Keep), ("回滚", RowStatus::Discard)];

/// What kind of column the verdict stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Words.
    Word,
    /// Yes and no: `accepted`, `kept`.
    Flag,
}

/// Reads a verdict; letter case does not matter, nor what follows the word (`discard_wallclock`, `keep ✔`).
pub(super) fn classify(cell: &str, verdict: Verdict) -> RowStatus {
    let cell = cell.trim();
    if let Some((_, status)) = PREFIXES.iter().find(|(prefix, _)| cell.starts_with(prefix)) {
        return *status;
    }
    let lower = cell.to_lowercase();
    if verdict == Verdict::Flag {
        match lower.as_str() {
            "1" | "true" | "yes" => return RowStatus::Keep,
            "0" | "false" | "no" => return RowStatus::Discard,
            _ => {}
        }
    }
    if lower == "correctness_fail" {
        return RowStatus::Crash;
    }
    let word = lower.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    if KEEP.contains(&word) {
        RowStatus::Keep
    } else if DISCARD.contains(&word) {
        RowStatus::Discard
    } else if CRASH.contains(&word) {
        RowStatus::Crash
    } else {
        RowStatus::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_any_case_and_with_what_follows() {
        use RowStatus::*;
        for (cell, status) in [
            ("keep", Keep),
            ("KEEP", Keep),
            ("improved", Keep),
            ("保留✔✔", Keep),
            ("discard_wallclock", Discard),
            ("Rejected", Discard),
            ("revert", Discard),
            ("回滚(交易<10)", Discard),
            ("crash", Crash),
            ("OOM", Crash),
            ("failed: exit 1", Crash),
            ("correctness_fail", Crash),
            ("baseline", Other),
            ("NO_JSON", Other),
            ("keeper", Other),
            ("not kept", Other),
            ("1", Other),
            ("", Other),
        ] {
            assert_eq!(classify(cell, Verdict::Word), status, "{cell}");
        }
        assert_eq!(classify("1", Verdict::Flag), Keep);
        assert_eq!(classify("False", Verdict::Flag), Discard);
        assert_eq!(classify("pending", Verdict::Flag), Other);
    }
}
