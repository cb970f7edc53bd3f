//! A rule on the course of the numbers by which a loop stops.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text::as_text;
use super::values::{finite, positive, share};
use super::{DEFAULT_FLOOR, Target, count_of};

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
