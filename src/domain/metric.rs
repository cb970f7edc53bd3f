//! A metric: its name and where to find its value.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::unit::shifted;
use super::{Direction, Suffix, Unit, duration};

/// A finite number with its unit and the text from which it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The value; always finite.
    pub value: f64,
    /// The digits of the value: as printed, without signs that group them, unless it was scaled or converted.
    pub raw: String,
    /// The text as printed, if its digits are not those of the value: `12.22k`, `1m 2.5s`, `980 ms` where seconds count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// The unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

impl Number {
    /// A number without a unit.
    pub fn new(value: f64, raw: impl Into<String>) -> Number {
        Number { value, raw: raw.into(), printed: None, unit: None }
    }

    /// The number of these digits, with the scale and the unit behind them; `text` is all of it, as printed.
    pub fn with_suffix(digits: &str, text: &str, suffix: Suffix) -> Option<Number> {
        let number = Number { unit: suffix.unit, ..digits.parse::<Number>().ok()? };
        if suffix.exponent == 0 {
            return Some(number);
        }
        let value = Some(shifted(number.value, suffix.exponent)).filter(|value| value.is_finite())?;
        Some(Number { value, raw: value.to_string(), printed: Some(text.to_owned()), ..number })
    }

    /// A time in several parts: `1m 2.5s`, `00:01:05`.
    pub fn of_duration(seconds: f64, text: &str) -> Number {
        Number { printed: Some(text.to_owned()), unit: Some(Unit::seconds()), ..Number::of(seconds) }
    }

    /// Reads a text that is nothing but a number, with its unit or scale: `0.2s`, `95%`, `3.1K`, `1m 2.5s`, `1,234.5 ms`.
    pub fn with_unit(text: &str) -> Option<Number> {
        let text = text.trim();
        if let Some((seconds, _)) = duration(text).filter(|(_, length)| *length == text.len()) {
            return Some(Number::of_duration(seconds, text));
        }
        // `e` may be an exponent or begin a unit, so the longest number wins.
        let ends = text.char_indices().rev().map(|(at, c)| at + c.len_utf8());
        ends.filter(|&end| text[..end].ends_with(|c: char| c.is_ascii_digit() || c == '.')).find_map(|end| {
            let suffix = Suffix::of(&text[end..]);
            let is_all = end + suffix.length == text.len();
            is_all.then(|| Number::with_suffix(&without_groups(&text[..end])?, text, suffix)).flatten()
        })
    }

    /// The text as printed, with its unit: `980 ms`, `90.2%`, `12.22k`.
    pub fn text(&self) -> String {
        match (&self.printed, &self.unit) {
            (Some(printed), _) => printed.clone(),
            (None, Some(unit)) if unit.is_percent() => format!("{}{unit}", self.raw),
            (None, Some(unit)) => format!("{} {unit}", self.raw),
            (None, None) => self.raw.clone(),
        }
    }

    /// It in another unit of the same dimension.
    pub fn converted(&self, to: &Unit) -> Option<Number> {
        let value = self.unit.as_ref()?.convert(self.value, to)?;
        let unit = Some(to.clone());
        if value == self.value {
            return Some(Number { unit, ..self.clone() });
        }
        Some(Number { printed: Some(self.text()), unit, ..Number::of(value) })
    }

    /// Serialises the fields of a number that may be absent; each of them is `null` then.
    pub fn fields<S: Serializer>(number: &Option<Number>, serializer: S) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => number.serialize(serializer),
            None => serializer.collect_map([("value", ()), ("raw", ())]),
        }
    }
}

/// The error for a text that is not a [`Number`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a finite number")]
pub struct NumberError(String);

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Number::value_of(text) {
            Some(value) => Ok(Number::new(value, text)),
            None => Err(NumberError(text.to_owned())),
        }
    }
}

impl Number {
    /// Parses a finite number; `None` also if non-zero digits underflow to zero.
    pub fn value_of(text: &str) -> Option<f64> {
        // `f64::from_str` also takes `inf`, `nan` and `infinity`.
        text.parse().ok().filter(|value: &f64| value.is_finite() && (*value != 0.0 || is_zero(text)))
    }

    /// A number that was not read from a text, with the shortest digits that give it back.
    pub fn of(value: f64) -> Number {
        Number::new(value, value.to_string())
    }

    /// The number of decimals without an exponent: 3 for `0.125`, 8 for `1.5e-7`, 0 for `1.5e7`.
    pub fn decimals(&self) -> usize {
        let (mantissa, exponent) = self.raw.split_once(['e', 'E']).unwrap_or((&self.raw, "0"));
        let written = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let exponent = exponent.parse::<i64>().unwrap_or(0);
        usize::try_from((written as i64).saturating_sub(exponent)).unwrap_or(0)
    }
}

