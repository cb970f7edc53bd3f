//! The pauses between experiments.

use std::process::{Child, Stdio};

use serde_json::Value;

use super::harness::{first_call, records, repo, run, status};
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// The seconds and the reasons of the pauses that a session makes. The clock of the tests runs through them at once.
fn pauses(script: &[&str], more: &[&str]) -> (Vec<(u64, String)>, Called) {
    let repo = repo();
    let called = run(&repo, script, &[more, &["--format", "json"]].concat()).ok();
    let events = called.json_lines();
    let sleeps = events.iter().filter(|event| event["event"] == "sleep");
    let pause = |event: &Value| {
        // The clock goes on until it is read, by seconds on a busy machine.
        ((event["seconds"].as_f64().unwrap() / 10.0).round() as u64 * 10, event["why"].as_str().unwrap().to_owned())
    };
    (sleeps.map(pause).collect(), called)
}

fn seconds(pauses: &[(u64, String)]) -> Vec<u64> {
    pauses.iter().map(|(seconds, _)| *seconds).collect()
}

#[test]
fn the_adaptive_cadence_follows_the_course() {
    let script = ["0.50", "0.55+", "0.60", "0.40", "0.30", "0.5 - 0.5 0.5", "0.70+", "0.80"];
    let (pauses, _) = pauses(&script, &["--keep-above", "0.45", "--cadence", "adaptive"]);
    // A keep that rewrites, one with a source, a third one that rises, one discard, the second one, a crash, and then a keep
    // with a source. After the last experiment there is none.
    assert_eq!(seconds(&pauses), [60, 180, 60, 60, 1500, 1800, 180], "{pauses:?}");
    assert_eq!(pauses[4].1, "exploration-cold: 2 experiments since the last keep");
}

#[test]
fn an_outage_is_followed_by_the_pause_of_recovery() {
    let repo = repo();
    let mut args = first_call(&repo, &["0.50", "0.55", "0.60"], &["--cadence", "adaptive", "--format", "json"]);
    let agent = args.iter().position(|arg| arg == "--agent").unwrap() + 1;
    args[agent] = format!(
        "if mkdir ../limited 2>/dev/null; then echo 'rate limit exceeded, try again in 0.02 seconds'; exit 1; fi; {}",
        args[agent]
    );
    let events = ar(&repo, args).ok().json_lines();
    let seconds: Vec<u64> = events
        .iter()
        .filter(|event| event["event"] == "sleep")
        .map(|event| event["seconds"].as_f64().unwrap().round() as u64)
        .collect();
    assert_eq!(seconds, [1800, 60], "{events:#?}");
}

#[test]
fn the_cadence_by_novelty_slows_down_and_ends_a_night() {
    let script = ["0.9 0.9 0.9 0.7", "0.9 0.9 0.9 0.6", "0.9 0.9 0.9 0.2", "0.9 0.9 0.9 0.2", "0.9 0.9 0.9 0.2", "0.5"];
    let cadence = ["--keep-above", "0.45", "--cadence", "novelty"];
    let (attended, called) = pauses(&script, &cadence);
    assert_eq!(seconds(&attended), [1800, 21600, 21600, 21600], "{attended:?}");
    let events = called.json_lines();
    let is_written = |event: &Value| event["event"] == "checkpoint";
    assert!(events.iter().any(is_written), "the long pauses come with a checkpoint: {events:#?}");
    let is_asked = |event: &&Value| event["detail"] == "the agent gave no summary: it printed nothing";
    assert_eq!(events.iter().filter(is_asked).count(), 3, "and with a summary: {events:#?}");
    let (night, called) = pauses(&script, &[&cadence[..], &["--unattended"]].concat());
    assert_eq!(seconds(&night), [1800, 5400, 5400], "{night:?}");
    assert_eq!(night[1].1, "novelty 0.2000 is below 0.3; limited to 1h30m instead of 6h");
    let stopped = called.json_lines().into_iter().rfind(|event| event["event"] == "session_stopped").unwrap();
    assert_eq!((&stopped["reason"]["kind"], &stopped["experiments"]), (&"cadence".into(), &5.into()));
}

/// A loop that really pauses for two hours after each experiment; it does already.
fn sleeping(repo: &TestRepo, args: &[String]) -> Child {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env_remove("AR_NO_PAUSES").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("the pause", || sleeps(repo));
    child
}

fn sleeps(repo: &TestRepo) -> Option<Value> {
    let called = ar(repo, ["status", "t", "--format", "json"]);
    let session = (called.code == Some(0)).then(|| called.json()["sessions"][0].clone())?;
    (!session["sleep"].is_null()).then(|| session["sleep"].clone())
}

#[test]
fn a_pause_survives_a_kill_and_ends_at_once_when_somebody_asks_or_has_an_idea() {
    let repo = repo();
    let args = first_call(&repo, &["0.50", "0.60", "0.70"], &["--cadence", "2h"]);
    let mut child = sleeping(&repo, &args);
    let before = sleeps(&repo).unwrap();
    let text = ar(&repo, ["status"]).ok().stdout;
    assert!(text.contains("\ndoing        sleeping until ") && text.contains(": the cadence"), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(status(&repo)["sleep"].is_null(), "nobody sleeps");

    let resume = ["resume".to_owned(), "t".to_owned()];
    let child = sleeping(&repo, &resume);
    let sleep = sleeps(&repo).unwrap();
    assert_eq!((&sleep["why"], records(&repo).len()), (&before["why"], 2));
    // Whoever looks rounds to milliseconds.
    assert_eq!(sleep["until"].as_str().unwrap()[..16], before["until"].as_str().unwrap()[..16], "the same pause");
    ar(&repo, ["idea", "add", "look at the appendix"]).ok();
    until("the next experiment", || (records(&repo).len() == 3).then_some(()));
    until("the next pause", || sleeps(&repo));
    ar(&repo, ["stop", "t"]).ok();
    Called::from(child.wait_with_output().unwrap()).ok();

    // An idea that came while nobody was there has ended it, too.
    ar(&repo, ["idea", "add", "compare with the first draft"]).ok();
    let called = ar_command(&repo, &repo.path(), &resume).env_remove("AR_NO_PAUSES").output().unwrap();
    Called::from(called).ok();
    assert_eq!(records(&repo).len(), 4);
}
