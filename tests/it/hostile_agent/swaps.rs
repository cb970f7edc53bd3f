//! Files of a tree that somebody changes while a run is going on, and puts back before it ends.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::harness::{record, repo, runs, said, session};
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// Swaps the number before the run reads it, and swaps it back before the run ends.
const SWAP: [(&str, &str); 2] =
    [("before", "cp -p src/value $OUT/kept; echo 0.001 > src/value"), ("after", "cat $OUT/kept > src/value")];

/// A repository whose measuring command does what the scripts `before` and `after` beside it say, before it reads the number
/// and after it; not in the baseline.
fn open_to_swaps() -> TestRepo {
    let repo = repo();
    let command = "OUT=OUTSIDE\nat() { [ $AR_EXPERIMENT = 0 ] || [ ! -e $OUT/$1 ] || . $OUT/$1; }\necho run >> $OUT/runs\n\
                   at before\nnumber=$(cat src/value)\nat after\necho val_bpb: $number\n";
    repo.write("eval.sh", command.replace("OUTSIDE", &repo.outside().display().to_string()));
    repo.commit_all("a command that others can disturb");
    repo
}

fn put(repo: &TestRepo, scripts: &[(&str, &str)]) {
    for (name, script) in scripts {
        fs::write(repo.outside().join(name), script).unwrap();
    }
}

#[test]
fn a_number_of_files_that_were_swapped_and_swapped_back_does_not_count() {
    for (flags, repeats) in [(&[][..], 2), (&["--slots", "1"], 1)] {
        let repo = open_to_swaps();
        put(&repo, &SWAP);
        let called = session(&repo, &["true"], flags).ok();
        let swapped = record(&repo, 1);
        assert_eq!(swapped["failure"]["class"], "changed", "{flags:?}: {called:#?}");
        assert_eq!((&swapped["outcome"], &swapped["metric"]["value"]), (&json!("crash"), &Value::Null), "{flags:?}");
        assert_eq!(swapped["changed_while_running"], json!(["src/value"]), "{flags:?}");
        assert_eq!(runs(&repo), 2 + repeats, "{flags:?}: in place the user may have edited it: {called:#?}");
        assert!(
            said(&called).contains("repeating the run of experiment 1: src/value changed while it ran"),
            "{called:#?}"
        );

        // Once is no reason to give up.
        let repo = open_to_swaps();
        put(&repo, &SWAP);
        put(&repo, &[("after", "cat $OUT/kept > src/value; rm $OUT/before $OUT/after")]);
        let called = session(&repo, &["true"], flags).ok();
        let repeated = record(&repo, 1);
        assert_eq!((&repeated["outcome"], &repeated["metric"]["raw"]), (&json!("keep"), &json!("1.98")), "{called:#?}");
        assert_eq!(repeated["changed_while_running"], Value::Null, "{flags:?}");
        assert_eq!(runs(&repo), 3, "{flags:?}");
    }
}

#[test]
fn an_evaluator_that_was_swapped_and_swapped_back_is_refused_and_on_slots_at_once() {
    for (flags, repeats) in [(&[][..], 2), (&["--slots", "1"], 0)] {
        let repo = open_to_swaps();
        put(
            &repo,
            &[("before", "cp -p prepare.py $OUT/kept; echo > prepare.py"), ("after", "cat $OUT/kept > prepare.py")],
        );
        let called = session(&repo, &["true"], flags).ok();
        let swapped = record(&repo, 1);
        assert_eq!(swapped["failure"]["class"], "protected", "{flags:?}: {called:#?}");
        assert_eq!(swapped["metric"]["value"], Value::Null, "{flags:?}");
        assert_eq!(runs(&repo), 2 + repeats, "{flags:?}: {called:#?}");
    }
}

#[test]
fn tracked_files_that_the_baselines_own_run_changes_are_named_and_no_reason_later() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = open_to_swaps();
        repo.write("state.txt", "0\n");
        repo.write("eval.sh", repo.read("eval.sh") + "echo $AR_EXPERIMENT > state.txt\n");
        repo.commit_all("a command that writes a tracked file");
        let called = session(&repo, &["true"], flags).ok();
        assert_eq!(record(&repo, 0)["changed_while_running"], json!(["state.txt"]), "{called:#?}");
        let named = "exempted tracked files that the baseline's run changed itself: state.txt";
        assert!(said(&called).contains(named), "{flags:?}: {called:#?}");
        assert_eq!(record(&repo, 1)["metric"]["raw"], "1.98", "{flags:?}: {called:#?}");
        assert_eq!(runs(&repo), 2, "{flags:?}");
    }
}

