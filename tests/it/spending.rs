//! Limits on what an agent's calls use, and calls that come to nothing.

use std::fs;

use serde_json::{Value, json};

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// What claude prints at the end of a call that cost 0.5 and used 1000 tokens.
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"made it slower","session_id":"s","total_cost_usd":0.5,"usage":{"input_tokens":900,"output_tokens":100}}"#;

/// A session with an agent that does `first`, with the number of the call in `$call`, and then prints [`DONE`].
fn run(repo: &TestRepo, first: &str, more: &[&str]) -> Called {
    let agent = format!("echo call >> ../calls; call=$(grep -c call ../calls); {first}; echo '{DONE}'");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    ar(repo, [&args[..], more].concat())
}

fn calls(repo: &TestRepo) -> usize {
    repo.read("../calls").lines().count()
}

fn status(repo: &TestRepo) -> Value {
    ar(repo, ["status", "--format", "json"]).ok().json()["sessions"][0].clone()
}

#[test]
fn a_limit_on_the_cost_ends_the_loop_and_counts_calls_that_changed_nothing() {
    let repo = training_repo();
    let called = run(&repo, "[ $call = 2 ] || echo \"# $call\" >> train.sh", &["--max-cost", "1.5"]).ok();
    assert!(called.stdout.ends_with("stopped: the agent's calls cost $1.50 of $1.50\n"), "{called:#?}");
    assert_eq!(calls(&repo), 3);
    let told = status(&repo);
    let cost = json!({"total": 1.5, "per_experiment": 0.75, "per_keep": null, "currency": "USD"});
    assert_eq!((&told["cost"], &told["tokens"]["input"], &told["experiments"]), (&cost, &2700.into(), &2.into()));
    assert_eq!(told["next"][0], "ar run --tag t");
    for format in ["table", "md"] {
        let text = ar(&repo, ["report", "t", "--format", format]).ok().stdout;
        assert!(text.contains("$1.50; $0.75 per experiment; 2.7k tokens in, 300 out"), "{text}");
    }
    let text = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(text.contains("$1.50; $0.75 per experiment") && text.contains("$1.50 of $1.50 spent"), "{text}");
    assert!(ar(&repo, ["show", "1"]).ok().stdout.contains("$0.50; 900 tokens in, 100 out"));
    assert!(ar(&repo, ["report", "t", "--format", "html"]).ok().stdout.contains("$1.50; $0.75 per experiment"));

    ar(&repo, ["resume"]).ok();
    assert_eq!(calls(&repo), 3, "what was spent is spent");
    ar(&repo, ["resume", "--max-cost", "0.5", "--max-tokens", "1000000"]).ok();
    assert_eq!((calls(&repo), &status(&repo)["cost"]["total"]), (4, &2.0.into()));
    // The journal alone knows of the call that changed nothing; without it the records tell the rest.
    fs::remove_file(repo.path().join(".autoresearch/t/state/progress.json")).unwrap();
    ar(&repo, ["resume"]).ok();
    assert_eq!((calls(&repo), &status(&repo)["cost"]["total"]), (4, &1.5.into()));
}

#[test]
fn no_change_is_reworked_once_the_calls_have_used_up_their_budget() {
    let repo = training_repo();
    let agent = "echo echo val_bpb: 1.$call > train.sh; echo bad >> bad.txt";
    let called = run(&repo, agent, &["--max-cost", "1", "--guard", "! ls b?d.txt 2>/dev/null"]).ok();
    assert!(called.stdout.ends_with("stopped: the agent's calls cost $1.00 of $1.00\n"), "{called:#?}");
    assert_eq!(calls(&repo), 2, "{called:#?}");
    assert_eq!((&status(&repo)["cost"]["total"], &status(&repo)["experiments"]), (&1.0.into(), &1.into()));
}

