//! Units and scales behind numbers: which ones exist, and how a value goes from one to another.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest word of a unit, in characters.
const LONGEST: usize = 16;

/// The dimension of a unit. Values of one dimension are convertible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension<'a> {
    Time,
    Bytes,
    Bits,
    Percent,
    /// A unit that `ar` does not know, by its text: `dB`, `tok`.
    Other(&'a str),
}

use Dimension::{Bits, Bytes, Other, Percent, Time};

/// Units by dimension, each with its factor, a fraction, to seconds, bytes, bits or percent.
const UNITS: &[(Dimension<'static>, u64, u64, &str)] = &[
    (Time, 1, 1_000_000_000, "ns nsec nsecs nanosecond nanoseconds"),
    (Time, 1, 1_000_000, "us µs μs usec usecs microsecond microseconds"),
    (Time, 1, 1_000, "ms msec msecs millisecond milliseconds"),
    (Time, 1, 1, "s sec secs second seconds"),
    (Time, 60, 1, "m min mins minute minutes"),
    (Time, 3_600, 1, "h hr hrs hour hours"),
    (Time, 86_400, 1, "d day days"),
    (Bytes, 1, 1, "B byte bytes"),
    (Bytes, 1_000, 1, "KB kB kb"),
    (Bytes, 1_000_000, 1, "MB mb"),
    (Bytes, 1_000_000_000, 1, "GB gb"),
    (Bytes, 1_000_000_000_000, 1, "TB tb"),
    (Bytes, 1 << 10, 1, "KiB kib"),
    (Bytes, 1 << 20, 1, "MiB mib"),
    (Bytes, 1 << 30, 1, "GiB gib"),
    (Bytes, 1 << 40, 1, "TiB tib"),
    (Bits, 1, 1, "bit bits"),
    (Bits, 1_000, 1, "Kb kbit Kbit"),
    (Bits, 1_000_000, 1, "Mb Mbit"),
    (Bits, 1_000_000_000, 1, "Gb Gbit"),
    (Percent, 1, 1, "% percent pct"),
];

/// Further words that are units after a blank. A word that is glued to its number is a unit in any case.
const WORDS: &str = "dB Hz kHz MHz GHz W kW J kJ Wh kWh px fps FPS qps QPS rps RPS tps TPS iops IOPS Kbps Mbps Gbps MBps \
                     GBps bpb nat nats pp ppm x °C GFLOPS TFLOPS";

/// Denominators of rates, after a blank or without a word: `900 tok/s`, `4.8/s`.
const PER: &str = "s sec second min minute h hr hour op ops it iter iteration step epoch sample token tok req request query \
                   call image img batch item frame run px";

/// Scales, as powers of ten. `B` is a billion, unless bytes are expected.
pub const SCALES: [(char, i32); 6] = [('k', 3), ('K', 3), ('M', 6), ('G', 9), ('B', 9), ('T', 12)];

/// Units that the last word of a name rarely means: `loss_min`, `params_m`.
const NOT_IN_NAMES: &str = "m min d B";

/// Words before `_s` that it counts by the second: `tok_s`.
const COUNTED: &str =
    "tok tokens it its img imgs images samples req reqs requests ops queries frames steps items calls";

/// Names whose units are powers of 1,024.
const BINARY: [(&str, &str); 2] = [("memory_gb", "GiB"), ("peak_vram_mb", "MiB")];

/// The unit of a number, as printed: `ms`, `MB/s`, `%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unit(String);

/// A dimension, whether it is per something, and a factor to its base unit.
#[derive(Debug, PartialEq, Eq)]
struct Measure<'a> {
    of: Dimension<'a>,
    per: Option<&'a str>,
    times: u128,
    over: u128,
}

impl Unit {
    /// Seconds.
    pub fn seconds() -> Unit {
        Unit("s".to_owned())
    }

    /// The unit of this text.
    pub fn new(text: &str) -> Unit {
        Unit(text.to_owned())
    }

    /// Returns whether it counts bytes, not per anything.
    pub fn is_bytes(&self) -> bool {
        let measure = measure(&self.0);
        measure.of == Bytes && measure.per.is_none()
    }

