//! Runs of the measuring command for an open attempt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{RunResult, RunRole, is_default};
use crate::rules::Without;

/// The most evictions of a run that count as no loss: a change that takes its node down with it is not tried for ever.
pub const MOST_EVICTIONS: u32 = 10;

/// The most deletions of a run's tree that count as no loss: a command may delete its own tree each time.
const MOST_DELETIONS: u32 = 3;

/// A run of the measuring command for an open attempt. The job that awaits it owns it, and nobody else changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRun {
    /// Its purpose.
    pub role: RunRole,
    /// Its number among the attempt's runs of this role, from 1; 0 for the first run of a second look.
    pub number: u32,
    /// The seed that it gets; absent in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The number of its starts on its commit; 0 while it is ready.
    pub starts: u32,
    /// Repetitions because files changed during it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeated: u32,
    /// Repetitions because another process was on its GPU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tainted: u32,
    /// Repetitions because it ran on another model of GPU than the baseline.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moved: u32,
    /// Number of evictions by its engine, and of deletions of its tree.
    #[serde(default, skip_serializing_if = "is_default")]
    pub evicted: u32,
    /// The files set aside to repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Without>,
    /// The stamp of the file that holds the metric before it; see [`crate::domain::MetricSource::File`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_file: Option<String>,
    /// The result of a further run, which decides together with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RunResult>>,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

impl OpenRun {
    /// A run that is ready, with the seed of its role and number.
    pub fn new(role: RunRole, number: u32) -> Self {
        OpenRun {
            role,
            number,
            seed: role.seed(number),
            starts: 0,
            repeated: 0,
            tainted: 0,
            moved: 0,
            evicted: 0,
            without: None,
            metric_file: None,
            result: None,
            unknown_fields: Map::new(),
        }
    }

    /// Returns whether it is the attempt's first run. Its files lie in the attempt's folder, those of others in folders
    /// below.
    pub fn is_first(&self) -> bool {
        self.number == 0 || self.number == 1 && self.role.begins_attempt()
    }

    /// The paths without which it was repeated, for its record.
    pub fn carried(&self) -> impl Iterator<Item = &String> {
        self.without.iter().flat_map(|without| &without.paths)
    }

    /// The number of its starts without those that repeated it: one more than it was lost, once it was started.
    pub fn tries(&self) -> u32 {
        let evicted = self.evicted.min(MOST_EVICTIONS);
        let without = self.without.as_ref().map_or(0, |without| without.repeats);
        self.starts.saturating_sub(self.repeated + self.tainted + self.moved + evicted + without)
    }

    /// Counts a deletion of its tree.
    pub fn count_deletion(&mut self) {
        self.evicted += u32::from(self.evicted < MOST_DELETIONS);
    }

    /// Returns whether it is a run of the same role and number.
    pub fn is(&self, other: &OpenRun) -> bool {
        (self.role, self.number) == (other.role, other.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_no_losses() {
        let run = OpenRun { starts: 4, repeated: 1, tainted: 2, ..OpenRun::new(RunRole::Screen, 1) };
        assert_eq!(run.tries(), 1);
        let json = serde_json::to_value(&run).unwrap();
        assert_eq!(serde_json::from_value::<OpenRun>(json).unwrap(), run);
    }
}
