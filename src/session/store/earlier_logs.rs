//! Logs of finished runs: detects which of them changed since the last check.

use std::path::{Path, PathBuf};

use super::expectations::{Expected, Stamps};
use super::notices::{Notices, note_changed};
use crate::domain::{Actor, Actors, ExperimentId};
use crate::fs::FileStamp;
use crate::rules::{History, NEWEST_KEPT};
use crate::state::SessionFolder;

/// Number of earlier runs, newest first, whose logs are checked after each job. A loop checks all logs when it starts and
/// ends.
pub(crate) const LOGS: usize = 50;

/// Stamps of the logs of finished runs; `None` until they are checked.
#[derive(Debug, Default)]
pub(crate) struct EarlierLogs(Option<Stamps>);

/// The logs of runs that are over, the newest first, each plain and compressed.
pub(crate) fn of_earlier<'a>(
    folder: &'a SessionFolder,
    history: &'a History,
    at_work: &'a [(Actor, ExperimentId)],
) -> impl Iterator<Item = [PathBuf; 2]> + 'a {
    let earlier = history.records().iter().rev().map(|record| record.id);
    let earlier = earlier.filter(|id| at_work.iter().all(|(_, open)| open != id));
    earlier.map(|id| ["run.log", "run.log.gz"].map(|name| folder.run(id).join(name)))
}

/// The log of the newest experiment that has one, of those whose logs are not dropped.
pub(crate) fn newest_log(folder: &SessionFolder, history: &History) -> Option<PathBuf> {
    let logs = history.records().iter().rev().map(|record| folder.run(record.id).join("run.log"));
    logs.take(NEWEST_KEPT).find(|log| log.is_file())
}

/// Returns whether a log is missing because `ar` compressed or dropped it.
fn is_looked_after(log: &Path) -> bool {
    !log.exists() && ["run.log.gz", "logs.dropped"].iter().any(|name| log.with_file_name(name).exists())
}

impl Expected {
    /// Looks at those logs of earlier runs that were not looked at yet: all of them the first time, then the newest.
    pub(crate) fn inspect_logs(&mut self, folder: &SessionFolder, history: &History) {
        let newest = if self.logs.0.is_some() { LOGS } else { usize::MAX };
        let seen = self.logs.0.get_or_insert_default();
        for paths in of_earlier(folder, history, &self.at_work).take(newest) {
            if paths.iter().all(|path| !seen.contains_key(path)) {
                seen.extend(paths.into_iter().filter_map(|path| FileStamp::of(&path).map(|stamp| (path, stamp))));
            }
        }
    }

    /// Says of all logs of earlier runs which have changed, where they were looked at.
    pub(crate) fn name_all_changed_logs(&mut self, folder: &SessionFolder, history: &History, notices: &mut Notices) {
        if self.logs.0.is_some() {
            // The last run's log did not exist at the previous check.
            self.inspect_logs(folder, history);
            self.logs.name_changed(&Actor::Ar.into(), of_earlier(folder, history, &self.at_work), notices);
        }
    }

    /// Forgets the stamps of earlier runs' logs if no actor is active: the user may have changed them.
    pub(crate) fn forget_logs(&mut self) {
        if self.at_work.is_empty() {
            self.logs.0 = None;
        }
    }
}

impl EarlierLogs {
    /// Notes what files look like that were put back as they were.
    pub(crate) fn note_restored<'a>(&mut self, paths: impl Iterator<Item = &'a PathBuf>) {
        let Some(seen) = &mut self.0 else { return };
        for path in paths {
            if let (Some(seen), Some(now)) = (seen.get_mut(path), FileStamp::of(path)) {
                *seen = now;
            }
        }
    }

    /// Says which of these logs have changed since they were looked at.
    pub(crate) fn name_changed(
        &mut self,
        who: &Actors,
        logs: impl Iterator<Item = [PathBuf; 2]>,
        notices: &mut Notices,
    ) {
        let Some(seen) = &mut self.0 else { return };
        let mut changed = Vec::new();
        for [plain, compressed] in logs {
            let (was, now) = (seen.get(&plain).copied(), FileStamp::of(&plain));
            let was_compressed = seen.get(&compressed).copied();
            // A plain log that is still there was not compressed.
            let is_looked_for = now.is_none() || was_compressed.is_some();
            let now_compressed = if is_looked_for { FileStamp::of(&compressed) } else { None };
            if now != was && !(now.is_none() && is_looked_after(&plain)) {
                changed.push(plain.clone());
            }
            let is_dropped = || now_compressed.is_none() && compressed.with_file_name("logs.dropped").exists();
            let is_known = if was_compressed.is_some() { is_dropped() } else { was.is_some() };
            if now_compressed != was_compressed && !is_known {
                changed.push(compressed.clone());
            }
            for (path, stamp) in [(plain, now), (compressed, now_compressed)] {
                match stamp {
                    Some(stamp) => seen.insert(path, stamp),
                    None => seen.remove(&path),
                };
            }
        }
        changed.sort();
        note_changed("logs of earlier runs were changed", who, changed, notices);
    }
}
