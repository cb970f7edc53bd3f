//! What the caps count: a night, from a typed `ar run` to the next one.

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// An agent that makes one change.
const AGENT: &str = "echo \"# $AR_EXPERIMENT\" >> train.sh; echo \"change $AR_EXPERIMENT\"";

/// Begins session `t` with this agent.
fn begin(repo: &TestRepo, agent: &str, more: &[&str]) -> Called {
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", agent];
    ar(repo, args.into_iter().chain(more.iter().copied()))
}

/// How many experiments session `t` has, without the baseline.
fn made(repo: &TestRepo) -> usize {
    repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/0*"]).lines().count() - 1
}

fn status(repo: &TestRepo) -> Value {
    ar(repo, ["status", "--format", "json"]).ok().json()["sessions"][0].clone()
}

/// A night of session `t` that is killed once it has so many experiments.
fn killed_after(repo: &TestRepo, experiments: u32, more: &[&str]) {
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", AGENT];
    let mut command = ar_command(repo, &repo.path(), args.into_iter().chain(more.iter().copied()));
    command.env("AR_CRASH_TRACE", repo.outside().join("trace"));
    command.env("AR_CRASH_AT", format!("settling.row_appended:{}", experiments + 1));
    assert_eq!(command.output().unwrap().status.code(), None);
}

#[test]
fn each_typed_run_begins_a_night_and_the_caps_count_it() {
    let repo = training_repo();
    begin(&repo, AGENT, &["--max-experiments", "2"]).ok();
    let second = ar(&repo, ["run", "--max-experiments", "3"]).ok();
    assert!(second.stdout.ends_with("stopped: the night reached its limit of 3 experiments\n"), "{second:#?}");
    assert_eq!(made(&repo), 5);
    let text = ar(&repo, ["status"]).ok().stdout;
    assert!(text.contains("budget       3 of 3 experiments tonight, 5 in the session\n"), "{text}");
    assert!(text.contains("  ar run --tag t                   begins another night\n"), "{text}");
    let json = status(&repo);
    assert_eq!((&json["night"]["experiments"], &json["experiments"]), (&3.into(), &5.into()));

    let none = ar(&repo, ["resume"]).ok();
    assert!(none.stderr.contains("run `ar run --tag t` to begin another night"), "{none:#?}");
    assert_eq!(made(&repo), 5);
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert_eq!(made(&repo), 6, "a cap given to resume counts from then");

    repo.write("ar.toml", "max_experiments = 1\nmax_cost = 5\n");
    ar(&repo, ["run"]).ok();
    assert_eq!(made(&repo), 7, "without a flag, the caps are those of ar.toml");
    ar(&repo, ["run"]).ok();
    assert_eq!(made(&repo), 8, "they apply to each night");
}

#[test]
fn the_rest_of_a_night_that_was_killed_goes_on() {
    let repo = training_repo();
    killed_after(&repo, 2, &["--max-experiments", "3"]);
    let called = ar(&repo, ["run", "--max-experiments", "3"]).ok();
    assert!(called.stderr.contains("continued the night begun at "), "{called:#?}");
    assert_eq!(made(&repo), 3);
    ar(&repo, ["run", "--max-experiments", "3"]).ok();
    assert_eq!(made(&repo), 6);

    let repo = training_repo();
    killed_after(&repo, 2, &["--max-experiments", "4"]);
    ar(&repo, ["resume"]).ok();
    assert_eq!(made(&repo), 4, "the cap of the flag holds for its resumes");
}

#[test]
fn a_time_that_would_be_over_already_begins_a_night_instead() {
    let repo = training_repo();
    killed_after(&repo, 1, &["--max-experiments", "3"]);
    let journal = ".autoresearch/t/state/progress.json";
    let mut progress: Value = serde_json::from_str(&repo.read(journal)).unwrap();
    assert!(progress["night"]["began"].is_string());
    progress["night"]["began"] = "2025-01-01T00:00:00Z".into();
    repo.write(journal, progress.to_string());
    let called = ar(&repo, ["run", "--for", "8h", "--max-experiments", "2"]).ok();
    assert!(!called.stderr.contains("continued the night"), "{called:#?}");
    assert_eq!(made(&repo), 3);
}

#[test]
fn a_night_that_is_stopped_is_over_for_run_and_has_a_rest_for_resume() {
    for (goes_on, all) in [(["resume", "t"], 3), (["run", "--max-experiments=3"], 4)] {
        let repo = training_repo();
        let agent = format!("{AGENT}; touch ../called; until [ -e ../go ]; do sleep 0.02; done");
        let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", &agent];
        let mut command = ar_command(&repo, &repo.path(), args);
        let mut night = command.args(["--max-experiments", "3"]).spawn().unwrap();
        until("a call", || repo.outside().join("called").exists().then_some(()));
        ar(&repo, ["stop"]).ok();
        std::fs::write(repo.outside().join("go"), "").unwrap();
        night.wait().unwrap();
        assert_eq!(made(&repo), 1);
        ar(&repo, goes_on).ok();
        assert_eq!(made(&repo), all);
    }
}