    /// Returns whether it is a unit that `ar` knows.
    pub fn is_known(&self) -> bool {
        is_unit(&self.0)
    }

    /// Returns whether a name is a unit: a rate per time or operation, or bytes or a time per anything.
    pub fn is_name(name: &str) -> bool {
        let is_of = |word: &str, of: &[Dimension<'_>]| {
            unit(word).is_some_and(|(dimension, ..)| of.contains(&dimension)) && !has("m d B", word)
        };
        name.split_once('/').is_some_and(|(word, per)| {
            let is_plain = [word, per].concat().chars().all(char::is_alphabetic);
            let per = per.to_lowercase();
            is_plain && (per == "op" || is_of(&per, &[Time]) || is_of(word, &[Time, Bytes]))
        })
    }

    /// Returns whether it is percent.
    pub fn is_percent(&self) -> bool {
        measure(&self.0).of == Percent
    }

    /// The unit that a name ends in, or is: `ms` of `latency_ms` and of `latency (ms)`, `ns/op` of itself.
    pub fn of_name(name: &str) -> Option<Unit> {
        if let Some((_, unit)) = BINARY.iter().find(|(known, _)| *known == name) {
            return Some(Unit::new(unit));
        }
        if name.contains('/') && is_unit(name) {
            return Some(Unit::new(name));
        }
        let name = name.trim_end_matches([')', ']']);
        let mut words = name.rsplit(|c: char| !c.is_alphanumeric() && c != '%' && c != '°');
        let (last, before, counted) = (words.next()?, words.next().unwrap_or_default(), words.next());
        if before == "per" {
            return counted.filter(|counted| unit(counted).is_some()).map(|counted| Unit(format!("{counted}/{last}")));
        }
        let is_rate = last == "s" && (has(COUNTED, before) || unit(before).is_some());
        (unit(last).is_some() && !has(NOT_IN_NAMES, last) && !is_rate).then(|| Unit::new(last))
    }

    /// A value in this unit, converted to another one of the same dimension. Decimal factors move the decimal point, so that
    /// they add no digits.
    pub fn convert(&self, value: f64, to: &Unit) -> Option<f64> {
        let (from, to) = (measure(&self.0), measure(&to.0));
        if (from.of, from.per) != (to.of, to.per) {
            return None;
        }
        let (mut times, mut over, mut shift) = (from.times * to.over, from.over * to.times, 0);
        let common = greatest_divisor(times, over);
        (times, over) = (times / common, over / common);
        while times % 10 == 0 {
            (times, shift) = (times / 10, shift + 1);
        }
        while over % 10 == 0 {
            (over, shift) = (over / 10, shift - 1);
        }
        Some(shifted(value, shift) * times as f64 / over as f64).filter(|value| value.is_finite())
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The value times a power of ten, correctly rounded.
pub(super) fn shifted(value: f64, exponent: i32) -> f64 {
    format!("{value}e{exponent}").parse().unwrap_or(f64::NAN)
}

fn greatest_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// Returns whether a list of words has this one.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The dimension and factor of a known word, in any case of its letters unless another unit is written so.
fn unit(word: &str) -> Option<(Dimension<'static>, u64, u64)> {
    let exact = UNITS.iter().find(|(.., words)| has(words, word));
    let similar = || {
        UNITS.iter().find(|(of, .., words)| {
            word.len() > 1 && *of != Bits && words.split(' ').any(|known| known.eq_ignore_ascii_case(word))
        })
    };
    exact.or_else(similar).map(|(of, times, over, _)| (*of, *times, *over))
}

fn measure(text: &str) -> Measure<'_> {
    let data_rate = || text.strip_suffix("ps").filter(|word| word.ends_with(['B', 'b']) && !word.starts_with('k'));
    let (word, per) = match text.split_once('/') {
        Some((word, per)) => (word, Some(per)),
        None => data_rate().filter(|word| unit(word).is_some()).map_or((text, None), |word| (word, Some("s"))),
    };
    let (of, times, over) = unit(word).unwrap_or((Other(word), 1, 1));
    let (times, over) = (u128::from(times), u128::from(over));
    match per.map(|per| (per, unit(per))) {
        Some((_, Some((Time, part, whole)))) => {
            Measure { of, per: Some("s"), times: times * u128::from(whole), over: over * u128::from(part) }
        }
        Some((per, _)) => Measure { of, per: Some(per), times, over },
        None => Measure { of, per: None, times, over },
    }
}

/// Returns whether a word is a unit where a blank is before it.
fn is_unit(word: &str) -> bool {
    match word.split_once('/') {
        Some((_, per)) => has(PER, per),
        None => unit(word).is_some() || has(WORDS, word),
    }
}

/// The scale and the unit behind a number, and how many bytes they take.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Suffix {
    /// The scale, as a power of ten.
    pub exponent: i32,
    /// The unit, if there is one.
    pub unit: Option<Unit>,
    /// The length of both, with blanks between them.
    pub length: usize,
}