#[test]
fn a_metric_file_that_changes_after_the_run_has_no_number() {
    let repo = repo();
    repo.write("eval.sh", "echo run >> ../runs; echo '{\"v\": '$(cat src/value)'}' > m.json\n");
    repo.commit_all("a number in a file");
    repo.write(".git/info/exclude", "m.json\n");
    let args =
        ["run", "--yes", "--metric", "v", "--lower", "--metric-file", "m.json:/v", "--tag", "t", "--cmd", "sh eval.sh"];
    ar(&repo, args.into_iter().chain(["--max-experiments", "0"])).ok();
    // Between the end of the run and the look at its file, the first time only.
    let cheat = "[ \"$(tail -n 1 ../trace)\" != running.over ] || echo '{\"v\": 0.001}' > m.json";
    let mut command = ar_command(&repo, &repo.path(), ["resume", "--max-experiments", "1"]);
    command.args(["--agent", "cat > /dev/null; echo 1.5 > src/value"]);
    command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_RUN", cheat);
    let called = Called::from(command.output().unwrap()).ok();
    assert!(said(&called).contains("repeating the run of experiment 1: m.json changed while it ran"), "{called:#?}");
    assert_eq!(record(&repo, 1)["metric"]["raw"], "1.5", "{called:#?}");
    assert_eq!(runs(&repo), 3);
}

#[test]
fn a_swap_while_nobody_watches_over_the_run_is_seen_when_the_session_goes_on() {
    let repo = open_to_swaps();
    put(&repo, &[("before", "touch $OUT/there; until [ -e $OUT/go ]; do sleep 0.02; done")]);
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--max-experiments", "1"];
    let mut child = ar_command(&repo, &repo.path(), args)
        .args(["--agent", "cat > /dev/null; echo 1.5 > src/value"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the run", || repo.outside().join("there").exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(repo.outside().join("before")).unwrap();
    repo.write("src/value", "0.001\n");
    repo.write("src/value", "1.5\n");
    fs::write(repo.outside().join("go"), "").unwrap();
    let called = ar(&repo, ["resume"]).ok();
    assert!(said(&called).contains("repeating the run of experiment 1: src/value changed while it ran"), "{called:#?}");
    assert_eq!((runs(&repo), &record(&repo, 1)["metric"]["raw"]), (3, &json!("1.5")), "{called:#?}");
}

/// Runs the baseline alone in two slots, whose command does this in slot 1 before it reads the evaluator and after it.
fn baseline_in_slots(before: &str, after: &str) -> (TestRepo, Called) {
    let repo = repo();
    let command = format!(
        "at() {{ [ $AR_SLOT != 1 ] || eval \"$1\"; }}\nOUT={}\nat '{before}'\nnumber=$(cat prepare.py)\nat '{after}'\n\
         echo val_bpb: $number\n",
        repo.outside().display()
    );
    repo.write("prepare.py", "2.0\n");
    repo.write("eval.sh", command);
    repo.commit_all("a number of the evaluator's");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--scope", "src/**"];
    let called = ar(&repo, args.into_iter().chain(["--slots", "2", "--max-experiments", "0"]));
    (repo, called)
}

#[test]
fn a_baseline_whose_other_slot_was_disturbed_is_refused() {
    let swap = ("cp -p {} $OUT/kept; echo 0.001 > {}", "cat $OUT/kept > {}");
    for (path, after, why) in [
        ("prepare.py", swap.1, "prepare.py was changed while the run was active, and changed back"),
        ("prepare.py", "", "the run changed prepare.py"),
        ("src/value", swap.1, "src/value changed while it ran"),
    ] {
        let (repo, called) = baseline_in_slots(&swap.0.replace("{}", path), &after.replace("{}", path));
        assert_eq!(called.code, Some(3), "{path}: {called:#?}");
        let said = called.stderr.contains("in slot 1, files changed during the run") && called.stderr.contains(why);
        assert!(said, "{path}: {called:#?}");
        assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t"]), "", "{path}");
    }
}
