//! The best experiment, run once again when change after change crashes.

use std::fs;
use std::process::Command;

use autoresearch::domain::Clock;
use autoresearch::session::inspect_sessions;

use crate::crash::in_parallel;
use crate::escalation::{REPORT, events, start, status, until_waiting};
use crate::outcome::{assert_outcome, outcome};
use crate::recovery::{runs, scripted};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, hears_hang_ups, until};

/// What the best experiment is said to do after crashes that are the changes' own.
const STILL_RUNS: &str = "the baseline, so far the best, still runs (val_bpb 2.0): the crashes are the changes' own";

const RUNS_AGAIN: &str = "the baseline, so far the best, runs again (val_bpb 2.0): what crashed meanwhile may be tried";

/// The arguments of a session whose agent does what `agent` says.
fn args(agent: &str, experiments: u32, more: &[&str]) -> Vec<String> {
    let count = experiments.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let args = args.into_iter().chain(["--agent", agent, "--max-experiments", &count]);
    args.chain(more.iter().copied()).map(str::to_owned).collect()
}

/// A repository whose runs write to a tracked file and then need data outside of git.
fn with_data() -> TestRepo {
    let repo = scripted("echo run >> docs/a.txt; cat ../data >/dev/null || exit 1");
    restore_data(&repo);
    repo
}

fn restore_data(repo: &TestRepo) {
    fs::write(repo.outside().join("data"), "").unwrap();
}

/// An agent whose first change comes together with the loss of that data.
const LOSES_DATA: &str = "[ $AR_EXPERIMENT != 1 ] || rm ../data; echo 1.$AR_EXPERIMENT > value";

/// An agent whose changes all crash.
const BREAKS: &str = "echo broken $AR_EXPERIMENT > value";

/// The records, and that the repository is as after an experiment.
#[track_caller]
fn assert_records(repo: &TestRepo, count: usize) {
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/00*"]).lines().count(), count);
    assert_eq!(repo.read("results.tsv").lines().count(), count + 1);
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t");
    repo.git(["fsck", "--full", "--strict"]);
}