#[test]
fn status_shows_cost_and_tokens_of_the_night_and_of_the_session() {
    let repo = training_repo();
    let agent = "echo \"# $call\" >> train.sh";
    run(&repo, agent, &["--max-experiments", "2", "--max-cost", "20", "--max-tokens", "5000"]).ok();
    ar(&repo, ["run", "--max-experiments", "1", "--max-cost", "20", "--max-tokens", "5000"]).ok();
    let text = ar(&repo, ["status", "t"]).ok().stdout;
    let budget = text.lines().find(|line| line.starts_with("budget ")).unwrap();
    for both in [
        "1 of 1 experiments tonight, 3 in the session",
        "$0.50 of $20.00 spent tonight, $1.50 in the session",
        "1.0k of 5.0k tokens used tonight, 3.0k in the session",
    ] {
        assert!(budget.contains(both), "{budget}");
    }
}

#[test]
fn a_limit_on_tokens_ends_the_loop_too() {
    let repo = training_repo();
    let called = run(&repo, "echo \"# $call\" >> train.sh", &["--max-tokens", "2000"]).ok();
    assert!(called.stdout.ends_with("stopped: the agent's calls used 2.0k of 2.0k tokens\n"), "{called:#?}");
    assert_eq!(calls(&repo), 2);
}

#[test]
fn a_limit_that_may_not_act_is_told_at_the_start() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    let agent = ["--max-cost", "20", "--agent", "echo \"# 1\" >> train.sh; echo done"];
    let called = ar(&repo, [&args[..], &agent].concat()).ok();
    let note = "--max-cost acts only if the agent reports its cost; ar does not know whether it does";
    assert!(called.stderr.contains(note), "{called:#?}");
}

#[test]
fn a_wrong_key_stops_the_loop_after_three_calls_and_is_waited_for_later() {
    let repo = training_repo();
    let first = "[ $call -gt 3 ] || { echo 'Invalid API key · Please run /login'; exit 0; }; \
                 [ $call != 5 ] || { echo 'Invalid API key · Please run /login'; exit 0; }; echo \"# $call\" >> train.sh";
    let called = run(&repo, first, &["--max-experiments", "2"]).exits(4);
    assert!(called.stdout.contains("stopped: the agent is not logged in"), "{called:#?}");
    assert!(called.stdout.contains("Invalid API key · Please run /login"), "{called:#?}");
    assert_eq!(calls(&repo), 3);
    let called = ar(&repo, ["resume", "--format", "json"]).ok();
    let outages = called.json_lines().iter().filter(|event| event["event"] == "outage").count();
    assert_eq!((calls(&repo), outages), (6, 1), "{called:#?}");
}

#[test]
fn short_calls_that_change_nothing_are_paused_between() {
    let repo = training_repo();
    let agent = "date +%s%N >> ../times; [ $(wc -l < ../times) -lt 4 ] || echo '# 1' >> train.sh; echo what now";
    let args = [
        "run",
        "--yes",
        "--metric",
        "val_bpb",
        "--cmd",
        "sh train.sh",
        "--max-idle",
        "10",
        "--max-experiments",
        "1",
        "--agent",
        agent,
    ];
    let output = ar_command(&repo, &repo.path(), args).env_remove("AR_NO_PAUSES").output().unwrap();
    let called = Called::from(output).ok();
    let said: Vec<&str> = called.stdout.lines().filter(|line| line.starts_with("      pausing until ")).collect();
    let ends = [1, 2, 3].map(|calls| format!(": {calls} of 10 calls in a row without a change"));
    assert!(said.len() == 3 && said.iter().zip(&ends).all(|(said, end)| said.ends_with(end)), "{called:#?}");
    assert_eq!(called.stdout.matches("the agent changed nothing").count(), 1, "{called:#?}");
    let times: Vec<u64> = repo.read("../times").lines().map(|line| line.parse().unwrap()).collect();
    let pauses: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    assert!(
        pauses.len() == 3 && pauses.iter().zip([100, 200, 400]).all(|(pause, least)| *pause >= least),
        "{pauses:?}"
    );
}
