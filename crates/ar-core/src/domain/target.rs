//! A value that the user asks for: a goal, a margin, a threshold, or the bound of a limit.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Number;

/// A value to compare numbers with: `0.95`, `95%`, `0.2s`. A bare one is in the unit of the number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Target(Number);

/// The form of a target in files: a number, or a text where it has a unit.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(f64),
    Text(String),
}

impl Target {
    /// Its value in the unit of a number; absent where the two do not compare.
    pub fn beside(&self, number: &Number) -> Option<f64> {
        self.0.or_unit_of(number).like(number).map(|own| own.value)
    }

    /// Its value in the unit of a number that it compares with; as it was written where no such number is known.
    pub fn value(&self, number: Option<&Number>) -> f64 {
        number.and_then(|number| self.beside(number)).unwrap_or(self.0.value)
    }
}

impl From<f64> for Target {
    fn from(value: f64) -> Self {
        Target(Number::of(value))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = Number::with_unit(text).ok_or("must be a number, with a unit if it has one")?;
        let is_plain = number.printed.is_none() && number.unit.is_none();
        Ok(if is_plain { number.value.into() } else { Target(number) })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text())
    }
}

impl TryFrom<Written> for Target {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match written {
            Written::Plain(value) => Ok(value.into()),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Target> for Written {
    fn from(target: Target) -> Self {
        match (&target.0.printed, &target.0.unit) {
            (None, None) => Written::Plain(target.0.value),
            _ => Written::Text(target.0.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_in_the_unit_of_what_it_is_compared_with() {
        for (target, number, expected) in [
            ("100", "90 ms", Some(100.0)),
            ("0.2s", "90 ms", Some(200.0)),
            ("95%", "0.6", Some(0.95)),
            ("95%", "60", Some(95.0)),
            ("0.95", "0.6", Some(0.95)),
            ("41 GB", "38 GB", Some(41.0)),
            ("40G", "38000 MB", Some(40000.0)),
            ("12k", "9000", Some(12000.0)),
            ("0.2s", "90", None),
            ("3 MB", "90 ms", None),
        ] {
            let number = Number::with_unit(number).unwrap();
            assert_eq!(target.parse::<Target>().unwrap().beside(&number), expected, "{target}: {number}");
        }
    }

    #[test]
    fn a_target_without_a_unit_is_stored_as_a_number() {
        for (text, stored) in [("0.95", "0.95"), ("95%", "\"95%\""), ("0.2s", "\"0.2 s\""), ("12k", "\"12k\"")] {
            let target: Target = text.parse().unwrap();
            assert_eq!(serde_json::to_string(&target).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Target>(stored).unwrap().to_string(), target.to_string());
        }
        for text in ["", "x", "inf", "1<=2"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
