//! Controls: with `--decide once`, the experiment to beat runs once more before a change that beat it is kept.

use std::fs;

use serde_json::{Value, json};

use crate::escalation::start;
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// A repository whose command is cold for the first run of the baseline, with a cache that no tree has; `value` is what a warm run
/// prints. Controls wait while `hold` exists, fail where `fails` does, and are killed once for each `kill-*`. Each run notes its
/// experiment and its folder.
fn cold() -> TestRepo {
    let repo = TestRepo::empty();
    let script = format!(
        "echo \"$AR_EXPERIMENT ${{AR_RUN_DIR##*/}}\" >> {0}/runs\n\
         case $AR_RUN_DIR in */control-*) while [ -e {0}/hold ]; do sleep 0.02; done; [ ! -e {0}/fails ] || exit 3; \
           for kill in {0}/kill-*; do [ ! -e $kill ] || {{ rm $kill; kill -KILL $$; }}; done;; \
         *) [ $AR_EXPERIMENT != 0 ] || {{ echo 'loss: 100'; exit; }};; esac\n\
         echo \"loss: $(cat value)\"\n",
        repo.outside().display()
    );
    repo.write("train.sh", script);
    repo.write("value", "60\n");
    repo.commit_all("a script with a cold cache");
    repo
}

/// Changes without an effect, but for the third.
const AGENT: &str =
    "echo $AR_EXPERIMENT > knob; [ $AR_EXPERIMENT != 3 ] || echo 50 > value; echo change $AR_EXPERIMENT";

fn args(experiments: &str, more: &[&str]) -> Vec<String> {
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", AGENT];
    let args = args.into_iter().chain(["--control", "true", "--max-experiments", experiments]);
    args.chain(more.iter().copied()).map(str::to_owned).collect()
}

fn shown(repo: &TestRepo, id: u32) -> Value {
    ar(repo, ["show", &id.to_string(), "--tag", "t", "--format", "json"]).ok().json()
}

fn roles(record: &Value) -> Vec<&str> {
    record["runs"].as_array().unwrap().iter().map(|run| run["role"].as_str().unwrap()).collect()
}

/// The controls that ran.
fn controls(repo: &TestRepo) -> usize {
    let runs = fs::read_to_string(repo.outside().join("runs")).unwrap_or_default();
    runs.lines().filter(|run| run.contains("control-")).count()
}

/// Checks what came of the changes: nothing but the third one is kept, and the baseline is as good as its warm run.
fn assert_controlled(repo: &TestRepo) {
    let first = shown(repo, 1);
    let control = json!({"experiment": 0, "recorded": 100.0, "name": "loss", "direction": "lower", "value": 60.0, "raw": "60",
        "moved": true});
    assert_eq!((&first["outcome"], &first["control"]), (&json!("discard"), &control), "{first:#}");
    assert_eq!((roles(&first), &first["metric"]["value"]), (vec!["screen", "control"], &json!(60.0)));
    let reason = "loss 60 is better than 100 of experiment 0 by 40 (40%), but experiment 0 itself gave 60 when it ran again, \
                  the number to beat from now on";
    assert_eq!(first["reason"], reason);
    let second = shown(repo, 2);
    assert_eq!((&second["reason"], roles(&second)), (&json!("loss 60 equals experiment 0"), vec!["screen"]));
    let third = shown(repo, 3);
    assert_eq!((&third["outcome"], &third["control"]["moved"]), (&json!("keep"), &json!(false)), "{third:#}");
    assert_eq!(third["reason"], "loss 50 is better than 60 of experiment 0 by 10 (17%)");
    assert_eq!(controls(repo), 2);
    let report = ar(repo, ["report", "t", "--format", "json"]).ok().json();
    assert_eq!((&report["baseline"]["value"], &report["best"]["value"]), (&json!(60.0), &json!(50.0)), "{report:#}");
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), third["commit"].as_str().unwrap());
    assert_eq!(repo.status(), "");
    ar(repo, ["doctor", "t"]).ok();
}

#[test]
fn a_gain_of_the_warm_cache_is_no_keep_and_the_warm_number_is_to_beat() {
    let repo = cold();
    ar_in_time(&repo, args("3", &[])).ok();
    assert_controlled(&repo);
    assert_eq!(repo.read("value"), "50\n", "the tree is at the change again");
}

#[test]
fn a_stop_lets_the_control_end_and_a_kill_or_an_interrupt_loses_nothing_of_it() {
    let held = |stop: &dyn Fn(&TestRepo, &mut std::process::Child)| {
        let repo = cold();
        fs::write(repo.outside().join("hold"), "").unwrap();
        let mut child = start(&repo, &args("3", &[]));
        until("the control", || (controls(&repo) == 1).then_some(()));
        let doing = ar(&repo, ["status", "t"]).ok().stdout;
        assert!(doing.contains("running what experiment 1 beat once more, as a control"), "{doing}");
        stop(&repo, &mut child);
        fs::remove_file(repo.outside().join("hold")).unwrap();
        let called = Called::from(child.wait_with_output().unwrap());
        (repo, called)
    };
    let (repo, _) = held(&|_, child| child.kill().unwrap());
    ar_in_time(&repo, ["resume", "--control", "true"]).ok();
    assert_controlled(&repo);

    let (repo, called) = held(&|repo, _| drop(ar(repo, ["stop", "t"]).ok()));
    called.ok();
    assert_eq!(shown(&repo, 1)["control"]["moved"], true, "a stop finishes the experiment");
    ar_in_time(&repo, ["resume", "--control", "true"]).ok();
    assert_controlled(&repo);

    let (repo, _) = held(&|repo, _| drop(ar(repo, ["stop", "--now", "t"]).ok()));
    let doing = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(doing.contains("idle; experiment 1 stays open until its control has run"), "{doing}");
    ar_in_time(&repo, ["resume", "--control", "true"]).ok();
    let runs = fs::read_to_string(repo.outside().join("runs")).unwrap();
    assert_eq!(runs.matches("0 control-1").count(), 3, "made again: {runs}");
    assert_eq!(shown(&repo, 1)["control"]["moved"], true);
}

