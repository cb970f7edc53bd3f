//! The pace of a loop.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::as_text::as_text;
use super::duration_text;
use super::values::duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
