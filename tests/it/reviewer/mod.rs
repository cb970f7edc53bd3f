//! `--reviewer`: whether a number was earned is judged before a change is kept.

mod honesty;
mod hostile;
mod later;

use std::fs;

use serde_json::Value;

use crate::guards::{record, session};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar};

/// A repository whose number stands in a file that an agent may edit.
fn repo() -> TestRepo {
    let repo = training_repo();
    repo.write("eval.sh", ". ./src/value\necho steps: 100\n");
    repo.write("src/value", "echo val_bpb: 2.0\n");
    repo.commit_all("an evaluator");
    repo
}

/// A shell line of an agent that makes this the number.
fn value(number: &str) -> String {
    format!("echo echo val_bpb: {number} > src/value")
}

/// Writes the reviewer beside the repository, and gives the command line that calls it.
fn reviewer(repo: &TestRepo, script: &str) -> String {
    let path = repo.outside().join("review.sh");
    fs::write(&path, script).unwrap();
    format!("sh {}", path.display())
}

/// A session whose agent makes these edits, with this script as its reviewer.
fn reviewed(repo: &TestRepo, script: &str, edits: &[&str], flags: &[&str]) -> Called {
    let command = reviewer(repo, script);
    let flags = [&["--reviewer", &command], flags].concat();
    session(repo, &flags, edits, u32::try_from(edits.len()).unwrap())
}

fn verdict(record: &Value) -> &str {
    record["review"]["verdict"].as_str().unwrap_or("-")
}

const EARNED: &str = "echo '{\"verdict\": \"earned\", \"why\": \"src/value:1 is the change\"}'";

#[test]
fn what_was_not_earned_is_discarded_and_the_agent_is_told() {
    let repo = repo();
    let script = "
        cat > prompt; cmp prompt \"$AR_PROMPT\" || exit 1
        cp prompt \"$AR_ROOT/../review-$AR_EXPERIMENT\"; pwd >> \"$AR_ROOT/../trees\"; git rev-parse HEAD >> \"$AR_ROOT/../trees\"
        grep -q 1.5 src/value && echo '{\"verdict\": \"not_earned\", \"why\": \"src/value:1 prints the number\"}' > \"$AR_REVIEW\"
        grep -q 1.4 src/value && echo '{\"verdict\": \"unclear\", \"why\": \"who knows\"}'
        grep -q 1.3 src/value && echo '{\"verdict\": \"earned\"}'
        true";
    let edits = ["1.5", "1.4", "1.9", "1.3"].map(value);
    let edits = edits.each_ref().map(String::as_str);
    let called = reviewed(&repo, script, &edits, &["--guard", "true"]).ok();

    let records = [0, 1, 2, 3, 4].map(|id| record(&repo, id));
    let ended = records.each_ref().map(|record| (record["outcome"].as_str().unwrap(), verdict(record)));
    let expected =
        [("keep", "-"), ("discard", "not_earned"), ("keep", "unclear"), ("discard", "-"), ("keep", "earned")];
    assert_eq!(ended, expected, "{called:#?}");
    assert_eq!(
        (&records[1]["failure"]["class"], &records[1]["metric"]["value"]),
        (&"review_failed".into(), &1.5.into())
    );
    let reason = records[1]["reason"].as_str().unwrap();
    assert!(reason.ends_with("but the reviewer says not earned: src/value:1 prints the number"), "{reason}");
    assert!(records[1]["review"]["seconds"].is_number());
    assert_eq!(repo.head(), records[4]["commit"].as_str().unwrap());

    // The next prompt tells why, and how the reviewer works was told before.
    let told = crate::guards::prompt(&repo, 2);
    assert!(told.contains("but the reviewer says not earned: src/value:1 prints the number. An independent"), "{told}");
    assert!(told.contains("- an independent reviewer sees each change before it is kept"), "{told}");
    let lessons = repo.read("autoresearch-lessons.md");
    assert!(lessons.contains("review_failed"), "{lessons}");

    // It worked in a tree of its own at the commit of the change, which is gone.
    let trees = fs::read_to_string(repo.outside().join("trees")).unwrap();
    let lines: Vec<&str> = trees.lines().collect();
    for (id, seen) in [1, 2, 4].into_iter().zip(lines.chunks(2)) {
        assert!(seen[0].ends_with(&format!(".autoresearch/t/trees/review-{id}")), "{trees}");
        assert_eq!(seen[1], records[id]["commit"].as_str().unwrap());
    }
    assert!(!repo.exists(".autoresearch/t/trees"));
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);

    // People see what is doubted.
    let shown = ar(&repo, ["show", "2"]).ok().stdout;
    assert!(shown.contains("unclear: who knows"), "{shown}");
    let log = ar(&repo, ["log"]).ok().stdout;
    assert!(log.contains("review") && log.contains("not earned") && log.contains("unclear"), "{log}");
    let report = ar(&repo, ["report"]).ok().stdout;
    assert!(report.contains("the reviewer doubts what was kept: 2 (unclear)"), "{report}");
    let json = ar(&repo, ["report", "--format", "json"]).ok().json();
    assert!(json["warnings"].as_array().unwrap().iter().any(|it| it["kind"] == "doubted_by_the_reviewer"), "{json}");
}

