//! A metric: its name, where to find its value, and the values of a log by name.
//!
//! The direction of a metric, and what its name suggests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{SCALES, Suffix, Unit, WordList, duration, shifted, word_list};

/// A finite number with its unit and the text from which it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The value; always finite.
    pub value: f64,
    /// The digits of the value: as printed, without signs that group them, unless it was scaled or converted.
    pub raw: String,
    /// The text as printed, if its digits are not those of the value: `12.22k`, `1m 2.5s`, `980 ms` where seconds count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// The unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

impl Number {
    /// A number without a unit.
    pub fn new(value: f64, raw: impl Into<String>) -> Number {
        Number { value, raw: raw.into(), printed: None, unit: None }
    }

    /// The number of these digits, with the scale and the unit behind them; `text` is all of it, as printed.
    pub fn with_suffix(digits: &str, text: &str, suffix: Suffix) -> Option<Number> {
        let number = Number { unit: suffix.unit, ..digits.parse::<Number>().ok()? };
        if suffix.exponent == 0 {
            return Some(number);
        }
        let value = Some(shifted(number.value, suffix.exponent)).filter(|value| value.is_finite())?;
        Some(Number { value, raw: value.to_string(), printed: Some(text.to_owned()), ..number })
    }

    /// A time in several parts: `1m 2.5s`, `00:01:05`.
    pub fn of_duration(seconds: f64, text: &str) -> Number {
        Number { printed: Some(text.to_owned()), unit: Some(Unit::seconds()), ..Number::of(seconds) }
    }

    /// Reads a text that is nothing but a number, with its unit or scale: `0.2s`, `95%`, `3.1K`, `1m 2.5s`, `1,234.5 ms`.
    pub fn with_unit(text: &str) -> Option<Number> {
        let text = text.trim();
        if let Some((seconds, _)) = duration(text).filter(|(_, length)| *length == text.len()) {
            return Some(Number::of_duration(seconds, text));
        }
        // `e` may be an exponent or begin a unit, so the longest number wins.
        let ends = text.char_indices().rev().map(|(at, c)| at + c.len_utf8());
        ends.filter(|&end| text[..end].ends_with(|c: char| c.is_ascii_digit() || c == '.')).find_map(|end| {
            let suffix = Suffix::of(&text[end..]);
            let is_all = end + suffix.length == text.len();
            is_all.then(|| Number::with_suffix(&without_groups(&text[..end])?, text, suffix)).flatten()
        })
    }

    /// The text as printed, with its unit: `980 ms`, `90.2%`, `12.22k`.
    pub fn text(&self) -> String {
        self.printed.clone().unwrap_or_else(|| format!("{self:#}"))
    }

    /// It as the number of a name. It is in the unit that the name ends in, unless it has one of another dimension.
    #[must_use]
    pub fn named(self, name: &str) -> Number {
        let Some(own) = Unit::of_name(name) else { return self };
        let number = if own.is_bytes() { self.in_bytes() } else { self };
        match number.unit {
            None => Number { unit: Some(own), ..number },
            Some(_) => number.converted(&own).unwrap_or(number),
        }
    }

    /// It as a number that compares with a baseline's: in the baseline's unit. `None` for another dimension, for a number
    /// without a unit where the baseline has one, and for one with a unit where the baseline has none, except that percent are
    /// hundredths where the baseline is at most 1.
    pub fn like(&self, baseline: &Number) -> Option<Number> {
        let is_bytes = baseline.unit.as_ref().is_some_and(Unit::is_bytes);
        let number = if is_bytes { self.clone().in_bytes() } else { self.clone() };
        match (&number.unit, &baseline.unit) {
            (None, None) => Some(number),
            (Some(_), Some(unit)) => number.converted(unit),
            (Some(unit), None) if unit.is_percent() => {
                let shift = if baseline.value.abs() <= 1.0 { -2 } else { 0 };
                let value = shifted(number.value, shift);
                Some(Number { printed: Some(number.text()), ..Number::of(value) })
            }
            _ => None,
        }
    }

    /// It, in the unit of another number if it has none.
    #[must_use]
    pub fn or_unit_of(&self, other: &Number) -> Number {
        let is_bytes = other.unit.as_ref().is_some_and(Unit::is_bytes);
        let own = if is_bytes { self.clone().in_bytes() } else { self.clone() };
        Number { unit: own.unit.or_else(|| other.unit.clone()), ..own }
    }

