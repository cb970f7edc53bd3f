//! The results of an experiment's guards, and earlier versions of its change.

use serde::{Deserialize, Serialize};

use super::text::ended_text;
use super::{CommitId, Failure};

/// One execution of a guard command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardRun {
    /// The command line passed to `sh -c`.
    pub command: String,
    /// Its exit status; absent if a signal terminated it.
    pub exit: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// True if `ar` terminated it at its time limit.
    #[serde(default)]
    pub timed_out: bool,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// True if it exited with 0 without changing protected files.
    pub passed: bool,
    /// The last lines of its output if it failed, without escape sequences.
    #[serde(default)]
    pub excerpt: String,
}

impl GuardRun {
    /// Describes its end: `exit 1 after 0.3 s`.
    pub fn ended(&self) -> String {
        ended_text(self.exit, self.signal, self.timed_out, self.seconds)
    }
}

/// An earlier version of an experiment's change, which the agent reworked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Its commit, on the same base as the experiment's.
    pub commit: CommitId,
    /// The ref that keeps it.
    pub saved: String,
    /// The failure that led to the rework.
    pub failure: Option<Failure>,
    /// The reason in a sentence, with its values.
    pub reason: String,
    /// The measured value.
    pub value: Option<f64>,
    /// The results of its guards.
    #[serde(default)]
    pub guards: Vec<GuardRun>,
}
