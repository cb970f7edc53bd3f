//! A bound on a value in the log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text::as_text;
use super::{Number, Target};

/// The comparison of a value with a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Comparison {
    /// `<`
    #[strum(to_string = "<")]
    Less,
    /// `<=`
    #[strum(to_string = "<=")]
    AtMost,
    /// `>`
    #[strum(to_string = ">")]
    More,
    /// `>=`
    #[strum(to_string = ">=")]
    AtLeast,
}

impl Comparison {
    /// Returns whether `value` satisfies the comparison with `bound`; false for NaN.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::Less => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::More => value > bound,
            Comparison::AtLeast => value >= bound,
        }
    }
}

/// A bound that an experiment must satisfy, written `memory_gb<=40`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Limit {
    /// The name of the value in the log, or `memory_gb`.
    pub name: String,
    /// The comparison.
    pub comparison: Comparison,
    /// The bound.
    pub bound: Target,
}

/// A text that is not a [`Limit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a limit; write it like memory_gb<=40, with one of < <= > >=")]
pub struct LimitError(String);

impl Limit {
    /// Returns whether a number satisfies it; false if it does not compare with the bound.
    pub fn holds(&self, number: &Number) -> bool {
        self.bound.beside(number).is_some_and(|bound| self.comparison.holds(number.value, bound))
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trouble = || LimitError(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(trouble)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let signs =
            [(">=", Comparison::AtLeast), ("<=", Comparison::AtMost), (">", Comparison::More), ("<", Comparison::Less)];
        let found = signs.into_iter().find_map(|(sign, comparison)| Some((rest.strip_prefix(sign)?, comparison)));
        let (bound, comparison) = found.ok_or_else(trouble)?;
        match bound.trim().parse() {
            Ok(bound) if !name.is_empty() && !name.contains('=') => {
                Ok(Limit { name: name.to_owned(), comparison, bound })
            }
            _ => Err(trouble()),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, self.comparison, self.bound)
    }
}

as_text!(Limit);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_as_it_is_written() {
        for (text, back) in [
            ("memory_gb<=40", "memory_gb<=40"),
            (" mfu >= 0.35 ", "mfu>=0.35"),
            ("loss/val< 1e-3", "loss/val<0.001"),
            ("x>-2", "x>-2"),
            ("latency_ms<=0.2s", "latency_ms<=0.2 s"),
            ("memory_gb<41 GB", "memory_gb<41 GB"),
            ("acc>=95%", "acc>=95%"),
            ("p99 latency <= 5 ms", "p99 latency<=5 ms"),
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit.to_string(), back);
            assert_eq!(serde_json::from_str::<Limit>(&serde_json::to_string(&limit).unwrap()).unwrap(), limit);
        }
        for text in ["", "memory_gb", "memory_gb=40", "<=40", "m<=", "m<=x", "m<=inf", "m=<4", "m<=1<=2"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bound_is_kept_or_not() {
        for (text, value, holds) in [
            ("m<=4", 4.0, true),
            ("m<4", 4.0, false),
            ("m>=4", 4.0, true),
            ("m>4", 4.0, false),
            ("m>4", f64::NAN, false),
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit.holds(&Number::of(value)), holds, "{text}");
        }
    }
}