impl Suffix {
    /// Reads what stands behind a number, glued to it or after one blank.
    pub fn of(text: &str) -> Suffix {
        let glued = word_length(text);
        let (at, length) = if glued > 0 { (0, glued) } else { spaced(text) };
        let word = &text[at..at + length];
        let scale = word.chars().next().and_then(|c| SCALES.iter().find(|(known, _)| *known == c));
        let Some((letter, exponent)) = scale.filter(|_| word.len() == 1 || word[1..].starts_with('/')) else {
            return Suffix { exponent: 0, unit: (length > 0).then(|| Unit::new(word)), length: at + length };
        };
        match (&word[1..], letter) {
            ("", _) => {
                let end = at + length;
                let (gap, rate) = spaced(&text[end..]);
                let rate = &text[end + gap..end + gap + rate];
                let unit = rate.contains('/').then(|| Unit::new(rate));
                let length = if unit.is_some() { end + gap + rate.len() } else { end };
                Suffix { exponent: *exponent, unit, length }
            }
            (_, 'B') => Suffix { exponent: 0, unit: Some(Unit::new(word)), length: at + length },
            (per, _) => Suffix { exponent: *exponent, unit: Some(Unit::new(per)), length: at + length },
        }
    }
}

/// The length of a unit such as `ms`, `%`, `µs`, `it/s` or `/s`.
fn word_length(text: &str) -> usize {
    let is_part = |c: char| c.is_alphabetic() || c == '%' || c == '°';
    let letters =
        |text: &str| text.chars().take_while(|c| is_part(*c)).take(LONGEST).map(char::len_utf8).sum::<usize>();
    let word = letters(text);
    let per = text[word..].strip_prefix('/').map_or(0, letters);
    let has_per = per > 0 && (word > 0 || has(PER, &text[1..1 + per]));
    if has_per { word + 1 + per } else { word }
}

/// The start and length of a unit or scale after one blank; no length where the word is none, or names what follows.
fn spaced(text: &str) -> (usize, usize) {
    let Some(blank) = text.chars().next().filter(|c| c.is_whitespace() && !c.is_control()) else { return (0, 0) };
    let (at, rest) = (blank.len_utf8(), &text[blank.len_utf8()..]);
    let length = word_length(rest);
    let (word, behind) = rest.split_at(length);
    let is_scale = word.len() == 1 && SCALES.iter().any(|(letter, _)| word.starts_with(*letter));
    if length == 0 || !(is_scale || is_unit(word)) {
        return (0, 0);
    }
    let mut next = behind.chars();
    let joined = match next.next() {
        Some('-' | '.' | '/' | '(' | '[') => next.next().is_some_and(char::is_alphanumeric),
        Some(c) => c.is_alphanumeric() || matches!(c, '_' | ':' | '='),
        None => false,
    };
    let following = behind.trim_start();
    let number = following.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let is_name = joined || following.starts_with([':', '=']) || (number && !word.contains('/'));
    if is_name { (0, 0) } else { (at, length) }
}

