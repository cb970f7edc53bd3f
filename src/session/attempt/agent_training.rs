//! Noticing that the agent runs the training itself, and what that costs.

use std::path::{Path, PathBuf};

use crate::agent::printed_numbers;
use crate::fs::{FileStamp, read_at_most};
use crate::rules::History;
use crate::session::tree::LARGEST_COPY;

/// `run.log` in the tree of a call, as it was before the call.
pub(crate) struct RunLogBefore {
    path: PathBuf,
    stamp: Option<FileStamp>,
}

impl RunLogBefore {
    pub(crate) fn of(tree: &Path) -> Self {
        let path = tree.join("run.log");
        let stamp = stamp_of(&path);
        RunLogBefore { path, stamp }
    }

    /// Returns whether a log exists that is new or changed since the call began, or `copied`, which the call saw instead, is
    /// another one.
    pub(crate) fn is_rewritten(&self, copied: &Path) -> bool {
        let read = |path: &Path| read_at_most(path, LARGEST_COPY).ok();
        stamp_of(&self.path).is_some_and(|now| self.stamp != Some(now))
            || (copied.is_file() && read(copied) != read(&self.path))
    }
}

/// The state of the file to which the path leads.
fn stamp_of(path: &Path) -> Option<FileStamp> {
    FileStamp::of(&path.canonicalize().ok()?)
}

/// The signs that the agent ran the training itself: it rewrote `run.log`, or its output in `log` after byte `from` has a number
/// of the metric that no run gave. Returns also how long the last run took, in seconds.
pub(crate) fn own_training(
    history: &History,
    metric: &str,
    rewrote_log: bool,
    (log, from): (&Path, u64),
) -> Option<(String, f64)> {
    let records = history.records();
    let is_known = |value: f64| records.iter().any(|record| record.metric.value == Some(value));
    let printed = printed_numbers(log, from, metric).into_iter().rfind(|number| !is_known(number.value));
    let mut signs: Vec<String> =
        printed.map(|number| format!("it printed {metric} {}", number.raw)).into_iter().collect();
    signs.extend(rewrote_log.then(|| "it rewrote run.log".to_owned()));
    let run = records.iter().rev().find(|record| !record.runs.is_empty()).map_or(0.0, |record| record.run_seconds());
    (!signs.is_empty()).then(|| (signs.join(", "), run))
}
