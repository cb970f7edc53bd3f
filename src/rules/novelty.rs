//! Whether a change was measured before.

use sha2::{Digest, Sha256};

use super::History;
use crate::domain::{FailureClass, Fingerprint, Record};

/// The fingerprint of a change from its tree and its unified diff, without what depends on where in a file it stands and
/// on the rest of the file, like `git patch-id --verbatim`.
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

/// The first experiment that measured the same tree, or else the same change. One that never ran, or whose end says
/// nothing about its idea, does not count.
pub fn measured_before<'a>(history: &'a History, change: &Fingerprint) -> Option<&'a Record> {
    let measured = |record: &&Record| match record.failure.as_ref().map(|failure| failure.class) {
        Some(
            FailureClass::Scope
            | FailureClass::Protected
            | FailureClass::TooLarge
            | FailureClass::NoChange
            | FailureClass::Duplicate
            | FailureClass::Killed
            | FailureClass::Lost,
        ) => false,
        Some(_) | None => true,
    };
    let find = |is_same: &dyn Fn(&Fingerprint) -> bool| {
        let mut records = history.records().iter().filter(measured);
        records.find(|record| record.fingerprint.as_ref().is_some_and(is_same))
    };
    find(&|known| known.tree == change.tree).or_else(|| find(&|known| known.patch == change.patch))
}

#[cfg(test)]
mod tests {
    use super::*;

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
