//! What a change may touch, and what is measured only once.

use std::fs;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar};

/// A repository with an evaluator that reads what the file to work on says.
fn repo() -> TestRepo {
    let repo = training_repo();
    repo.write("prepare.py", "the evaluation\n");
    repo.write("eval.sh", "echo run >> ../runs; echo val_bpb: $(cat src/value)\n");
    repo.write("src/value", "2.0\n");
    repo.commit_all("an evaluator of its own");
    repo
}

/// A session of as many experiments as `edits`, one shell line of the agent's each.
fn session(repo: &TestRepo, flags: &[&str], edits: &[&str]) -> Called {
    let cases: String = (1..).zip(edits).map(|(n, edit)| format!("{n}) {edit};; ")).collect();
    let agent =
        format!("cat > ../prompt-$AR_EXPERIMENT; case $AR_EXPERIMENT in {cases} esac; echo \"number $AR_EXPERIMENT\"");
    let (count, cap) = (edits.len().to_string(), "--max-experiments");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--agent", &agent];
    let capped = (!flags.contains(&cap)).then_some([cap, &count]);
    ar(repo, args.into_iter().chain(capped.into_iter().flatten()).chain(flags.iter().copied()))
}

fn record(repo: &TestRepo, id: u32) -> Value {
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", &format!("refs/autoresearch/t/{id:05}")]);
    serde_json::from_str(&body).unwrap()
}

fn runs(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count()
}

#[test]
fn a_change_to_what_may_not_be_touched_is_recorded_and_not_run() {
    let repo = repo().without_walls();
    let edits = [
        "echo 1 > src/value; echo cheat >> prepare.py",
        "rm prepare.py; ln -s src/value prepare.py",
        "echo 1 > src/value; git rm -q eval.sh",
        "echo 1 > src/value; echo x > README.md",
        "echo 1.5 > src/value",
        "echo 1 > src/value; echo 'metric = \"loss\"' > ar.toml",
    ];
    let called = session(&repo, &["--scope", "src/**"], &edits).ok();
    let classes: Vec<_> = (1..=6).map(|id| record(&repo, id)["failure"]["class"].clone()).collect();
    assert_eq!(
        classes,
        ["protected", "protected", "protected", "scope", "", "protected"].map(|class| match class {
            "" => Value::Null,
            class => class.into(),
        })
    );
    assert_eq!(runs(&repo), 2, "the baseline and the one within the scope");
    assert!(
        called.stdout.contains("number 1: the change touches a protected file (prepare.py is protected)"),
        "{called:?}"
    );
    assert_eq!(repo.read("prepare.py"), "the evaluation\n");
    assert_eq!(repo.status(), "");
    // The attempt is kept, and the agent is told which file and why.
    assert!(repo.git(["show", "refs/autoresearch/t/00001:prepare.py"]).contains("cheat"));
    let prompt = fs::read_to_string(repo.outside().join("prompt-5")).unwrap();
    assert!(prompt.contains("README.md is outside the scope"), "{prompt}");
    assert!(prompt.contains("src/**"), "{prompt}");
    let rows = repo.read("results.tsv");
    assert_eq!(rows.lines().filter(|row| row.contains("\tfailed\t")).count(), 5, "{rows}");
}

#[test]
fn what_was_refused_is_counted_apart_from_crashes_wherever_people_look() {
    let repo = repo();
    let edits = ["echo 1.5 > src/value", "echo x > README.md", "echo not a number > src/value", "echo y > README.md"];
    let called = session(&repo, &["--scope", "src/**"], &edits).ok();
    assert!(called.stdout.contains("  refused ") && called.stdout.contains("  crash "), "{called:?}");
    let counted = "5 rows: 2 keep, 0 discard, 1 crash, 2 refused";
    let report = ar(&repo, ["report"]).ok().stdout;
    for text in [counted, "keep rate    50", "1 crashed", "2 refused"] {
        assert!(report.contains(text), "{text}: {report}");
    }
    for command in ["report", "status"] {
        let json = ar(&repo, [command, "--format", "json"]).ok().json();
        let counts = if command == "status" { &json["sessions"][0]["counts"] } else { &json["counts"] };
        assert_eq!(
            (&counts["total"], &counts["crash"], &counts["refused"]),
            (&5.into(), &1.into(), &2.into()),
            "{json}"
        );
    }
    assert!(ar(&repo, ["status"]).ok().stdout.contains(counted));
    let log = ar(&repo, ["log", "--outcome", "refused", "--format", "json"]).ok().stdout;
    assert_eq!(log.matches("\"class\": \"scope\"").count(), 2, "{log}");
    assert!(!ar(&repo, ["log", "--outcome", "crash"]).ok().stdout.contains("scope"));
    let page = ar(&repo, ["report", "--format", "html", "--chart", "../chart.svg"]).ok().stdout;
    assert_eq!(page.matches("data-outcome=\"refused\"").count(), 2);
    assert_eq!(page.matches("data-outcome=\"crash\"").count(), 1);
    let chart = fs::read_to_string(repo.outside().join("chart.svg")).unwrap();
    assert!(chart.contains(">2 refused<") && chart.contains(">1 crashed<"), "{chart}");
}

