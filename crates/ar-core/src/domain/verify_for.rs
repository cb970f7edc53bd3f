//! The time that a night keeps to verify what it kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration_text;
use super::values::duration;

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

impl TryFrom<String> for VerifyFor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<VerifyFor> for String {
    fn from(it: VerifyFor) -> String {
        it.to_string()
    }
}

impl fmt::Display for VerifyFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyFor::Time(time) => f.write_str(&duration_text(*time)),
            VerifyFor::Part(part) => write!(f, "{}%", (part * 1e6).round() / 1e4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
