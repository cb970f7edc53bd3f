//! When a loop that is asked to stop does.

use serde::{Deserialize, Serialize};

/// When a loop is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWhen {
    /// After the experiment that is open.
    Experiment,
    /// At once: its run is ended and rolled back.
    Now,
}
