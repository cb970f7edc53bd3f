//! The content of a ledger, row by row, and the words for an outcome.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use super::{LedgerForm, is_nothing, is_scaled, quantity};
use crate::domain::{Direction, FailureClass, LedgerDialect, Number, Outcome, Unit, count_of, cut, plain_name};

/// Maximum number of distinct words to report that are not verdicts.
const MOST_WORDS: usize = 8;

/// Number of characters to show of a row or cell that cannot be read.
const SHOWN: usize = 120;

/// Number of characters to show of a word in a status column.
pub(super) const WORD_SHOWN: usize = 40;

/// The caller's choices for reading a ledger; the rest is read or assumed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// The metric's column, or its number from 1 where there is no header.
    pub metric: Option<&'a str>,
    /// Which way is better.
    pub direction: Option<Direction>,
    /// The segment of a JSON-lines ledger, by its [number](Segment::number).
    pub segment: Option<usize>,
}

/// A ledger, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// Its path; absent if it was read from text alone.
    pub file: Option<PathBuf>,
    /// The kind of its file.
    pub form: LedgerForm,
    /// The metric's name; absent where nothing says it.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Direction,
    /// Assumptions, each a lower-case fragment with the option that changes it.
    pub assumed: Vec<String>,
    /// The columns that were found, as what they hold and what they are called.
    pub columns: Vec<(&'static str, String)>,
    /// True if the rows have verdicts.
    pub has_verdict: bool,
    /// All rows, in the file's order; of a JSON-lines ledger those of the segment.
    pub rows: Vec<Row>,
    /// The segments that the config lines of a JSON-lines ledger begin, oldest first; empty for other ledgers.
    pub segments: Vec<Segment>,
    /// Number of rows in the other segments.
    pub elsewhere: u32,
}

/// A segment of a JSON-lines ledger, as its config line describes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Segment {
    /// Its number, as its rows say it in a field `segment`; where they do not, one more than that before, from 0 on. Where two
    /// segments have the same number, its position, from 0.
    pub number: usize,
    /// Its name.
    pub name: Option<String>,
    /// The metric.
    pub metric: Option<String>,
    /// Which way is better.
    pub direction: Option<Direction>,
    /// Number of its rows.
    pub rows: usize,
}

/// A row of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its line in the file, from 1; the first one, where it spans several.
    pub line: u32,
    /// The unchanged text of the commit's cell; absent if the ledger has no such column.
    pub commit: Option<Box<str>>,
    /// The status that it counts as.
    pub status: RowStatus,
    /// The metric; absent where the cell is no number, and where a zero says that there is none.
    #[serde(flatten, serialize_with = "Number::fields")]
    pub value: Option<Number>,
    /// Memory in GiB; never zero.
    pub memory_gb: Option<f64>,
    /// The failure class that the row names.
    #[serde(skip)]
    pub failure: Option<FailureClass>,
    /// The reason why it is malformed, or why it has no value although its cell is not blank.
    pub problem: Option<Box<str>>,
    /// True if it is never the best: its run did not finish, or its result is wrong.
    #[serde(skip)]
    pub is_barred: bool,
    /// A hash of all that stands in it.
    #[serde(skip)]
    pub(super) hash: u64,
    /// The description of the change; of a malformed row, the start of the row.
    pub description: Box<str>,
}

impl Row {
    pub(super) fn malformed(line: u32, text: &str, problem: String) -> Self {
        Row {
            line,
            status: RowStatus::Malformed,
            description: cut(text, SHOWN).into(),
            problem: Some(problem.into()),
            ..Row::default()
        }
    }

    /// Takes a zero for what it means: in a crash that there is no value; in a row that was not kept too, where memory is
    /// zero as well.
    pub(super) fn without_empty_zero(mut self, memory_is_zero: bool) -> Self {
        let is_empty = self.status == RowStatus::Crash || (self.status != RowStatus::Keep && memory_is_zero);
        if is_empty && self.value.as_ref().is_some_and(|number| number.value == 0.0) {
            self.value = None;
        }
        self
    }
}

