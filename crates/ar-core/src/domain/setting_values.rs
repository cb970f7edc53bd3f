//! The types of settings' values, and how a user writes them in flags, variables and `ar.toml`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, VariantArray};

use super::{FORMAT_VERSION, Number, as_text, duration_text, seconds};

/// The untracked files of earlier runs that a run in the user's working tree finds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Carry {
    /// Set aside what a run reads and changes, such as a checkpoint
    #[default]
    Found,
    /// Let each run find everything that earlier ones left
    All,
    /// Set aside everything that runs leave, as slots do
    None,
}

/// The mode of decisions, `--decide`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Decide {
    /// By its first run
    #[default]
    Once,
    /// By up to 4 fresh runs after a first one that is good enough
    Confirmed,
    /// By the same, with at most one false keep in five
    Strict,
}

/// The way to draw one, written `best` or `uniform:50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(try_from = "String", into = "String")]
pub enum Draw {
    /// The best.
    #[strum(to_string = "best")]
    Best,
    /// One of so many best, each with the same chance.
    #[strum(to_string = "uniform:{0}")]
    Uniform(u32),
}

impl Default for Draw {
    /// One of the fifty best, as the Madani adapter draws sources. Always taking the best would be greedy and
    /// self-confirming: only what the scorer believes in would be tried, and nothing could refute it.
    fn default() -> Self {
        Draw::Uniform(50)
    }
}

impl FromStr for Draw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().split_once(':') {
            None if text.trim() == "best" => Ok(Draw::Best),
            Some(("uniform", among)) => positive(among).map(Draw::Uniform).map_err(|why| format!("`{text}`: {why}")),
            _ => Err(format!("`{text}` is not a draw; write best or uniform:50")),
        }
    }
}

as_text!(Draw);

/// When a loop should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWhen {
    /// After the open experiment.
    Experiment,
    /// At once: `ar` terminates the run and rolls the change back.
    Now,
}

/// The pace of a loop, written `adaptive`, `novelty` or as a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Cadence {
    /// By the course of the numbers, and by what the last experiment did.
    Adaptive,
    /// By how new the last experiment was.
    Novelty,
    /// The same pause after each experiment.
    Fixed(Duration),
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cadence::Adaptive => f.write_str("adaptive"),
            Cadence::Novelty => f.write_str("novelty"),
            Cadence::Fixed(pause) => f.write_str(&duration_text(*pause)),
        }
    }
}

impl FromStr for Cadence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "adaptive" => Ok(Cadence::Adaptive),
            "novelty" => Ok(Cadence::Novelty),
            text => {
                let wrong = |_| format!("`{text}` is not a cadence; write adaptive, novelty or a duration such as 2h");
                duration(text).map(Cadence::Fixed).map_err(wrong)
            }
        }
    }
}

as_text!(Cadence);

/// The settings of the resident guard, as `resident.json` stores them. The file's existence says that one is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// The version of the format.
    pub version: u32,
    /// The age of the last patrol at which it calls one; in seconds.
    #[serde(with = "seconds")]
    pub beat: Duration,
    /// The time between two looks; in seconds.
    #[serde(with = "seconds")]
    pub wake: Duration,
    /// The command line of an emergency patrol; by default, it calls `ar guard`.
    pub patrol: Option<String>,
    /// The arguments of that `ar guard`.
    pub arguments: Vec<String>,
}

impl Resident {
    /// The default of `beat`: two patrols of an hourly guard did not come.
    pub const BEAT: Duration = Duration::from_secs(2 * 3600);

    /// The default of `wake`.
    pub const WAKE: Duration = Duration::from_secs(60);
}

impl Default for Resident {
    fn default() -> Self {
        Resident {
            version: FORMAT_VERSION,
            beat: Resident::BEAT,
            wake: Resident::WAKE,
            patrol: None,
            arguments: Vec::new(),
        }
    }
}

/// The time at the end of a night in which fresh runs verify its best experiment; in JSON the text that says it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum VerifyFor {
    /// So long.
    Time(Duration),
    /// This part of the night, more than 0 and at most a half.
    Part(f64),
}

impl VerifyFor {
    /// The time that is kept of a night of this length.
    pub fn of_night(self, night: Duration) -> Duration {
        match self {
            VerifyFor::Time(time) => time,
            VerifyFor::Part(part) => night.mul_f64(part),
        }
    }
}

impl FromStr for VerifyFor {
    type Err = String;

