//! `git gc --prune=now` beside a loop.

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar_command};

const ARGS: [&str; 10] =
    ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "3"];

/// A loop of a keep and two discards, with `command` run at each named moment.
fn loop_beside(repo: &TestRepo, command: &str) {
    let mut ar = ar_command(repo, &repo.path(), ARGS);
    ar.args([
        "--agent",
        "mkdir -p new && echo $AR_EXPERIMENT > new/file; echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh",
    ]);
    ar.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_RUN", command);
    let called = Called::from(ar.output().unwrap()).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 5, "{called:#?}");
    let records = repo.git(["for-each-ref", "--format=%(objecttype) %(*objecttype)", "refs/autoresearch/t/"]);
    assert_eq!(records, ["tag commit"; 4].join("\n"), "{called:#?}");
    let checked = repo.git(["fsck", "--connectivity-only", "--no-dangling"]);
    assert_eq!(checked, "", "{called:#?}");
    assert_eq!(repo.status(), "");
}

#[test]
fn objects_that_are_pruned_at_any_named_moment_are_written_again() {
    loop_beside(&training_repo(), "git prune --expire=now 2>/dev/null");
}

#[test]
fn objects_that_are_packed_and_pruned_at_any_named_moment_are_written_again() {
    loop_beside(&training_repo(), "git gc --quiet --prune=now 2>/dev/null");
}
