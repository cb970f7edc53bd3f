//! Stop rules on the course of the numbers, and what a kill on the way changes.

use super::harness::{course, first_call, records, repo, run, status};
#[cfg(debug_assertions)]
use crate::support::ar_command;
use crate::support::{TestRepo, ar, ar_in_time};

/// Twelve numbers, the last of which is the first after which `kill2` may act.
///
/// The slopes over the last five are: after ten 0.66 0.70 0.72 0.72 0.72 with (−2 × 0.66 − 0.70 + 0.72 + 2 × 0.72) / 10 =
/// 0.014, which rises; after eleven 0.70 and four times 0.72 with (−2 × 0.70 − 0.72 + 0.72 + 2 × 0.72) / 10 = 0.004, which
/// does not, but there the axis of topics is below 0.5; after twelve it is 0.
const NUMBERS: [&str; 15] = [
    "0.46",
    "0.50",
    "0.54",
    "0.58",
    "0.62",
    "0.66",
    "0.70",
    "0.72",
    "0.72",
    "0.72",
    "0.80 0.80 0.49 0.79",
    "0.72",
    "0.72",
    "0.72",
    "0.72",
];

fn check_kill2(repo: &TestRepo) {
    let course = course(repo);
    assert_eq!(
        (course.len(), course[11].as_str(), course[12].as_str()),
        (13, "0.7200 keep", "0.7200 keep"),
        "{course:?}"
    );
    let ended = status(repo)["ended"].as_str().unwrap().to_owned();
    assert_eq!(
        ended,
        "kill2: over the last 5 numbers composite changed by 0.0000 an experiment, less than 0.01, and no axis is below its \
         floor: the worst is claim_density with 0.7200"
    );
}

#[test]
fn kill2_fires_where_the_arithmetic_says() {
    let repo = repo();
    let rules = ["--keep-above", "0.45", "--stop-rule", "kill2", "--stop-rule", "plateau:9"];
    let called = run(&repo, &NUMBERS, &rules).ok();
    check_kill2(&repo);
    assert!(called.stdout.contains("stopped: kill2: over the last 5 numbers"), "{called:#?}");
    let again = ar(&repo, ["resume"]).ok();
    assert!(again.stdout.contains("stopped: kill2: "), "it is still so: {again:#?}");
    ar(&repo, ["resume", "--stop-rule", "plateau:7", "--max-experiments", "99"]).ok();
    // The best one is the eighth, with 0.72 for the first time.
    assert_eq!(records(&repo).len(), 1 + 8 + 7);
}

#[cfg(debug_assertions)]
#[test]
fn a_session_that_is_killed_on_the_way_ends_at_the_same_place() {
    let rules = ["--keep-above", "0.45", "--stop-rule", "kill2", "--cadence", "novelty"];
    let undisturbed = repo();
    run(&undisturbed, &NUMBERS, &rules).ok();
    for kill in ["running.over:5", "recording.recorded:7", "settling.row_appended:4", "sleep.noted:3", "sleep.over:3"] {
        let repo = repo();
        let mut command = ar_command(&repo, &repo.path(), first_call(&repo, &NUMBERS, &rules));
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", kill);
        assert_eq!(command.output().unwrap().status.code(), None, "{kill}");
        ar_in_time(&repo, ["resume"]).ok();
        check_kill2(&repo);
        assert_eq!(course(&repo), course(&undisturbed), "{kill}");
        assert_eq!(repo.read("results.tsv").lines().count(), 1 + 13, "{kill}");
    }
}

#[test]
fn plateau_and_above_fire_where_they_count_to() {
    let repo = repo();
    let script = ["0.60", "0.70", "0.50", "0.65", "0.50 - 0.5 0.5", "0.50", "0.50", "0.50"];
    let called = run(&repo, &script, &["--keep-above", "0.45", "--stop-rule", "plateau:4"]).ok();
    assert!(
        called
            .stdout
            .contains("stopped: plateau: no new best in 4 experiments; the best composite is 0.7000 of experiment 2\n"),
        "{called:#?}"
    );
    assert_eq!(records(&repo).len(), 1 + 6);

    let repo = self::repo();
    let script = ["0.50", "0.65", "0.65", "0.65 - 0.65 0.65", "0.65", "0.65", "0.61", "0.65"];
    let called = run(&repo, &script, &["--keep-above", "0.45", "--stop-rule", "above:0.6:3"]).ok();
    let text =
        "stopped: above: 3 experiments in a row better than 0.6, the last with composite 0.6500, 0.6500, 0.6100\n";
    assert!(called.stdout.contains(text), "{called:#?}");
    assert_eq!(records(&repo).len(), 1 + 7);
}

#[test]
fn a_session_that_a_rule_ended_says_how_it_continues() {
    let repo = repo();
    repo.write("ar.toml", format!("stop-rule = [\"plateau:2\"]\n{}", repo.read("ar.toml")));
    repo.commit_all("a rule");
    let called = run(&repo, &["0.60", "0.50", "0.50", "0.40", "0.40"], &["--keep-above", "0.45"]).ok();
    let hint = "hint: pass another rule to continue: `ar resume t --stop-rule plateau:100`";
    assert!(called.stdout.contains("stopped: plateau: ") && called.stderr.contains(hint), "{called:#?}");
    assert!(ar(&repo, ["resume"]).ok().stderr.contains(hint));
    let next = &status(&repo)["next"];
    assert_eq!(next[0], "ar resume t --stop-rule RULE", "{next}");
    // What this very call says is no line that is passed over.
    let called = ar(&repo, ["resume", "--stop-rule", "plateau:3"]).ok();
    assert!(!called.stderr.contains("ignored lines of ar.toml") && called.stderr.contains(hint), "{called:#?}");
    assert_eq!(records(&repo).len(), 1 + 4);
    let called = ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert!(called.stderr.contains("differ from the session's stored settings: stop-rule"), "{called:#?}");
}

#[test]
fn a_threshold_runs_on_one_slot_and_that_is_said() {
    let repo = repo();
    let script = ["0.60", "0.50"];
    let called = ar(&repo, first_call(&repo, &script, &["--keep-above", "0.45", "--slots", "2"])).exits(2);
    assert!(called.stderr.contains("research and --keep-above run on one slot, not 2: "), "{called:#?}");
    assert!(called.stderr.contains("hint: omit --slots and --gpus, or pass --slots 1"), "{called:#?}");
    assert!(!repo.exists(".autoresearch"), "nothing was begun");
    ar_in_time(&repo, first_call(&repo, &script, &["--keep-above", "0.45", "--slots", "1", "--ahead", "0"])).ok();
    assert_eq!(course(&repo), ["none keep", "0.6000 keep", "0.5000 keep"]);
    let called = ar(&repo, ["resume", "t", "--slots", "2"]).exits(2);
    assert!(called.stderr.contains("run on one slot"), "{called:#?}");
}