    /// Reads `1h` or `10%`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return duration(text).map(VerifyFor::Time).map_err(|_| format!("`{text}` is no time; write 1h or 10%"));
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 50.0 => Ok(VerifyFor::Part(percent / 100.0)),
            _ => Err(format!("`{text}` is no part of a night; write 10%, and at most 50%")),
        }
    }
}

as_text!(VerifyFor);

impl fmt::Display for VerifyFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyFor::Time(time) => f.write_str(&duration_text(*time)),
            VerifyFor::Part(part) => write!(f, "{}%", (part * 1e6).round() / 1e4),
        }
    }
}

/// The space that logs or artifacts of a session may take; in JSON a number of bytes, or `"all"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SizeLimit {
    /// All of them.
    All,
    /// As many as fit into this many bytes.
    #[serde(untagged)]
    Bytes(u64),
}

/// The units, larger ones first where one is a suffix of another; `G` is a GiB, as in `du -h`.
static UNITS: LazyLock<Vec<(&str, u64)>> = LazyLock::new(|| {
    let units = include_str!("lists/sizes.txt").lines().filter_map(|line| line.split_once(": "));
    units.filter_map(|(name, bytes)| Some((name, bytes.parse().ok()?))).collect()
});

impl FromStr for SizeLimit {
    type Err = String;

    /// Reads `2GB`, `1.5 GiB`, `500M`, `0` or `all`, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        if trimmed.eq_ignore_ascii_case("all") {
            return Ok(SizeLimit::All);
        }
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = (trimmed[..digits].parse::<f64>(), trimmed[digits..].trim_start());
        let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor);
        match (number, factor) {
            (Ok(number), Some(factor)) => Ok(SizeLimit::Bytes((number * factor as f64).round() as u64)),
            (Ok(0.0), None) if unit.is_empty() => Ok(SizeLimit::Bytes(0)),
            _ => Err(format!("`{text}` is not a size; write 500MB, 2GB, 0 or all")),
        }
    }
}

impl fmt::Display for SizeLimit {
    /// Formats it for parsing, in the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeLimit::All => f.write_str("all"),
            SizeLimit::Bytes(0) => f.write_str("0"),
            SizeLimit::Bytes(bytes) => {
                let (unit, factor) = UNITS.iter().find(|(_, factor)| bytes % factor == 0).unwrap_or(&("B", 1));
                write!(f, "{}{unit}", bytes / factor)
            }
        }
    }
}

/// Parses a duration: `90s`, `10m`, `8h`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let trouble = || format!("`{text}` is not a duration; write 90s, 10m or 8h");
    let duration: SignedDuration = text.trim().parse().map_err(|_| trouble())?;
    Duration::try_from(duration).ok().filter(|duration| !duration.is_zero()).ok_or_else(trouble)
}

/// Parses a finite number.
pub fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("must be a finite number".into()),
    }
}

/// Parses a number from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    finite(text).and_then(|value| {
        if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("must be a number from 0 to 1".into()) }
    })
}

/// Accepts a finite number, with or without a unit, that is 0 or more.
pub fn non_negative(text: &str) -> Result<(), String> {
    Number::with_unit(text).filter(|number| number.value >= 0.0).map(drop).ok_or_else(|| "must be 0 or more".into())
}

/// Parses a whole number.
pub fn whole<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    whole_from(0, text)
}

/// Parses a whole number from 1.
pub fn positive<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    whole_from(1, text)
}

/// Accepts a whole number from 1.
pub fn not_zero(text: &str) -> Result<(), String> {
    positive::<u64>(text).map(drop)
}

/// Accepts a whole number from 0 to 3.
pub fn up_to_three(text: &str) -> Result<(), String> {
    match whole::<u64>(text) {
        Ok(0..=3) => Ok(()),
        _ => Err("must be 0, 1, 2 or 3".into()),
    }
}

fn whole_from<N: TryFrom<u64>>(least: u64, text: &str) -> Result<N, String> {
    let from = if least > 0 { format!(" from {least}") } else { String::new() };
    let trouble = || format!("must be a whole number{from}");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(trouble());
    }
    let number: u64 = text.parse().map_err(|_| "is too large")?;
    if number < least {
        return Err(trouble());
    }
    number.try_into().map_err(|_| "is too large".into())
}

/// Accepts a command line that is not empty.
pub fn command_line(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("must be a command".into()) } else { Ok(()) }
}

