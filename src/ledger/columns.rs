//! Which column of a ledger is which.

use strum::VariantArray;

use super::cell::memory_factor;
use super::status::Verdict;
use crate::domain::{Direction, LedgerDialect, NameKind, WordList, plain_name, word_list};

/// The commit's names, first choice first, as [`plain_name`] writes them.
static COMMIT: WordList = WordList::new(|| word_list(include_str!("lists/commit.txt")));

/// The verdict's names, first choice first.
static STATUS: WordList = WordList::new(|| word_list(include_str!("lists/status.txt")));

/// Names of a verdict that is yes or no.
const FLAGS: &[&str] = &["accepted", "kept", "keep", "accept", "is_kept", "is_accepted"];

static DESCRIPTION: WordList = WordList::new(|| word_list(include_str!("lists/description.txt")));

/// Names of memory columns that say no unit; GiB, unless a cell says otherwise.
static MEMORY: WordList = WordList::new(|| word_list(include_str!("lists/memory.txt")));

/// Names that only the metric has.
const METRIC: &[&str] = &["metric", "metric_value", "value", "objective", "primary_metric", "score", "fitness", "指标"];

/// Names of columns that are never the metric.
static NEVER_METRIC: WordList = WordList::new(|| word_list(include_str!("lists/never_metric.txt")));

/// Last words of names of columns that count, name or repeat something and are never the metric, in the singular.
static NEVER_LAST: WordList = WordList::new(|| word_list(include_str!("lists/never_last.txt")));

/// Words in names of columns that have the time a run took.
const RUN_TIME: &[&str] = &[
    "duration", "elapsed", "hour", "hours", "minute", "minutes", "runtime", "s", "sec", "second", "seconds", "secs",
    "time", "wall", "walltime",
];

/// First words of names of columns that have the number of another experiment, or a count.
const NEVER_FIRST: &[&str] =
    &["baseline", "before", "expected", "n", "num", "old", "prev", "previous", "prior", "reference", "target"];

/// The positions of a ledger's columns, from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) commit: Option<usize>,
    pub(super) metric: Option<usize>,
    pub(super) memory: Option<usize>,
    pub(super) status: Option<usize>,
    pub(super) description: Option<usize>,
}

