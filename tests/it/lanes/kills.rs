//! Killed at any moment, a session on several slots loses nothing, doubles nothing and leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use serde_json::Value;

use super::landscape::{check, first_call, landscape};
use crate::crash::in_parallel;
use crate::crash_points::IN_LANES;
use crate::kill::{run_and_kill, soak};
use crate::support::{Called, TestRepo, ar_command, ar_in_time};

/// How many experiments a session makes.
fn experiments() -> usize {
    if soak().is_some() { 14 } else { 8 }
}

/// Points that a landscape without conflicts does not have.
const ELSEWHERE: [&str; 5] =
    ["merging.asked", "merging.change_committed", "replacing.committed", "seat.left_over_kept", "shelving.put_away"];

/// The arguments of the next call for a session.
type Call = fn(&TestRepo) -> Vec<String>;

fn call(repo: &TestRepo) -> Vec<String> {
    call_with(repo, "guards broken outages")
}

fn call_with(repo: &TestRepo, moods: &str) -> Vec<String> {
    if repo.exists(".autoresearch/t/state/contract.json") {
        return vec!["resume".to_owned(), "t".to_owned()];
    }
    let count = experiments().to_string();
    let more = ["--slots", "4", "--calls", "4", "--guard", "sh guard.sh", "--max-experiments", &count];
    first_call(repo, ["0.05", "0.03"], moods, &more)
}

#[test]
fn random_kills_of_four_slots_lose_nothing_and_leave_nothing_behind() {
    let mut kills = 0;
    while kills < soak().unwrap_or(6) {
        let repo = landscape();
        kills += run_and_kill(&repo, kills, [40, 97, 311], call);
        let records = check(&repo, &format!("after {kills} kills"));
        assert_eq!(records.len(), experiments() + 1, "after {kills} kills");
    }
}

/// A guard by which ideas N and N + 1 fail together where N is odd: trees that pass alone fail when they are merged.
const QUARRELS: &str = "[ ! -e bad ] || exit 1\nfor idea in ideas/*; do\n    n=${idea#ideas/}\n    \
                        [ $((n % 2)) = 0 ] || [ ! -e ideas/$((n + 1)) ] || exit 1\ndone\n";

/// Has the runs of ideas 1 and 2, which both win, wait for each other: whichever is kept first, the other one is merged with
/// it.
const BESIDE: &str = "case $AR_EXPERIMENT in 1|2) for id in 1 2; do until [ -e $AR_STATE_DIR/../runs/0000$id/started.json ]; \
                      do sleep 0.02; done; done;; esac";

/// A call in which one of these ideas waits for the other. An outage would give their numbers to others.
fn call_with_train(repo: &TestRepo) -> Vec<String> {
    let mut args = call_with(repo, "guards broken");
    if let Some(command) = args.iter().position(|arg| arg == "--cmd") {
        args[command + 1] = format!("{BESIDE}; {}", args[command + 1]);
    }
    args
}

/// How many runs of merged trees failed a guard.
fn failed_trials(repo: &TestRepo) -> usize {
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let events: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ids = |name: &str, is_meant: &dyn Fn(&Value) -> bool| -> BTreeSet<String> {
        let meant = events.iter().filter(|event| event["event"] == name && is_meant(&event["data"]));
        meant.map(|event| event["data"]["id"].to_string()).collect()
    };
    let trials = ids("run_finished", &|data| data["trial"] == true);
    trials.intersection(&ids("guard_finished", &|data| data["guard"]["passed"] == false)).count()
}

#[test]
fn random_kills_pass_through_trains_whose_merged_trees_fail_a_guard() {
    let (mut kills, mut failed) = (0, 0);
    while kills < soak().unwrap_or(6) || failed == 0 {
        let repo = landscape();
        repo.write("guard.sh", QUARRELS);
        repo.git(["commit", "--quiet", "-m", "quarrels", "guard.sh"]);
        kills += run_and_kill(&repo, kills, [60, 97, 411], call_with_train);
        let records = check(&repo, &format!("after {kills} kills"));
        assert_eq!(records.len(), experiments() + 1, "after {kills} kills");
        failed += failed_trials(&repo);
        assert!(failed > 0 || kills < 300, "no merged tree failed");
    }
}

#[test]
fn a_tree_that_killed_starts_left_half_made_is_whole_before_the_baseline() {
    let repo = landscape();
    assert_eq!(killed_at(&repo, "open.tree_made", call).code, None);
    let tree = repo.file(".autoresearch/t/trees/slot-0");
    for file in ["train.sh", "notes.txt"] {
        fs::remove_file(tree.join(file)).unwrap();
    }
    ar_in_time(&repo, call(&repo)).ok();
    assert_eq!(check(&repo, "after a half made tree").len(), experiments() + 1);
}

#[test]
fn a_start_on_slots_that_is_killed_before_its_baseline_goes_on_on_slots() {
    for point in ["open.memory_made", "open.journal_made", "open.contract_stored", "open.tree_made"] {
        let repo = landscape();
        let killed = killed_at(&repo, point, call);
        assert_eq!(killed.code, None, "{point}: {killed:#?}");
        // The user's changes stay uncommitted all the time: only a session in place would refuse them.
        ar_in_time(&repo, call(&repo)).ok();
        assert_eq!(check(&repo, point).len(), experiments() + 1, "{point}");
    }
}

/// The next call, killed the first time that it passes a point.
fn killed_at(repo: &TestRepo, point: &str, call: Call) -> Called {
    let mut command = ar_command(repo, &repo.path(), call(repo));
    command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:1"));
    Called::from(command.output().unwrap())
}

/// A session that is killed at a point loses nothing. Returns whether it passed the point.
fn is_killed_whole_at(point: &str, call: Call) -> bool {
    let repo = landscape();
    let first = killed_at(&repo, point, call);
    if first.code != Some(0) {
        assert_eq!(first.code, None, "{point}: {first:#?}");
        if soak().is_some() {
            // Once more on the way back, where it is passed there, too.
            fs::write(repo.outside().join("trace"), "").unwrap();
            let second = killed_at(&repo, point, call);
            assert!(second.code.is_none_or(|code| code == 0), "{point}: {second:#?}");
        }
        ar_in_time(&repo, call(&repo)).ok();
    }
    let records = check(&repo, point);
    assert_eq!(records.len(), experiments() + 1, "{point}");
    first.code != Some(0)
}

#[test]
fn a_session_on_four_slots_that_is_killed_at_any_point_loses_nothing_and_leaves_nothing_behind() {
    let missed = Mutex::new(Vec::new());
    in_parallel(IN_LANES, |point| {
        // An outage is sure in the first session, and a train in the second.
        let sessions = if ELSEWHERE.contains(point) { &[call as Call][..] } else { &[call, call_with_train] };
        if !sessions.iter().any(|call| is_killed_whole_at(point, *call)) {
            missed.lock().unwrap().push(*point);
        }
    });
    let missed = missed.into_inner().unwrap();
    // What comes only where changes conflict, and where something else goes wrong, is killed in the tests of that.
    assert!(missed.iter().all(|point| ELSEWHERE.contains(point)), "no session passes {missed:?}");
}
