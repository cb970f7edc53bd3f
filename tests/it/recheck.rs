//! The best experiment, run again on schedule: `--recheck`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::crash::in_parallel;
use crate::escalation::start;
use crate::recovery::{runs, scripted};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// What is said of a number that came back.
const AGAIN: &str = "the baseline, so far the best, runs again: val_bpb 2.003";

/// What is said of one that did not.
const DRIFTS: &str = "val_bpb drifts: the baseline measures 0.50 ± ";

/// A repository whose runs give the number in `value` with noise by seed. A check adds the number in `shift` beside it, fails
/// if `fails` is there, and waits as long as `hold` is.
fn seeded() -> TestRepo {
    let repo = TestRepo::empty();
    let script = format!(
        "echo run >> {0}/runs\nd=0\n\
         case $AR_RUN_DIR in */check-*) echo check >> {0}/checks; [ ! -e {0}/fails ] || exit 3\n\
         while [ -e {0}/hold ]; do sleep 0.02; done; d=$(cat {0}/shift);; esac\n\
         awk -v s=$AR_SEED -v v=$(cat value) -v d=$d 'BEGIN {{ print \"val_bpb: \" v + (s * 37 % 17) / 1000 + d }}'\n",
        repo.outside().display()
    );
    repo.write("train.sh", script);
    repo.write("value", "2.0\n");
    repo.commit_all("a noisy script");
    shift(&repo, "0");
    repo
}

fn shift(repo: &TestRepo, by: &str) {
    fs::write(repo.outside().join("shift"), by).unwrap();
}

fn checks(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("checks")).unwrap_or_default().lines().count()
}

/// The arguments of a session that checks after every other experiment, and whose changes all harm.
fn args(experiments: u32, more: &[&str]) -> Vec<String> {
    let count = experiments.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--decide", "confirmed"];
    let args = args.into_iter().chain(["--baseline-runs", "4", "--recheck", "2", "--max-experiments", &count]);
    let args = args.chain(["--agent", "echo 9.$AR_EXPERIMENT > value"]);
    args.chain(more.iter().copied()).map(str::to_owned).collect()
}

fn journal(repo: &TestRepo) -> Value {
    serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap()
}

