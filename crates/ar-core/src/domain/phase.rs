//! The steps of an experiment.

use serde::{Deserialize, Serialize};

/// The step that an experiment is in; ARCHITECTURE.md has the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// No experiment is open.
    Idle,
    /// The agent edits the working tree.
    Proposing,
    /// The change is a commit whose run is not prepared yet.
    Committing,
    /// The measuring command runs or is about to start.
    Running,
    /// The value would be kept, and the guards run.
    Guarding,
    /// Fresh runs decide whether the value is kept.
    Confirming,
    /// An independent reviewer judges whether the value was earned.
    Reviewing,
    /// It beat its own base while another experiment was kept, and waits for a train.
    Waiting,
    /// The best experiment runs once again, since change after change crashed. No experiment is open but for that.
    Checking,
    /// `ar` records the verdict.
    Recording,
    /// The record exists; row, branch and working tree follow.
    Settling,
}
