//! The ways to draw an idea or a source from the backlog.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text::as_text;
use super::values::positive;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
