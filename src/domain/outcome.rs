//! The outcome of an experiment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict on an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Better than the incumbent: the branch stays at it.
    Keep,
    /// Measured, but not better: the branch returns to its base.
    Discard,
    /// Without a measured value: it failed, or `ar` refused it before it ran.
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