#[test]
fn a_scope_that_no_file_is_in_is_said_before_the_night() {
    let repo = repo();
    let called = session(&repo, &["--scope", "sources/**"], &["echo 1.5 > src/value"]).ok();
    assert!(called.stderr.contains("note: no file of the repository matches the scope: sources/**"), "{called:#?}");
    assert_eq!(record(&repo, 1)["failure"]["class"], "scope");
}

#[test]
fn without_a_scope_the_file_that_the_command_names_is_the_one_to_work_on() {
    let repo = repo().without_walls();
    session(&repo, &[], &["echo 'echo val_bpb: 1.5' > eval.sh", "echo x >> prepare.py"]).ok();
    assert_eq!(record(&repo, 1)["outcome"], "keep");
    assert_eq!(record(&repo, 2)["failure"]["class"], "protected");
}

#[test]
fn a_python_file_that_drops_an_import_from_a_protected_one_is_refused() {
    let session_with = |flags: &[&str]| {
        let repo = repo();
        repo.write("train.py", "from prepare import (\n    TIME_BUDGET,\n    evaluate,\n)\n");
        repo.commit_all("imports");
        let drops = "sed -i '/TIME_BUDGET/d' train.py; echo TIME_BUDGET = 600 >> train.py; echo 1.5 > src/value";
        session(&repo, flags, &[drops, "echo DEPTH = 3 >> train.py; echo 1.4 > src/value"]).ok();
        repo
    };
    let repo = session_with(&[]);
    let failure = record(&repo, 1)["failure"].clone();
    assert_eq!(failure["class"], "protected", "{failure}");
    let excerpt = "train.py no longer imports TIME_BUDGET from prepare, which is protected (`allow-import-changes`";
    assert!(failure["excerpt"].as_str().unwrap().contains(excerpt), "{failure}");
    assert_eq!(record(&repo, 2)["outcome"], "keep");
    assert_eq!(record(&session_with(&["--allow-import-changes"]), 1)["outcome"], "keep");
}

#[test]
fn a_change_over_a_limit_is_named() {
    let repo = repo();
    let edits = [
        "head -c 5000001 /dev/zero > src/weights.bin",
        "for i in 1 2 3; do echo $i > src/$i; done",
        "seq 30 > src/value",
        "echo 1.5 > src/value",
    ];
    session(&repo, &["--max-files", "2", "--max-file-lines", "30"], &edits).ok();
    for (id, excerpt) in
        [(1, "src/weights.bin has 5.0 MB"), (2, "3 files changed, and 2 may be"), (3, "src/value has 31 lines changed")]
    {
        let record = record(&repo, id);
        assert_eq!(record["failure"]["class"], "too_large", "{record}");
        assert!(record["failure"]["excerpt"].as_str().unwrap().contains(excerpt), "{record}");
    }
    assert_eq!(runs(&repo), 2);
}

#[test]
fn a_file_of_the_change_that_is_too_long_is_named() {
    let repo = repo();
    repo.write("src/long", "line\n".repeat(40));
    repo.write("src/other", "line\n".repeat(40));
    repo.commit_all("long files");
    let edits = [
        "seq 31 > src/value",
        "sed -i 1d src/long",
        "printf 'a\\n%.0s' $(seq 20) > src/value; printf 'a\\r%.0s' $(seq 10) >> src/value; printf b >> src/value",
        "{ printf '\\0'; seq 500; } > src/weights.bin; seq 30 > src/new; sed -i '11,$d' src/long; rm src/other; echo 1.5 > src/value",
    ];
    session(&repo, &["--max-file-total", "30"], &edits).ok();
    for (id, excerpt) in [
        (1, "src/value has 31 lines, and 30 may be"),
        (2, "src/long has 39 lines, and 30 may be"),
        (3, "src/value has 31 lines, and 30 may be"),
    ] {
        let record = record(&repo, id);
        assert_eq!(record["failure"]["class"], "too_large", "{record}");
        assert_eq!(record["failure"]["excerpt"], excerpt, "{record}");
    }
    assert_eq!(record(&repo, 4)["outcome"], "keep", "binary files have no lines, and files may get shorter or go");
    assert_eq!(runs(&repo), 2);
    let prompt = fs::read_to_string(repo.outside().join("prompt-1")).unwrap();
    assert!(prompt.contains("- lines that a file may have which you add or change: 30"), "{prompt}");
}

