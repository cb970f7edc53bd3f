//! Which column of a ledger is which, by its name and by the numbers in its cells.

use strum::VariantArray;

use super::VerdictColumn;
use crate::domain::{Direction, LedgerDialect, NameKind, Number, Unit, WordList, plain_name, word_list};

/// The commit's names, first choice first, as [`plain_name`] writes them.
static COMMIT: WordList = WordList::new(|| word_list(include_str!("lists/commit.txt")));

/// The verdict's names, first choice first.
pub(super) static STATUS: WordList = WordList::new(|| word_list(include_str!("lists/status.txt")));

/// Names of a verdict, or of something else where no cell says keep or discard.
pub(super) const PERHAPS_STATUS: &[&str] =
    &["action", "result", "approved", "chosen", "merged", "retained", "selected"];

/// Names of a verdict that is yes or no.
static FLAGS: WordList = WordList::new(|| word_list(include_str!("lists/flags.txt")));

/// Names of columns that say whether a result is right.
pub(super) static CHECKS: WordList = WordList::new(|| word_list(include_str!("lists/checks.txt")));

/// Names of columns that say whether a run failed.
const FAILURES: &[&str] = &["failed", "crashed", "is_failed", "has_failed", "has_error", "errored"];

/// Names of columns that say whether a change was not kept.
const UNDONE: &[&str] = &["reverted", "is_reverted", "rejected", "discarded", "rolled_back"];

/// Names of columns that state a direction.
pub(super) const DIRECTION: &[&str] = &[
    "metric_direction",
    "direction",
    "best_direction",
    "optimization",
    "optimization_direction",
    "optimize",
    "objective_direction",
    "goal",
    "mode",
    "better",
];

/// Names of columns that state a direction by yes or no.
pub(super) const DIRECTION_FLAGS: [(&str, Direction); 4] = [
    ("higher_is_better", Direction::Higher),
    ("maximize", Direction::Higher),
    ("lower_is_better", Direction::Lower),
    ("minimize", Direction::Lower),
];

/// Names of columns with the name of the metric that another column holds, and of that one.
pub(super) const NAME: &[&str] = &["metric_name", "metric", "name", "key"];

/// Names of columns that may name the column of the metric.
pub(super) const POINTER: &[&str] = &["metric_name", "primary_metric", "metric"];

pub(super) const VALUE: &[&str] = &["metric_value", "value", "metric"];

/// Names of columns that name the setting that a row tries.
pub(super) const SWEPT: &[&str] = &["sweep", "swept", "sweep_param", "sweep_parameter", "param", "parameter"];

static DESCRIPTION: WordList = WordList::new(|| word_list(include_str!("lists/description.txt")));

/// Names of memory columns that say no unit; GiB, unless a cell says otherwise.
static MEMORY: WordList = WordList::new(|| word_list(include_str!("lists/memory.txt")));

/// Names that only the metric has.
pub(super) const METRIC: &[&str] =
    &["metric", "metric_value", "value", "objective", "primary_metric", "score", "fitness", "指标"];

/// Names of columns that are never the metric.
static NEVER_METRIC: WordList = WordList::new(|| word_list(include_str!("lists/never_metric.txt")));

/// Words that end the names of columns which count, name, set or repeat something and are never the metric, in the singular.
static NEVER_LAST: WordList = WordList::new(|| word_list(include_str!("lists/never_last.txt")));

/// Words in names of columns that have the time a run took.
static RUN_TIME: WordList = WordList::new(|| word_list(include_str!("lists/run_time.txt")));

/// Words that no name of a metric has, and ends of names of settings.
const NEVER: &[&str] = &["seed", "pid", "lr", "usd", "eur", "dollar"];

const SETTINGS: &[&str] =
    &["batch_size", "hidden_size", "vocab_size", "learning_rate", "created_at", "started_at", "finished_at"];

/// First words of names of columns that have the number of another experiment, or a count.
static NEVER_FIRST: WordList = WordList::new(|| word_list(include_str!("lists/never_first.txt")));

