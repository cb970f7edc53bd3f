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
    /// A time, or a unit of time at the end: `latency`, `mean_ms`.
    Duration,
    /// A size, or a unit of memory at the end: `bundle_size`, `heap_mb`.
    Size,
}

use Direction::{Higher, Lower};
use NameKind::{Duration, Quality, Rate, Size};

/// Every name that suggests a direction, a kind and a name a line. Words of a name are joined by `_`; digits may follow, as
/// in `map50`.
static NAMES: WordList = WordList::new(|| word_list(include_str!("lists/metric_names.txt")));

/// The meaning of each kind in the list.
const KINDS: &[(&str, Direction, NameKind)] = &[
    ("lower", Lower, Quality),
    ("higher", Higher, Quality),
    ("time", Lower, Duration),
    ("rate", Higher, Rate),
    ("size", Lower, Size),
];

/// Units of time.
static TIME_UNITS: WordList = WordList::new(|| word_list(include_str!("lists/time_units.txt")));

/// Units of memory.
const SIZE_UNITS: &[&str] = &["b", "byte", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib"];

/// Units that follow a counted thing directly, as in `tok_s`.
const SECOND: &[&str] = &["s", "sec", "second"];

/// Things that a throughput counts.
static COUNTED: WordList = WordList::new(|| word_list(include_str!("lists/counted.txt")));

impl Direction {
    /// The direction that a metric's name suggests: by its unit, else by its last telling word.
    pub fn of_name(name: &str) -> Option<(Direction, NameKind)> {
        let lower = name.to_lowercase();
        // `ops/s` and `ns/op` have a unit, `eval/loss` does not.
        let (what, per) = lower.rsplit_once('/').unwrap_or((&lower, ""));
        let last = what.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let is_ratio = SECOND.contains(&per) || (!per.is_empty() && unit(last).is_some());
        let lower = if is_ratio { format!("{what}_per_{per}") } else { lower };
        let plain: String = lower.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        of_words(&plain).or_else(|| of_words(&plain_name(name)))
    }

    /// The direction that a word such as `max` or `lower` states.
    pub fn stated(text: &str) -> Option<Direction> {
        let word = text.trim().split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_lowercase();
        match word.as_str() {
            "min" | "minimize" | "minimise" | "lower" | "lowest" | "down" => Some(Lower),
            "max" | "maximize" | "maximise" | "higher" | "highest" | "up" => Some(Higher),
            _ => None,
        }
    }

    /// The other one.
    pub fn other(self) -> Direction {
        if self == Lower { Higher } else { Lower }
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
    // `neg_mean_squared_error` and `negative_log_likelihood`.
    if words[0] == "neg" || words[0] == "negative" {
        return last_telling(&words[1..]).map(|(direction, kind)| (direction.other(), kind));
    }
    if let Some(per) = words.iter().position(|word| *word == "per") {
        // `tokens_per_sec` is a rate, `ms_per_token` a time.
        if words.get(per + 1).is_some_and(|unit| TIME_UNITS.contains(unit)) {
            let is_worse = last_telling(&words[..per]).is_some_and(|told| told == (Lower, Quality));
            return Some((if is_worse { Lower } else { Higher }, Rate));
        }
        if let Some(kind) = words[..per].last().and_then(|word| unit(word)) {
            return Some((Lower, kind));
        }
    }
    let is_counted = |word: &str| COUNTED.contains(&word);
    let glued = last.strip_suffix("ps").is_some_and(is_counted);
    if glued || (SECOND.contains(last) && before.last().is_some_and(|word| is_counted(word))) {
        return Some((Higher, Rate));
    }
    // Another letter alone may be anything.
    match unit(last).filter(|_| last.chars().count() > 1 || (*last == "s" && !before.is_empty())) {
        Some(kind) => Some((Lower, kind)),
        None => last_telling(&words),
    }
}

/// The kind of what a unit measures.
fn unit(word: &str) -> Option<NameKind> {
    let of_size = SIZE_UNITS.contains(&word).then_some(Size);
    if TIME_UNITS.contains(&word) { Some(Duration) } else { of_size }
}

/// The direction of the last words that are in the list.
fn last_telling(words: &[&str]) -> Option<(Direction, NameKind)> {
    let ends = (1..=words.len()).rev();
    ends.flat_map(|end| (0..end).map(move |start| words[start..end].join("_"))).find_map(|part| of_listed(&part))
}

/// The direction of a name in the list.
fn of_listed(name: &str) -> Option<(Direction, NameKind)> {
    let without_digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let listed = |name: &str| {
        let mut entries = NAMES.iter().filter_map(|line| line.split_once(' '));
        let (kind, _) = entries.find(|(_, listed)| *listed == name)?;
        KINDS.iter().find(|(known, ..)| *known == kind).map(|(_, direction, kind)| (*direction, *kind))
    };
    listed(name).or_else(|| listed(without_digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> Option<Direction> {
        Direction::of_name(name).map(|(direction, _)| direction)
    }

    #[test]
    fn names_of_qualities_and_rates_say_higher() {
        let names = "accuracy val_acc reward f1 val_f1 throughput tok_s tok_sec tok_per_sec tok_per_s mfu eval/accuracy \
                     F1 steps_per_second success_rate pass_rate hit_rate tok/s tokens/sec samples/s elo mAP50 map_50 \
                     pass@1 top1 top5 dice exact_match win_rate gain improvement_pct mrr kappa mcc speed tflops gflops \
                     flops utilization fps games_per_s requests_per_minute valAcc tokps loss_improvement mIoU AP AP50 \
                     mAP pearson spearman ep_rew_mean return solve_rate tps qps rps ops/s it/s MB/s vmaf psnr ssim \
                     coverage elbo log_likelihood bleu chrf meteor rougeL cider comet correct passed hits@10 ndcg@10 \
                     recall precision r2 R2_score neg_mean_squared_error neg_loss rows/s heap_mb_per_s";
        for name in names.split_whitespace() {
            assert_eq!(told(name), Some(Higher), "{name}");
        }
    }

    #[test]
    fn names_of_losses_times_and_sizes_say_lower() {
        let names = "val_bpb loss val_loss rmse mae ppl perplexity val_perplexity error_rate latency latency_p99 \
                     latency_ms time_s seconds train_seconds mean_ms mean_us mean_ns score_ns accuracy_loss top1_error \
                     avg_bpc wer test_wer cer fid train_s ms_per_token sec_per_step errors_per_sec step_ms valLoss \
                     wall_time combined_µs ms ns/op B/op errors/s bits_per_byte bundle_size memory_gb heap_mb \
                     binary_size_kb log_loss negative_log_likelihood nll bytes";
        for name in names.split_whitespace() {
            assert_eq!(told(name), Some(Lower), "{name}");
        }
    }

    #[test]
    fn other_names_say_nothing() {
        for name in ["", "_", "width", "quality", "s", "p50", "gizmo", "val_primary", "ops", "neg", "variant_b"] {
            assert_eq!(told(name), None, "{name}");
        }
    }

    #[test]
    fn a_word_states_a_direction() {
        for (text, direction) in [
            ("max", Some(Higher)),
            ("Maximize val_acc", Some(Higher)),
            ("lower_is_better", Some(Lower)),
            ("0.95", None),
            ("train", None),
            ("", None),
        ] {
            assert_eq!(Direction::stated(text), direction, "{text}");
        }
    }
}
