//! Ignored files that may affect a value: no commit has their changes.

use std::collections::BTreeMap;

use crate::domain::{ExperimentId, Record};

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
    fn a_file_counts_from_the_run_on_before_which_it_changed() {
        let run = |id: u32, stamp: &str| record(json!({"id": id, "ignored_inputs": {"data/x.bin": stamp}}));
        let mut touched = run(3, "b");
        touched.ignored_changed.insert(".venv/x.py".into());
        let found = ignored_changes(&[run(0, "a"), run(1, "a"), run(2, "b"), touched, record(json!({"id": 4}))]);
        assert_eq!(found, [(2.into(), vec!["data/x.bin".to_owned()]), (3.into(), vec![".venv/x.py".to_owned()])]);
    }
}
