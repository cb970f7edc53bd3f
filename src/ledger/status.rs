//! The words for an outcome.

use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use crate::domain::{FailureClass, LedgerDialect, Outcome, plain_name};

/// The status that a row of a ledger counts as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RowStatus {
    /// The experiment was kept.
    Keep,
    /// It was measured and refused.
    Discard,
    /// It failed.
    Crash,
    /// It is what the others are compared with; counted as [`Other`](RowStatus::Other).
    Baseline,
    /// It ran to its end, which is no verdict; counted as [`Other`](RowStatus::Other).
    #[serde(rename(serialize = "other"))]
    #[strum(to_string = "other")]
    Finished,
    /// Any other word, or none.
    #[default]
    Other,
    /// The row cannot be read as one.
    Malformed,
}

impl RowStatus {
    /// Returns the status of a row for an experiment with this outcome.
    fn of(outcome: Outcome) -> RowStatus {
        match outcome {
            Outcome::Keep => RowStatus::Keep,
            Outcome::Discard => RowStatus::Discard,
            Outcome::Crash => RowStatus::Crash,
        }
    }

    /// The outcome of an experiment that it stands for, where it is one.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            RowStatus::Keep => Some(Outcome::Keep),
            RowStatus::Discard => Some(Outcome::Discard),
            RowStatus::Crash => Some(Outcome::Crash),
            RowStatus::Baseline | RowStatus::Finished | RowStatus::Other | RowStatus::Malformed => None,
        }
    }

    /// Returns whether it says what became of an experiment, or that it is the baseline.
    pub(super) fn is_verdict(self) -> bool {
        self.outcome().is_some() || self == RowStatus::Baseline
    }
}

/// The words, and those that are tried too where no row says keep with the first.
const WORDS: &[(RowStatus, &[&str], &[&str])] = &[
    (
        RowStatus::Keep,
        &["keep", "kept", "improved"],
        &["accept", "accepted", "adopt", "adopted", "better", "improve", "improvement", "promoted", "win"],
    ),
    (
        RowStatus::Discard,
        &["discard", "discarded", "reject", "rejected", "revert", "reverted"],
        &["drop", "dropped", "regressed", "regression", "rollback", "worse"],
    ),
    (RowStatus::Crash, FAILED, &["diverged", "error", "exception", "killed"]),
    (RowStatus::Baseline, &["baseline"], &[]),
    (RowStatus::Finished, FINISHED, &[]),
];

/// Words for a failure, wherever they stand in a cell.
const FAILED: &[&str] = &["crash", "crashed", "fail", "failed", "oom", "timeout"];

/// Words for the state of a run that came to its end.
const FINISHED: &[&str] = &[
    "ok",
    "okay",
    "success",
    "successful",
    "succeeded",
    "done",
    "finished",
    "complete",
    "completed",
    "pass",
    "passed",
    "valid",
];

/// Words in front of which no letter case or word boundary says where they end.
const PREFIXES: &[(&str, RowStatus)] = &[
    ("保留", RowStatus::Keep),
    ("回滚", RowStatus::Discard),
    ("丢弃", RowStatus::Discard),
    ("崩溃", RowStatus::Crash),
    ("基线", RowStatus::Baseline),
];

/// The kind of column that contains the verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Words.
    #[default]
    Word,
    /// Words of a ledger that does not say keep in the usual ones.
    WideWord,
    /// Yes and no: `accepted`, `kept`.
    Flag,
    /// Right and wrong, which decides nothing: `correct`.
    Check,
}

const YES: &[&str] = &["1", "true", "yes", "y"];
const NO: &[&str] = &["0", "false", "no", "n"];

/// Returns whether a cell says that a result is wrong.
pub(super) fn says_wrong(cell: &str) -> bool {
    let is = |word: &&str| cell.trim().eq_ignore_ascii_case(word);
    NO.iter().chain(&["incorrect", "invalid", "wrong"]).any(is) || classify(cell, Verdict::Word) == RowStatus::Crash
}