/// The seconds at the start of `text` in several parts, and how many bytes they take: `1m 2.5s`, `1h2m`, `2 hours, 5 minutes`,
/// `00:01:05`, `1 day, 2:03:04`.
///
/// From 10 to 23 hours, `12:30:00` reads as a time of day and is none, except behind days.
pub fn duration(text: &str) -> Option<(f64, usize)> {
    if let Some((seconds, length)) = clock(text) {
        return (!(10.0..24.0).contains(&(seconds / 3600.0).floor())).then_some((seconds, length));
    }
    let (mut at, mut parts, mut total, mut last) = (0, 0, 0.0, f64::INFINITY);
    loop {
        let rest = &text[at..];
        let separator = [", and ", ", ", " and ", " "].into_iter().find(|separator| rest.starts_with(separator));
        let separator = separator.filter(|_| parts > 0).unwrap_or_default();
        let start = separator.len();
        if last == DAY
            && let Some((seconds, length)) = clock(&rest[start..])
        {
            return Some((total + seconds, at + start + length));
        }
        let number = start + decimal_length(&rest[start..]);
        let blank = usize::from(rest[number..].starts_with(' '));
        let word = word_length(&rest[number + blank..]);
        let word = &rest[number + blank..number + blank + word];
        let factor = match unit(word) {
            Some((Time, times, over)) if number > start => times as f64 / over as f64,
            _ => break,
        };
        let end = number + blank + word.len();
        // `12 s, 35 ms a step` is two times, `1 hour, 5 minutes` is one.
        let is_apart = separator.len() > 1 && (word.len() < 3 || rest[end..].starts_with(" per "));
        if factor >= last || is_apart {
            break;
        }
        let part: f64 = rest[start..number].parse().ok()?;
        total += if factor < 1.0 { part / factor.recip().round() } else { part * factor };
        (at, parts, last) = (at + end, parts + 1, factor);
        if rest[start..number].contains('.') {
            break;
        }
    }
    (parts > 1).then_some((total, at))
}

/// The seconds of a day.
const DAY: f64 = 86_400.0;

/// The seconds of `0:01:05.5` at the start of `text`, and its length.
fn clock(text: &str) -> Option<(f64, usize)> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let seconds = &rest[..decimal_length(rest)];
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_pair = |text: &str| text.len() == 2 && is_digits(text);
    if !(is_digits(hours) && is_pair(minutes) && is_pair(seconds.split('.').next()?)) {
        return None;
    }
    let [hour, minute, second]: [f64; 3] = [hours.parse().ok()?, minutes.parse().ok()?, seconds.parse().ok()?];
    let length = text.len() - rest.len() + seconds.len();
    (minute < 60.0 && second < 60.0).then_some((hour * 3600.0 + minute * 60.0 + second, length))
}