impl Ledger {
    /// The rows that could not be read, or whose number could not.
    pub fn problems(&self) -> impl Iterator<Item = (u64, &str)> {
        self.rows.iter().filter_map(|row| Some((row.line.into(), row.problem.as_deref()?)))
    }
}

/// The number in a metric's cell in the unit of another one of its column, or why there is none although the cell is not
/// blank. A scale without a unit counts only where `may_scale`.
pub(super) fn value(cell: &str, reference: Option<&Number>, may_scale: bool) -> (Option<Number>, Option<String>) {
    let shown = || cut(cell.trim(), SHOWN);
    let Some(number) = quantity(cell).filter(|number| may_scale || !is_scaled(number)) else {
        return (None, (!is_nothing(cell)).then(|| format!("`{}` is not a number", shown())));
    };
    let Some(reference) = reference else { return (Some(number), None) };
    let unit = |number: &Number| number.unit.as_ref().map(Unit::to_string).unwrap_or_default();
    let problem = || format!("`{}` is in `{}`, others are in `{}`", shown(), unit(&number), unit(reference));
    match number.or_unit_of(reference).like(reference) {
        None => (None, Some(problem())),
        found => (found, None),
    }
}

/// Content that is not a verdict: the words of a status column with their counts, and lines outside the table.
#[derive(Debug, Default)]
pub(super) struct OtherWords {
    /// Number of lines that are not part of a Markdown table.
    pub(super) prose: u32,
    /// Number of lines that repeat the header.
    pub(super) headers: u32,
    pub(super) counts: BTreeMap<String, u32>,
    /// Number of rows with further words.
    more: u32,
}

impl OtherWords {
    pub(super) fn add(&mut self, cell: &str) {
        let word = cell.trim();
        if let Some(count) = self.counts.get_mut(word) {
            *count += 1;
        } else if self.counts.len() < MOST_WORDS && word.len() <= SHOWN {
            self.counts.insert(word.to_owned(), 1);
        } else {
            self.more += 1;
        }
    }

    /// Lists the words that count as neither keep, discard nor crash; absent if there are none.
    pub(super) fn sentence(&self) -> Option<String> {
        let named =
            |word: &str| if word.is_empty() { "blank".to_owned() } else { format!("`{}`", cut(word, WORD_SHOWN)) };
        let mut told: Vec<String> =
            self.counts.iter().map(|(word, count)| format!("{} ({count})", named(word))).collect();
        if self.more > 0 {
            told.push(format!("further words ({})", self.more));
        }
        (!told.is_empty()).then(|| {
            format!("neither keep, discard nor crash by their words, so counted as other: {}", told.join(", "))
        })
    }
}

/// The direction of a metric of which nobody said it: what the verdicts say, where more than three quarters of the keeps got
/// worse by the name, else what its name says, else lower. What is assumed is always said.
pub(super) fn assume_direction(name: Option<&str>, rows: &[Row], assumed: &mut Vec<String>) -> Direction {
    let told = name.and_then(Direction::of_name).map(|(direction, _)| direction);
    let by_name = told.unwrap_or_default();
    let (worse, steps) = keeps_that_got_worse(rows, by_name);
    // One keep alone does not outweigh a name.
    let is_turned = worse * 4 > steps * 3 && (told.is_none() || steps > 1);
    let direction = if is_turned { by_name.other() } else { by_name };
    let why = match (name, told) {
        _ if is_turned => format!(", as {worse} of {} got worse if {by_name} is", count_of(steps, "keep")),
        (Some(name), Some(_)) => format!(", as the name `{name}` says"),
        (Some(name), None) => format!(", as nothing in the name `{name}` says otherwise"),
        (None, _) => String::new(),
    };
    assumed.push(format!("{direction} is better{why}; `--{}` says otherwise", direction.other()));
    direction
}

/// The number of keeps that are worse than the one before, or than the baseline, and of all that have one before.
fn keeps_that_got_worse(rows: &[Row], direction: Direction) -> (usize, usize) {
    let (mut before, mut worse, mut steps) = (None, 0, 0);
    for row in rows.iter().filter(|row| row.status != RowStatus::Malformed) {
        let Some(value) = row.value.as_ref().map(|number| number.value) else { continue };
        match (row.status, before) {
            (RowStatus::Keep, Some(before)) => {
                steps += 1;
                worse += usize::from(direction.better(before, value));
            }
            (RowStatus::Keep | RowStatus::Baseline, _) | (RowStatus::Other | RowStatus::Finished, None) => {}
            _ => continue,
        }
        before = Some(value);
    }
    (worse, steps)
}