#[test]
fn a_reviewer_is_a_term_of_the_session() {
    let repo = repo();
    let missing = session(&repo, &["--reviewer", "no-such-program --now"], &[&value("1.5")], 1).exits(1);
    assert!(missing.stderr.contains("cannot start the reviewer: `no-such-program` not found"), "{missing:?}");
    repo.write("mine.sh", EARNED);
    let untracked = session(&repo, &["--reviewer", "sh mine.sh"], &[&value("1.5")], 1).exits(1);
    assert!(untracked.stderr.contains("which lacks mine.sh: git does not track it"), "{untracked:?}");
    let absent = session(&repo, &["--reviewer", "sh absent.sh"], &[&value("1.5")], 1).exits(1);
    assert!(absent.stderr.contains("which lacks absent.sh"), "{absent:?}");
    assert!(!repo.exists(".autoresearch"));
    reviewed(&repo, EARNED, &[&value("1.5")], &[]).ok();
    // What is stored holds.
    let agent = value("1.2");
    ar(&repo, ["resume", "--agent", &agent, "--max-experiments", "1"]).ok();
    assert_eq!(verdict(&record(&repo, 2)), "earned");
}

#[test]
fn no_agent_edits_its_reviewer() {
    let repo = repo().without_walls();
    repo.write("mine.sh", "echo '{\"verdict\": \"not_earned\", \"why\": \"never\"}'");
    repo.commit_all("a reviewer");
    let bribe = format!("echo \"{}\" > mine.sh; {}", EARNED.replace('"', "\\\""), value("1.5"));
    session(&repo, &["--reviewer", "sh mine.sh"], &[&bribe, &value("1.4")], 2).ok();
    assert_eq!(record(&repo, 1)["failure"]["class"], "protected");
    assert_eq!(verdict(&record(&repo, 2)), "not_earned");
}

#[test]
fn what_a_reviewer_costs_counts() {
    let repo = repo();
    let script = "printf '%s\\n' '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"total_cost_usd\":0.5,\
                  \"usage\":{\"input_tokens\":100,\"output_tokens\":20},\
                  \"result\":\"I looked.\\n{\\\"verdict\\\": \\\"earned\\\", \\\"why\\\": \\\"x\\\"}\"}'";
    reviewed(&repo, script, &[&value("1.5")], &[]).ok();
    let record = record(&repo, 1);
    assert_eq!((verdict(&record), &record["review"]["cost"]), ("earned", &0.5.into()), "{record}");
    let report = ar(&repo, ["report", "--format", "json"]).ok().json();
    assert_eq!(report["cost"]["total"], 0.5, "{}", report["cost"]);
}

#[test]
fn a_change_by_hand_is_reviewed_too() {
    let repo = repo();
    let command = reviewer(&repo, "echo '{\"verdict\": \"not_earned\", \"why\": \"by hand\"}'");
    let start =
        ["try", "-m", "one", "--metric", "val_bpb", "--cmd", "sh eval.sh", "--tag", "t", "--reviewer", &command];
    repo.write("src/value", "echo val_bpb: 1.0\n");
    let tried = ar(&repo, start).ok();
    let record = record(&repo, 1);
    assert_eq!((&record["outcome"], verdict(&record)), (&"discard".into(), "not_earned"), "{tried:?}");
    assert_eq!(repo.read("src/value"), "echo val_bpb: 2.0\n");
}