/// The length of digits, and of a decimal point with digits behind it.
fn decimal_length(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    if whole > 0 && fraction > 0 { whole + 1 + fraction } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(value: f64, from: &str, to: &str) -> Option<f64> {
        Unit::new(from).convert(value, &Unit::new(to))
    }

    #[test]
    fn values_are_converted_within_a_dimension_without_noise() {
        for (value, from, to, expected) in [
            (980.0, "ms", "s", Some(0.98)),
            (0.0011, "s", "ms", Some(1.1)),
            (1.1, "min", "s", Some(66.0)),
            (90.0, "min", "h", Some(1.5)),
            (0.2, "s", "µs", Some(200_000.0)),
            (1100.0, "KB", "MB", Some(1.1)),
            (2048.0, "MiB", "GiB", Some(2.0)),
            (41.0, "GB", "GiB", Some(41e9 / 1_073_741_824.0)),
            (1.5, "MB/s", "KB/s", Some(1500.0)),
            (1.5, "Mbps", "kbit/s", Some(1500.0)),
            (120.0, "req/min", "req/s", Some(2.0)),
            (99321.0, "ns/op", "us/op", Some(99.321)),
            (3.3, "dB", "dB", Some(3.3)),
            (5.0, "sec", "seconds", Some(5.0)),
            (3.0, "dB", "ms", None),
            (3.0, "MB", "MB/s", None),
            (3.0, "MB", "Mb", None),
            (3.0, "tok/s", "it/s", None),
            (3.0, "%", "s", None),
        ] {
            assert_eq!(convert(value, from, to), expected, "{value} {from} in {to}");
        }
    }

    #[test]
    fn a_name_gives_the_unit_that_it_ends_in() {
        for (name, expected) in [
            ("latency_ms", Some("ms")),
            ("latency (ms)", Some("ms")),
            ("train/time_s", Some("s")),
            ("memory_gb", Some("GiB")),
            ("peak_vram_mb", Some("MiB")),
            ("model_mb", Some("mb")),
            ("ns/op", Some("ns/op")),
            ("tok/s", Some("tok/s")),
            ("seconds", Some("seconds")),
            ("mfu_percent", Some("percent")),
            ("gb_per_sec", Some("gb/sec")),
            ("ms_per_step", Some("ms/step")),
            ("tokens_per_sec", None),
            ("tok_s", None),
            ("gb_s", None),
            ("loss_min", None),
            ("min", None),
            ("qps", None),
            ("x", None),
            ("params_m", None),
            ("val_bpb", None),
            ("val_loss", None),
            ("loss", None),
            ("accuracy", None),
            ("", None),
        ] {
            assert_eq!(Unit::of_name(name).map(|unit| unit.to_string()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_rate_per_time_and_a_unit_per_anything_are_names_of_units() {
        let names = |names: &str| names.split(' ').map(Unit::is_name).collect::<Vec<bool>>();
        assert_eq!(names("ns/op MB/s /s req/min tok/S ops/hr ms/epoch s/it KiB/token"), [true; 9]);
        assert_eq!(names("loss/epoch d/loss bits/dim eval/loss loss/m ms p95_ms/op s/1"), [false; 8]);
    }

    #[test]
    fn a_scale_or_unit_is_glued_or_after_one_blank() {
        for (text, exponent, unit, length) in [
            ("ms", 0, Some("ms"), 2),
            (" ms", 0, Some("ms"), 3),
            (" ms, done", 0, Some("ms"), 3),
            ("  ms", 0, None, 0),
            (" %", 0, Some("%"), 2),
            ("dBx", 0, Some("dBx"), 3),
            (" dB", 0, Some("dB"), 3),
            ("k", 3, None, 1),
            (" M", 6, None, 2),
            (" B", 9, None, 2),
            ("K tok/s", 3, Some("tok/s"), 7),
            ("K/s", 3, Some("/s"), 3),
            (" B/op", 0, Some("B/op"), 5),
            (" ns/op\t 120 B/op", 0, Some("ns/op"), 6),
            ("/s", 0, Some("/s"), 2),
            ("/50", 0, None, 0),
            (" best", 0, None, 0),
            (" s: 3", 0, None, 0),
            (" s = 3", 0, None, 0),
            (" min 3 max 9", 0, None, 0),
            (" m_avg", 0, None, 0),
            (" K-means", 0, None, 0),
            (" train/loss 3", 0, None, 0),
            (" s.", 0, Some("s"), 2),
            (" µs", 0, Some("µs"), 4),
        ] {
            let found = Suffix::of(text);
            let shown = (found.exponent, found.unit.as_ref().map(|unit| unit.0.as_str()), found.length);
            assert_eq!(shown, (exponent, unit, length), "{text}");
        }
    }

    #[test]
    fn compound_times_are_seconds() {
        for (text, expected) in [
            ("1m 2.5s", Some((62.5, 7))),
            ("1h 2m", Some((3720.0, 5))),
            ("2 hours, 5 minutes left", Some((7500.0, 18))),
            ("1 hour, 5 minutes, and 3 seconds", Some((3903.0, 32))),
            ("1 hour and 5 minutes", Some((3900.0, 20))),
            ("1 day, 2:03:04", Some((93_784.0, 14))),
            ("2 days, 12:00:03.5", Some((216_003.5, 18))),
            ("12 s, 35 ms a step", None),
            ("5 minutes, 30 seconds per epoch", None),
            ("1h2m3s", Some((3723.0, 6))),
            ("1m7.5s", Some((67.5, 6))),
            ("1 m 2.5 s", Some((62.5, 9))),
            ("1s 200ms", Some((1.2, 8))),
            ("00:01:05", Some((65.0, 8))),
            ("1:02:03.5", Some((3723.5, 9))),
            ("100:00:00", Some((360_000.0, 9))),
            ("12:30:00", None),
            ("00:01", None),
            ("00:61:00", None),
            ("5 min 3 max 9", None),
            ("2.5s", None),
            ("10m 2h", None),
            ("3 4", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }
}
