//! Values as a user writes them: in flags, variables and `ar.toml`.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::Time;

use super::Number;

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
