//! The steps of an experiment.

use serde::{Deserialize, Serialize};

/// The step that an experiment is in; ARCHITECTURE.md has the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No experiment is open.
    Idle,
    /// The agent is at work on the working tree.
    Proposing,
    /// The change is a commit that is not run, or whose run is about to be made ready.
    Committing,
    /// The measuring command runs, or is about to.
    Running,
    /// The run is measured, and its number would be kept: the guards run.
    Guarding,
    /// The verdict is reached and becomes a record.
    Recording,
    /// The record stands; row, branch and working tree follow.
    Settling,
}
