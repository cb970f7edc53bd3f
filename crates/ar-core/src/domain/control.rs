//! The control of a gain.

use serde::{Deserialize, Serialize};

use super::{ExperimentId, MetricValue};

/// What the experiment to beat gave when it ran once more, in the same tree, before a change that had beaten it was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The experiment that ran again.
    pub experiment: ExperimentId,
    /// The value that was to beat until then.
    pub recorded: f64,
    /// The metric with the value that it gave; without one if that run failed.
    #[serde(flatten)]
    pub metric: MetricValue,
    /// True if the value moved by at least half of the claimed gain: the change is not kept, and this is the value to beat.
    pub moved: bool,
}