/// Parts of the names of commits other than the experiment's.
const OF_OTHERS: &[&str] = &["base", "before", "best", "parent", "prev", "prior", "start"];

/// The positions of a ledger's columns, from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ColumnPositions {
    pub(super) commit: Option<usize>,
    pub(super) metric: Option<usize>,
    pub(super) memory: Option<usize>,
    pub(super) status: Option<usize>,
    pub(super) description: Option<usize>,
}

impl ColumnPositions {
    /// Finds the columns by their names; the metric by `metric` alone.
    pub(super) fn by_name<S: AsRef<str>>(names: &[S], metric: Option<&str>) -> Self {
        let plain: Vec<String> = names.iter().map(|name| plain_name(name.as_ref())).collect();
        let metric = metric.and_then(|metric| {
            let exact = names.iter().position(|name| name.as_ref().trim() == metric);
            let folded = || names.iter().position(|name| name.as_ref().trim().eq_ignore_ascii_case(metric));
            exact.or_else(folded).or_else(|| {
                let metric = plain_name(metric);
                plain.iter().position(|name| !name.is_empty() && *name == metric)
            })
        });
        ColumnPositions {
            commit: first_of(&plain, &COMMIT).or_else(|| {
                let is_of_dialect = |name: &String| LedgerDialect::VARIANTS.iter().any(|it| it.format().commit == name);
                let is_own = |name: &String| name.ends_with("_commit") && !OF_OTHERS.iter().any(|it| name.contains(it));
                plain.iter().position(is_of_dialect).or_else(|| plain.iter().position(is_own))
            }),
            metric,
            memory: plain.iter().position(|name| unit_of(name).is_some()),
            status: first_of(&plain, &STATUS),
            description: first_of(&plain, &DESCRIPTION),
        }
    }

    /// Returns whether the place and name of a column allow it to be the metric.
    pub(super) fn may_be_metric(&self, column: usize, name: &str) -> bool {
        let plain = plain_name(name);
        !plain.is_empty() && !NEVER_METRIC.contains(&plain.as_str()) && self.may_be_said_metric(column, name)
    }

    /// The same for a column whose place says that it is the metric.
    pub(super) fn may_be_said_metric(&self, column: usize, name: &str) -> bool {
        let taken = [self.commit, self.memory, self.status, self.description].contains(&Some(column));
        !taken && !is_never_metric(&plain_name(name))
    }

    /// The likeliest metric among the columns that hold numbers, and whether its name says so; else the first of them.
    pub(super) fn likely_metric<S: AsRef<str>>(
        &self,
        names: &[S],
        holds_numbers: impl Fn(usize) -> bool,
    ) -> Option<(usize, bool)> {
        let plain: Vec<String> = names.iter().map(|name| plain_name(name.as_ref())).collect();
        let fits = (0..names.len()).filter(|&column| {
            let name = names[column].as_ref();
            // The best so far is told by the numbers themselves.
            let repeats = plain_name(name).strip_prefix("best_").is_some_and(|of| plain.iter().any(|name| name == of));
            self.may_be_metric(column, name) && holds_numbers(column) && !repeats
        });
        let ranked = fits.map(|column| (rank(names[column].as_ref()), column)).min()?;
        Some((ranked.1, ![UNTOLD_OF_VALIDATION, UNTOLD, UNTOLD_DERIVED].contains(&ranked.0.0)))
    }
}

/// Ranks of columns whose names say nothing.
const UNTOLD_OF_VALIDATION: u8 = 3;

const UNTOLD: u8 = 9;

const UNTOLD_DERIVED: u8 = 11;

/// The rank of a number that says how another one varies or changes.
const TOLD_DERIVED: u8 = 8;

