//! The outcome of an experiment.

use serde::{Deserialize, Serialize};

/// The verdict on an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    /// Better than the incumbent: the branch stays at it.
    Keep,
    /// Measured, but not better: the branch returns to its base.
    Discard,
    /// Without a measured value: it failed, or `ar` refused it before it ran.
    Crash,
}
