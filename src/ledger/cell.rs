//! Recognises numbers in cells.

use strum::VariantArray;

use crate::domain::{LedgerDialect, Number, Unit};

/// Words that stand where a number is missing.
const NOTHING: &[&str] =
    &["", "-", "--", "—", "n/a", "na", "nan", "none", "null", "nil", "oom", "fail", "failed", "crash"];

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

/// The number that is all of a cell, with its unit or scale.
pub(super) fn quantity(cell: &str) -> Option<Number> {
    let cell = cell.trim();
    if let Ok(plain) = cell.parse() {
        return Some(plain);
    }
    let may_be =
        cell.len() <= LONGEST && cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
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
