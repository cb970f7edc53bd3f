//! Values that the user asks for: a goal, a margin, a threshold, the bound of a limit, or a rule on the course of the numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::setting_values::{finite, positive, share};
use super::{DEFAULT_FLOOR, Number, as_text, count_of};

/// A value to compare numbers with: `0.95`, `95%`, `0.2s`. A bare one is in the unit of the number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TargetText", into = "TargetText")]
pub struct Target(Number);

/// The form of a target in files: a number, or a text where it has a unit.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TargetText {
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
        // With all digits: limits and rules are stored as text.
        Target(Number::new(value, value.to_string()))
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

impl TryFrom<TargetText> for Target {
    type Error = String;

    fn try_from(written: TargetText) -> Result<Self, Self::Error> {
        match written {
            TargetText::Plain(value) => Ok(value.into()),
            TargetText::Text(text) => text.parse(),
        }
    }
}

impl From<Target> for TargetText {
    fn from(target: Target) -> Self {
        match (&target.0.printed, &target.0.unit) {
            (None, None) => TargetText::Plain(target.0.value),
            _ => TargetText::Text(target.0.text()),
        }
    }
}

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

/// The fewest numbers that have a slope.
const LEAST_WINDOW: u32 = 2;

/// A rule on the course of the numbers, written `kill`, `kill2:5:0.01:0.5`, `plateau:30` or `above:0.6:3`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StopRule {
    /// The values have stopped rising over many experiments, and are low.
    Kill {
        /// The number of values that it compares.
        window: u32,
        /// The rise per value below which it fires.
        slope: Target,
        /// The level below which it fires.
        level: Target,
    },
    /// They have stopped rising over a few experiments, and no axis is below its floor.
    Kill2 {
        /// The number of values that it compares.
        window: u32,
        /// The rise per value below which it fires.
        slope: f64,
        /// The default floor of an axis.
        floor: f64,
    },
    /// So many experiments without a new best one.
    Plateau(u32),
    /// So many experiments in a row that are better than the threshold.
    Above {
        /// The threshold.
        threshold: Target,
        /// The number of experiments.
        times: u32,
    },
}

impl StopRule {
    /// The Madani adapter's kill criterion.
    pub fn kill() -> StopRule {
        StopRule::Kill { window: 50, slope: 0.001.into(), level: 0.55.into() }
    }

    /// Its revision, which looks at the axes.
    pub const KILL2: StopRule = StopRule::Kill2 { window: 5, slope: 0.01, floor: DEFAULT_FLOOR };

    /// The rules of a research session for which none were asked: the revised kill criterion, and a plateau, since an
    /// agent with new findings on known ground ends by no other.
    pub const OF_RESEARCH: [StopRule; 2] = [StopRule::KILL2, StopRule::Plateau(30)];

    /// Returns whether it reads the axes of a composite.
    pub fn needs_composite(&self) -> bool {
        matches!(self, StopRule::Kill2 { .. })
    }

    /// The values that it compares with the metric's.
    pub fn targets(&self) -> Vec<&Target> {
        match self {
            StopRule::Kill { slope, level, .. } => vec![slope, level],
            StopRule::Above { threshold, .. } => vec![threshold],
            StopRule::Kill2 { .. } | StopRule::Plateau(_) => Vec::new(),
        }
    }

    /// Describes the condition, to follow `until`.
    pub fn meaning(&self) -> String {
        match self {
            StopRule::Kill { window, slope, level } => format!(
                "the metric has improved by less than {slope} an experiment over {window} experiments and is worse \
                 than {level}"
            ),
            StopRule::Kill2 { window, slope, floor } => format!(
                "the composite has risen by less than {slope} an experiment over {window} experiments and no axis is \
                 below its floor (by default {floor})"
            ),
            StopRule::Plateau(times) => format!("{} bring no new best", count_of(*times, "experiment")),
            StopRule::Above { threshold, times } => {
                format!("{} in a row are better than {threshold}", count_of(*times, "experiment"))
            }
        }
    }
}

impl fmt::Display for StopRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopRule::Kill { .. } if *self == StopRule::kill() => f.write_str("kill"),
            StopRule::Kill { window, slope, level } => write!(f, "kill:{window}:{slope}:{level}"),
            StopRule::Kill2 { .. } if *self == StopRule::KILL2 => f.write_str("kill2"),
            StopRule::Kill2 { window, slope, floor } => write!(f, "kill2:{window}:{slope}:{floor}"),
            StopRule::Plateau(times) => write!(f, "plateau:{times}"),
            StopRule::Above { threshold, times } => write!(f, "above:{threshold}:{times}"),
        }
    }
}

impl FromStr for StopRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.trim().split(':').collect();
        let wrong = |why: String| format!("`{text}`: {why}");
        let target = |text: &str| text.parse::<Target>().map_err(wrong);
        let count = |window: &str| match positive(window).map_err(wrong)? {
            window if window < LEAST_WINDOW => Err(wrong(format!("a slope needs at least {LEAST_WINDOW} numbers"))),
            window => Ok(window),
        };
        match parts[..] {
            ["kill"] => Ok(StopRule::kill()),
            ["kill", window, slope, level] => {
                Ok(StopRule::Kill { window: count(window)?, slope: target(slope)?, level: target(level)? })
            }
            ["kill2"] => Ok(StopRule::KILL2),
            ["kill2", window, slope, floor] => {
                let (slope, floor) = (finite(slope).map_err(wrong)?, share(floor).map_err(wrong)?);
                Ok(StopRule::Kill2 { window: count(window)?, slope, floor })
            }
            ["plateau", times] => positive(times).map(StopRule::Plateau).map_err(wrong),
            ["above", threshold, times] => {
                Ok(StopRule::Above { threshold: target(threshold)?, times: positive(times).map_err(wrong)? })
            }
            _ => Err(format!(
                "`{text}` is not a stop rule; write kill, kill:50:0.001:0.55, kill2, kill2:5:0.01:0.5, plateau:30 or \
                 above:0.6:3"
            )),
        }
    }
}

as_text!(StopRule);

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
            ("loss<=0.6931471805599453", "loss<=0.6931471805599453"),
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

    #[test]
    fn a_rule_reads_as_it_is_written() {
        for text in [
            "kill",
            "kill:40:0.002:0.6",
            "kill:9:1 ms:0.2 s",
            "kill2",
            "kill2:10:-0.01:0.3",
            "plateau:30",
            "above:0.6:3",
            "above:-2:1",
            "above:0.2 s:3",
            "above:95%:1",
        ] {
            let rule: StopRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(serde_json::from_str::<StopRule>(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
        }
        for (long, short) in [("kill:50:0.001:0.55", "kill"), ("kill2:5:0.01:0.5", "kill2")] {
            assert_eq!(long.parse::<StopRule>().unwrap().to_string(), short);
        }
        let wrong = ["", "kill3", "kill:5", "kill:1:0:0", "kill:50:x:0.5", "kill2:5:0.01:1.5", "kill2:0:0.01:0.5"];
        for text in wrong.iter().chain(&["plateau", "plateau:0", "plateau:x", "above:0.6", "above:nan:3", "above:1:0"])
        {
            assert!(text.parse::<StopRule>().is_err(), "{text}");
        }
    }
}
