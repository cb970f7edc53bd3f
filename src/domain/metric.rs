//! What is measured: a metric's name, where its number stands, and which way is better.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which way the metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Less is better: losses, errors, times.
    #[default]
    Lower,
    /// More is better: accuracies, rewards, throughputs.
    Higher,
}

/// Parts of a metric's name that say that higher is better; DESIGN section 3.
const HIGHER_IS_BETTER: &[&str] = &[
    "acc",
    "accuracy",
    "auc",
    "auroc",
    "bleu",
    "f1",
    "fps",
    "iou",
    "map",
    "mfu",
    "ndcg",
    "precision",
    "psnr",
    "r2",
    "recall",
    "return",
    "reward",
    "rouge",
    "score",
    "sharpe",
    "spearman",
    "speedup",
    "ssim",
    "throughput",
    "win",
    "winrate",
];

/// Units of throughput, as the part of a name in front of a closing `_s`, `_sec` or `per_sec`.
const PER_SECOND: &[&str] = &["_s", "_sec", "_second", "ps"];

impl Direction {
    /// Whether `name` reads as a metric of which more is better, so that a direction must be said.
    pub fn is_unclear_for(name: &str) -> bool {
        let lower = name.to_lowercase();
        let mut parts = lower.split(|c: char| !c.is_alphanumeric());
        let per_second = PER_SECOND.iter().any(|unit| {
            lower.strip_suffix(unit).is_some_and(|rest| {
                [
                    "tok", "token", "tokens", "sample", "samples", "img", "images", "it", "iter", "iters", "step",
                    "steps", "req", "requests", "flop", "flops", "items", "per", "bytes", "mb", "gb",
                ]
                .iter()
                .any(|quantity| rest.trim_end_matches("_per").rsplit('_').next() == Some(*quantity))
            })
        });
        per_second || parts.any(|part| HIGHER_IS_BETTER.contains(&part))
    }

    /// Whether `a` is strictly better than `b`.
    pub fn better(self, a: f64, b: f64) -> bool {
        self.gain(a, b) > 0.0
    }

    /// How much better `a` is than `b`, in the metric's unit; negative when it is worse.
    pub fn gain(self, a: f64, b: f64) -> f64 {
        match self {
            Direction::Lower => b - a,
            Direction::Higher => a - b,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Lower => "lower",
            Direction::Higher => "higher",
        })
    }
}

/// A finite number together with the text it was read from.
///
/// `raw` is the number's own text, without a unit or a percent sign that was glued to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The value; always finite.
    pub value: f64,
    /// The digits as they were printed.
    pub raw: String,
}

/// Why a text is no [`Number`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a finite number")]
pub struct NumberError(String);

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // `f64::from_str` also takes `inf`, `nan` and `infinity`.
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Number { value, raw: text.to_owned() }),
            _ => Err(NumberError(text.to_owned())),
        }
    }
}

impl Number {
    /// How many digits stand behind the decimal point; 0 for numbers in scientific notation.
    pub fn decimals(&self) -> usize {
        if self.raw.contains(['e', 'E']) {
            return 0;
        }
        self.raw.split_once('.').map_or(0, |(_, fraction)| fraction.len())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.raw)
    }
}

/// Where a metric's number stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// Beside its name in the log; DESIGN section 6.
    #[default]
    Log,
    /// In the one group of this pattern, wherever it matches in the log.
    Regex(String),
    /// In a JSON file that the run writes.
    File {
        /// The file, relative to the root of the working tree.
        path: PathBuf,
        /// The JSON pointer (RFC 6901) to the number; empty for the whole document.
        pointer: String,
    },
}

/// A metric: its name, its direction and where its number stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// The name, literally as the log prints it.
    pub name: String,
    /// Which way is better.
    pub direction: Direction,
    /// Where the number stands.
    #[serde(default)]
    pub source: MetricSource,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_higher_is_better_need_a_direction() {
        for name in [
            "accuracy",
            "val_acc",
            "reward",
            "f1",
            "val_f1",
            "throughput",
            "tok_s",
            "tok_per_sec",
            "mfu",
            "eval/accuracy",
            "F1",
            "steps_per_second",
            "win_rate",
        ] {
            assert!(Direction::is_unclear_for(name), "{name}");
        }
        for name in
            ["val_bpb", "loss", "val_loss", "rmse", "avg_bpc", "time_s", "train_s", "ppl", "latency_ms", "mean_ms"]
        {
            assert!(!Direction::is_unclear_for(name), "{name}");
        }
    }

    #[test]
    fn a_number_is_finite_and_keeps_its_text() {
        let number: Number = "1.834200".parse().unwrap();
        assert_eq!((number.value, number.to_string().as_str()), (1.8342, "1.834200"));
        for text in ["nan", "inf", "-inf", "infinity", "1e999", "", "word"] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
    }
}