impl Ledger {
    /// The rows that are not malformed, each with the outcome of its record.
    ///
    /// A row that says keep, discard or crash has that outcome. Of the other rows, `ar` takes the first as kept, and a
    /// baseline while no kept row has a value. In a ledger without verdicts, each row better than all before it was kept. The
    /// rest was discarded, or crashed if it has no value.
    pub fn outcomes(&self) -> Vec<(&Row, Outcome)> {
        let mut best: Option<f64> = None;
        let mut outcomes: Vec<(&Row, Outcome)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.status != RowStatus::Malformed) {
            let value = row.value.as_ref().map(|number| number.value);
            let is_better = !row.is_barred
                && match (value, best) {
                    (Some(value), Some(best)) => !self.has_verdict && self.direction.better(value, best),
                    (Some(_), None) => outcomes.is_empty() || !self.has_verdict || row.status == RowStatus::Baseline,
                    (None, _) => false,
                };
            let outcome = match (row.status, value) {
                (RowStatus::Keep, _) => Outcome::Keep,
                (RowStatus::Discard, _) => Outcome::Discard,
                (RowStatus::Crash, _) | (_, None) => Outcome::Crash,
                _ if is_better => Outcome::Keep,
                _ => Outcome::Discard,
            };
            if outcome == Outcome::Keep {
                best = value.or(best);
            }
            outcomes.push((row, outcome));
        }
        outcomes
    }
}

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
        &[
            "accept",
            "accepted",
            "adopt",
            "adopted",
            "applied",
            "approved",
            "best",
            "better",
            "committed",
            "good",
            "improve",
            "improvement",
            "merged",
            "new_best",
            "promoted",
            "retained",
            "selected",
            "win",
        ],
    ),
    (
        RowStatus::Discard,
        &["discard", "discarded", "reject", "rejected", "revert", "reverted"],
        &[
            "abandoned",
            "bad",
            "declined",
            "drop",
            "dropped",
            "regressed",
            "regression",
            "rollback",
            "rolled",
            "undone",
            "worse",
        ],
    ),
    (RowStatus::Crash, FAILED, &["diverged", "error", "exception", "killed"]),
    (RowStatus::Baseline, &["baseline"], &[]),
    (RowStatus::Finished, FINISHED, &[]),
];

/// Words for a failure, wherever they stand in a cell.
const FAILED: &[&str] = &["crash", "crashed", "fail", "failed", "failure", "oom", "timeout"];

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
pub(super) enum VerdictColumn {
    /// Words.
    #[default]
    Word,
    /// Words of a ledger that does not say keep in the usual ones.
    WideWord,
    /// Yes and no: `accepted`, `kept`.
    Flag,
    /// Right and wrong, which decides nothing: `correct`.
    Check,
    /// Yes for a run that failed: `crashed`.
    Failure,
    /// Yes for a change that was not kept: `reverted`.
    Undone,
}

const YES: &[&str] = &["1", "1.0", "true", "t", "yes", "y", "[x]", "✅", "✓", "✔", "☑", "🟢", "👍"];

const NO: &[&str] = &["0", "0.0", "false", "f", "no", "n", "[ ]", "❌", "✗", "✘", "✖", "🔴", "👎"];

/// What a cell that only says yes or no says; a mark may be followed by the selector of its colour.
pub(super) fn yes_or_no(cell: &str) -> Option<bool> {
    let cell = cell.trim().trim_end_matches('\u{fe0f}');
    let is = |words: &[&str]| words.iter().any(|word| cell.eq_ignore_ascii_case(word));
    is(YES).then_some(true).or(is(NO).then_some(false))
}

/// Returns whether a cell says that a result is wrong.
pub(super) fn says_wrong(cell: &str) -> bool {
    yes_or_no(cell) == Some(false)
        || ["incorrect", "invalid", "wrong"].iter().any(|word| cell.trim().eq_ignore_ascii_case(word))
        || classify(cell, VerdictColumn::Word) == RowStatus::Crash
}