    /// It in bytes, if its scale was taken for that of a count: `12 B`, `1.5G`.
    fn in_bytes(self) -> Number {
        let read = |printed: &str| {
            let letter = printed.chars().next_back().filter(|c| SCALES.iter().any(|(scale, _)| scale == c))?;
            let unit = if letter == 'B' { "B".to_owned() } else { format!("{letter}B") };
            let digits = without_groups(printed[..printed.len() - 1].trim_end())?;
            Some(Number { unit: Some(Unit::new(&unit)), printed: Some(printed.to_owned()), ..digits.parse().ok()? })
        };
        let bytes = self.printed.as_deref().filter(|_| self.unit.is_none()).and_then(read);
        bytes.unwrap_or(self)
    }

    /// Returns whether it was printed in another unit than that of its value.
    pub fn is_converted(&self) -> bool {
        let printed = self.printed.as_deref().and_then(Number::with_unit);
        printed.is_some_and(|printed| printed.unit != self.unit)
    }

    /// It in another unit of the same dimension.
    pub fn converted(&self, to: &Unit) -> Option<Number> {
        let value = self.unit.as_ref()?.convert(self.value, to)?;
        let unit = Some(to.clone());
        if value == self.value {
            return Some(Number { unit, ..self.clone() });
        }
        Some(Number { printed: Some(self.text()), unit, ..Number::of(value) })
    }

    /// Serialises the fields of a number that may be absent; each of them is `null` then.
    pub fn fields<S: Serializer>(number: &Option<Number>, serializer: S) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => Number { printed: None, ..number.clone() }.serialize(serializer),
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
            Some(value) => Ok(Number::new(value, text)),
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

    /// A number that was computed, in at most the 15 digits that survive that: `0.3` for 0.1 + 0.2. A whole one keeps all.
    pub fn of(value: f64) -> Number {
        let rounded = if value.fract() == 0.0 { value } else { format!("{value:.14e}").parse().unwrap_or(value) };
        Number::new(value, rounded.to_string())
    }

    /// The number of decimals without an exponent: 3 for `0.125`, 8 for `1.5e-7`, 0 for `1.5e7`.
    pub fn decimals(&self) -> usize {
        let (mantissa, exponent) = self.raw.split_once(['e', 'E']).unwrap_or((&self.raw, "0"));
        let written = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let exponent = exponent.parse::<i64>().unwrap_or(0);
        usize::try_from((written as i64).saturating_sub(exponent)).unwrap_or(0)
    }
}

/// The digits of a number without the commas that group them in threes; absent where commas group nothing.
fn without_groups(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let first = groups.next().map_or(0, str::len);
    let mut rest = groups.peekable();
    let is_grouped = rest.peek().is_none() || (1..=3).contains(&first);
    (is_grouped && !fraction.contains(',') && rest.all(|group| group.len() == 3)).then(|| text.replace(',', ""))
}

/// Returns whether the digits before an exponent are all zeros.
fn is_zero(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    !mantissa.contains(|c: char| ('1'..='9').contains(&c))
}

/// Writes the digits; with `#` and the unit.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unit {
            Some(unit) if f.alternate() && unit.is_percent() => write!(f, "{}{unit}", self.raw),
            Some(unit) if f.alternate() => write!(f, "{} {unit}", self.raw),
            _ => f.pad(&self.raw),
        }
    }
}

/// The part of a run that a number in a log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOf {
    /// The last of several folds, seeds, splits, classes or tasks, where the log has no mean.
    Split,
    /// One of several processes, none of which is rank 0.
    Process,
}

impl PartOf {
    /// Describes it, as a clause behind a number.
    pub fn text(self) -> &'static str {
        match self {
            PartOf::Split => "the last of several folds, seeds, classes or tasks, of which the log has no mean",
            PartOf::Process => "of one of several processes, none of which is rank 0",
        }
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
    /// In a file that the run writes.
    File {
        /// The file, relative to the root of the working tree, or a pattern whose newest file counts.
        path: PathBuf,
        /// The JSON pointer (RFC 6901) to the number, or the column of a table; empty for the field of the metric's name.
        pointer: String,
    },
}