#[test]
fn killed_at_any_point_the_control_is_counted_once() {
    let points = [
        "confirming.entered",
        "confirming.run_entered",
        "confirming.run_over",
        "recording.entered",
        "recording.recorded",
    ];
    crate::crash::in_parallel(&points, |point| {
        let repo = cold();
        let mut command = ar_command(&repo, &repo.path(), args("3", &[]));
        command.env("AR_CRASH_AT", format!("{point}:1"));
        let killed = Called::from(command.output().unwrap());
        if killed.code.is_none() {
            ar_in_time(&repo, ["resume", "--control", "true"]).ok();
        }
        assert_controlled(&repo);
    });
}

#[test]
fn a_control_that_fails_condemns_no_change_and_the_next_one_is_controlled() {
    let repo = cold();
    fs::write(repo.outside().join("fails"), "").unwrap();
    ar_in_time(&repo, args("1", &[])).ok();
    let first = shown(&repo, 1);
    assert_eq!((&first["outcome"], &first["control"]["value"]), (&json!("keep"), &Value::Null), "{first:#}");
    let reason = first["reason"].as_str().unwrap();
    let why = "; not controlled, as experiment 0 gave no number when it ran again: exit 3 after ";
    assert!(reason.contains(why), "{reason}");
    assert_eq!(controls(&repo), 1, "its own crash is no reason to repeat it");
    let doubt = "kept although the control gave no number: 1";
    for looking in ["status", "report"] {
        let shown = ar(&repo, [looking, "t"]).ok().stdout;
        assert!(shown.contains(doubt), "{shown}");
    }
    fs::remove_file(repo.outside().join("fails")).unwrap();
    let better = "echo 55 > value; echo better".to_owned();
    ar_in_time(&repo, args("1", &[]).into_iter().map(|arg| if arg == AGENT { better.clone() } else { arg })).ok();
    assert_eq!(shown(&repo, 2)["control"]["moved"], false);
    let shown = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(!shown.contains("kept although the control"), "the second control ran it again: {shown}");
}

#[test]
fn a_control_that_something_else_kills_is_made_again() {
    let repo = cold();
    for kill in ["kill-1", "kill-2"] {
        fs::write(repo.outside().join(kill), "").unwrap();
    }
    let called = ar_in_time(&repo, args("1", &[])).ok();
    assert_eq!(called.stderr.matches("repeating the run of experiment 1: ").count(), 2, "{called:#?}");
    let first = shown(&repo, 1);
    assert_eq!((&first["outcome"], &first["control"]["moved"]), (&json!("discard"), &json!(true)), "{first:#}");
    assert_eq!((controls(&repo), roles(&first)), (3, vec!["screen", "control"]));
}

#[test]
fn on_slots_the_base_of_a_winner_runs_once_more_in_its_slot() {
    let repo = cold();
    // The third change comes when the number to beat is a warm one: against the cold one its control would discard it.
    for _ in 0..2 {
        ar_in_time(&repo, args("2", &["--slots", "2"])).ok();
    }
    let records: Vec<Value> = (0..=4).map(|id| shown(&repo, id)).collect();
    let kept: Vec<&Value> = records.iter().filter(|record| record["outcome"] == "keep").collect();
    let values: Vec<f64> = kept.iter().map(|record| record["metric"]["value"].as_f64().unwrap()).collect();
    assert_eq!(values, [100.0, 50.0], "{records:#?}");
    assert!(records.iter().any(|record| record["control"]["moved"] == true), "{records:#?}");
    assert_eq!(repo.status(), "");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn without_controls_a_gain_of_the_cache_is_kept() {
    let repo = cold();
    repo.write("ar.toml", "control = false\n");
    repo.commit_all("settings");
    let args: Vec<String> = args("1", &[]).into_iter().filter(|arg| arg != "--control" && arg != "true").collect();
    let mut command = ar_command(&repo, &repo.path(), args);
    Called::from(command.env_remove("AR_CONTROL").output().unwrap()).ok();
    assert_eq!((&shown(&repo, 1)["outcome"], controls(&repo)), (&json!("keep"), 0));
}

#[test]
fn three_controls_in_a_row_that_move_are_a_doubt_in_status_and_report() {
    let repo = TestRepo::empty();
    let script =
        format!("echo run >> {0}/runs; echo \"loss: $((100 - $(wc -l < {0}/runs)))\"\n", repo.outside().display());
    repo.write("train.sh", script);
    repo.commit_all("each run is better than the one before");
    ar_in_time(&repo, args("3", &[])).ok();
    let doubt = "3 gains in a row did not stand, because what they had beaten gave another number when it ran again: 1, 2 and 3";
    let status = ar(&repo, ["status", "t", "--format", "json"]).ok().json();
    assert_eq!(status["sessions"][0]["doubts"][0]["what"], doubt, "{status:#}");
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let warnings = report["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["what"] == doubt), "{report:#}");
    let status = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(status.split_whitespace().collect::<Vec<_>>().join(" ").contains(doubt), "{status}");
}
