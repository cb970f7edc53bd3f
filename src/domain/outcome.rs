//! What became of an experiment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict on an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Better than the incumbent: the branch stays on it.
    Keep,
    /// Measured, and not better: the branch goes back.
    Discard,
    /// No measured number: it failed, or was refused before it ran.
    Crash,
}

impl Outcome {
    /// Its name in records and documents.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Keep => "keep",
            Outcome::Discard => "discard",
            Outcome::Crash => "crash",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