/// Reads a verdict; letter case does not matter, nor what stands around the word (`discard_wallclock`, `✅ keep`).
pub(super) fn classify(cell: &str, verdict: VerdictColumn) -> RowStatus {
    let cell = cell.trim();
    if let Some((_, status)) = PREFIXES.iter().find(|(prefix, _)| cell.starts_with(prefix)) {
        return *status;
    }
    let is = |word: &str, known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    let is_mark = !cell.contains(char::is_alphanumeric);
    match yes_or_no(cell) {
        Some(true) if verdict == VerdictColumn::Check => return RowStatus::Finished,
        Some(is_undone) if verdict == VerdictColumn::Undone => {
            return if is_undone { RowStatus::Discard } else { RowStatus::Keep };
        }
        Some(failed) if verdict == VerdictColumn::Failure => {
            return if failed { RowStatus::Crash } else { RowStatus::Finished };
        }
        Some(is_kept) if verdict == VerdictColumn::Flag || (is_mark && verdict != VerdictColumn::Check) => {
            return if is_kept { RowStatus::Keep } else { RowStatus::Discard };
        }
        _ => {}
    }
    if let Some(outcome) = LedgerDialect::outcome_of(cell) {
        return RowStatus::of(outcome);
    }
    let first = |cell: &str| {
        let word = cell.trim_start_matches(|c: char| !c.is_alphanumeric());
        let word = &word[..word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len())];
        let known =
            |usual, wide| is(word, usual) || (verdict == VerdictColumn::WideWord && (is(word, wide) || is(cell, wide)));
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
    use crate::domain::Outcome;
    use crate::domain::Outcome::{Crash, Discard, Keep};
    use crate::ledger::{ReadOptions, read};

    fn outcomes(text: &str) -> Vec<Outcome> {
        read(text.as_bytes(), &ReadOptions::default()).outcomes().into_iter().map(|(_, outcome)| outcome).collect()
    }

    #[test]
    fn rows_without_a_verdict_are_kept_where_nothing_else_can_be_meant() {
        let said = "commit\tloss\tstatus\tdescription\n\
                    a\t\tbaseline\tno number\n\
                    b\t2.0\tbaseline\tmeasured\n\
                    c\t1.9\tmaybe\tno verdict\n\
                    d\ttorn\n\
                    e\t1.8\tkeep\tbetter\n\
                    f\t1.7\tdiscard\trefused all the same\n\
                    g\t0\tcrash\tno value\n";
        assert_eq!(outcomes(said), [Crash, Keep, Discard, Keep, Discard, Crash]);
        let unsaid = "commit\tloss\tdescription\na\t2.0\tx\nb\t2.1\ty\nc\t1.9\tz\nd\t1.95\tz\n";
        assert_eq!(outcomes(unsaid), [Keep, Discard, Keep, Discard]);
    }

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
            assert_eq!(classify(cell, VerdictColumn::Word), status, "{cell}");
        }
        for dialect in LedgerDialect::VARIANTS {
            assert_eq!(dialect.format().words.map(|word| classify(word, VerdictColumn::Word)), [Keep, Discard, Crash]);
        }
        assert_eq!(classify("1", VerdictColumn::Flag), Keep);
        assert_eq!(classify("False", VerdictColumn::Flag), Discard);
        assert_eq!(classify("pending", VerdictColumn::Flag), Other);
        assert_eq!(classify("Accepted", VerdictColumn::WideWord), Keep);
        assert_eq!(classify("error: exit 1", VerdictColumn::WideWord), Crash);
        assert_eq!(classify("running", VerdictColumn::WideWord), Other);
        assert_eq!(
            [classify("true", VerdictColumn::Check), classify("false", VerdictColumn::Check)],
            [Finished, Other]
        );
        let wrong =
            ["false", "0", "No", "incorrect", "FAILED", "correctness_fail", "true", "1", "PASS", ""].map(says_wrong);
        assert_eq!(wrong, [true, true, true, true, true, true, false, false, false, false]);
    }
}
