//! The space that logs or artifacts of a session may take.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
const UNITS: [(&str, u64); 13] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
];

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
