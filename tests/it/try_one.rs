//! `ar try`: one experiment from the working tree.

use std::process::Stdio;

use serde_json::Value;

use crate::guards;
use crate::interrupt::signal;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, hears_hang_ups, until};

const FIRST: [&str; 7] = ["try", "-m", "first", "--metric", "val_bpb", "--cmd", "sh train.sh"];

fn set_value(repo: &TestRepo, value: &str) {
    let text = repo.read("train.sh");
    let line = text.lines().find(|line| line.starts_with("VAL_BPB=")).unwrap().to_owned();
    repo.write("train.sh", text.replace(&line, &format!("VAL_BPB={value}")));
}

#[test]
fn the_first_try_opens_a_session_and_measures_the_baseline_without_the_change() {
    let repo = training_repo();
    set_value(&repo, "1.5");
    let called = ar(&repo, FIRST).ok();
    assert!(
        called.stdout.starts_with("   1  keep     1.5       first: val_bpb 1.5 is better than 2.000000"),
        "{called:?}"
    );
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/nov20");
    assert_eq!(repo.git(["log", "-1", "--format=%s"]), "first");

    set_value(&repo, "1.9");
    let called = ar(&repo, ["try", "-m", "second", "--format", "json"]).ok();
    assert_eq!(called.stdout.lines().count(), 1, "{called:?}");
    assert_eq!((&called.json()["id"], &called.json()["outcome"]), (&2.into(), &"discard".into()));
    assert!(repo.read("train.sh").contains("VAL_BPB=1.5"), "a discard is put back");
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
}

#[test]
fn a_clock_before_1970_makes_commits_that_git_takes() {
    let repo = training_repo();
    set_value(&repo, "1.5");
    let mut command = ar_command(&repo, &repo.path(), FIRST);
    let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, "1969-06-01 12:00:00 +0000"));
    Called::from(command.envs(dates).env("AR_CLOCK", "1969-06-01T12:00:00Z").output().unwrap()).ok();
    assert_eq!(repo.git(["log", "-1", "--format=%at %ct"]), "0 0");
    repo.git(["fsck", "--strict"]);
    let record = ar(&repo, ["show", "1", "--format", "json"]).ok().json();
    assert_eq!(record["finished"], "1969-06-01T12:00:00.000Z");
}

#[test]
fn exit_codes_say_the_outcome_only_when_asked() {
    let repo = training_repo();
    set_value(&repo, "2.5");
    ar(&repo, FIRST).exits(0);
    set_value(&repo, "2.6");
    ar(&repo, ["try", "-m", "worse", "--exit-code"]).exits(10);
    set_value(&repo, "nan");
    ar(&repo, ["try", "-m", "broken", "--exit-code"]).exits(20);
    set_value(&repo, "1.0");
    ar(&repo, ["try", "-m", "better", "--exit-code"]).exits(0);
}

#[test]
fn new_files_belong_to_a_change_once_the_session_is_there_and_before_it_only_when_staged() {
    let repo = training_repo();
    repo.write("notes.txt", "mine\n");
    repo.write("staged.txt", "part of it\n");
    repo.git(["add", "staged.txt"]);
    set_value(&repo, "1.5");
    ar(&repo, FIRST).ok();
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "staged.txt\ntrain.sh");
    assert_eq!(repo.status(), "?? notes.txt");

    repo.write("module.txt", "new\n");
    set_value(&repo, "1.4");
    ar(&repo, ["try", "-m", "with a module"]).ok();
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "module.txt\ntrain.sh");
    assert_eq!(repo.status(), "?? notes.txt");

    repo.write("worse.txt", "new\n");
    set_value(&repo, "1.6");
    ar(&repo, ["try", "-m", "worse"]).ok();
    assert_eq!(repo.status(), "?? notes.txt");
    assert_eq!(repo.git(["show", "refs/autoresearch/nov20/00003:worse.txt"]), "new");
}

#[test]
fn a_change_that_was_committed_by_hand_is_measured_too() {
    let repo = training_repo();
    set_value(&repo, "1.5");
    ar(&repo, FIRST).ok();
    set_value(&repo, "1.4");
    let commit = repo.commit_all("by hand");
    let refused = ar(&repo, ["resume"]).exits(1);
    assert!(refused.stderr.contains("by hand") && refused.stderr.contains("ar run --adopt"), "{refused:?}");
    ar(&repo, ["try"]).ok();
    assert_eq!(repo.head(), commit);
    assert_eq!(repo.git(["for-each-ref", "--format=%(subject)", "refs/autoresearch/nov20/00002"]), "by hand");
}

