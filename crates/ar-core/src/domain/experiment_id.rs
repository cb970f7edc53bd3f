//! The number of an experiment.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of an experiment within its session. It is given when the attempt is opened, and numbers may have gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExperimentId(u32);

impl ExperimentId {
    /// The baseline, the first experiment of every session.
    pub const BASELINE: ExperimentId = ExperimentId(0);

    /// Returns whether this is the baseline.
    pub fn is_baseline(self) -> bool {
        self == ExperimentId::BASELINE
    }

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> ExperimentId {
        ExperimentId(self.0 + 1)
    }

    /// The number before this one; the baseline stays where it is.
    #[must_use]
    pub fn previous(self) -> ExperimentId {
        ExperimentId(self.0.saturating_sub(1))
    }

    /// The bare number, to place it on an axis or to look for gaps.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl From<u32> for ExperimentId {
    fn from(number: u32) -> Self {
        ExperimentId(number)
    }
}

impl FromStr for ExperimentId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(ExperimentId)
    }
}

impl fmt::Display for ExperimentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With the width that the caller asks for: refs and run folders write `00007`.
        self.0.fmt(f)
    }
}