impl fmt::Display for MetricSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricSource::Log => f.write_str("the log"),
            MetricSource::Regex(pattern) => f.write_str(pattern),
            MetricSource::File { path, pointer } if pointer.is_empty() => write!(f, "{}", path.display()),
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

/// Values by name, in the order of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    values: Vec<(String, f64)>,
    /// The digits in the log of those for which the shortest form has others.
    digits: BTreeMap<String, String>,
}

impl Metrics {
    /// The value with that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.values.iter().map(|(name, _)| name)
    }

    /// The names with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The digits of a value as the log has them, where they are known and not the shortest ones: `2.50`.
    pub fn digits(&self, name: &str) -> Option<&str> {
        self.digits.get(name).map(String::as_str)
    }

    /// These values with the digits that `other` has for the same ones.
    #[must_use]
    pub fn in_digits_of(self, other: &Metrics) -> Metrics {
        let mut digits = other.digits.clone();
        digits.retain(|name, _| self.get(name) == other.get(name));
        Metrics { digits, ..self }
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(named: T) -> Self {
        Metrics { values: named.into_iter().collect(), digits: BTreeMap::new() }
    }
}

impl FromIterator<(String, Number)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, Number)>>(named: T) -> Self {
        let mut all = Metrics::default();
        for (name, number) in named {
            if number.printed.is_none() && number.raw != number.value.to_string() {
                all.digits.insert(name.clone(), number.raw);
            }
            all.values.push((name, number.value));
        }
        all
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Metrics {
    /// Reads an object and skips everything but numbers.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = Map::<String, Value>::deserialize(from)?;
        Ok(fields.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect())
    }
}

/// Metrics as two fields of a record.
#[derive(Serialize, Deserialize)]
struct Fields {
    metrics: Metrics,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    digits: BTreeMap<String, String>,
}

/// Metrics as fields of what has them: `metrics`, and `digits` if there are some.
pub(super) mod with_digits {
    use super::{Deserialize, Deserializer, Fields, Metrics, Serialize, Serializer};

    pub(in crate::domain) fn serialize<S: Serializer>(metrics: &Metrics, serializer: S) -> Result<S::Ok, S::Error> {
        Fields { metrics: metrics.clone(), digits: metrics.digits.clone() }.serialize(serializer)
    }

    pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Metrics, D::Error> {
        let Fields { metrics, digits } = Fields::deserialize(from)?;
        Ok(Metrics { digits, ..metrics })
    }
}

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

/// Words that turn the direction of what stands before them, as in `error_free_rate` and `accuracy_drop`.
const TURNS: &[&str] = &["decrease", "drop", "free", "reduction", "saved", "saving", "savings"];

/// The marks and words by which a name states its direction itself, as in `FID ↓`.
const SAID: &[(&str, Direction)] =
    &[("↑", Higher), ("↓", Lower), ("higher is better", Higher), ("lower is better", Lower)];

/// Units of time.
static TIME_UNITS: WordList = WordList::new(|| word_list(include_str!("lists/time_units.txt")));