#[test]
fn nothing_to_try_is_said_and_is_no_experiment() {
    let repo = training_repo();
    let called = ar(&repo, FIRST).exits(1);
    assert!(called.stderr.contains("hint: edit a file first"), "{called:?}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch", "refs/heads/autoresearch"]), "");
    set_value(&repo, "1.5");
    ar(&repo, FIRST).ok();
    ar(&repo, ["try", "-m", "nothing"]).exits(1);
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
}

#[test]
fn a_change_on_another_commit_than_the_tip_is_left_where_it_is() {
    let repo = training_repo();
    set_value(&repo, "1.5");
    ar(&repo, FIRST).ok();
    repo.git(["switch", "--quiet", "main"]);
    set_value(&repo, "1.4");
    let start_saved = repo.git(["for-each-ref", "refs/autoresearch/nov20/saved"]);
    for args in
        [&["try", "-m", "on main"][..], &["run", "--tag", "nov20", "--adopt", "--yes", "--max-experiments", "1"]]
    {
        let refused = ar(&repo, args).exits(1);
        assert!(refused.stderr.contains("uncommitted changes: train.sh"), "{refused:?}");
    }
    assert!(repo.read("train.sh").contains("VAL_BPB=1.4"));
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/nov20/saved"]), start_saved);

    repo.git(["switch", "--quiet", "--detach", "--discard-changes", "autoresearch/nov20"]);
    set_value(&repo, "1.3");
    ar(&repo, ["try", "-m", "at the tip"]).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/nov20");
    assert_eq!(repo.git(["log", "-1", "--format=%s"]), "at the tip");
}

#[test]
fn a_failed_baseline_leaves_everything_as_it_was() {
    let repo = training_repo();
    set_value(&repo, "1.5");
    repo.write("new.txt", "new\n");
    repo.git(["add", "new.txt"]);
    let before = repo.read("train.sh");
    let called = ar(&repo, ["try", "-m", "x", "--metric", "accuracy_loss", "--lower", "--cmd", "sh train.sh"]).exits(3);
    assert!(called.stderr.contains("val_bpb"), "the names that it did print: {called:?}");
    assert_eq!(repo.read("train.sh"), before);
    assert_eq!(repo.read("new.txt"), "new\n");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(repo.git(["for-each-ref", "refs/heads"]).lines().count(), 1);
    assert!(!repo.exists("results.tsv"));
    ar(&repo, FIRST).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/nov20", "the name is free again");
}