/// Parses a time of day: `07:00`, `7:30`, `23:15:30`.
pub fn time_of_day(text: &str) -> Result<Time, String> {
    let trouble = || format!("`{text}` is not a time of day; write it like 07:00");
    let parts: Option<Vec<i8>> = text
        .trim()
        .split(':')
        .map(|part| part.parse().ok().filter(|_| part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit())))
        .collect();
    let (hour, minute, second) = match parts.as_deref() {
        Some([hour, minute]) => (*hour, *minute, 0),
        Some([hour, minute, second]) => (*hour, *minute, *second),
        _ => return Err(trouble()),
    };
    Time::new(hour, minute, second, 0).map_err(|_| trouble())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_command_line_and_of_files_are_the_same() {
        for (decide, word) in [(Decide::Once, "once"), (Decide::Confirmed, "confirmed"), (Decide::Strict, "strict")] {
            assert_eq!((decide.to_string().as_str(), word.parse()), (word, Ok(decide)));
            assert_eq!(serde_json::to_string(&decide).unwrap(), format!("\"{word}\""));
        }
        assert!("twice".parse::<Decide>().is_err());
    }

    #[test]
    fn a_draw_reads_as_it_is_written() {
        for text in ["best", "uniform:1", "uniform:50"] {
            let draw: Draw = text.parse().unwrap();
            assert_eq!(draw.to_string(), text);
            assert_eq!(serde_json::from_str::<Draw>(&serde_json::to_string(&draw).unwrap()).unwrap(), draw);
        }
        for text in ["", "worst", "best:3", "uniform", "uniform:", "uniform:0", "uniform:-1", "uniform:x"] {
            assert!(text.parse::<Draw>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cadence_reads_as_it_is_written() {
        for text in ["adaptive", "novelty", "2h", "1h30m", "90s"] {
            let cadence: Cadence = text.parse().unwrap();
            assert_eq!(cadence.to_string(), text);
            assert_eq!(serde_json::from_str::<Cadence>(&serde_json::to_string(&cadence).unwrap()).unwrap(), cadence);
        }
        for text in ["", "0s", "-2h", "hourly", "2"] {
            assert!(text.parse::<Cadence>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_parts_read_as_people_write_them() {
        for (text, of_ten_hours) in [("1h", 3600), ("90m", 5400), ("10%", 3600), (" 2.5 % ", 900), ("50%", 18_000)] {
            let found: VerifyFor = text.parse().unwrap();
            assert_eq!(found.of_night(Duration::from_secs(36_000)).as_secs(), of_ten_hours, "{text}");
            assert_eq!(found.to_string().parse(), Ok(found), "{text}");
        }
        for text in ["", "0%", "51%", "-1%", "ten", "%", "10", "nan%"] {
            assert!(text.parse::<VerifyFor>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("2GB", 2_000_000_000),
            ("500mb", 500_000_000),
            ("1.5 GiB", 3 << 29),
            ("10G", 10 << 30),
            ("64k", 64 << 10),
            ("7B", 7),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(SizeLimit::Bytes(bytes)), "{text}");
        }
        assert_eq!("All".parse(), Ok(SizeLimit::All));
        for text in ["", "10", "-1GB", "GB", "1.2.3GB", "many", "2 gigs", "1e3MB"] {
            assert!(text.parse::<SizeLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_written_as_it_is_read() {
        for text in ["all", "0", "2GB", "1500MB", "64KiB", "7B", "10GiB"] {
            assert_eq!(text.parse::<SizeLimit>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn json_has_a_number_of_bytes_or_a_word() {
        for (quota, json) in [(SizeLimit::Bytes(1000), "1000"), (SizeLimit::All, "\"all\"")] {
            assert_eq!(serde_json::to_string(&quota).unwrap(), json);
            assert_eq!(serde_json::from_str::<SizeLimit>(json).unwrap(), quota);
        }
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("8h", 28800), ("1h30m", 5400), ("500ms", 0)] {
            assert_eq!(duration(text).map(|duration| duration.as_secs()), Ok(seconds), "{text}");
        }
        for text in ["", "10", "-5s", "0s", "soon", "10x"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_of_day_is_one_on_the_clock() {
        let text = |text: &str| time_of_day(text).map(|time| time.to_string());
        assert_eq!(text("07:00"), Ok("07:00:00".into()));
        assert_eq!(text(" 7:30"), Ok("07:30:00".into()));
        assert_eq!(text("23:59:01"), Ok("23:59:01".into()));
        for wrong in ["", "7", "24:00", "07:60", "7:0x", "-1:00", "+1:00", "1:2:3:4", "007:00", "7 am"] {
            assert!(time_of_day(wrong).is_err(), "{wrong}");
        }
    }
}
