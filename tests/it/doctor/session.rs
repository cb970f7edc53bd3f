//! A session to break, and what it should be.

use std::fs;

use serde_json::Value;

use crate::run_loop::{agent, training_repo};
use crate::support::{Called, TestRepo, ar};

/// The experiments of the session: kept, refused, failed.
const STEPS: &str = "better worse crash better";

/// Runs the loop until the session has so many experiments.
#[track_caller]
pub(super) fn go_on(repo: &TestRepo, command: &[&str], experiments: u32) -> Called {
    let count = experiments.to_string();
    let agent = agent(STEPS);
    ar(repo, [command, &["--agent", &agent, "--max-experiments", &count]].concat())
}

/// A repository with a session `t` of three experiments.
pub(super) fn session() -> TestRepo {
    let repo = training_repo();
    go_on(&repo, &["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"], 3).ok();
    repo
}

/// The path of a state file.
pub(super) fn state(name: &str) -> String {
    format!(".autoresearch/t/state/{name}")
}

/// Cuts the last bytes off a file.
pub(super) fn cut(repo: &TestRepo, path: &str, bytes: usize) {
    let content = fs::read(repo.file(path)).unwrap();
    repo.write(path, &content[..content.len() - bytes]);
}

/// The object that a ref names.
pub(super) fn object(repo: &TestRepo, name: &str) -> String {
    repo.git(["rev-parse", name])
}

/// Changes a JSON file.
pub(super) fn edit(repo: &TestRepo, path: &str, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_str(&repo.read(path)).unwrap();
    change(&mut value);
    repo.write(path, value.to_string());
}

/// What of a session does not depend on when it was made: its experiments, rows, branch and working tree.
pub(super) fn outcome(repo: &TestRepo) -> String {
    let bodies = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/0*"]);
    let records = bodies.lines().filter(|line| !line.is_empty()).map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        format!("{} {} {} {}\n", record["id"], record["commit"], record["outcome"], record["metric"]["value"])
    });
    let rows = repo.read("results.tsv");
    let rows = rows.lines().map(|row| {
        let cells: Vec<&str> = row.split('\t').collect();
        // Memory is what was measured.
        format!("{}\n", [cells[0], cells[1], cells[3], cells[4]].join("\t"))
    });
    let branch = repo.git(["rev-parse", "refs/heads/autoresearch/t", "HEAD"]);
    records.chain(rows).collect::<String>() + &branch + &repo.status()
}

/// Calls the doctor; it must exit with `code`.
#[track_caller]
pub(super) fn doctor(repo: &TestRepo, more: &[&str], code: i32) -> String {
    ar(repo, [&["doctor"], more].concat()).exits(code).stdout
}

/// Says that all is well, and that git thinks so too.
#[track_caller]
pub(super) fn assert_healthy(repo: &TestRepo, after: &str) {
    let said = doctor(repo, &[], 0);
    assert!(!said.contains("error ") && !said.contains("damaged "), "after {after}: {said}");
    let fsck = repo.try_git(["fsck", "--strict", "--no-dangling"]);
    assert!(fsck.status.success() && fsck.stderr.is_empty(), "after {after}: {fsck:?}");
}