/// How unlikely a column with this name is the metric: a number of validation comes before others, one of training after
/// them, and a time or a cost of the run last; then bits per byte before other losses, losses before other qualities, and means
/// before bounds.
fn rank(name: &str) -> (u8, bool, bool, bool) {
    let plain = plain_name(name);
    let has = |words: &[&str]| plain.split('_').any(|word| words.contains(&word));
    let told = Direction::of_name(name);
    let class = match told.map(|(_, kind)| kind) {
        _ if METRIC.contains(&plain.as_str()) => 0,
        _ if is_run_time(name) || has(&["cost", "price"]) => 10,
        Some(_) if has(DERIVED) => TOLD_DERIVED,
        Some(NameKind::Quality) if has(TRAINING) => 4,
        Some(NameKind::Quality) if has(VALIDATION) || has(REWARD) => 1,
        Some(NameKind::Quality) => 2,
        None if has(DERIVED) => UNTOLD_DERIVED,
        None if has(VALIDATION) => UNTOLD_OF_VALIDATION,
        Some(NameKind::Rate) => 5,
        Some(NameKind::Duration) => 6,
        Some(NameKind::Size) => 7,
        None => UNTOLD,
    };
    let is_bound = has(&["min", "max"]);
    (class, !plain.contains("bpb"), told.is_none_or(|(direction, _)| direction == Direction::Higher), is_bound)
}

/// Returns whether a name means a number that is the metric only beside no better one: a time, a number of parameters, or one
/// of training, or one that other columns tell.
pub(super) fn is_weak(name: &str) -> bool {
    let is_weak =
        |word| [TRAINING, DERIVED].concat().contains(&word) || matches!(word, "best" | "params" | "parameters");
    is_run_time(name) || plain_name(name).split('_').any(is_weak)
}

/// Words of names of numbers on data that was trained on, or held out.
const TRAINING: &[&str] = &["train", "training", "trained"];

/// Words of names of numbers that say how another one varies or changes.
const DERIVED: &[&str] = &["delta", "diff", "gain", "improvement", "sem", "std", "stddev", "stderr"];

/// Words of names by which reinforcement learning is judged, whatever losses it has.
const REWARD: &[&str] = &["reward", "rewards", "rew", "return", "returns"];

pub(super) const VALIDATION: &[&str] =
    &["val", "valid", "validation", "eval", "evaluation", "dev", "heldout", "holdout"];

/// The columns with these names, first choice first.
pub(super) fn named(header: &[String], wanted: &[&str]) -> Vec<usize> {
    let plain: Vec<String> = header.iter().map(|name| plain_name(name)).collect();
    let of = |wanted: &&str| (0..plain.len()).filter(|&column| plain[column] == **wanted).collect::<Vec<_>>();
    wanted.iter().flat_map(of).collect()
}

/// Tells the user which column is taken for the metric, or that none is.
pub(super) fn metric_assumed(found: Option<(&str, bool)>, what: &str) -> String {
    match found {
        Some((name, true)) => format!("`{name}` is the metric; `--metric NAME` names another {what}"),
        Some((name, false)) => {
            format!(
                "`{name}` is taken for the metric, which its name does not say; `--metric NAME` names another {what}"
            )
        }
        None => format!("no {what} looks like the metric; `--metric NAME` names it"),
    }
}

/// Returns whether a column with this plain name holds something other than the experiment's own metric.
fn is_never_metric(plain: &str) -> bool {
    let is = |words: &[&str], word: &str| words.contains(&word) || words.contains(&word.trim_end_matches('s'));
    let (first, last) = (plain.split('_').next().unwrap_or_default(), plain.rsplit('_').next().unwrap_or_default());
    let is_setting = SETTINGS.iter().any(|name| plain.ends_with(name)) || plain.split('_').any(|word| is(NEVER, word));
    is_setting || is(&NEVER_LAST, last) || (first.len() < plain.len() && NEVER_FIRST.contains(&first))
}