/// Reads a verdict; letter case does not matter, nor what stands around the word (`discard_wallclock`, `✅ keep`).
pub(super) fn classify(cell: &str, verdict: Verdict) -> RowStatus {
    let cell = cell.trim();
    if let Some((_, status)) = PREFIXES.iter().find(|(prefix, _)| cell.starts_with(prefix)) {
        return *status;
    }
    let is = |word: &str, known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    if verdict == Verdict::Flag {
        if is(cell, YES) {
            return RowStatus::Keep;
        }
        if is(cell, NO) {
            return RowStatus::Discard;
        }
    }
    if verdict == Verdict::Check && is(cell, YES) {
        return RowStatus::Finished;
    }
    if let Some(outcome) = LedgerDialect::outcome_of(cell) {
        return RowStatus::of(outcome);
    }
    let first = |cell: &str| {
        let word = cell.trim_start_matches(|c: char| !c.is_alphanumeric());
        let word = &word[..word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len())];
        let known = |usual, wide| is(word, usual) || (verdict == Verdict::WideWord && is(word, wide));
        WORDS.iter().find(|(_, usual, wide)| known(usual, wide)).map(|(status, ..)| *status)
    };
    match first(cell) {
        Some(status @ (RowStatus::Keep | RowStatus::Discard)) => status,
        // `server_failed`
        _ if plain_name(cell).split('_').any(|word| FAILED.contains(&word)) => RowStatus::Crash,
        // `TrialState.COMPLETE`
        found => found.or_else(|| first(cell.rsplit('.').next()?)).unwrap_or_default(),
    }
}

/// Returns the failure class that a cell of a crashed row names: `oom` stands for a verdict, for memory and for the value.
pub(super) fn failure<'a>(status: RowStatus, mut cells: impl Iterator<Item = &'a str>) -> Option<FailureClass> {
    let class = |cell: &str| {
        cell.split(|c: char| !c.is_alphanumeric()).find_map(|word| {
            let is_named =
                |class: &FailureClass| class.ledger_word().is_some_and(|name| word.eq_ignore_ascii_case(name));
            FailureClass::VARIANTS.iter().copied().find(is_named)
        })
    };
    if status == RowStatus::Crash { cells.find_map(class) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_any_case_and_with_what_stands_around_them() {
        use RowStatus::*;
        for (cell, status) in [
            ("keep", Keep),
            ("KEEP", Keep),
            ("improved", Keep),
            ("✅ Kept", Keep),
            ("保留✔✔", Keep),
            ("discard_wallclock", Discard),
            ("Rejected", Discard),
            ("revert", Discard),
            ("回滚(交易<10)", Discard),
            ("crash", Crash),
            ("OOM", Crash),
            ("failed: exit 1", Crash),
            ("correctness_fail", Crash),
            ("checks_failed", Crash),
            ("server_failed", Crash),
            ("baseline (timeout)", Crash),
            ("TrialState.FAIL", Crash),
            ("ok", Finished),
            ("COMPLETE", Finished),
            ("TrialState.COMPLETE", Finished),
            ("kept (1 check failed)", Keep),
            ("BASELINE", Baseline),
            ("基线", Baseline),
            ("NO_JSON", Other),
            ("keeper", Other),
            ("not kept", Other),
            ("accepted", Other),
            ("error", Other),
            ("1", Other),
            ("", Other),
        ] {
            assert_eq!(classify(cell, Verdict::Word), status, "{cell}");
        }
        for dialect in LedgerDialect::VARIANTS {
            assert_eq!(dialect.format().words.map(|word| classify(word, Verdict::Word)), [Keep, Discard, Crash]);
        }
        assert_eq!(classify("1", Verdict::Flag), Keep);
        assert_eq!(classify("False", Verdict::Flag), Discard);
        assert_eq!(classify("pending", Verdict::Flag), Other);
        assert_eq!(classify("Accepted", Verdict::WideWord), Keep);
        assert_eq!(classify("error: exit 1", Verdict::WideWord), Crash);
        assert_eq!(classify("running", Verdict::WideWord), Other);
        assert_eq!([classify("true", Verdict::Check), classify("false", Verdict::Check)], [Finished, Other]);
        let wrong =
            ["false", "0", "No", "incorrect", "FAILED", "correctness_fail", "true", "1", "PASS", ""].map(says_wrong);
        assert_eq!(wrong, [true, true, true, true, true, true, false, false, false, false]);
    }
}
