//! What was rewritten while no `ar` was at work.

use serde_json::{Value, json};

use super::harness::{record, repo, runs, session};
use crate::support::{Called, TestRepo, ar};

const JOURNAL: &str = ".autoresearch/t/state/progress.json";

fn forge(repo: &TestRepo, phase: &str, open: Value) {
    let mut journal: Value = serde_json::from_str(&repo.read(JOURNAL)).unwrap();
    journal["attempts"] = json!([{"phase": phase, "open": open}]);
    repo.write(JOURNAL, journal.to_string());
}

fn resume(repo: &TestRepo) -> Called {
    ar(repo, ["resume", "t", "--max-experiments", "0"])
}

#[test]
fn a_journal_that_contradicts_the_refs_is_not_believed() {
    let repo = repo();
    session(&repo, &["true", "true"], &[]).ok();
    let (tip, start, whole) = (repo.head(), repo.git(["rev-parse", "main"]), repo.read(JOURNAL));
    let open = |id: u32, base: &str, commit: &str| json!({"id": id, "base": base, "commit": commit, "started": "2026-11-20T22:00:00Z"});
    for (phase, open, words) in [
        ("running", open(7, &tip, &tip), "a number that the records do not leave room for"),
        ("running", open(3, &start, &tip), "was made on another commit than the best one"),
        ("running", open(3, &tip, &start), "is not on the commit that it was made on"),
        ("settling", open(2, &tip, &tip), "is recorded, and with another commit"),
    ] {
        repo.write(JOURNAL, &whole);
        forge(&repo, phase, open);
        let called = resume(&repo).exits(6);
        assert!(
            called.stderr.contains(words) && called.stderr.contains("run `ar doctor` to see the damage"),
            "{called:?}"
        );
    }
    assert_eq!(runs(&repo), 3);
    assert_eq!(repo.head(), tip);
    // Each experiment took a call, whatever is said.
    repo.write(JOURNAL, whole.replace("\"iteration\": 2", "\"iteration\": 0"));
    resume(&repo).ok();
    let journal: Value = serde_json::from_str(&repo.read(JOURNAL)).unwrap();
    assert!(journal["iteration"].as_u64() >= Some(2), "{journal}");
}

#[test]
fn a_journal_that_lets_a_forbidden_change_run_is_looked_at_again() {
    let repo = repo();
    session(&repo, &["true"], &[]).ok();
    let tip = repo.head();
    repo.write("prepare.py", "easier\n");
    let commit = repo.commit_all("easier");
    forge(&repo, "committing", json!({"id": 2, "base": tip, "commit": commit, "started": "2026-11-20T22:00:00Z"}));
    let called = ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert!(
        called.stderr.contains("the journal has experiment 2 as one that may run; prepare.py is protected"),
        "{called:?}"
    );
    assert_eq!(record(&repo, 2)["failure"]["class"], "protected");
    assert_eq!(runs(&repo), 2);
    assert_eq!(repo.head(), tip);
}
