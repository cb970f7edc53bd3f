//! Reviews beside others: a winner is reviewed before it rides a train, and holds no slot meanwhile.

use std::fs;

use serde_json::Value;

use super::landscape::{check, first_call, landscape};
use crate::crash::in_parallel;
use crate::support::{Called, TestRepo, ar_command, ar_in_time};

const EXPERIMENTS: usize = 10;

const EARNED: &str = "echo '{\"verdict\": \"earned\", \"why\": \"well\"}'";

/// A call of a session whose reviewer does this; what it remembers is in the folder `$M`.
fn call(repo: &TestRepo, slots: &[&str], script: &str) -> Vec<String> {
    let memory = repo.outside().join("memory");
    fs::create_dir_all(&memory).unwrap();
    if repo.exists(".autoresearch/t/state/contract.json") {
        return vec!["resume".to_owned(), "t".to_owned()];
    }
    let count = EXPERIMENTS.to_string();
    let path = repo.outside().join("review.sh");
    fs::write(&path, format!("M={}\n{script}\n", memory.display())).unwrap();
    let reviewer = format!("sh {}", path.display());
    let more = [slots, &["--max-experiments", &count, "--reviewer", &reviewer]].concat();
    let mut args = first_call(repo, ["0.05", "0.03"], "taken", &more);
    let command = args.iter().position(|arg| arg == "--cmd").unwrap() + 1;
    args[command] = format!("echo $AR_EXPERIMENT >> {}/runs; {}", memory.display(), args[command]);
    args
}

fn verdict(record: &Value) -> &str {
    record["review"]["verdict"].as_str().unwrap_or("-")
}

#[test]
fn a_winner_is_reviewed_before_it_rides_and_one_that_was_not_earned_never_does() {
    let script = format!(
        "pwd >> $M/trees; case $AR_EXPERIMENT in *[13579]) echo '{{\"verdict\": \"not_earned\", \"why\": \"odd\"}}';; \
         *) {EARNED};; esac"
    );
    let repo = landscape();
    let called: Called = ar_in_time(&repo, call(&repo, &["--slots", "3", "--calls", "3"], &script)).ok();
    let records = check(&repo, "reviewed");
    assert_eq!(records.len(), EXPERIMENTS + 1, "{called:#?}");
    let [mut kept, mut refused] = [0, 0];
    for record in &records[1..] {
        let is_irregular = record["id"].as_u64().unwrap() % 2 == 1;
        match verdict(record) {
            "not_earned" => {
                assert!(is_irregular && record["outcome"] == "discard", "{record}");
                assert_eq!((&record["failure"]["class"], &record["train"]), (&"review_failed".into(), &Value::Null));
                refused += 1;
            }
            "earned" => kept += usize::from(!is_irregular && record["outcome"] == "keep"),
            _ => assert_eq!(record["outcome"], "discard", "what is no winner is not reviewed: {record}"),
        }
        for other in record["train"]["members"].as_array().into_iter().flatten() {
            assert_eq!(other.as_u64().unwrap() % 2, 0, "{record}");
        }
    }
    assert!(kept > 0 && refused > 0, "{called:#?}");
    let trees = fs::read_to_string(repo.outside().join("memory/trees")).unwrap();
    let mut trees: Vec<&str> = trees.lines().map(|tree| tree.rsplit('/').next().unwrap()).collect();
    assert!(trees.iter().all(|tree| tree.starts_with("review-")), "{trees:?}");
    let count = trees.len();
    trees.sort_unstable();
    trees.dedup();
    assert_eq!(trees.len(), count, "each winner is reviewed once");
}

#[test]
fn a_review_holds_no_slot() {
    // The first one ends when something else has run since.
    let script = format!(
        "if mkdir $M/first 2>/dev/null; then before=$(wc -l < $M/runs); n=0; \
         until [ $(wc -l < $M/runs) -gt $before ]; do sleep 0.02; n=$((n + 1)); [ $n -lt 3000 ] || exit 1; done; fi; \
         {EARNED}"
    );
    let repo = landscape();
    ar_in_time(&repo, call(&repo, &["--slots", "1", "--ahead", "1"], &script)).ok();
    let records = check(&repo, "one slot");
    assert!(records.iter().all(|record| verdict(record) != "unreviewed"), "{records:#?}");
    assert!(records.iter().any(|record| verdict(record) == "earned" && record["outcome"] == "keep"), "{records:#?}");
}

#[test]
fn a_session_on_slots_that_is_killed_in_a_review_has_it_done_again() {
    let points = ["reviewing.entered", "reviewing.reviewer_over", "reviewing.noted"];
    in_parallel(&points, |point| {
        let repo = landscape();
        let mut command = ar_command(&repo, &repo.path(), call(&repo, &["--slots", "3", "--calls", "3"], EARNED));
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:2"));
        assert_eq!(Called::from(command.output().unwrap()).code, None, "{point}");
        ar_in_time(&repo, call(&repo, &[], EARNED)).ok();
        let records = check(&repo, point);
        assert_eq!(records.len(), EXPERIMENTS + 1, "{point}");
        let kept = records[1..].iter().filter(|record| record["outcome"] == "keep");
        assert!(kept.clone().count() > 0 && kept.clone().all(|record| verdict(record) == "earned"), "{records:#?}");
    });
}

#[test]
fn what_a_reviewer_does_to_trees_and_refs_of_others_is_put_right() {
    let attacks = [
        "rm -rf ../../../../.autoresearch",
        "rm -rf ../slot-* ../seat-*",
        "git worktree unlock . ; git worktree prune --expire=now; git update-ref -d refs/heads/autoresearch/t",
        "git for-each-ref --format='delete %(refname)' refs/autoresearch/t | git update-ref --stdin",
    ];
    in_parallel(&attacks, |attack| {
        let script = format!("if mkdir $M/attacked; then {attack}; fi > /dev/null 2>&1; {EARNED}");
        let repo = landscape();
        let called = ar_in_time(&repo, call(&repo, &["--slots", "3", "--calls", "3"], &script)).ok();
        let records = check(&repo, attack);
        assert_eq!(records.len(), EXPERIMENTS + 1, "{attack}: {called:#?}");
    });
}
