//! The direction of a metric, and what its name suggests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{WordList, word_list};

/// The metric direction: lower or higher values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Lower is better: losses, errors, times.
    #[default]
    Lower,
    /// Higher is better: accuracies, rewards, throughputs.
    Higher,
}

/// The part of a metric's name that suggests a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A word for quality: `loss`, `accuracy`.
    Quality,
    /// A count per unit of time: `tok_s`, `steps_per_sec`.
    Rate,
    /// A unit of time at the end: `mean_ms`, `train_seconds`.
    Duration,
}

use Direction::{Higher, Lower};
use NameKind::{Duration, Quality, Rate};

/// Words of quality in a metric's name that suggest its direction. Digits may follow, as in `map50`.
static LOWER_IS_BETTER: WordList = WordList::new(|| word_list(include_str!("lists/lower_is_better.txt")));
static HIGHER_IS_BETTER: WordList = WordList::new(|| word_list(include_str!("lists/higher_is_better.txt")));

/// The same for times and rates.
const TIMES: &[&str] = &["duration", "elapsed", "runtime", "time", "walltime"];
const RATES: &[&str] = &["flops", "fps", "gflops", "mfu", "speed", "speedup", "tflops", "throughput", "utilization"];

/// Pairs of words that together suggest that higher is better.
const HIGHER_TOGETHER: &[[&str; 2]] =
    &[["exact", "match"], ["hit", "rate"], ["pass", "rate"], ["success", "rate"], ["win", "rate"]];

/// Units of time.
static TIME_UNITS: WordList = WordList::new(|| word_list(include_str!("lists/time_units.txt")));

/// Units that follow a counted thing directly, as in `tok_s`.
const SECOND: &[&str] = &["s", "sec", "second"];

/// Things that a throughput counts.
const COUNTED: &[&str] = &[
    "tok", "token", "tokens", "sample", "samples", "img", "images", "it", "iter", "iters", "step", "steps", "req",
    "requests", "flop", "flops", "items", "bytes", "mb", "gb",
];

impl Direction {
    /// The direction that a metric's name suggests: by its unit of time, else by its last telling word.
    pub fn of_name(name: &str) -> Option<(Direction, NameKind)> {
        let lower: String = name.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        of_words(&lower).or_else(|| of_words(&plain_name(name)))
    }

    /// Returns whether `name` suggests that higher is better, so that the user must pass a direction.
    pub fn is_unclear_for(name: &str) -> bool {
        Direction::of_name(name).is_some_and(|(direction, _)| direction == Higher)
    }

    /// Returns whether `a` is strictly better than `b`.
    pub fn better(self, a: f64, b: f64) -> bool {
        self.gain(a, b) > 0.0
    }

    /// Returns the gain of `a` over `b`, in the metric's unit; negative if `a` is worse.
    pub fn gain(self, a: f64, b: f64) -> f64 {
        match self {
            Lower => b - a,
            Higher => a - b,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lower => "lower",
            Higher => "higher",
        })
    }
}

/// Converts a name to snake case: `Commit Hash`, `commitHash` and `commit-hash` become `commit_hash`.
pub fn plain_name(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut after_small = false;
    for c in name.chars() {
        let gap = !c.is_alphanumeric();
        if (gap || (after_small && c.is_uppercase())) && !plain.is_empty() && !plain.ends_with('_') {
            plain.push('_');
        }
        if !gap {
            plain.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase();
    }
    plain.truncate(plain.trim_end_matches('_').len());
    plain
}

/// The direction that a name in snake case suggests.
fn of_words(name: &str) -> Option<(Direction, NameKind)> {
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let (last, before) = words.split_last()?;
    if let Some(per) = words.iter().position(|word| *word == "per") {
        // `tokens_per_sec` is a rate, `ms_per_token` a time.
        if words.get(per + 1).is_some_and(|unit| TIME_UNITS.contains(unit)) {
            let is_worse = words[..per].iter().any(|word| of_word(word).is_some_and(|(told, _)| told == Lower));
            return Some((if is_worse { Lower } else { Higher }, Rate));
        }
        if words[..per].last().is_some_and(|unit| TIME_UNITS.contains(unit)) {
            return Some((Lower, Duration));
        }
    }
    let is_counted = |word: &str| COUNTED.contains(&word);
    let glued = last.strip_suffix("ps").is_some_and(is_counted);
    if glued || (SECOND.contains(last) && before.last().is_some_and(|word| is_counted(word))) {
        return Some((Higher, Rate));
    }
    if !before.is_empty() && TIME_UNITS.contains(last) {
        return Some((Lower, Duration));
    }
    let is_digits = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    let together = words.windows(2).any(|pair| {
        // pass@k
        HIGHER_TOGETHER.iter().any(|known| known == pair) || pair[0] == "pass" && is_digits(pair[1])
    });
    if together {
        return Some((Higher, Quality));
    }
    let alone = *last == "seconds" || *last == "milliseconds";
    words.iter().rev().find_map(|word| of_word(word)).or(alone.then_some((Lower, Duration)))
}

/// The direction that one word of a name suggests.
fn of_word(word: &str) -> Option<(Direction, NameKind)> {
    let without_digits = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_known = |words: &[&str]| words.contains(&word) || words.contains(&without_digits);
    let lists: [(&[&str], Direction, NameKind); 4] = [
        (&LOWER_IS_BETTER, Lower, Quality),
        (TIMES, Lower, Duration),
        (&HIGHER_IS_BETTER, Higher, Quality),
        (RATES, Higher, Rate),
    ];
    lists.into_iter().find(|(words, ..)| is_known(words)).map(|(_, direction, kind)| (direction, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> Option<Direction> {
        Direction::of_name(name).map(|(direction, _)| direction)
    }

    #[test]
    fn names_that_say_higher_is_better_need_a_direction() {
        let names = "accuracy val_acc reward f1 val_f1 throughput tok_s tok_sec tok_per_sec tok_per_s mfu eval/accuracy \
                     F1 steps_per_second success_rate pass_rate hit_rate tok/s tokens/sec samples/s elo mAP50 map_50 \
                     pass@1 top1 top5 dice exact_match win_rate gain improvement_pct mrr kappa mcc speed tflops gflops \
                     flops utilization fps games_per_s requests_per_minute valAcc tokps loss_improvement";
        for name in names.split_whitespace() {
            assert!(Direction::is_unclear_for(name), "{name}");
        }
    }

    #[test]
    fn names_of_losses_and_times_say_lower() {
        let names = "val_bpb loss val_loss rmse mae ppl perplexity val_perplexity error_rate latency latency_p99 \
                     latency_ms time_s seconds train_seconds mean_ms mean_us mean_ns score_ns accuracy_loss top1_error \
                     avg_bpc wer test_wer cer fid train_s ms_per_token sec_per_step errors_per_sec step_ms valLoss \
                     wall_time combined_µs";
        for name in names.split_whitespace() {
            assert_eq!(told(name), Some(Lower), "{name}");
            assert!(!Direction::is_unclear_for(name), "{name}");
        }
    }

    #[test]
    fn other_names_say_nothing() {
        for name in ["", "_", "width", "memory_gb", "heap_mb", "quality", "s", "p50", "bits_per_byte"] {
            assert_eq!(told(name), None, "{name}");
        }
    }
}
