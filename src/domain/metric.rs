//! A metric: its name and where to find its value.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::Direction;

/// A finite number with the text from which it was read.
///
/// `raw` is the number's own text, without an attached unit or percent sign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The value; always finite.
    pub value: f64,
    /// The digits as printed.
    pub raw: String,
}

impl Number {
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
            Some(value) => Ok(Number { value, raw: text.to_owned() }),
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
        Number { value, raw: value.to_string() }
    }

    /// The number of decimals without an exponent: 3 for `0.125`, 8 for `1.5e-7`, 0 for `1.5e7`.
    pub fn decimals(&self) -> usize {
        let (mantissa, exponent) = self.raw.split_once(['e', 'E']).unwrap_or((&self.raw, "0"));
        let written = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let exponent = exponent.parse::<i64>().unwrap_or(0);
        usize::try_from((written as i64).saturating_sub(exponent)).unwrap_or(0)
    }
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

/// The place to read a metric's value from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// Beside its name in the log.
    #[default]
    Log,
    /// In the single group of this pattern, anywhere in the log.
    Regex(String),
    /// In a JSON file that the run writes.
    File {
        /// The file, relative to the root of the working tree.
        path: PathBuf,
        /// The JSON pointer (RFC 6901) to the number; empty for the whole document.
        pointer: String,
    },
}

impl fmt::Display for MetricSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricSource::Log => f.write_str("the log"),
            MetricSource::Regex(pattern) => f.write_str(pattern),
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
    fn decimals_are_those_of_the_number_without_an_exponent() {
        for (text, decimals) in
            [("3", 0), ("0.125", 3), ("1.5e-7", 8), ("1.50E-7", 9), ("2e+3", 0), ("1.2345e2", 2), ("-1.0", 1)]
        {
            assert_eq!(text.parse::<Number>().map(|number| number.decimals()), Ok(decimals), "{text}");
        }
    }
}