#[test]
fn what_was_measured_is_not_measured_again() {
    let repo = repo();
    let edits = [
        "echo 2.5 > src/value",
        "echo 2.5 > src/value",
        "echo 1.5 > src/value",
        "echo new > src/new",
        "echo 2.0 > src/value",
        "git rm -q src/value; echo 1 > src/value",
        // The second is refused without a run, and uses up no experiment.
        "echo 3.5 > src/value",
    ];
    let called = session(&repo, &["--max-experiments", "6"], &edits).ok();
    let outcomes: Vec<_> = (1..=7).map(|id| record(&repo, id)["failure"]["class"].clone()).collect();
    let duplicate = Value::from("duplicate");
    // The fifth is the tree of the baseline again.
    assert_eq!(outcomes[1], duplicate, "{outcomes:?}");
    assert_eq!(outcomes[2], Value::Null, "{outcomes:?}");
    assert!(
        called.stdout.contains("experiment 1, discard: val_bpb 2.5 is worse than 2.0 of experiment 0"),
        "{called:?}"
    );
    assert_eq!(runs(&repo), 1 + outcomes.iter().filter(|class| **class != duplicate).count());
    let other = self::repo();
    session(&other, &["--allow-repeats"], &edits[..2]).ok();
    assert_eq!(runs(&other), 3);
}

#[test]
fn protected_files_are_put_back_before_a_run_and_checked_after_it() {
    let repo = repo().without_walls();
    repo.write(
        "eval.sh",
        "echo run >> ../runs; [ -e ../cheat ] && echo easier > prepare.py; echo val_bpb: $(cat src/value)\n",
    );
    repo.commit_all("a run that changes the evaluation");
    let called = session(&repo, &[], &["echo 1.5 > src/value; touch ../cheat"]).ok();
    let record = record(&repo, 1);
    assert_eq!((&record["failure"]["class"], &record["outcome"]), (&"protected".into(), &"crash".into()), "{called:?}");
    assert_eq!(record["failure"]["excerpt"], "the run changed prepare.py");
    assert_eq!(record["metric"]["value"], Value::Null);
    assert_eq!(repo.read("prepare.py"), "the evaluation\n");
    assert_eq!(repo.status(), "");
}

#[test]
fn a_scope_that_changes_between_two_nights_is_refused_by_name() {
    let repo = repo();
    session(&repo, &["--scope", "src/**"], &[]).ok();
    let called = ar(&repo, ["resume", "--scope", "**"]).exits(1);
    assert!(called.stderr.contains("approved with scope `src/**`, and now `**` is asked for"), "{called:?}");
    let called = ar(&repo, ["run", "--tag", "other", "--metric", "loss", "--cmd", "true", "--scope", "a{b"]).exits(2);
    assert!(called.stderr.contains("`a{b` is not a glob"), "{called:?}");
}

#[test]
fn a_list_of_globs_reads_alike_from_everywhere() {
    let repo = repo();
    repo.write(
        "ar.toml",
        "metric = \"val_bpb\"\ncmd = \"sh eval.sh\"\nscope = [\"src/**\", \"docs\"]\nprotect = \"lib\"\n",
    );
    repo.commit_all("settings");
    ar(&repo, ["run", "--tag", "t"]).ok();
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!(contract["scope"], serde_json::json!(["src/**", "docs"]));
    assert_eq!(contract["protect"], serde_json::json!(["lib"]));
    let mut command = crate::support::ar_command(&repo, &repo.path(), ["run", "--tag", "u"]);
    Called::from(command.env("AR_SCOPE", "src/**:tool.sh").output().unwrap()).ok();
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/u/state/contract.json")).unwrap();
    assert_eq!(contract["scope"], serde_json::json!(["src/**", "tool.sh"]));
}
