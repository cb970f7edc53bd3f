//! Noticing that the agent runs the training itself, and what that costs.

use std::path::{Path, PathBuf};

use super::store::Store;
use crate::agent::printed_numbers;
use crate::domain::{ExperimentId, Notice};
use crate::fs::FileStamp;

/// `run.log` in the tree of a call, as it was before the call.
pub(super) struct RunLogBefore {
    path: PathBuf,
    stamp: Option<FileStamp>,
}

impl RunLogBefore {
    pub(super) fn of(tree: &Path) -> Self {
        let path = tree.join("run.log");
        let stamp = stamp_of(&path);
        RunLogBefore { path, stamp }
    }

    /// Whether there is another log now, or in another state.
    pub(super) fn is_rewritten(&self) -> bool {
        stamp_of(&self.path).is_some_and(|now| self.stamp != Some(now))
    }
}

/// The state of the file to which the path leads.
fn stamp_of(path: &Path) -> Option<FileStamp> {
    FileStamp::of(&path.canonicalize().ok()?)
}

impl Store {
    /// Tells the user once in a session that the agent ran the training itself in a call of so many seconds: it rewrote
    /// `run.log`, or its output in `log` after byte `from` has a number of the metric that no run gave.
    pub(super) fn tell_of_own_training(
        &mut self,
        id: ExperimentId,
        seconds: f64,
        rewrote_log: bool,
        (log, from): (&Path, u64),
    ) {
        if self.journal.calls.are_trainings() {
            return;
        }
        let records = self.history.records();
        let is_known = |value: f64| records.iter().any(|record| record.metric.value == Some(value));
        let metric = &self.contract.metric.name;
        let printed = printed_numbers(log, from, metric).into_iter().rfind(|number| !is_known(number.value));
        let mut signs: Vec<String> =
            printed.map(|number| format!("it printed {metric} {}", number.raw)).into_iter().collect();
        signs.extend(rewrote_log.then(|| "it rewrote run.log".to_owned()));
        if signs.is_empty() {
            return;
        }
        let run =
            records.iter().rev().find(|record| !record.runs.is_empty()).map_or(0.0, |record| record.run_seconds());
        self.journal.calls.note_training();
        self.say(Notice::AgentTrains { id, signs: signs.join(", "), call: seconds, run });
    }
}
