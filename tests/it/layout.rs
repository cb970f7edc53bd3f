//! What a session with slots asks for, and what is refused before anything changes.

use std::fs;

use serde_json::{Value, json};

use crate::run_loop::training_repo;
use crate::support::{Called, FakeGpus, TestRepo, ar, ar_command};

/// Calls `ar run` for a session `t` with more flags; nothing may come of it but a refusal.
fn refused(repo: &TestRepo, code: i32, flags: &[&str]) -> Called {
    let before = (repo.git(["for-each-ref"]), repo.git(["status", "--short"]), repo.git(["rev-parse", "HEAD"]));
    let run = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let called = ar(repo, run.into_iter().chain(flags.iter().copied())).exits(code);
    let after = (repo.git(["for-each-ref"]), repo.git(["status", "--short"]), repo.git(["rev-parse", "HEAD"]));
    assert_eq!(before, after, "{flags:?}");
    assert!(!repo.file(".autoresearch").exists(), "{flags:?}");
    called
}

#[test]
fn settings_of_slots_are_refused_where_there_are_none() {
    let repo = training_repo();
    for (flag, value) in [("--calls", "2"), ("--link", "data"), ("--gpus-per-run", "2")] {
        let called = refused(&repo, 2, &[flag, value]);
        assert!(called.stderr.contains(&format!("{flag} is for a session with slots")), "{called:?}");
        assert!(called.stderr.contains("add --slots N, --gpus all or --ahead N"), "{called:?}");
    }
    for flags in [&["--slots", "2", "--gpus-per-run", "2"][..], &["--ahead", "1", "--mixed-gpus"]] {
        let called = refused(&repo, 2, flags);
        assert!(called.stderr.contains("is for a session that divides GPUs among its slots"), "{called:?}");
    }
    for flags in [&["--slots", "0"][..], &["--calls", "0", "--slots", "2"], &["--gpus", "first"]] {
        refused(&repo, 2, flags);
    }
}

#[test]
fn a_settings_file_asks_for_slots_of_new_sessions_only() {
    let repo = training_repo();
    ar(&repo, ["run", "--tag", "old", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    repo.write("ar.toml", "slots = 2\ncalls = 1\n");
    let resumed = ar(&repo, ["resume", "old"]).ok();
    assert!(resumed.stderr.contains("ignored lines of ar.toml"), "{resumed:?}");
    assert!(resumed.stderr.contains("slots"), "{resumed:?}");
}

#[test]
fn what_works_in_place_only_is_refused_with_slots() {
    let repo = training_repo();
    repo.write("train.sh", "echo val_bpb: 1\n");
    let called = refused(&repo, 1, &["--slots", "2", "--adopt"]);
    assert!(called.stderr.contains("--adopt works in place only"), "{called:?}");
    let tried = ["try", "-m", "x", "--slots", "2", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let called = ar(&repo, tried).exits(1);
    assert!(called.stderr.contains("`ar try` works in place only"), "{called:?}");
    assert!(called.stderr.contains("ar idea add") && called.stderr.contains("--agent COMMAND"), "{called:?}");
    assert!(!repo.file(".autoresearch").exists());
}

/// Has the journal of session `t` say that it is at work with two slots.
fn give_slots(repo: &TestRepo) {
    let path = repo.file(".autoresearch/t/state/progress.json");
    let mut journal: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    journal["layout"] = json!({"slots": 2, "ahead": 2});
    fs::write(path, journal.to_string()).unwrap();
}

#[test]
fn the_working_tree_of_the_user_leaves_the_branch_of_a_session_with_slots() {
    let repo = training_repo();
    ar(&repo, ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    // What was asked for before counts, and a flag alike.
    let asked = ar(&repo, ["resume", "t", "--slots", "2"]).exits(1);
    give_slots(&repo);
    for called in [asked, ar(&repo, ["resume", "t"]).exits(1)] {
        assert!(called.stderr.contains("has branch autoresearch/t checked out"), "{called:?}");
        assert!(called.stderr.contains("git switch main\n"), "{called:?}");
    }
    repo.git(["branch", "--quiet", "--move", "main", "trunk"]);
    let called = ar(&repo, ["resume", "t"]).exits(1);
    assert!(called.stderr.contains("git switch --detach"), "{called:?}");
    let elsewhere = repo.file("elsewhere");
    repo.git(["switch", "--quiet", "trunk"]);
    repo.git(["worktree", "add", "--quiet", &elsewhere.display().to_string(), "autoresearch/t"]);
    let called = ar(&repo, ["resume", "t"]).exits(1);
    assert!(called.stderr.contains("is checked out in"), "{called:?}");
}

#[test]
fn an_experiment_that_is_open_in_place_is_finished_there() {
    let repo = training_repo();
    let run = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    ar(&repo, run).ok();
    let path = repo.file(".autoresearch/t/state/progress.json");
    let mut journal: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    journal["phase"] = "proposing".into();
    journal["open"] = json!({"id": 1, "base": repo.git(["rev-parse", "HEAD"]), "started": "2026-11-20T22:00:00Z"});
    fs::write(&path, journal.to_string()).unwrap();
    let called = ar(&repo, ["resume", "t", "--slots", "2"]).exits(1);
    assert!(called.stderr.contains("experiment 1 of session t is still open in this working tree"), "{called:?}");
    assert!(called.stderr.contains("ar stop t --now"), "{called:?}");
}

#[test]
fn slots_get_gpus_as_far_as_there_are_some() {
    let Some(gpus) = FakeGpus::new("gpu GPU-aaaa 80 Fake\ngpu GPU-bbbb 80 Fake\ngpu GPU-cccc 80 Fake\n") else {
        return;
    };
    let repo = training_repo();
    let run = |flags: &[&str]| {
        let run = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
        let mut command = ar_command(&repo, &repo.path(), run.into_iter().chain(flags.iter().copied()));
        gpus.show_to(&mut command);
        command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUDA_DEVICE_ORDER");
        Called::from(command.output().unwrap()).exits(1).stderr
    };
    let called = run(&["--gpus", "all", "--slots", "4"]);
    assert!(called.contains("4 slots are more than the GPUs suffice for: 3"), "{called}");
    assert!(called.contains("pass --slots 3"), "{called}");
    let called = run(&["--gpus", "0,7"]);
    assert!(called.contains("there is no GPU 7") && called.contains("nvidia-smi -L"), "{called}");
    let called = run(&["--gpus", "all", "--gpus-per-run", "2", "--slots", "2"]);
    assert!(called.contains("2 slots are more than the GPUs suffice for: 1"), "{called}");
}
