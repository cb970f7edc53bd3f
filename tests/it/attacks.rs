//! The script of attacks: each group is a session that must hold.

use std::process::Command;

use crate::support::AR;

#[track_caller]
fn hold(groups: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks.sh");
    let output = Command::new("sh").arg(script).arg(AR).args(groups).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("held: "), "{said}");
}

#[test]
fn on_the_evaluator() {
    hold(&["evaluator", "swaps", "data", "paths"]);
}

#[test]
fn on_git() {
    hold(&["git", "beside"]);
}

#[test]
fn on_locks() {
    hold(&["locks"]);
}

#[test]
fn on_the_files_of_the_session() {
    hold(&["files", "folders"]);
}

#[test]
fn by_processes_and_text() {
    hold(&["processes", "text"]);
}

#[test]
fn with_clocks_that_jump() {
    hold(&["clocks"]);
}

#[test]
fn beside_a_person_at_work() {
    hold(&["person"]);
}