impl Columns {
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
        Columns {
            commit: first_of(&plain, &COMMIT).or_else(|| {
                let is_of_dialect = |name: &String| LedgerDialect::VARIANTS.iter().any(|it| it.format().commit == name);
                plain.iter().position(is_of_dialect)
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
        let fits: Vec<usize> = (0..names.len())
            .filter(|&column| self.may_be_metric(column, names[column].as_ref()) && holds_numbers(column))
            .collect();
        let with_name = |test: &dyn Fn(&str) -> bool| fits.iter().copied().find(|&column| test(names[column].as_ref()));
        let telling = |told| with_name(&|name| Direction::of_name(name) == Some(told));
        let rate = |name: &str| matches!(Direction::of_name(name), Some((_, NameKind::Rate)));
        let other = || fits.iter().copied().find(|&column| !is_run_time(names[column].as_ref()));
        let named = with_name(&|name| METRIC.contains(&plain_name(name).as_str()))
            .or_else(|| telling((Direction::Lower, NameKind::Quality)))
            .or_else(|| telling((Direction::Higher, NameKind::Quality)))
            .or_else(|| with_name(&rate))
            .or_else(|| with_name(&|name| is_duration(name) && !is_run_time(name)));
        named
            .map(|column| (column, true))
            .or_else(|| other().map(|column| (column, false)))
            .or_else(|| with_name(&is_run_time).map(|column| (column, true)))
    }

    /// Returns whether the column holds the time of a run, and another one holds numbers that may be the metric.
    pub(super) fn is_time_beside<S: AsRef<str>>(
        &self,
        column: usize,
        names: &[S],
        holds_numbers: impl Fn(usize) -> bool,
    ) -> bool {
        let may_be = |other: usize| {
            let name = names[other].as_ref();
            !is_run_time(name) && self.may_be_metric(other, name) && holds_numbers(other)
        };
        is_run_time(names[column].as_ref()) && (0..names.len()).any(may_be)
    }
}

/// Tells the user which column is taken for the metric, or that none is.
pub(super) fn metric_assumed(found: Option<(&str, bool)>, what: &str) -> String {
    match found {
        Some((name, true)) => format!("`{name}` is the metric; `--metric NAME` names another {what}"),
        Some((name, false)) => {
            format!(
                "`{name}`, the first {what} with numbers, is taken for the metric, which its name does not say; \
                 `--metric NAME` names another"
            )
        }
        None => format!("no {what} looks like the metric; `--metric NAME` names it"),
    }
}

/// Returns whether a column with this plain name holds something other than the experiment's own metric.
fn is_never_metric(plain: &str) -> bool {
    let is = |words: &[&str], word: &str| words.contains(&word) || words.contains(&word.trim_end_matches('s'));
    let (first, last) = (plain.split('_').next().unwrap_or_default(), plain.rsplit('_').next().unwrap_or_default());
    is(&NEVER_LAST, last) || (first.len() < plain.len() && NEVER_FIRST.contains(&first))
}

fn is_duration(name: &str) -> bool {
    Direction::of_name(name) == Some((Direction::Lower, NameKind::Duration))
}

/// Returns whether a name means the time of a run, such as `training_seconds` or `time_elapsed`. Small units, as in
/// `mean_ms`, belong to a metric.
fn is_run_time(name: &str) -> bool {
    let plain = plain_name(name);
    let mut words = plain.split('_');
    is_duration(name) && words.any(|word| RUN_TIME.contains(&word))
}

fn first_of(names: &[String], wanted: &[&str]) -> Option<usize> {
    wanted.iter().find_map(|wanted| names.iter().position(|name| name == wanted))
}

/// Returns how many of a memory column's units make a GiB; absent if the column is not for memory.
pub(super) fn memory_unit(name: &str) -> Option<f64> {
    unit_of(&plain_name(name)).map(|unit| unit.unwrap_or(1.0))
}

/// Returns whether the name of a memory column lacks its unit.
pub(super) fn is_without_unit(name: &str) -> bool {
    unit_of(&plain_name(name)) == Some(None)
}

/// The unit of a plain name: absent for no memory, then absent where the name does not say it.
fn unit_of(plain: &str) -> Option<Option<f64>> {
    if MEMORY.contains(&plain) {
        return Some(None);
    }
    let (name, unit) = plain.rsplit_once('_')?;
    let is_memory = ["mem", "vram", "显存", "内存"].iter().any(|part| name.contains(part));
    memory_factor(unit).filter(|_| is_memory).map(Some)
}

/// Returns the kind of a verdict column with this name.
pub(super) fn verdict(name: &str) -> Verdict {
    if FLAGS.contains(&plain_name(name).as_str()) { Verdict::Flag } else { Verdict::Word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_in_any_order_under_their_usual_names() {
        let names = ["exp", "tok_s", "vram_peak_mb", "notes", "status", "Description", "sha"];
        let columns = Columns::by_name(&names, Some("tok_s"));
        let expected =
            Columns { commit: Some(6), metric: Some(1), memory: Some(2), status: Some(4), description: Some(5) };
        assert_eq!(columns, expected);
        let names = ["Commit Hash", "valBpb", "Peak Memory (GB)", "Kept", "Comments"];
        let columns = Columns::by_name(&names, Some("val_bpb"));
        let expected =
            Columns { commit: Some(0), metric: Some(1), memory: Some(2), status: Some(3), description: Some(4) };
        assert_eq!(columns, expected);
    }

    #[test]
    fn a_memory_column_says_its_unit_or_none() {
        for (name, unit) in [
            ("vram_peak_mb", Some(1024.0)),
            ("memory_gb", Some(1.0)),
            ("memoryGB", Some(1.0)),
            ("peak_memory_bytes", Some(1073741824.0)),
            ("VRAM", Some(1.0)),
            ("size_mb", None),
            ("memory_note", None),
        ] {
            assert_eq!(memory_unit(name), unit, "{name}");
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
            (&["heads", "width"], Some((0, false))),
            (&["training_seconds", "heads"], Some((1, false))),
            (&["runtime", "heads"], Some((1, false))),
            (&["time_elapsed", "mean_ms"], Some((1, true))),
            (&["id", "runtime"], Some((1, true))),
            (&["id", "date", "round", "tokens", "n_heads", "run_id", "old_loss", "acc_before", "num_steps"], None),
        ] {
            let columns = Columns::by_name(names, None);
            assert_eq!(columns.likely_metric(names, |_| true), expected, "{names:?}");
        }
    }
}