/// Units of memory.
const SIZE_UNITS: &[&str] = &["b", "byte", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib"];

/// Units that follow a counted thing directly, as in `tok_s`.
const SECOND: &[&str] = &["s", "sec", "second"];

/// Things that a throughput counts.
static COUNTED: WordList = WordList::new(|| word_list(include_str!("lists/counted.txt")));

impl Direction {
    /// The direction that a metric's name suggests: as it says itself, else by its unit, else by its last telling word.
    pub fn of_name(name: &str) -> Option<(Direction, NameKind)> {
        let lower = name.to_lowercase();
        if let Some((_, direction)) = SAID.iter().find(|(said, _)| lower.contains(said)) {
            return Some((*direction, Quality));
        }
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
    if let Some(at) = words.iter().rposition(|word| TURNS.contains(word))
        && last_telling(&words[at + 1..]).is_none()
        && let Some((direction, kind)) = last_telling(&words[..at])
    {
        return Some((direction.other(), kind));
    }
    // `time_to_accuracy`
    if let Some(what) = name.split_once("_to_").and_then(|(what, _)| of_listed(what)).filter(|told| told.1 == Duration)
    {
        return Some(what);
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
    fn a_computed_number_has_no_digits_of_its_rounding() {
        let values = [0.1 + 0.2, 2.2 * 3.0, 0.97, -1234.5, 0.0, 1e-7, 1_234_567_890_123_457.0];
        let raw = values.map(|value| Number::of(value).raw);
        assert_eq!(raw, ["0.3", "6.6", "0.97", "-1234.5", "0", "0.0000001", "1234567890123457"]);
    }

    #[test]
    fn a_text_is_a_number_with_its_unit() {
        for (text, expected) in [
            ("0.2s", Some((0.2, "0.2", "0.2 s", Some("s")))),
            ("95 %", Some((95.0, "95", "95%", Some("%")))),
            ("12.22k", Some((12220.0, "12220", "12.22k", None))),
            ("1.21 M", Some((1_210_000.0, "1210000", "1.21 M", None))),
            ("1m 2.5s", Some((62.5, "62.5", "1m 2.5s", Some("s")))),
            ("1,234.5 ms", Some((1234.5, "1234.5", "1234.5 ms", Some("ms")))),
            ("2,056", Some((2056.0, "2056", "2056", None))),
            ("-1e-3", Some((-0.001, "-1e-3", "-1e-3", None))),
            ("1,5", None),
            ("12,34,567", None),
            ("1.234,5", None),
            ("0.5 (best)", None),
            ("1/20", None),
            ("nan", None),
            ("", None),
        ] {
            let found = Number::with_unit(text);
            let found =
                found.as_ref().map(|it| (it.value, it.raw.as_str(), it.text(), it.unit.as_ref().map(Unit::to_string)));
            let expected =
                expected.map(|(value, raw, text, unit)| (value, raw, text.to_owned(), unit.map(str::to_owned)));
            assert_eq!(found, expected, "{text}");
        }
    }

    fn number(text: &str) -> Number {
        Number::with_unit(text).unwrap()
    }

    #[test]
    fn a_number_is_in_the_unit_of_its_name() {
        for (name, text, expected) in [
            ("latency_ms", "120", "120 ms"),
            ("latency_ms", "1.2 s", "1200 ms"),
            ("latency_ms", "3 MB", "3 MB"),
            ("memory_gb", "2048 MiB", "2 GiB"),
            ("memory_gb", "2", "2 GiB"),
            ("size_bytes", "12 B", "12 bytes"),
            ("size_mb", "1.5G", "1500 mb"),
            ("params", "12 B", "12000000000"),
            ("val_bpb", "0.9979", "0.9979"),
        ] {
            assert_eq!(format!("{:#}", number(text).named(name)), expected, "{name}: {text}");
        }
    }

    #[test]
    fn a_number_compares_with_a_baseline_of_its_dimension() {
        for (baseline, text, expected) in [
            ("1.234 s", "980 ms", Some("0.98 s")),
            ("1.234 s", "1m 2.5s", Some("62.5 s")),
            ("980 ms", "1.1", None),
            ("1.2 s", "3 MB", None),
            ("1.2", "900 ms", None),
            ("1.2", "1.1", Some("1.1")),
            ("3.2 dB", "3.3 dB", Some("3.3 dB")),
            ("3.2 dB", "3 ms", None),
            ("1.2 MB", "1100 KB", Some("1.1 MB")),
            ("1.2 MB", "900 KiB", Some("0.9216 MB")),
            ("2 KB", "1200 B", Some("1.2 KB")),
            ("2M", "1200k", Some("1200000")),
            ("0.915", "90.2%", Some("0.902")),
            ("91.5", "90.2%", Some("90.2")),
            ("91.5%", "0.902", None),
            ("91.5%", "90.2 %", Some("90.2%")),
        ] {
            let found = number(text).like(&number(baseline)).map(|it| format!("{it:#}"));
            assert_eq!(found.as_deref(), expected, "{text} after {baseline}");
        }
    }

    #[test]
    fn a_converted_number_keeps_what_was_printed() {
        let number = Number::with_unit("980 ms").and_then(|it| it.converted(&Unit::seconds())).unwrap();
        assert_eq!((number.value, number.raw.as_str(), number.text().as_str()), (0.98, "0.98", "980 ms"));
        assert_eq!(serde_json::from_str::<Number>(&serde_json::to_string(&number).unwrap()).unwrap(), number);
        assert_eq!(serde_json::from_str::<Number>(r#"{"value":1.5,"raw":"1.50"}"#).unwrap(), Number::new(1.5, "1.50"));
    }

    #[test]
    fn decimals_are_those_of_the_number_without_an_exponent() {
        for (text, decimals) in
            [("3", 0), ("0.125", 3), ("1.5e-7", 8), ("1.50E-7", 9), ("2e+3", 0), ("1.2345e2", 2), ("-1.0", 1)]
        {
            assert_eq!(text.parse::<Number>().map(|number| number.decimals()), Ok(decimals), "{text}");
        }
    }

    fn read(text: &str) -> Metrics {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_read_is_written_again() {
        for text in [
            r#"{"loss":1.5,"steps":20.0}"#,
            r#"{"loss":2.5,"steps":21.0}"#,
            r#"{"loss":3.5}"#,
            r#"{"steps":22.0,"loss":4.5}"#,
            r#"{"steps":22.0,"loss":4.5,"lr":0.1}"#,
            r#"{"steps":22.0,"l\"r":0.1,"loss":4.5}"#,
            "{}",
        ] {
            let metrics = read(text);
            assert_eq!(serde_json::to_string(&metrics).unwrap(), text);
            let one_by_one: Metrics = metrics.iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(metrics, one_by_one);
        }
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let metrics = read(r#"{"device": "cuda", "loss": 1, "best": null, "steps": 20}"#);
        assert_eq!(metrics.iter().collect::<Vec<_>>(), [("loss", 1.0), ("steps", 20.0)]);
        assert_eq!((metrics.get("steps"), metrics.get("best")), (Some(20.0), None));
    }

    #[test]
    fn the_digits_of_a_log_stay_beside_the_values_that_are_the_same() {
        let named = |text: &str| {
            let pairs = text.split(' ').map(|pair| pair.split_once('=').unwrap());
            pairs.map(|(name, raw)| (name.to_owned(), raw.parse::<Number>().unwrap())).collect::<Metrics>()
        };
        let printed = named("loss=2.50 acc=0.900 lr=0.1");
        let digits = |metrics: &Metrics| ["loss", "acc", "lr"].map(|name| metrics.digits(name).map(str::to_owned));
        assert_eq!(digits(&printed), [Some("2.50".to_owned()), Some("0.900".to_owned()), None]);
        let mean = read(r#"{"loss": 2.45, "acc": 0.9, "lr": 0.1}"#).in_digits_of(&printed);
        assert_eq!(digits(&mean), [None, Some("0.900".to_owned()), None]);

        let record = crate::rules::sample::record(
            serde_json::json!({"id": 1, "metrics": {"loss": 2.5}, "digits": {"loss": "2.50"}}),
        );
        assert_eq!(digits(&record.metrics)[0].as_deref(), Some("2.50"));
        assert!(record.unknown_fields.is_empty(), "{:?}", record.unknown_fields);
        let written = serde_json::to_string(&record).unwrap();
        assert!(written.contains(r#""metrics":{"loss":2.5},"digits":{"loss":"2.50"}"#), "{written}");
        assert_eq!(serde_json::from_str::<crate::domain::Record>(&written).unwrap(), record);
    }
}

#[cfg(test)]
mod direction_tests {
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
                     recall precision r2 R2_score neg_mean_squared_error neg_loss rows/s heap_mb_per_s \
                     error_free_rate loss_reduction latency_reduction_pct time_saved_s memory_saved gizmo↑";
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
                     binary_size_kb log_loss negative_log_likelihood nll bytes allocs/op accuracy_drop time_to_accuracy \
                     false_positive_rate miss_rate brier_score score↓";
        for name in names.split_whitespace() {
            assert_eq!(told(name), Some(Lower), "{name}");
        }
    }

    #[test]
    fn other_names_say_nothing() {
        for (name, direction) in [("FID ↓", Lower), ("quality (higher is better)", Higher)] {
            assert_eq!(told(name), Some(direction), "{name}");
        }
        for name in
            ["", "_", "drop_rate", "width", "quality", "s", "p50", "gizmo", "val_primary", "ops", "neg", "variant_b"]
        {
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