#[test]
fn what_is_tried_by_hand_counts_in_the_session_only() {
    let repo = training_repo();
    killed_after(&repo, 1, &["--max-experiments", "3"]);
    let by_hand = |repo: &TestRepo, more: &[&str]| {
        repo.write("train.sh", repo.read("train.sh") + &format!("# by hand after {}\n", made(repo)));
        ar(repo, ["try", "-m", "by hand"].into_iter().chain(more.iter().copied()))
    };
    ar(&repo, ["stop", "--now"]).ok();
    by_hand(&repo, &[]).ok();
    by_hand(&repo, &[]).ok();
    assert_eq!(status(&repo)["night"]["experiments"], 1);
    ar(&repo, ["resume"]).ok();
    assert_eq!((made(&repo), &status(&repo)["night"]["experiments"]), (5, &3.into()));
    let refused = by_hand(&repo, &["--max-experiments", "5"]).exits(1);
    assert!(refused.stderr.contains("the session reached its limit of 5 experiments"), "{refused:#?}");
}

#[test]
fn the_end_that_for_names_is_fixed_when_the_night_begins() {
    let repo = training_repo();
    begin(&repo, AGENT, &["--max-experiments", "1", "--for", "2h"]).ok();
    let later = |hour: u32, args: &[&str]| -> Called {
        let mut command = ar_command(&repo, &repo.path(), args);
        command.env("AR_CLOCK", format!("2026-11-21T{hour:02}:00:00Z")).output().unwrap().into()
    };
    let over = later(1, &["resume", "--max-experiments", "1"]).ok();
    assert!(over.stdout.ends_with("stopped: time limit of 2h reached\n"), "{over:#?}");
    assert!(over.stderr.contains("`ar resume t --for 8h` to continue this one"), "{over:#?}");
    assert_eq!(made(&repo), 1);
    later(1, &["resume", "--max-experiments", "1", "--for", "1h"]).ok();
    assert_eq!(made(&repo), 2);
    later(8, &["run", "--max-experiments", "1"]).ok();
    assert_eq!(made(&repo), 3);
}

#[test]
fn status_offers_another_night_where_the_rest_of_this_one_is_too_short_for_an_experiment() {
    let repo = training_repo();
    begin(&repo, "exit 0", &["--max-idle", "1", "--max-experiments", "5", "--for", "2h"]).exits(4);
    let status_at = |time: &str| -> String {
        let mut command = ar_command(&repo, &repo.path(), ["status"]);
        Called::from(command.env("AR_CLOCK", format!("2026-11-20T{time}Z")).output().unwrap()).ok().stdout
    };
    let offers = |status: &str, command: &str| status.contains(&format!("\n  {command} "));
    let (early, late) = (status_at("23:00:00"), status_at("23:59:59.9999"));
    assert!(offers(&early, "ar resume t") && offers(&early, "ar run --tag t"), "{early}");
    assert!(offers(&late, "ar run --tag t") && !offers(&late, "ar resume t"), "{late}");
}

#[test]
fn caps_of_the_session_and_a_goal_that_is_reached_end_each_night_at_once() {
    let repo = training_repo();
    begin(&repo, AGENT, &["--max-experiments", "1", "--session-max-experiments", "2"]).ok();
    ar(&repo, ["run"]).ok();
    assert_eq!(made(&repo), 2);
    let full = ar(&repo, ["run", "--max-experiments", "5"]).ok();
    assert!(full.stdout.ends_with("stopped: the session reached its limit of 2 experiments\n"), "{full:#?}");
    assert!(full.stderr.contains("`ar run --tag t --session-max-experiments N`"), "{full:#?}");
    let reached = ar(&repo, ["run", "--session-max-experiments", "9", "--goal", "99"]).ok();
    assert!(reached.stdout.ends_with("stopped: the goal of 99 is reached\n"), "{reached:#?}");
    assert!(reached.stderr.contains("`ar run --tag t --goal VALUE`"), "{reached:#?}");
    assert_eq!(made(&repo), 2);
}

#[test]
fn a_stop_rule_that_is_met_already_ends_each_night_at_once() {
    let repo = training_repo();
    begin(&repo, AGENT, &["--max-experiments", "3", "--stop-rule", "plateau:2"]).ok();
    let before = made(&repo);
    let met = ar(&repo, ["run", "--max-experiments", "5"]).ok();
    assert!(met.stdout.contains("\nstopped: plateau: no new best in 2 experiments"), "{met:#?}");
    assert!(met.stderr.contains("`ar resume t --stop-rule plateau:100`"), "{met:#?}");
    assert_eq!(made(&repo), before);
    ar(&repo, ["run", "--max-experiments", "1", "--stop-rule", "plateau:99"]).ok();
    assert_eq!(made(&repo), before + 1);
}

#[test]
fn the_night_of_a_session_of_an_earlier_version_began_with_it() {
    let repo = training_repo();
    begin(&repo, AGENT, &["--max-experiments", "2"]).ok();
    let state = ".autoresearch/t/state/progress.json";
    let mut journal: Value = serde_json::from_str(&repo.read(state)).unwrap();
    assert!(journal.as_object_mut().unwrap().remove("night").is_some());
    repo.write(state, journal.to_string());
    ar(&repo, ["resume"]).ok();
    assert_eq!(made(&repo), 2);
    ar(&repo, ["run", "--max-experiments", "1"]).ok();
    assert_eq!(made(&repo), 3);
}
