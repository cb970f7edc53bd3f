//! What the guards said of an experiment, and the versions of its change that were run before the last one.

use serde::{Deserialize, Serialize};

use super::text::ended_text;
use super::{CommitId, Failure};

/// One execution of a guard command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardRun {
    /// The command line, as `sh -c` got it.
    pub command: String,
    /// Its exit status; absent when a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was ended because its time was over.
    #[serde(default)]
    pub timed_out: bool,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether it exited with 0 and left protected files alone.
    pub passed: bool,
    /// The last lines of its output where it did not pass, escape sequences removed.
    #[serde(default)]
    pub excerpt: String,
}

impl GuardRun {
    /// How it ended, in words: `exit 1 after 0.3 s`.
    pub fn ended(&self) -> String {
        ended_text(self.exit, self.signal, self.timed_out, self.seconds)
    }
}

/// A version of an experiment's change that was run and then reworked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Its commit, on the same base as the experiment's.
    pub commit: CommitId,
    /// The ref that keeps it.
    pub saved: String,
    /// Why it was reworked.
    pub failure: Option<Failure>,
    /// The same in a sentence, with its numbers.
    pub reason: String,
    /// What it measured.
    pub value: Option<f64>,
    /// What its guards said.
    #[serde(default)]
    pub guards: Vec<GuardRun>,
}
