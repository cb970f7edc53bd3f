//! Values as a user writes them.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use autoresearch::domain::MetricSource;
use jiff::SignedDuration;
use jiff::civil::Time;

/// A duration as a user writes it: `90s`, `10m`, `8h`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trouble = || format!("`{text}` is not a duration; write 90s, 10m or 8h");
        let duration: SignedDuration = text.trim().parse().map_err(|_| trouble())?;
        Duration::try_from(duration).ok().filter(|duration| !duration.is_zero()).map(Span).ok_or_else(trouble)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

/// The JSON file that holds the metric, and where in it: `out.json:/final/loss`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetricFile {
    path: PathBuf,
    pointer: String,
}

impl FromStr for MetricFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, pointer) = match text.find(":/") {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, ""),
        };
        if path.is_empty() {
            return Err("write the file and a JSON pointer, as in out.json:/final/loss".into());
        }
        Ok(MetricFile { path: path.into(), pointer: pointer.into() })
    }
}

impl From<MetricFile> for MetricSource {
    fn from(MetricFile { path, pointer }: MetricFile) -> Self {
        MetricSource::File { path, pointer }
    }
}

/// A file for a chart; its extension says as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChartFile {
    pub(super) path: PathBuf,
    pub(super) is_png: bool,
}

impl FromStr for ChartFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(text);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase();
        match extension.as_str() {
            "svg" | "png" => Ok(ChartFile { is_png: extension == "png", path }),
            _ => Err("a chart is written as .svg or .png".into()),
        }
    }
}

/// Parses a finite number.
pub(super) fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("must be a finite number".into()),
    }
}

/// Parses a finite number that is 0 or more.
pub(super) fn non_negative(text: &str) -> Result<f64, String> {
    finite(text).and_then(|value| if value >= 0.0 { Ok(value) } else { Err("must be 0 or more".into()) })
}

/// Parses a whole number from 0.
pub(super) fn whole<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    whole_from(0, text)
}

/// Parses a whole number from 1.
pub(super) fn positive<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    whole_from(1, text)
}

fn whole_from<N: TryFrom<u64>>(least: u64, text: &str) -> Result<N, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("must be a whole number from {least}"));
    }
    let number: u64 = text.parse().map_err(|_| "is too large")?;
    if number < least {
        return Err(format!("must be a whole number from {least}"));
    }
    number.try_into().map_err(|_| "is too large".into())
}

/// Parses a time of day: `07:00`, `7:30`, `23:15:30`.
pub(super) fn time_of_day(text: &str) -> Result<Time, String> {
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

/// Parses a command line that is not empty.
pub(super) fn command_line(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("must be a command".into()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("8h", 28800), ("1h30m", 5400), ("500ms", 0)] {
            assert_eq!(text.parse::<Span>().map(|span| span.0.as_secs()), Ok(seconds), "{text}");
        }
        for text in ["", "10", "-5s", "0s", "soon", "10x"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_metric_file_has_a_path_and_a_pointer() {
        let file: MetricFile = "out/m.json:/a/b".parse().unwrap();
        assert_eq!((file.path.to_str(), file.pointer.as_str()), (Some("out/m.json"), "/a/b"));
        assert_eq!("m.json".parse::<MetricFile>().unwrap().pointer, "");
        assert!(":/a".parse::<MetricFile>().is_err());
    }

    #[test]
    fn a_chart_is_what_its_extension_says() {
        let is_png = |text: &str| text.parse::<ChartFile>().map(|file| file.is_png).ok();
        assert_eq!(
            ["a.svg", "b/c.PNG", "a.pdf", "svg", ".png"].map(is_png),
            [Some(false), Some(true), None, None, None]
        );
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
