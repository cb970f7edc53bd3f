//! Whole nights on several slots.

use std::collections::BTreeMap;
use std::process::Stdio;

use super::landscape::{check, first_call, landscape, loss};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time};

/// The best loss that a session of so many experiments comes to.
fn night(experiments: &str, more: &[&str]) -> (TestRepo, i64) {
    let repo = landscape();
    if more.is_empty() {
        repo.git(["checkout", "--quiet", "--", "notes.txt"]);
    }
    let limit = ["--max-experiments", experiments];
    let args = first_call(&repo, ["0.02", "0.02"], "taken", &[&limit[..], more].concat());
    ar_in_time(&repo, args).ok();
    let best = loss(&repo, "autoresearch/t");
    (repo, best)
}

#[test]
fn the_same_ideas_end_at_the_same_number_on_eight_slots_and_in_place() {
    let (repo, on_eight) = night("40", &["--slots", "8", "--calls", "8"]);
    let records = check(&repo, "eight slots");
    let (_, in_place) = night("40", &[]);
    assert_eq!(on_eight, in_place);

    let trains = records.iter().filter(|record| record["train"]["members"].as_array().is_some_and(|it| it.len() > 1));
    assert!(trains.count() > 0, "winners ride together");
    let mut slots: BTreeMap<u64, usize> = BTreeMap::new();
    for slot in records.iter().filter_map(|record| record["slot"].as_u64()) {
        *slots.entry(slot).or_default() += 1;
    }
    assert_eq!(slots.len(), 8, "all slots are used: {slots:?}");
    assert_eq!(records[0]["runs"].as_array().unwrap().len(), 8, "the baseline runs on all slots");

    ar(&repo, ["finalize", "t", "--branch", "clean"]).ok();
    assert_eq!(loss(&repo, "clean"), on_eight, "the last tree of the chain gives the number again");
}

#[test]
fn two_sessions_of_a_repository_run_side_by_side() {
    let repo = landscape();
    let mut others = first_call(&repo, ["0.02", "0.02"], "", &["--slots", "2", "--max-experiments", "6"]);
    let place = others.iter().position(|arg| arg == "t").unwrap();
    others[place] = "other".into();
    let args = first_call(&repo, ["0.02", "0.02"], "", &["--slots", "2", "--max-experiments", "6"]);
    let calls = [args, others].map(|args| {
        ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for call in calls {
        let ended: Called = call.wait_with_output().unwrap().into();
        ended.ok();
    }
    for tag in ["t", "other"] {
        let records = repo.git(["for-each-ref", "--format=%(refname)", &format!("refs/autoresearch/{tag}/0*")]);
        assert_eq!(records.lines().count(), 7, "{records}");
    }
    assert_eq!(repo.read("results.tsv").lines().count(), 1 + 7 + 7);
    let doctor = ar(&repo, ["doctor"]).ok().stdout;
    assert!(doctor.contains("no problems found"), "{doctor}");
}

#[test]
fn a_lock_that_a_git_of_an_agent_left_stops_no_session() {
    let repo = landscape().without_walls();
    let mut args = first_call(&repo, ["0.02", "0.02"], "", &["--slots", "2", "--max-experiments", "3"]);
    let agent = args.iter().position(|arg| arg == "--agent").unwrap() + 1;
    let left = repo.outside().join("left");
    let leave = "touch \"$(git rev-parse --git-dir)/index.lock\"";
    args[agent] = format!("mkdir {} 2>/dev/null && {leave}; {}", left.display(), args[agent]);
    let called = ar_in_time(&repo, args).ok();
    assert!(called.stderr.contains("removed locks left behind by a killed git of the agent"), "{called:#?}");
    assert_eq!(check(&repo, "a lock").len(), 4);
}

#[test]
fn what_git_knows_of_a_tree_whose_folder_is_gone_is_removed_at_the_end() {
    let repo = landscape();
    let args = first_call(&repo, ["0.02", "0.02"], "", &["--slots", "2", "--max-experiments", "1"]);
    ar_in_time(&repo, args).ok();
    // As a process leaves it that is killed between the two.
    let tree = repo.file(".autoresearch/t/trees/seat-9").display().to_string();
    repo.git(["worktree", "add", "--quiet", "--detach", "--lock", &tree]);
    std::fs::remove_dir_all(repo.file(".autoresearch/t/trees")).unwrap();
    ar_in_time(&repo, ["resume", "t"]).ok();
    check(&repo, "a tree that was left over");
}