#[test]
fn a_drift_is_told_once_with_its_size_and_stands_in_the_report() {
    let repo = seeded();
    shift(&repo, "0.5");
    let called = ar_in_time(&repo, args(6, &[])).ok();
    assert_eq!((checks(&repo), runs(&repo)), (2, 12), "of the baseline 4, of changes 6: {called:#?}");
    assert_eq!(called.stderr.matches("val_bpb drifts: ").count(), 1, "{called:#?}");
    assert!(called.stderr.contains(DRIFTS), "{called:#?}");
    let again = "runs again: val_bpb 2.503, recorded 2.003";
    assert_eq!(called.stderr.matches(again).count(), 2, "{called:#?}");
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let warned: Vec<&str> = log.lines().filter(|line| line.contains(DRIFTS)).collect();
    assert!(warned.len() == 1 && warned[0].contains("\"level\":\"warn\""), "{warned:?}");
    let report = ar(&repo, ["report", "t"]).ok().stdout;
    let whole = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(whole.contains(DRIFTS) && whole.contains("run `ar verify --tag t`"), "{report}");
    assert!(
        whole.contains("by seed 1, at ") && whole.contains("2.503, 0.500 (25%) worse than the recorded 2.003"),
        "{report}"
    );
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let made = report["checks"].as_array().unwrap();
    assert_eq!((made.len(), &made[0]["value"], &made[0]["recorded"]), (2, &2.503.into(), &2.003.into()), "{report}");
    let drift = made[0]["drift"]["shift"].as_f64().unwrap();
    assert!((drift + 0.5).abs() < 1e-9 && made[1].get("drift").is_none(), "{made:#?}");
    assert_eq!(ar(&repo, ["show", "0", "--format", "json"]).ok().json()["runs"].as_array().unwrap().len(), 4);
    assert_eq!(repo.status(), "");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn a_night_without_drift_has_no_warning() {
    let repo = seeded();
    let called = ar_in_time(&repo, args(6, &["--format", "json"])).ok();
    assert!(!called.stdout.contains("drifts"), "{called:#?}");
    assert_eq!((called.stdout.matches(AGAIN).count(), checks(&repo)), (2, 2), "{called:#?}");
    let report = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(!report.contains("drifts") && report.contains("the same value"), "{report}");
}

#[test]
fn on_slots_a_check_takes_one_and_the_others_go_on() {
    let repo = seeded();
    shift(&repo, "0.5");
    let hold = repo.outside().join("hold");
    fs::write(&hold, "").unwrap();
    let child = start(&repo, &args(8, &["--slots", "2"]));
    until("the check", || (checks(&repo) == 1).then_some(()));
    let records = || repo.git(["for-each-ref", "refs/autoresearch/t/00*"]).lines().count();
    let before = records();
    until("two more records beside it", || (records() > before + 1).then_some(()));
    let status = ar(&repo, ["status", "t", "--format", "json"]).ok().json();
    let lanes = status["sessions"][0]["slots"].as_array().unwrap();
    let check = lanes.iter().find(|lane| lane["doing"] == "check").unwrap_or_else(|| panic!("{status:#}"));
    assert!(check["since"].is_string(), "{status:#}");
    fs::remove_file(&hold).unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(called.stderr.matches(DRIFTS).count(), 1, "{called:#?}");
    assert!((2..=4).contains(&checks(&repo)) && records() == 9, "{called:#?}");
    assert!(journal(&repo).get("attempts").is_none(), "{:#}", journal(&repo));
    assert_eq!(repo.status(), "");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn a_check_that_is_killed_is_made_again_and_one_that_was_made_is_not() {
    let repo = seeded();
    let hold = repo.outside().join("hold");
    fs::write(&hold, "").unwrap();
    let mut child = start(&repo, &args(3, &[]));
    until("the check", || (checks(&repo) == 1).then_some(()));
    let status = ar(&repo, ["status", "t"]).ok();
    assert!(status.stdout.contains("running the best experiment once again"), "{status:#?}");
    Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
    fs::remove_file(&hold).unwrap();
    until("the end of its run", || repo.processes().is_empty().then_some(()));
    assert!(journal(&repo).get("checks").is_none(), "{:#}", journal(&repo));
    let called = ar_in_time(&repo, ["resume", "t"]).ok();
    assert_eq!((called.stderr.matches(AGAIN).count(), checks(&repo)), (1, 2), "{called:#?}");
    let called = ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert_eq!((called.stderr.matches(AGAIN).count(), checks(&repo)), (0, 2), "{called:#?}");
    assert_eq!(journal(&repo)["checks"]["made"].as_array().unwrap().len(), 1);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_session_that_is_killed_anywhere_in_a_check_notes_it_once() {
    let whole = seeded();
    ar_in_time(&whole, args(3, &[])).ok();
    let rows = |repo: &TestRepo| {
        let rows = repo.read("results.tsv");
        rows.lines().filter_map(|row| Some(row.split_once('\t')?.1.to_owned())).collect::<Vec<_>>()
    };
    let whole = rows(&whole);
    // The runs before are four of the baseline and two of changes.
    let points = ["running.log_linked:7", "running.over:7", "idle.untracked_remembered:4", "idle.entered:4"];
    in_parallel(&points, |point| {
        let repo = seeded();
        let mut command = ar_command(&repo, &repo.path(), args(3, &[]));
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", point);
        assert_eq!(Called::from(command.output().unwrap()).code, None, "{point} killed nobody");
        assert!(checks(&repo) <= 1);
        ar_in_time(&repo, ["resume", "t"]).ok();
        assert_eq!(rows(&repo), whole, "killed at {point}");
        ar(&repo, ["doctor", "t"]).ok();
        assert_eq!(journal(&repo)["checks"]["made"].as_array().unwrap().len(), 1, "{point}");
        let made = if *point == "idle.entered:4" { 1 } else { 2 };
        assert!(checks(&repo) <= made, "{point}");
    });
}

#[test]
fn one_check_serves_crashes_and_schedule() {
    let repo = scripted("case $AR_RUN_DIR in */check-*) echo check >> ../checks;; esac");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--recheck", "5"];
    let agent = ["--agent", "echo broken $AR_EXPERIMENT > value", "--max-experiments", "7"];
    let called = ar_in_time(&repo, args.into_iter().chain(agent)).ok();
    assert_eq!(
        (called.stderr.matches("the crashes are the changes' own").count(), checks(&repo)),
        (1, 1),
        "{called:#?}"
    );
    assert_eq!(journal(&repo)["checks"]["last"], 6);
    // Nor is one that was made after crashes made again when the session goes on.
    let five = scripted("case $AR_RUN_DIR in */check-*) echo check >> ../checks;; esac");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent"];
    let mut child = {
        let more = ["echo broken $AR_EXPERIMENT > value; [ $AR_EXPERIMENT != 6 ] || { touch ../called; sleep 60; }"];
        let args: Vec<String> = args.into_iter().chain(more).map(str::to_owned).collect();
        start(&five, &args)
    };
    until("the sixth call", || five.outside().join("called").exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    ar_in_time(&five, ["resume", "t", "--agent", "echo broken > value", "--max-experiments", "1"]).ok();
    assert_eq!(checks(&five), 1);
}

#[test]
fn a_check_on_schedule_that_fails_is_a_warning_and_the_night_goes_on() {
    let repo = seeded();
    fs::write(repo.outside().join("fails"), "").unwrap();
    let called = ar_in_time(&repo, args(6, &[])).ok();
    let fails = "the baseline, so far the best, gave no number when it was run again: exit 3 after ";
    assert_eq!((called.stderr.matches(fails).count(), checks(&repo)), (2, 2), "{called:#?}");
    assert!(called.stderr.contains("runs/00003/check-1/run.log"), "{called:#?}");
    assert!(!repo.exists(".autoresearch/t/state/escalation.md"));
    assert_eq!(repo.read("results.tsv").lines().count(), 8);
}

#[test]
fn without_repeats_a_check_gives_both_numbers() {
    let repo = seeded();
    shift(&repo, "0.5");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--recheck", "2"];
    let agent = ["--agent", "echo 9.$AR_EXPERIMENT > value", "--max-experiments", "4"];
    let called = ar_in_time(&repo, args.into_iter().chain(agent)).ok();
    let both = "the baseline, so far the best, runs again: val_bpb 2.503, recorded 2.003";
    assert!(called.stderr.contains(both) && !called.stderr.contains("drifts"), "{called:#?}");
}
