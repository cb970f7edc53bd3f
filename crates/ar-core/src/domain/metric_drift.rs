//! A drift of the numbers: the same code measures something else than before.

use serde::{Deserialize, Serialize};

use super::{ExperimentId, count_of, experiment_name, two_digits};

/// A shift beyond chance in reruns of the best experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricDrift {
    /// By how much the same code is better now, in the metric's unit; negative if it is worse.
    pub shift: f64,
    /// Its standard error.
    pub error: f64,
    /// The reruns that show it: 1 for a sudden shift.
    pub checks: u32,
    /// The experiments over which it came.
    pub experiments: u32,
}

impl MetricDrift {
    /// Says of the newest rerun, which was of experiment `id`, what it shows.
    pub fn sentence(&self, id: ExperimentId, metric: &str) -> String {
        let way = if self.shift < 0.0 { "worse" } else { "better" };
        let size = format!("{} ± {} {way}", two_digits(self.shift.abs()), two_digits(self.error));
        match self.checks {
            1 => format!(
                "{metric} drifts: {} measures {size} than the same code by the same seed before, more than chance",
                experiment_name(id)
            ),
            checks => format!(
                "{metric} drifts: over {} the same code became {size} by {}, more than chance",
                count_of(self.experiments, "experiment"),
                count_of(checks, "rerun")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_says_its_size_and_its_error() {
        let drift = MetricDrift { shift: -0.0123, error: 0.003, checks: 1, experiments: 9 };
        assert_eq!(
            drift.sentence(7.into(), "loss"),
            "loss drifts: experiment 7 measures 0.012 ± 0.0030 worse than the same code by the same seed before, more than \
             chance"
        );
        let slow = MetricDrift { shift: 0.5, checks: 4, experiments: 80, ..drift };
        assert_eq!(
            slow.sentence(7.into(), "loss"),
            "loss drifts: over 80 experiments the same code became 0.50 ± 0.0030 better by 4 reruns, more than chance"
        );
    }
}
