//! The script of attacks: each group is a session that must hold.

use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

use crate::kill::soak;
use crate::support::{AR, can_have_walls};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks.sh");

#[track_caller]
fn hold(args: &[&str]) {
    assert_held(Command::new("sh").arg(SCRIPT).arg(AR).args(args));
}

#[track_caller]
fn assert_held(script: &mut Command) {
    let output = script.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("held: "), "{said}");
}

/// The same as a user who is not root, if root runs the tests; gives whether it does.
#[track_caller]
fn hold_as_another(args: &[&str]) -> bool {
    const OTHER: u32 = 1234;
    let home = tempfile::tempdir().unwrap();
    if home.path().metadata().unwrap().uid() != 0 {
        let _ = writeln!(io::stderr(), "skipped: only root can run a program as another user");
        return false;
    }
    chown(home.path(), Some(OTHER), Some(OTHER)).unwrap();
    let user = [format!("--reuid={OTHER}"), format!("--regid={OTHER}"), "--clear-groups".to_owned()];
    let mut script = Command::new("setpriv");
    script.args(user).args(["sh", SCRIPT, AR]).args(args);
    assert_held(script.envs(["HOME", "TMPDIR"].map(|name| (name, home.path()))));
    true
}

#[test]
fn on_the_evaluator() {
    hold(&["evaluator", "swaps", "data", "paths"]);
}

#[test]
fn on_git() {
    hold(&["git", "beside", "messages", "stops"]);
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
    hold(&["processes", "stops", "filters", "guards", "text"]);
}

#[test]
fn on_an_engine() {
    hold(&["executor"]);
}

#[test]
fn with_clocks_that_jump() {
    hold(&["clocks"]);
}

#[test]
fn beside_a_person_at_work() {
    hold(&["person"]);
}

const WALLED: [&str; 2] = ["--sandbox", "require"];
const ON_SLOTS: [&str; 4] = ["--sandbox", "require", "--slots", "4"];

#[test]
fn behind_walls() {
    if can_have_walls() {
        hold(&WALLED);
        if soak().is_some() {
            hold_as_another(&WALLED);
        }
    }
}

#[test]
fn behind_walls_on_slots() {
    if can_have_walls() {
        // In a suite that is called often, each user once, where there are two.
        if !hold_as_another(&ON_SLOTS) || soak().is_some() {
            hold(&ON_SLOTS);
        }
    }
}

#[test]
fn on_slots() {
    hold(&["--slots", "4", "evaluator", "swaps", "data", "paths", "git", "beside", "messages", "stops", "guards"]);
}