/// The digits of a number without the commas that group them in threes; absent where commas group nothing.
fn without_groups(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let first = groups.next().map_or(0, str::len);
    let mut rest = groups.peekable();
    let is_grouped = rest.peek().is_none() || (1..=3).contains(&first);
    (is_grouped && !fraction.contains(',') && rest.all(|group| group.len() == 3)).then(|| text.replace(',', ""))
}

/// Returns whether the digits before an exponent are all zeros.
fn is_zero(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    !mantissa.contains(|c: char| ('1'..='9').contains(&c))
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.raw)
    }
}

/// What a number in a log is of, if not of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOf {
    /// The last of several folds, seeds, splits, classes or tasks, where the log has no mean.
    Split,
    /// One of several processes, none of which is rank 0.
    Process,
}

impl PartOf {
    /// Describes it, as a clause behind a number.
    pub fn text(self) -> &'static str {
        match self {
            PartOf::Split => "the last of several folds, seeds, classes or tasks, of which the log has no mean",
            PartOf::Process => "of one of several processes, none of which is rank 0",
        }
    }
}

/// The place to read a metric's value from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// Beside its name in the log.
    #[default]
    Log,
    /// In the single group of this pattern, anywhere in the log.
    Regex(String),
    /// In a file that the run writes.
    File {
        /// The file, relative to the root of the working tree, or a pattern whose newest file counts.
        path: PathBuf,
        /// The JSON pointer (RFC 6901) to the number, or the column of a table; empty for the field of the metric's name.
        pointer: String,
    },
}

impl fmt::Display for MetricSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricSource::Log => f.write_str("the log"),
            MetricSource::Regex(pattern) => f.write_str(pattern),
            MetricSource::File { path, pointer } if pointer.is_empty() => write!(f, "{}", path.display()),
            MetricSource::File { path, pointer } => write!(f, "{}:{pointer}", path.display()),
        }
    }
}

/// A metric: its name, its direction and where its number stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// The name, literally as the log prints it.
    pub name: String,
    /// The metric's direction.
    pub direction: Direction,
    /// The place to read its value from.
    #[serde(default)]
    pub source: MetricSource,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_finite_and_keeps_its_text() {
        let number: Number = "1.834200".parse().unwrap();
        assert_eq!((number.value, number.to_string().as_str()), (1.8342, "1.834200"));
        for text in ["0", "-0.0", "0e-999", "0.000e5"] {
            assert!(text.parse::<Number>().is_ok_and(|number| number.value == 0.0), "{text}");
        }
        for text in ["nan", "inf", "-inf", "infinity", "1e999", "1e-999", "-0.001E-400", "", "word"] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_is_a_number_with_its_unit() {
        for (text, expected) in [
            ("0.2s", Some((0.2, "0.2", "0.2 s", Some("s")))),
            ("95 %", Some((95.0, "95", "95%", Some("%")))),
            ("12.22k", Some((12220.0, "12220", "12.22k", None))),
            ("1.21 M", Some((1_210_000.0, "1210000", "1.21 M", None))),
            ("1m 2.5s", Some((62.5, "62.5", "1m 2.5s", Some("s")))),
            ("1,234.5 ms", Some((1234.5, "1234.5", "1234.5 ms", Some("ms")))),
            ("2,056", Some((2056.0, "2056", "2056", None))),
            ("-1e-3", Some((-0.001, "-1e-3", "-1e-3", None))),
            ("1,5", None),
            ("12,34,567", None),
            ("1.234,5", None),
            ("0.5 (best)", None),
            ("1/20", None),
            ("nan", None),
            ("", None),
        ] {
            let found = Number::with_unit(text);
            let found =
                found.as_ref().map(|it| (it.value, it.raw.as_str(), it.text(), it.unit.as_ref().map(Unit::to_string)));
            let expected =
                expected.map(|(value, raw, text, unit)| (value, raw, text.to_owned(), unit.map(str::to_owned)));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_converted_number_keeps_what_was_printed() {
        let number = Number::with_unit("980 ms").and_then(|it| it.converted(&Unit::seconds())).unwrap();
        assert_eq!((number.value, number.raw.as_str(), number.text().as_str()), (0.98, "0.98", "980 ms"));
        assert_eq!(serde_json::from_str::<Number>(&serde_json::to_string(&number).unwrap()).unwrap(), number);
        assert_eq!(serde_json::from_str::<Number>(r#"{"value":1.5,"raw":"1.50"}"#).unwrap(), Number::new(1.5, "1.50"));
    }

    #[test]
    fn decimals_are_those_of_the_number_without_an_exponent() {
        for (text, decimals) in
            [("3", 0), ("0.125", 3), ("1.5e-7", 8), ("1.50E-7", 9), ("2e+3", 0), ("1.2345e2", 2), ("-1.0", 1)]
        {
            assert_eq!(text.parse::<Number>().map(|number| number.decimals()), Ok(decimals), "{text}");
        }
    }
}