/// Returns whether a name means the time of a run, such as `training_seconds` or `time_elapsed`. Small units, as in
/// `mean_ms`, belong to a metric.
fn is_run_time(name: &str) -> bool {
    let plain = plain_name(name);
    let mut words = plain.split('_');
    let is_duration = Direction::of_name(name) == Some((Direction::Lower, NameKind::Duration));
    is_duration && words.any(|word| RUN_TIME.contains(&word))
}

fn first_of(names: &[String], wanted: &[&str]) -> Option<usize> {
    wanted.iter().find_map(|wanted| names.iter().position(|name| name == wanted))
}

/// Returns the unit of a memory column; absent if the column is not for memory.
pub(super) fn memory_unit(name: &str) -> Option<Unit> {
    unit_of(&plain_name(name)).map(|unit| unit.unwrap_or_else(|| Unit::new("GiB")))
}

/// Returns whether the name of a memory column lacks its unit.
pub(super) fn is_without_unit(name: &str) -> bool {
    unit_of(&plain_name(name)) == Some(None)
}

/// The unit of a plain name: absent for no memory, then absent where the name does not say it.
fn unit_of(plain: &str) -> Option<Option<Unit>> {
    if MEMORY.contains(&plain) {
        return Some(None);
    }
    let (name, unit) = plain.rsplit_once('_')?;
    let is_memory = ["mem", "vram", "显存", "内存"].iter().any(|part| name.contains(part));
    // Powers of 1,024, as `memory_gb` always was.
    let binary = |unit: &str| if unit.len() == 2 { unit.replace('b', "ib") } else { unit.to_owned() };
    Some(Unit::new(&binary(unit))).filter(|unit| is_memory && unit.is_bytes()).map(Some)
}

/// Returns the kind of a verdict column with this name.
pub(super) fn verdict(name: &str) -> VerdictColumn {
    let plain = plain_name(name);
    let is = |names: &[&str]| names.contains(&plain.as_str());
    if is(&FLAGS) {
        VerdictColumn::Flag
    } else if is(&CHECKS) {
        VerdictColumn::Check
    } else if is(FAILURES) {
        VerdictColumn::Failure
    } else if is(UNDONE) {
        VerdictColumn::Undone
    } else {
        VerdictColumn::Word
    }
}

/// Words that stand where a number is missing.
const NOTHING: &[&str] = &[
    "", "-", "--", "—", "n/a", "na", "nan", "none", "null", "nil", "oom", "fail", "failed", "crash", "crashed",
    "timeout", "error", "inf", "-inf", "tbd", "pending", "?",
];

/// Longest number with its unit, in bytes.
const LONGEST: usize = 64;

/// The number that is all of a cell; a closing `%` does not count.
pub(super) fn number(cell: &str) -> Option<Number> {
    let cell = cell.trim();
    cell.strip_suffix('%').map_or(cell, str::trim_end).parse().ok()
}

/// Returns whether a cell stands for a missing number.
pub(super) fn is_nothing(cell: &str) -> bool {
    let cell = cell.trim();
    // Zeros are numbers all the same.
    let is_of_dialect = |dialect: &LedgerDialect| dialect.format().no_value == cell && number(cell).is_none();
    NOTHING.iter().any(|word| cell.eq_ignore_ascii_case(word)) || LedgerDialect::VARIANTS.iter().any(is_of_dialect)
}

/// The number that is all of a cell, with its unit or scale; of a mean and its deviation the mean, of a change the end.
pub(super) fn quantity(cell: &str) -> Option<Number> {
    let cell = cell.trim();
    // As most cells are.
    if let Ok(plain) = cell.parse() {
        return Some(plain);
    }
    if cell.len() > LONGEST {
        return None;
    }
    let is_mark = |c: char| c == '*' || c == ' ' || (!c.is_ascii() && !c.is_alphanumeric() && c != '°');
    let cell = cell.trim_end_matches(is_mark).trim_start_matches(['*', '$', '€', '£']);
    let cell = &*cell.replace('−', "-");
    if let Some((mean, deviation)) = cell.split_once('±').or_else(|| cell.split_once("+/-")) {
        return Some(quantity(mean)?.or_unit_of(&quantity(deviation)?));
    }
    if let Some((_, after)) = cell.split_once('→') {
        return quantity(after);
    }
    // Its deviation or its change: `0.85 (0.02)`, `0.9 (-10%)`.
    if let Some((number, behind)) = cell.strip_suffix(')').and_then(|cell| cell.split_once('(')) {
        return quantity(behind).and_then(|_| quantity(number));
    }
    if let Ok(plain) = cell.parse() {
        return Some(plain);
    }
    let may_be = cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    Number::with_unit(cell).filter(|found| may_be && found.unit.as_ref().is_none_or(Unit::is_known))
}

