//! A loop whose state folder is deleted while it writes there.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

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

/// A loop of two experiments, called with `shell` to be run by whoever is first to pass a named moment.
fn run_while(repo: &TestRepo, shell: &str) -> (Called, BTreeSet<String>) {
    let trace = repo.outside().join("trace");
    let mut command = ar_command(repo, &repo.path(), ARGS);
    command.args(["--agent", "echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh", "--guard", "true"]);
    command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_RUN", shell);
    let called = Called::from(command.output().unwrap()).ok();
    let passed = fs::read_to_string(trace).unwrap().lines().map(str::to_owned).collect();
    (called, passed)
}

#[test]
fn a_state_folder_that_goes_at_any_named_moment_stops_no_loop() {
    let repo = training_repo();
    let parts = ["state", "logs", "lock"].map(|part| repo.file(".autoresearch/t").join(part).display().to_string());
    let (called, passed) = run_while(&repo, &format!("rm -rf {}", parts.join(" ")));
    assert!(passed.len() > 40 && passed.contains("state.file_prepared"), "{passed:?}");
    is_whole(&repo, &called);
}

#[test]
fn a_number_is_read_from_what_the_run_wrote_wherever_its_log_goes() {
    for parts in ["runs/*/run.log", "runs"] {
        let repo = training_repo();
        let (called, passed) = run_while(&repo, &format!("rm -rf {}/{parts}", repo.file(".autoresearch/t").display()));
        assert!(passed.contains("shim.exit_written") && passed.contains("running.over"), "{passed:?}");
        is_whole(&repo, &called);
        let report = ar(&repo, ["report", "--format", "json"]).ok().json();
        assert_eq!(report["counts"]["crash"], 0, "{parts}: {called:#?}");
        let values: Vec<_> =
            repo.read("results.tsv").lines().skip(2).map(|row| row.split('\t').nth(1).map(str::to_owned)).collect();
        assert_eq!(values, [Some("1.1".to_owned()), Some("1.2".to_owned())], "{parts}: {called:#?}");
    }
}

#[test]
fn a_folder_of_runs_that_goes_again_and_again_ends_no_loop() {
    let repo = training_repo().without_walls();
    let runs = repo.file(".autoresearch/t/runs");
    // Each run and each call takes longer than the folder is there.
    let mut deleter = Command::new("sh");
    deleter.args(["-c", "while [ -d \"$1\" ]; do rm -rf \"$0\"; sleep 0.005; done"]).arg(&runs).arg(repo.path());
    let mut deleter = deleter.spawn().unwrap();
    let mut command = ar_command(&repo, &repo.path(), ARGS);
    command.args(["--agent", "sleep 0.2; echo \"sleep 0.1; echo val_bpb: 1.$AR_EXPERIMENT\" > train.sh"]);
    let called = Called::from(command.output().unwrap());
    deleter.kill().unwrap();
    deleter.wait().unwrap();
    is_whole(&repo, &called.ok());
    let report = ar(&repo, ["report", "--format", "json"]).ok().json();
    assert_eq!(report["counts"]["crash"], 0);
}