#[test]
fn a_try_that_does_not_wait_is_continued_and_measured_once() {
    let repo = training_repo();
    repo.write(
        "train.sh",
        "echo run >> ../runs; while [ ! -e ../go ]; do sleep 0.05; done; VAL_BPB=2.0; echo val_bpb: $VAL_BPB\n",
    );
    repo.commit_all("waits for a sign");
    std::fs::write(repo.outside().join("go"), "").unwrap();
    repo.write("train.sh", repo.read("train.sh").replace("2.0", "1.5"));
    // The baseline runs at once; the change waits.
    std::fs::remove_file(repo.outside().join("go")).unwrap();
    std::fs::write(repo.outside().join("go"), "").unwrap();
    ar(&repo, FIRST).ok();
    std::fs::remove_file(repo.outside().join("go")).unwrap();
    repo.write("train.sh", repo.read("train.sh").replace("1.5", "1.25"));
    let called = ar(&repo, ["try", "-m", "slow", "--wait", "200ms"]).ok();
    assert!(called.stdout.contains("still running") && called.stdout.contains("ar try --continue"), "{called:?}");
    let called = ar(&repo, ["try", "--continue", "--wait", "100ms", "--exit-code", "--format", "json"]).exits(30);
    assert_eq!((&called.json()["id"], &called.json()["status"]), (&2.into(), &"running".into()));
    let called = ar(&repo, ["try", "-m", "another"]).exits(1);
    assert!(called.stderr.contains("ar try --continue"), "{called:?}");
    let child = ar_command(&repo, &repo.path(), ["try", "--continue", "--exit-code"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::fs::write(repo.outside().join("go"), "").unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.starts_with("   2  keep     1.25      slow: val_bpb 1.25 is better than 1.5"), "{called:?}");
    let runs = std::fs::read_to_string(repo.outside().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 3, "baseline, first and slow, once each");
    ar(&repo, ["try", "--continue"]).exits(1);
}

/// A repository whose first change failed its guard under `ar try`.
fn failed_guard() -> TestRepo {
    let repo = guards::repo();
    let terms = ["--metric", "val_bpb", "--cmd", "sh eval.sh", "--guard", "sh guard.sh", "--tag", "t"];
    repo.write("src/value", "echo val_bpb: 1.5\n");
    repo.write("src/new", "new\n");
    repo.git(["add", "src/new"]);
    repo.write("src/check", "echo bad; exit 3\n");
    let called = ar(&repo, ["try", "-m", "an idea", "--direction", "ideas"].iter().chain(&terms)).ok();
    assert!(called.stdout.contains("`ar try --rework` brings its change back into the working tree"), "{called:#?}");
    assert!(!repo.exists("src/new"));
    repo
}

fn rows(repo: &TestRepo) -> Vec<String> {
    repo.read("results.tsv").lines().skip(2).map(|row| row.split_once('\t').unwrap().1.to_owned()).collect()
}

#[test]
fn a_change_that_failed_a_guard_is_worked_on_again_as_the_same_experiment() {
    let repo = failed_guard();
    let first = guards::record(&repo, 1);
    let called = ar(&repo, ["try", "--rework"]).ok();
    assert!(called.stdout.starts_with("experiment 1 is back in the working tree: an idea\n"), "{called:#?}");
    assert!(called.stdout.contains("| bad") && called.stdout.contains("then run `ar try`"), "{called:#?}");
    assert_eq!((repo.read("src/new"), repo.read("src/value")), ("new\n".into(), "echo val_bpb: 1.5\n".into()));
    let refused = ar(&repo, ["try"]).exits(1);
    assert!(refused.stderr.contains("the same as an earlier version of experiment 1"), "{refused:#?}");

    repo.write("src/check", "echo still bad; exit 4\n");
    ar(&repo, ["try"]).ok();
    let second = guards::record(&repo, 1);
    assert_eq!((&second["outcome"], &second["description"]), (&"discard".into(), &"an idea".into()));
    assert_eq!(rows(&repo).len(), 1, "its row is replaced: {:?}", rows(&repo));
    ar(&repo, ["try", "--rework"]).ok();
    repo.write("src/check", "echo well\n");
    let called = ar(&repo, ["try", "-m", "an idea that passes", "--format", "json"]).ok();
    assert_eq!((&called.json()["id"], &called.json()["outcome"]), (&1.into(), &"keep".into()), "{called:#?}");
    let record = guards::record(&repo, 1);
    assert_eq!((&record["direction"], record["runs"].as_array().map(Vec::len)), (&"ideas".into(), Some(3)));
    let versions = record["versions"].as_array().unwrap();
    assert_eq!(
        (versions.len(), &versions[0]["commit"], &versions[1]["commit"]),
        (2, &first["commit"], &second["commit"])
    );
    for version in versions {
        let tree = |name: &Value| repo.git(["rev-parse", &format!("{}^{{tree}}", name.as_str().unwrap())]);
        assert_eq!(tree(&version["saved"]), tree(&version["commit"]));
    }
    let row = &rows(&repo)[0];
    assert!(row.starts_with("1.5\t") && row.ends_with("\timproved\tan idea that passes"), "{row}");
    assert_eq!(rows(&repo).len(), 1);
    assert_eq!((repo.head(), repo.status()), (record["commit"].as_str().unwrap().to_owned(), String::new()));
    assert!(repo.exists(".autoresearch/t/runs/00001/run.1.log"));
    ar(&repo, ["doctor"]).ok();
    let refused = ar(&repo, ["try", "--rework"]).exits(1);
    assert!(refused.stderr.contains("the last experiment did not fail a guard"), "{refused:#?}");
}

#[test]
fn a_rework_needs_a_clean_working_tree_and_ends_after_two() {
    let repo = failed_guard();
    repo.write("src/value", "echo val_bpb: 9\n");
    let refused = ar(&repo, ["try", "--rework"]).exits(1);
    assert!(refused.stderr.contains("the working tree has changes: src/value"), "{refused:#?}");
    repo.git(["checkout", "--quiet", "src/value"]);
    for version in 2..=3 {
        ar(&repo, ["try", "--rework"]).ok();
        repo.write("src/check", format!("echo bad {version}; exit 3\n"));
        ar(&repo, ["try"]).ok();
    }
    let refused = ar(&repo, ["try", "--rework"]).exits(1);
    assert!(refused.stderr.contains("experiment 1 was already reworked 2 times"), "{refused:#?}");
    assert_eq!((rows(&repo).len(), guards::record(&repo, 1)["versions"].as_array().map(Vec::len)), (1, Some(2)));
}

#[test]
fn a_try_whose_terminal_goes_leaves_its_run_to_be_continued() {
    if !hears_hang_ups() {
        return;
    }
    let repo = training_repo();
    repo.write("train.sh", "touch ../there; until [ -e ../go ]; do sleep 0.05; done; echo val_bpb: 1.5\n");
    repo.commit_all("waits for a sign");
    std::fs::write(repo.outside().join("go"), "").unwrap();
    repo.write("notes", "1\n");
    repo.git(["add", "notes"]);
    ar(&repo, FIRST).ok();
    for file in ["go", "there"] {
        std::fs::remove_file(repo.outside().join(file)).unwrap();
    }
    repo.write("notes", "2\n");
    let mut command = ar_command(&repo, &repo.path(), ["try", "-m", "second", "--exit-code"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the run", || repo.outside().join("there").exists().then_some(()));
    signal(&child, "-HUP");
    let called = Called::from(child.wait_with_output().unwrap()).exits(30);
    assert!(called.stdout.contains("experiment 2 is still running"), "{called:?}");
    std::fs::write(repo.outside().join("go"), "").unwrap();
    let called = ar(&repo, ["try", "--continue", "--format", "json"]).ok();
    assert_eq!((&called.json()["id"], &called.json()["outcome"]), (&2.into(), &"discard".into()), "{called:?}");
}

#[test]
fn a_rework_that_is_interrupted_is_rolled_back_and_its_record_stands() {
    for waits in ["src/value", "src/check"] {
        let repo = failed_guard();
        let (before, row) = (guards::record(&repo, 1), rows(&repo));
        ar(&repo, ["try", "--rework"]).ok();
        let passes = if waits == "src/value" { "echo val_bpb: 1.5" } else { "echo well" };
        repo.write("src/check", "echo well\n");
        repo.write(waits, format!("touch ../there; until [ -e ../go ]; do sleep 0.05; done; {passes}\n"));
        let mut command = ar_command(&repo, &repo.path(), ["try"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the run", || repo.outside().join("there").exists().then_some(()));
        signal(&child, "-TERM");
        let called = Called::from(child.wait_with_output().unwrap()).exits(130);
        assert!(called.stderr.contains("the change was rolled back and saved under a ref"), "{waits}: {called:?}");
        assert_eq!((guards::record(&repo, 1), rows(&repo)), (before, row), "{waits}");
        assert_eq!(repo.status(), "", "{waits}");

        ar(&repo, ["try", "--rework"]).ok();
        repo.write("src/check", "echo well\n");
        let called = ar(&repo, ["try", "--format", "json"]).ok();
        assert_eq!((&called.json()["id"], &called.json()["outcome"]), (&1.into(), &"keep".into()), "{called:#?}");
        ar(&repo, ["doctor"]).ok();
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_rework_that_is_killed_is_continued_and_loses_and_repeats_nothing() {
    for point in
        ["rework.version_saved", "running.entered", "recording.entered", "recording.recorded", "settling.row_appended"]
    {
        let repo = failed_guard();
        ar(&repo, ["try", "--rework"]).ok();
        repo.write("src/check", "echo well\n");
        let mut killed = ar_command(&repo, &repo.path(), ["try"]);
        killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:1"));
        assert_eq!(Called::from(killed.output().unwrap()).code, None, "{point}");
        let is_open = point != "rework.version_saved";
        ar(&repo, ["try", "--continue"].into_iter().take(if is_open { 2 } else { 1 })).ok();
        let record = guards::record(&repo, 1);
        assert_eq!(
            (&record["outcome"], record["versions"].as_array().map(Vec::len)),
            (&"keep".into(), Some(1)),
            "{point}: {record}"
        );
        assert_eq!((rows(&repo).len(), repo.head()), (1, record["commit"].as_str().unwrap().to_owned()), "{point}");
        ar(&repo, ["doctor"]).ok();
    }
}

#[test]
fn a_try_that_gains_too_much_is_doubted_in_text_and_json() {
    let repo = training_repo();
    let attempt = |value: &str, format: &str| {
        repo.write("train.sh", format!("echo val_bpb: {value}\n"));
        ar(&repo, ["try", "-m", "evaluate less", "--format", format]).ok()
    };
    repo.write("train.sh", "echo val_bpb: 1.75\n");
    ar(&repo, ["try", "-m", "first", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    let doubted = attempt("0.5", "json").json();
    assert_eq!(doubted["doubt"], "gained more than half of 1.75, the value to beat");
    let plain = attempt("0.45", "json").json();
    assert_eq!(plain.as_object().unwrap().get("doubt"), Some(&Value::Null), "{plain}");
    let text = attempt("0.001", "table").stdout;
    let line = text.lines().next().unwrap();
    assert!(line.ends_with("; doubtful: gained more than half of 0.45, the value to beat"), "{text}");
}
