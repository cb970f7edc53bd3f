//! A loop whose state folder is deleted while it writes there.

use std::collections::BTreeSet;
use std::fs;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

const ARGS: [&str; 10] =
    ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "2"];

/// Two experiments as records, rows and branch tell of them.
fn is_whole(repo: &TestRepo, called: &Called) {
    let records = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t"]);
    let records = records.lines().filter(|name| !name.contains("/saved/")).count();
    assert_eq!(records, 3, "{called:#?}");
    assert_eq!(repo.read("results.tsv").lines().count(), 4, "{called:#?}");
    assert_eq!(repo.status(), "");
    let status = ar(repo, ["status", "--format", "json"]).ok().json();
    assert_eq!(status["sessions"][0]["experiments"], 2, "{status}");
}

#[test]
fn a_state_folder_that_goes_at_any_named_moment_stops_no_loop() {
    let repo = training_repo();
    let trace = repo.outside().join("trace");
    let mut command = ar_command(&repo, &repo.path(), ARGS);
    command.args(["--agent", "echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh", "--guard", "true"]);
    // A log that goes at the end of its run, before it is read, is gone.
    let parts = ["state", "logs", "lock"].map(|part| repo.file(".autoresearch/t").join(part).display().to_string());
    command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_RUN", format!("rm -rf {}", parts.join(" ")));
    let called = Called::from(command.output().unwrap()).ok();
    let passed = fs::read_to_string(trace).unwrap();
    let passed: BTreeSet<&str> = passed.lines().collect();
    assert!(passed.len() > 40 && passed.contains("state.file_prepared"), "{passed:?}");
    is_whole(&repo, &called);
}
