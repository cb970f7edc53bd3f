//! How many runs decide on a change.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, VariantArray};

/// How a change is decided on, `--decide`.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    Serialize,
    Deserialize,
    Display,
    EnumMessage,
    EnumString,
    VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Decide {
    /// By its first run.
    #[default]
    #[strum(message = "By its first run")]
    Once,
    /// By up to 4 fresh runs after a first run that passes the screen.
    #[strum(message = "By up to 4 fresh runs after a first one that is good enough")]
    Confirmed,
    /// The same with stricter bars: at most one false keep in five.
    #[strum(message = "By the same, with at most one false keep in five")]
    Strict,
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
}
