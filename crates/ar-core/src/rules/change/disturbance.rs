//! Files and refs that change while a run is active, and what becomes of its number; ignored files, whose changes no commit has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::domain::{ExperimentId, Failure, FailureClass, Record, list};

/// The files that changed while a run was active.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disturbance {
    /// Tracked files and the metric file.
    pub changed: Vec<PathBuf>,
    /// Protected files, also those that were changed back.
    pub touched: Vec<PathBuf>,
}

impl Disturbance {
    /// Leaves out files that do not count.
    pub fn without(mut self, is_exempt: impl Fn(&Path) -> bool) -> Disturbance {
        self.touched.retain(|path| !is_exempt(path));
        self.changed.retain(|path| !is_exempt(path));
        self
    }

    /// All of them, each once.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.changed.iter().chain(&self.touched).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// The failure in the place of the number, if there are any.
    pub fn failure(&self) -> Option<Failure> {
        let changed = self.paths();
        if changed.is_empty() {
            return None;
        }
        Some(match self.touched.is_empty() {
            true => Failure::new(FailureClass::Changed, changed_text(&changed)),
            false => Failure::new(
                FailureClass::Protected,
                format!("{} while the run was active, and changed back", were_changed(&self.touched)),
            ),
        })
    }
}

/// Says which files changed during a run.
pub fn changed_text(changed: &[PathBuf]) -> String {
    format!("{} changed while it ran", list(changed))
}

fn were_changed(paths: &[PathBuf]) -> String {
    format!("{} {} changed", list(paths), if paths.len() == 1 { "was" } else { "were" })
}

/// Refs by name, with the objects before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefChanges {
    /// New refs, with their objects.
    pub foreign: Vec<(String, String)>,
    /// Moved refs, with their old and new objects.
    pub moved: Vec<(String, String, String)>,
    /// Deleted refs, with their old objects.
    pub gone: Vec<(String, String)>,
}

/// Compares refs with their earlier state, `were`.
pub fn compare_refs(were: &[(String, String)], are: &[(String, String)]) -> RefChanges {
    if were == are {
        return RefChanges::default();
    }
    let now: BTreeMap<&str, &str> = are.iter().map(|(name, object)| (name.as_str(), object.as_str())).collect();
    let before: BTreeMap<&str, &str> = were.iter().map(|(name, object)| (name.as_str(), object.as_str())).collect();
    let mut changes = RefChanges::default();
    for (name, was) in were {
        match now.get(name.as_str()) {
            None => changes.gone.push((name.clone(), was.clone())),
            Some(is) if is != was => changes.moved.push((name.clone(), was.clone(), (*is).to_owned())),
            Some(_) => {}
        }
    }
    changes.foreign = are.iter().filter(|(name, _)| !before.contains_key(name.as_str())).cloned().collect();
    changes
}

/// The experiments before whose runs ignored files changed, with those files: files that the command names, by their
/// stamps, and files that changed during the agent call.
pub fn ignored_changes(records: &[Record]) -> Vec<(ExperimentId, Vec<String>)> {
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    for record in records {
        let inputs = &record.ignored_inputs;
        let mut changed = record.ignored_changed.clone();
        let is_other = |(path, stamp): &(&String, &String)| before.get(*path).is_some_and(|before| before != *stamp);
        changed.extend(inputs.iter().filter(is_other).map(|(path, _)| path.clone()));
        if !changed.is_empty() {
            found.push((record.id, changed.into_iter().collect()));
        }
        before.extend(inputs.iter().map(|(path, stamp)| (path.clone(), stamp.clone())));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn each_change_is_known_for_what_it_is() {
        let refs = |refs: &[(&str, &str)]| -> Vec<(String, String)> {
            refs.iter().map(|(name, object)| ((*name).to_owned(), (*object).to_owned())).collect()
        };
        let were = refs(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(compare_refs(&were, &were), RefChanges::default());
        let changes = compare_refs(&were, &refs(&[("a", "1"), ("b", "9"), ("d", "4")]));
        assert_eq!(changes.foreign, refs(&[("d", "4")]));
        assert_eq!(changes.moved, [("b".to_owned(), "2".to_owned(), "9".to_owned())]);
        assert_eq!(changes.gone, refs(&[("c", "3")]));
    }

    #[test]
    fn a_file_counts_from_the_run_on_before_which_it_changed() {
        let run = |id: u32, stamp: &str| record(json!({"id": id, "ignored_inputs": {"data/x.bin": stamp}}));
        let mut touched = run(3, "b");
        touched.ignored_changed.insert(".venv/x.py".into());
        let found = ignored_changes(&[run(0, "a"), run(1, "a"), run(2, "b"), touched, record(json!({"id": 4}))]);
        assert_eq!(found, [(2.into(), vec!["data/x.bin".to_owned()]), (3.into(), vec![".venv/x.py".to_owned()])]);
    }
}
