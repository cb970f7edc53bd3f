//! Detecting repeated changes.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::domain::{CommitId, FailureClass, Fingerprint, Record, bytes_text};
use crate::rules::history::History;

/// The fingerprint of a change from its tree and unified diff. Like `git patch-id --verbatim`, it ignores line numbers
/// and context.
pub fn fingerprint(tree: String, diff: &[u8]) -> Fingerprint {
    let mut hash = Sha256::new();
    for line in diff.split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b"index ") && !line.starts_with(b"@@ ") {
            hash.update(line);
        }
    }
    let patch = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Fingerprint { tree, patch }
}

/// The GPU memory of another process, in bytes, from which it may have made a run fail: more than a driver or a desktop
/// takes.
const HELD: u64 = 256 << 20;

/// Names possible causes of a failed run other than the change. `others` is the most GPU memory, in bytes, that other
/// processes held during the run. `full` is a folder whose disk was full at its end.
pub fn outside_cause(class: FailureClass, others: Option<u64>, full: Option<&Path>) -> Option<String> {
    let held = others.filter(|bytes| class.can_come_from_gpu() && *bytes >= HELD);
    let held = held.map(|held| format!("another process held {} of the GPU", bytes_text(held)));
    let full =
        full.filter(|_| class.can_come_from_disk()).map(|folder| format!("the disk of {} was full", folder.display()));
    let causes: Vec<String> = [held, full].into_iter().flatten().collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

/// The first experiment with the same tree, or with the same change on the same base: on another base the result may
/// differ. Experiments that never ran, whose failure does not judge the idea, or that were compared with a number that moved, do
/// not count.
pub fn measured_before<'a>(history: &'a History, change: &Fingerprint, base: &CommitId) -> Option<&'a Record> {
    let measured = |record: &&Record| {
        // A rejected change counts as measured. Otherwise it could be repeated until some reviewer accepts it.
        let counts = |class: FailureClass| class.judges_change() || class == FailureClass::ReviewFailed;
        let has_moved = record.control.as_ref().is_some_and(|control| control.moved);
        !has_moved
            && record.outside_cause.is_none()
            && record.failure.as_ref().is_none_or(|failure| counts(failure.class))
    };
    let find = |is_same: &dyn Fn(&Record, &Fingerprint) -> bool| {
        let mut records = history.records().iter().filter(measured);
        records.find(|record| record.fingerprint.as_ref().is_some_and(|known| is_same(record, known)))
    };
    find(&|_, known| known.tree == change.tree)
        .or_else(|| find(&|record, known| known.patch == change.patch && record.base == *base))
}

/// Returns whether two open changes are the same: they lead to the same tree, or they are the same patch on the same
/// base.
pub fn is_same_change(one: (&Fingerprint, &CommitId), other: (&Fingerprint, &CommitId)) -> bool {
    one.0.tree == other.0.tree || (one.0.patch == other.0.patch && one.1 == other.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn a_change_counts_as_measured_on_its_own_base_and_where_nothing_outside_of_it_failed() {
        let known = |fields: serde_json::Value| {
            let mut all =
                json!({"id": 1, "base": "b1", "outcome": "discard", "fingerprint": {"tree": "t1", "patch": "p"}});
            all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            History::new(vec![record(all)])
        };
        let is_known = |history: &History, tree: &str, base: &str| {
            let change = Fingerprint { tree: tree.into(), patch: "p".into() };
            measured_before(history, &change, &CommitId::new(base)).is_some()
        };
        let discard = known(json!({}));
        assert_eq!(
            [("t2", "b1"), ("t2", "b2"), ("t1", "b2")].map(|(tree, base)| is_known(&discard, tree, base)),
            [true, false, true]
        );
        let oom = |cause: Option<String>| {
            known(json!({"outcome": "crash", "failure": {"class": "oom"}, "outside_cause": cause}))
        };
        assert!(is_known(&oom(None), "t1", "b1"));
        let cause = outside_cause(FailureClass::Oom, Some(12 << 30), None);
        assert_eq!(cause.as_deref(), Some("another process held 13 GB of the GPU"));
        assert!(!is_known(&oom(cause), "t1", "b1"));
        assert!(!is_known(&known(json!({"outcome": "crash", "failure": {"class": "lost"}})), "t1", "b1"));
        assert!(is_known(&known(json!({"failure": {"class": "review_failed"}})), "t1", "b1"), "it was rejected");
        let control = |moved| json!({"experiment": 0, "recorded": 9.0, "name": "loss", "direction": "lower", "value": 8.0, "raw": "8", "moved": moved});
        assert!(
            !is_known(&known(json!({"control": control(true)})), "t1", "b1"),
            "it was compared with another number"
        );
        assert!(is_known(&known(json!({"control": control(false)})), "t1", "b1"));
        assert_eq!(outside_cause(FailureClass::Timeout, Some(1 << 20), None), None);
        assert_eq!(outside_cause(FailureClass::Crash, Some(12 << 30), None), None);
        assert_eq!(outside_cause(FailureClass::Oom, None, None), None);
        let full = |class, others| outside_cause(class, others, Some(Path::new("/tmp")));
        assert_eq!(full(FailureClass::Crash, Some(12 << 30)).as_deref(), Some("the disk of /tmp was full"));
        assert_eq!(
            full(FailureClass::Oom, Some(12 << 30)).as_deref(),
            Some("another process held 13 GB of the GPU, the disk of /tmp was full")
        );
        assert_eq!(full(FailureClass::SyntaxError, None), None);
    }

    #[test]
    fn the_same_edit_of_another_version_is_the_same_change() {
        let diff = |index: &str, hunk: &str, line: &str| {
            format!("diff --git a/x b/x\nindex {index} 100644\n--- a/x\n+++ b/x\n@@ {hunk} @@\n a\n-b\n+{line}\n")
        };
        let of = |text: String| fingerprint(String::new(), text.as_bytes()).patch;
        let first = of(diff("1..2", "-1,2 +1,2", "c"));
        assert_eq!(first, of(diff("3..4", "-7,2 +9,2", "c")));
        assert_ne!(first, of(diff("1..2", "-1,2 +1,2", "index 1")));
    }
}
