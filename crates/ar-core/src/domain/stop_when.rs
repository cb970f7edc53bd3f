//! When a loop stops on request.

use serde::{Deserialize, Serialize};

/// When a loop should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWhen {
    /// After the open experiment.
    Experiment,
    /// At once: `ar` terminates the run and rolls the change back.
    Now,
}
