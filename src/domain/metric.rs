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

/// Parts of a metric's name that say that more is better. Digits may follow, as in `map50`.
const HIGHER_IS_BETTER: &[&str] = &[
    "acc",
    "accuracy",
    "auc",
    "auroc",
    "bleu",
    "dice",
    "elo",
    "f1",
    "flops",
    "fps",
    "gain",
    "gflops",
    "improvement",
    "iou",
    "kappa",
    "map",
    "mcc",
    "mfu",
    "mrr",
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
    "speed",
    "speedup",
    "ssim",
    "tflops",
    "throughput",
    "top1",
    "top5",
    "utilization",
    "win",
    "winrate",
];

/// Two parts of a name that say it together.
const HIGHER_TOGETHER: &[[&str; 2]] =
    &[["exact", "match"], ["hit", "rate"], ["pass", "rate"], ["success", "rate"], ["win", "rate"]];

/// Units of throughput, as the end of a name.
const PER_SECOND: &[&str] = &["_s", "_sec", "_second", "ps"];

/// What a throughput counts.
const COUNTED: &[&str] = &[
    "tok", "token", "tokens", "sample", "samples", "img", "images", "it", "iter", "iters", "step", "steps", "req",
    "requests", "flop", "flops", "items", "per", "bytes", "mb", "gb",
];

impl Direction {
    /// Whether `name` reads as a metric of which more is better, so that a direction must be said.
    pub fn is_unclear_for(name: &str) -> bool {
        let plain: String = name.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let parts: Vec<&str> = plain.split('_').filter(|part| !part.is_empty()).collect();
        let is_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
        let per_second = PER_SECOND.iter().filter_map(|unit| plain.strip_suffix(unit)).any(|rest| {
            let counted = rest.trim_end_matches("_per").rsplit('_').next();
            counted.is_some_and(|counted| COUNTED.contains(&counted))
        });
        let alone = parts.iter().any(|part| {
            let without_digits = part.trim_end_matches(|c: char| c.is_ascii_digit());
            HIGHER_IS_BETTER.contains(part) || HIGHER_IS_BETTER.contains(&without_digits)
        });
        let together = parts.windows(2).any(|pair| {
            // pass@k
            HIGHER_TOGETHER.iter().any(|known| known == pair) || pair[0] == "pass" && is_digits(pair[1])
        });
        per_second || alone || together
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
        match Number::value_of(text) {
            Some(value) => Ok(Number { value, raw: text.to_owned() }),
            None => Err(NumberError(text.to_owned())),
        }
    }
}

impl Number {
    /// The value of a text that is a finite number.
    pub fn value_of(text: &str) -> Option<f64> {
        // `f64::from_str` also takes `inf`, `nan` and `infinity`.
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// How many digits stand behind the decimal point where the number is written without an exponent: 3 for
    /// `0.125`, 8 for `1.5e-7`, 0 for `1.5e7`.
    pub fn decimals(&self) -> usize {
        let (mantissa, exponent) = self.raw.split_once(['e', 'E']).unwrap_or((&self.raw, "0"));
        let written = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let exponent = exponent.parse::<i64>().unwrap_or(0);
        usize::try_from((written as i64).saturating_sub(exponent)).unwrap_or(0)
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
    /// Beside its name in the log.
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
            "success_rate",
            "pass_rate",
            "hit_rate",
            "tok/s",
            "tokens/sec",
            "samples/s",
            "elo",
            "mAP50",
            "map_50",
            "pass@1",
            "top1",
            "top5",
            "dice",
            "exact_match",
            "win_rate",
            "gain",
            "improvement_pct",
            "mrr",
            "kappa",
            "mcc",
            "speed",
            "tflops",
            "gflops",
            "flops",
            "utilization",
        ] {
            assert!(Direction::is_unclear_for(name), "{name}");
        }
        for name in [
            "val_bpb",
            "loss",
            "val_loss",
            "rmse",
            "mae",
            "ppl",
            "perplexity",
            "error_rate",
            "latency_ms",
            "time_s",
            "seconds",
            "mean_ms",
            "avg_bpc",
            "wer",
            "cer",
            "fid",
            "train_s",
            "memory_gb",
            "heap_mb",
        ] {
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

    #[test]
    fn decimals_are_those_of_the_number_without_an_exponent() {
        for (text, decimals) in
            [("3", 0), ("0.125", 3), ("1.5e-7", 8), ("1.50E-7", 9), ("2e+3", 0), ("1.2345e2", 2), ("-1.0", 1)]
        {
            assert_eq!(text.parse::<Number>().map(|number| number.decimals()), Ok(decimals), "{text}");
        }
    }
}
