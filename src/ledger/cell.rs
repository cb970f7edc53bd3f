//! Recognises numbers in cells.

use std::borrow::Cow;

use strum::VariantArray;

use crate::domain::{LedgerDialect, Number};

/// Words that stand where a number is missing.
const NOTHING: &[&str] =
    &["", "-", "--", "—", "n/a", "na", "nan", "none", "null", "nil", "oom", "fail", "failed", "crash"];

/// Units that may follow a number; a count a second of anything is one too. `K` and `M` are none: they change the number.
const UNITS: &[&str] = &[
    "%", "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "min", "mins", "minutes", "h", "hours",
    "b", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib", "x", "pp", "bpb", "bits", "nats", "db", "hz",
    "w", "fps",
];

/// Longest number with its unit, in bytes.
const LONGEST: usize = 64;

/// Units of memory, and how many of each make a GiB; `kB` and `KiB` count the same.
const MEMORY: &[(&str, f64)] = &[
    ("tb", 1.0 / 1024.0),
    ("tib", 1.0 / 1024.0),
    ("gb", 1.0),
    ("gib", 1.0),
    ("mb", 1024.0),
    ("mib", 1024.0),
    ("kb", 1048576.0),
    ("kib", 1048576.0),
    ("b", 1073741824.0),
    ("bytes", 1073741824.0),
];

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

/// A number with the unit that stands behind it; blank where there is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantity<'a> {
    /// Finite.
    pub(super) value: f64,
    /// The number's own text, without signs that group its digits.
    pub(super) digits: Cow<'a, str>,
    pub(super) unit: &'a str,
}

impl Quantity<'_> {
    /// It as memory in GiB, in a column of this unit unless it has one itself; absent for zero, which says that nobody
    /// measured it.
    pub(super) fn memory(&self, column_unit: f64) -> Option<f64> {
        let factor = if self.unit.is_empty() { column_unit } else { memory_factor(self.unit)? };
        (self.value > 0.0).then_some(self.value / factor)
    }
}

/// The number and unit that are all of a cell. Commas group thousands where they cannot be a decimal comma: two of them, or a
/// decimal point behind.
pub(super) fn quantity(cell: &str) -> Option<Quantity<'_>> {
    let cell = cell.trim();
    if let Some(value) = Number::value_of(cell) {
        return Some(Quantity { value, digits: Cow::Borrowed(cell), unit: "" });
    }
    if cell.len() > LONGEST || !cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    // `e` may be an exponent or begin a unit, so the longest number wins.
    let ends = cell.char_indices().rev().map(|(at, c)| at + c.len_utf8());
    for end in ends.filter(|&end| cell[..end].ends_with(|c: char| c.is_ascii_digit() || c == '.')) {
        let Some((value, digits)) = plain(&cell[..end]) else { continue };
        let unit = cell[end..].trim();
        let per_second = unit.strip_suffix("/s").or(unit.strip_suffix("/sec"));
        let known = unit.is_empty()
            || UNITS.iter().any(|known| unit.eq_ignore_ascii_case(known))
            || per_second.is_some_and(|counted| !counted.is_empty() && counted.chars().all(char::is_alphabetic));
        return known.then_some(Quantity { value, digits, unit });
    }
    None
}

/// Returns how many of a unit make a GiB; absent if it is not a unit of memory.
pub(super) fn memory_factor(unit: &str) -> Option<f64> {
    MEMORY.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).map(|(_, factor)| *factor)
}

fn plain(text: &str) -> Option<(f64, Cow<'_, str>)> {
    let bare = || without_groups(text).and_then(|bare| Some((Number::value_of(&bare)?, Cow::Owned(bare))));
    Number::value_of(text).map(|value| (value, Cow::Borrowed(text))).or_else(bare)
}

fn without_groups(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next().is_some_and(|first| is_digits(first) && first.len() <= 3);
    let (count, rest) =
        groups.fold((0, true), |(count, fits), group| (count + 1, fits && is_digits(group) && group.len() == 3));
    let clear = count >= 2 || (count == 1 && fraction.is_some());
    (first && rest && clear && fraction.is_none_or(is_digits)).then(|| text.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_number_with_a_unit_that_does_not_change_it() {
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
            ("3.1K", None),
            ("5M", None),
            ("1,234", None),
            ("1,5", None),
            ("1.234,5", None),
            ("12,34,567", None),
            ("1m7.5s", None),
            ("1/20", None),
            ("2026-01-01", None),
            ("score=~0.5", None),
            ("~0.5", None),
            ("inf", None),
            ("1e999", None),
            ("0x1F", None),
            ("5 (best)", None),
            ("/s", None),
            ("5 /s", None),
            ("", None),
        ] {
            let found =
                quantity(cell).map(|Quantity { digits, unit, .. }| format!("{digits} {unit}").trim().to_owned());
            assert_eq!(found.as_deref(), expected, "{cell}");
        }
    }

    fn memory(cell: &str, column_unit: f64) -> Option<f64> {
        quantity(cell)?.memory(column_unit)
    }

    #[test]
    fn memory_is_in_the_unit_of_its_cell_else_of_its_column() {
        let cases = [("14.3 GB", 1024.0, Some(14.3)), ("1024MB", 1.0, Some(1.0)), ("2048", 1024.0, Some(2.0))];
        for (cell, unit, expected) in cases {
            assert_eq!(memory(cell, unit), expected, "{cell}");
        }
        for cell in ["0.0", "0", "oom", "", "-1", "3 s"] {
            assert_eq!(memory(cell, 1.0), None, "{cell}");
        }
    }
}