/// Returns whether a number has a scale and no unit, as `3.1K`, so that nothing but its column says what it counts.
pub(super) fn is_scaled(number: &Number) -> bool {
    number.unit.is_none() && number.printed.is_some()
}

/// A number as memory in GiB, in a column of this unit unless it has one itself; absent for zero, which says that nobody
/// measured it.
pub(super) fn memory(number: &Number, column: Option<&Unit>) -> Option<f64> {
    let unit = number.unit.as_ref().or(column);
    let memory = unit.map_or(Some(number.value), |unit| unit.convert(number.value, &Unit::new("GiB")));
    memory.filter(|memory| *memory > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_in_any_order_under_their_usual_names() {
        let names = ["exp", "tok_s", "vram_peak_mb", "notes", "status", "Description", "sha"];
        let columns = ColumnPositions::by_name(&names, Some("tok_s"));
        let expected = ColumnPositions {
            commit: Some(6),
            metric: Some(1),
            memory: Some(2),
            status: Some(4),
            description: Some(5),
        };
        assert_eq!(columns, expected);
        let names = ["Commit Hash", "valBpb", "Peak Memory (GB)", "Kept", "Comments"];
        let columns = ColumnPositions::by_name(&names, Some("val_bpb"));
        let expected = ColumnPositions {
            commit: Some(0),
            metric: Some(1),
            memory: Some(2),
            status: Some(3),
            description: Some(4),
        };
        assert_eq!(columns, expected);
    }

    #[test]
    fn a_memory_column_says_its_unit_or_none() {
        for (name, unit) in [
            ("vram_peak_mb", Some("mib")),
            ("memory_gb", Some("gib")),
            ("memoryGB", Some("gib")),
            ("peak_memory_bytes", Some("bytes")),
            ("VRAM", Some("GiB")),
            ("size_mb", None),
            ("memory_note", None),
        ] {
            assert_eq!(memory_unit(name).map(|unit| unit.to_string()).as_deref(), unit, "{name}");
        }
        assert!(is_without_unit("VRAM") && !is_without_unit("memory_gb") && !is_without_unit("loss"));
    }

    #[test]
    fn the_metric_is_the_column_whose_name_says_so() {
        for (names, expected) in [
            (&["iteration", "commit", "test_acc", "memory_gb"][..], Some((2, true))),
            (&["id", "time_s", "accuracy"], Some((2, true))),
            (&["heads", "val_bpb", "score"], Some((2, true))),
            (&["heads", "val_bpb", "tok_s"], Some((1, true))),
            (&["wall_s", "tok_s"], Some((1, true))),
            (&["old_loss", "loss_before", "loss"], Some((2, true))),
            (&["total_tokens", "prev_score", "score_ns"], Some((2, true))),
            (&["gizmos", "widgets"], Some((0, false))),
            (&["training_seconds", "gizmos"], Some((1, false))),
            (&["runtime", "gizmos"], Some((1, false))),
            (&["time_elapsed", "mean_ms"], Some((1, true))),
            (&["id", "runtime"], Some((1, true))),
            (&["id", "date", "round", "tokens", "n_heads", "run_id", "old_loss", "acc_before", "num_steps"], None),
            (&["experiment_num", "exp_no", "run_number", "trial_idx", "idx", "gen", "iter_no", "attempt_number"], None),
            (&["pid", "seed_used", "cost_usd", "batch_size", "eval_batch_size", "base_lr", "learning_rate"], None),
            (&["train_loss", "val_loss", "val_bpb"], Some((2, true))),
            (&["train_loss", "val_loss", "loss"], Some((1, true))),
            (&["loss", "accuracy", "val_accuracy"], Some((2, true))),
            (&["train_loss", "val_primary", "tok_s"], Some((1, false))),
            (&["train_loss", "tok_s"], Some((0, true))),
            (&["total_cost", "gizmos"], Some((1, false))),
            (&["bundle_size", "error"], Some((1, true))),
        ] {
            let columns = ColumnPositions::by_name(names, None);
            assert_eq!(columns.likely_metric(names, |_| true), expected, "{names:?}");
        }
    }

    #[test]
    fn a_cell_is_a_number_with_a_unit_or_a_scale() {
        for (cell, expected) in [
            ("1.50", Some("1.50")),
            (" 68.6% ", Some("68.6 %")),
            ("68.6 %", Some("68.6 %")),
            ("-3.2", Some("-3.2")),
            ("+0.15", Some("+0.15")),
            ("3.2s", Some("3.2 s")),
            ("14.3 GB", Some("14.3 GB")),
            ("1024MB", Some("1024 MB")),
            ("812 tok/s", Some("812 tok/s")),
            ("1e-3", Some("1e-3")),
            ("1.5e3 ms", Some("1.5e3 ms")),
            ("1,234,567", Some("1234567")),
            ("1,234.5", Some("1234.5")),
            ("-1,234.5 ms", Some("-1234.5 ms")),
            ("3.1K", Some("3100")),
            ("3.1K tok/s", Some("3100 tok/s")),
            ("5M", Some("5000000")),
            ("1,234", Some("1234")),
            ("1,5", None),
            ("1.234,5", None),
            ("12,34,567", None),
            ("1m7.5s", Some("67.5 s")),
            ("1.5 ± 0.1", Some("1.5")),
            ("1.5 +/- 0.1 ms", Some("1.5 ms")),
            ("1.5 ± ?", None),
            ("1.5 (0.1)", Some("1.5")),
            ("1.5 (-10%)", Some("1.5")),
            ("1.6 → 1.5", Some("1.5")),
            ("**1.5** ⭐", Some("1.5")),
            ("$1.5", Some("1.5")),
            ("−1.5", Some("-1.5")),
            ("1.5×", Some("1.5")),
            ("1/20", None),
            ("2026-01-01", None),
            ("score=~0.5", None),
            ("~0.5", None),
            ("inf", None),
            ("1e999", None),
            ("0x1F", None),
            ("5 (best)", None),
            ("/s", None),
            ("5 /s", Some("5 /s")),
            ("5abc", None),
            ("123456a", None),
            ("", None),
        ] {
            let shown = |it: Number| it.raw + &it.unit.map(|unit| format!(" {unit}")).unwrap_or_default();
            let found = quantity(cell).map(shown);
            assert_eq!(found.as_deref(), expected, "{cell}");
        }
        for sign in ["1→", "1±", "1("] {
            assert_eq!(quantity(&sign.repeat(200_000)), None, "{sign}");
        }
    }

    #[test]
    fn memory_is_in_the_unit_of_its_cell_else_of_its_column() {
        let of = |cell: &str, column: &str| memory(&quantity(cell)?, Some(&Unit::new(column)));
        let cases = [("14.3 GiB", "MiB", Some(14.3)), ("1024MiB", "GiB", Some(1.0)), ("2048", "MiB", Some(2.0))];
        for (cell, unit, expected) in cases {
            assert_eq!(of(cell, unit), expected, "{cell}");
        }
        for cell in ["0.0", "0", "oom", "", "-1", "3 s"] {
            assert_eq!(of(cell, "GiB"), None, "{cell}");
        }
    }
}
