//! A rule on the course of the numbers by which a loop stops.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text::as_text;
use super::count_of;
use super::values::{finite, positive};

/// A rule on the course of the numbers, written `kill`, `kill2`, `plateau:30` or `above:0.6:3`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StopRule {
    /// The composite has risen no more over many experiments, and is low.
    Kill,
    /// It has risen no more over a few, and no axis is weak.
    Kill2,
    /// So many experiments without a new best one.
    Plateau(u32),
    /// So many experiments in a row that are better than the threshold.
    Above {
        /// The threshold, in the metric's unit.
        threshold: f64,
        /// The number of experiments.
        times: u32,
    },
}

impl StopRule {
    /// Whether it looks at the axes of a composite.
    pub fn needs_composite(self) -> bool {
        matches!(self, StopRule::Kill | StopRule::Kill2)
    }

    /// What it waits for, after `until`.
    pub fn meaning(self) -> String {
        match self {
            StopRule::Kill => "the composite has stopped rising over 50 experiments and is below 0.55".into(),
            StopRule::Kill2 => "the composite has stopped rising over 5 experiments and no axis is weak".into(),
            StopRule::Plateau(times) => format!("{} bring no new best", count_of(times, "experiment")),
            StopRule::Above { threshold, times } => {
                format!("{} in a row are better than {threshold}", count_of(times, "experiment"))
            }
        }
    }
}

impl fmt::Display for StopRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopRule::Kill => f.write_str("kill"),
            StopRule::Kill2 => f.write_str("kill2"),
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
        match parts[..] {
            ["kill"] => Ok(StopRule::Kill),
            ["kill2"] => Ok(StopRule::Kill2),
            ["plateau", times] => positive(times).map(StopRule::Plateau).map_err(wrong),
            ["above", threshold, times] => {
                let threshold = finite(threshold).map_err(wrong)?;
                Ok(StopRule::Above { threshold, times: positive(times).map_err(wrong)? })
            }
            _ => Err(format!("`{text}` is not a stop rule; write kill, kill2, plateau:30 or above:0.6:3")),
        }
    }
}

as_text!(StopRule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_it_is_written() {
        for text in ["kill", "kill2", "plateau:30", "above:0.6:3", "above:-2:1"] {
            let rule: StopRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(serde_json::from_str::<StopRule>(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
        }
        for text in
            ["", "kill3", "kill:5", "plateau", "plateau:0", "plateau:x", "above:0.6", "above:nan:3", "above:1:0"]
        {
            assert!(text.parse::<StopRule>().is_err(), "{text}");
        }
    }
}