#[test]
fn a_best_experiment_that_no_longer_runs_stops_the_loop_with_a_report() {
    let repo = with_data();
    let called = ar_in_time(&repo, args(LOSES_DATA, 12, &[])).exits(4);
    let what = "the baseline, so far the best, no longer runs: the run failed (exit 1 after ";
    assert!(called.stdout.contains(&format!("      needs you: {what}")), "{called:#?}");
    let log = ".autoresearch/t/runs/00006/check-1/run.log";
    let report = repo.read(REPORT);
    for words in [
        what,
        "data: No such file or directory, after 5 crashes in a row\n",
        "what was tried: the best experiment was run once again",
        &format!("{log}, and restore what the run needs\n"),
        "\nar resume t\n",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    assert_eq!(status(&repo).unwrap()["escalation"]["kind"], "baseline");
    assert!(repo.read(log).contains("data: No such file"));
    let own = repo.read(".autoresearch/t/runs/00000/run.log");
    assert_eq!((own.trim(), runs(&repo), events(&repo, "escalated")), ("val_bpb: 2.0", 7, 1));
    assert_records(&repo, 6);
    restore_data(&repo);
    let called = ar_in_time(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert!(called.stderr.contains(RUNS_AGAIN) && called.stdout.contains("   6  keep"), "{called:#?}");
    assert_eq!(runs(&repo), 9);
    assert_records(&repo, 7);
    let shown = ar(&repo, ["show", "3", "--format", "json"]).ok().json();
    assert_eq!(shown["outside_cause"], "the baseline, which ran before, failed as well", "{shown}");
    // The same change is no repeat of one that was not to blame.
    let again = ["resume", "--agent", "git checkout -q main -- . ; echo 1.1 > value", "--max-experiments", "1"];
    let called = ar_in_time(&repo, again).ok();
    assert!(!called.stdout.contains("measured before"), "{called:#?}");
}

#[test]
fn a_session_that_waits_goes_on_when_the_best_experiment_runs_again() {
    let repo = with_data();
    let child = start(&repo, &args(LOSES_DATA, 6, &["--escalate", "wait"]));
    let session = until_waiting(&repo);
    assert_eq!(session["escalation"]["kind"], "baseline", "{session}");
    restore_data(&repo);
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stderr.contains(RUNS_AGAIN) && called.stdout.contains("   6  keep"), "{called:#?}");
    assert_records(&repo, 7);
    assert!(!repo.exists(REPORT));
}

#[test]
fn crashes_that_are_the_changes_own_are_told_once_at_five_and_once_at_ten() {
    let repo = scripted("");
    let called = ar_in_time(&repo, args(BREAKS, 11, &[])).ok();
    assert_eq!(called.stderr.matches(STILL_RUNS).count(), 2, "{called:#?}");
    assert_eq!(runs(&repo), 14);
    assert_records(&repo, 12);
    assert!(!repo.exists(REPORT));
}

#[test]
fn a_value_beyond_the_spread_of_repeats_is_told_with_both_numbers() {
    // The value of each run in turn; that of experiment 8 comes after the check.
    let repo = scripted("echo val_bpb: $(sed -n $(grep -c . ../runs)p ../values); exit");
    fs::write(repo.outside().join("values"), "2.0\n2.1\n2.2\nx\nx\nx\nx\nx\n3.0\nx\n").unwrap();
    let agent = "echo $(($AR_EXPERIMENT / 2)) > value; [ $AR_EXPERIMENT -gt 2 ] || echo same > value; \
                 echo $AR_EXPERIMENT >> docs/a.txt; [ $AR_EXPERIMENT -gt 2 ] || echo same > docs/a.txt";
    let called = ar_in_time(&repo, args(agent, 8, &["--allow-repeats"])).ok();
    let differs = "the baseline, so far the best, now has val_bpb 3.0, recorded 2.0: 1.0 (50%) worse, where repeats \
                   differ by 0.20 at most";
    assert!(called.stderr.contains(differs), "{called:#?}");
    assert_records(&repo, 9);
}

#[test]
fn a_check_that_is_cut_off_is_made_anew_when_the_session_goes_on() {
    for end in ["-KILL", "-HUP", "--now"] {
        if end == "-HUP" && !hears_hang_ups() {
            continue;
        }
        let repo = scripted(
            "[ $(grep -c . ../runs) != 7 ] || { echo half >> docs/a.txt; touch ../checking; sleep 600; }; : > litter",
        );
        let mut child = start(&repo, &args(BREAKS, 6, &[]));
        until("the check", || repo.outside().join("checking").exists().then_some(()));
        let session = status(&repo).unwrap();
        assert_eq!(session["activity"], "checking", "{session}");
        assert!(session["doing"].as_str().unwrap().starts_with("running the best experiment once again"), "{session}");
        let seen = inspect_sessions(&repo.path(), None, Clock::System).unwrap();
        assert!(seen[0].log.as_ref().unwrap().ends_with("runs/00006/check-1/run.log"), "{:?}", seen[0].log);
        if end == "--now" {
            ar(&repo, ["stop", "t", end]).ok();
            Called::from(child.wait_with_output().unwrap()).ok();
        } else {
            Command::new("kill").args([end, &child.id().to_string()]).status().unwrap();
            child.wait().unwrap();
            until("the end of its run", || repo.processes().is_empty().then_some(()));
            assert!(repo.status().contains(" M docs/a.txt"));
            ar_in_time(&repo, ["resume", "t", "--max-experiments", "0"]).ok();
        }
        assert_eq!(repo.status(), "?? litter", "{end}");
        fs::remove_file(repo.file("litter")).unwrap();
        let called = ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
        assert_eq!(called.stderr.matches(STILL_RUNS).count(), 1, "{called:#?}");
        assert_eq!(runs(&repo), 9, "of the baseline, 6 changes and 2 checks");
        fs::remove_file(repo.file("litter")).unwrap();
        assert_records(&repo, 7);
        let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
        let half = saved.lines().filter(|name| repo.git(["show", &format!("{name}:docs/a.txt")]).contains("half"));
        assert_eq!(half.count(), 1, "{saved}");
    }
}

#[test]
fn a_check_whose_shim_is_killed_says_nothing_about_the_best_experiment() {
    let started = ".autoresearch/t/runs/00006/check-1/started.json";
    let shim = format!("$(sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' {started})");
    let ends = format!("{{ echo half >> docs/a.txt; kill -KILL {shim}; sleep 1; }}");
    let repo = scripted(&format!("[ $(grep -c . ../runs) != 7 ] || {ends}"));
    let called = ar_in_time(&repo, args(BREAKS, 6, &[])).ok();
    assert!(!called.stderr.contains("so far the best"), "{called:#?}");
    assert_eq!(runs(&repo), 8);
    assert_records(&repo, 7);
}

#[test]
fn a_session_that_is_killed_anywhere_in_a_check_ends_as_if_nothing_had_been() {
    let whole = training_repo();
    ar_in_time(&whole, args("echo exit $AR_EXPERIMENT > train.sh", 6, &[])).ok();
    let whole = outcome(&whole);
    let points = [
        "checkout.branch_moved:1",
        "running.log_linked:7",
        "running.over:7",
        "checkout.branch_moved:2",
        "idle.untracked_remembered:7",
        "idle.entered:7",
    ];
    in_parallel(&points, |point| {
        let repo = training_repo();
        let mut command = ar_command(&repo, &repo.path(), args("echo exit $AR_EXPERIMENT > train.sh", 6, &[]));
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", point);
        assert_eq!(Called::from(command.output().unwrap()).code, None, "{point} killed nobody");
        ar_in_time(&repo, ["resume", "t"]).ok();
        assert_outcome(&outcome(&repo), &whole, &format!("killed at {point}"));
    });
}
