//! What is written down of a session while it goes on: checkpoints, and the summary by its agent.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, FIND_OWNER, TestRepo, ar, ar_command};

const FOLDER: &str = ".autoresearch/t/checkpoints";

/// An agent that changes something else in each experiment, and does `summary` when it is asked for one, with the number of
/// that call in `$call`.
fn agent(repo: &TestRepo, summary: &str) -> String {
    let (calls, asked) = (repo.outside().join("calls"), repo.outside().join("asked"));
    format!(
        "if grep -q '^# Summarise this session' \"$AR_PROMPT\"; then echo call >> {calls}; \
         call=$(grep -c call {calls}); cp \"$AR_PROMPT\" {asked}; {summary}; \
         else echo \"# $AR_EXPERIMENT\" >> train.sh; fi",
        calls = calls.display(),
        asked = asked.display()
    )
}

/// A call of session `t` by the real clock.
fn command(repo: &TestRepo, args: &[&str]) -> Command {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env_remove("AR_CLOCK");
    command
}

fn first_call<'a>(agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    [&args[..], more].concat()
}

/// Runs session `t`, which is summed up as soon as it has a baseline.
fn summed_up(repo: &TestRepo, summary: &str) -> Called {
    let (agent, more) = (agent(repo, summary), ["--summary-at", "1ms", "--max-experiments", "2", "--format", "json"]);
    command(repo, &first_call(&agent, &more)).output().unwrap().into()
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// The notices of a call that begin so.
fn notices(events: &[Value], begin: &str) -> usize {
    named(events, "notice").iter().filter(|event| event["detail"].as_str().unwrap().starts_with(begin)).count()
}

fn calls(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("calls")).map_or(0, |text| text.lines().count())
}

/// The names of the checkpoints that there are.
fn files(repo: &TestRepo) -> BTreeSet<String> {
    let entries = fs::read_dir(repo.path().join(FOLDER)).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The names of the checkpoints that the session's log tells of, with those that it tells of again.
fn told(repo: &TestRepo) -> Vec<String> {
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let paths = events.filter(|event| event["event"] == "checkpoint").map(|event| {
        let path = event["data"]["path"].as_str().unwrap().to_owned();
        path.rsplit('/').next().unwrap().to_owned()
    });
    paths.collect()
}

fn experiments(repo: &TestRepo) -> usize {
    repo.read("results.tsv").lines().count() - 2
}

#[test]
fn checkpoints_come_while_the_agent_and_the_run_are_at_work() {
    let repo = training_repo();
    let wait = |what: &str| {
        format!(
            "there=$(ls {FOLDER} | wc -l); until [ $(ls {FOLDER} | wc -l) -gt $there ]; do sleep 0.05; done; {what}"
        )
    };
    let agent = wait("echo '# more' >> train.sh");
    let command = format!("[ $AR_EXPERIMENT = 0 ] || {{ {}; }}; sh train.sh", wait(":"));
    ar(&repo, ["idea", "add", "half the rate"]).ok();
    let mut args = first_call(&agent, &["--checkpoint", "1s", "--keep-above", "9", "--max-experiments", "2"]);
    args[5] = &command;
    ar(&repo, args).ok();
    let told = told(&repo);
    let names: BTreeSet<String> = told.iter().cloned().collect();
    assert_eq!((told.len(), &names), (names.len(), &files(&repo)), "an event each");
    let texts: Vec<String> = names.iter().map(|name| repo.read(format!("{FOLDER}/{name}"))).collect();
    for text in &texts {
        assert!(text.starts_with("# Checkpoint of t at 20") && text.contains("## all experiments"), "{text}");
    }
    for words in [
        "- **idea 1**: half the rate\n",
        "- **kept ratio**: 1.00; 0.20 to 0.35 at convergence\n",
        "- **budget**: 0 of 2 experiments tonight, 0 in the session\n",
    ] {
        assert!(texts.iter().any(|text| text.contains(words)), "{words}: {texts:#?}");
    }
    for words in ["waiting for the agent to propose experiment 1", "running experiment 1"] {
        assert!(texts.iter().any(|text| text.contains(words)), "{words}: {texts:#?}");
    }
}

#[test]
fn a_kill_loses_no_checkpoint_and_writes_none_twice() {
    const MORE: [&str; 4] = ["--checkpoint", "1s", "--max-experiments", "1"];
    let traced = |repo: &TestRepo, at: &str| {
        let agent = agent(repo, ":");
        let args = first_call(&agent, &MORE);
        let mut command = ar_command(repo, &repo.path(), args);
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", at);
        Called::from(command.output().unwrap())
    };
    let whole = training_repo();
    traced(&whole, "").ok();
    let trace = fs::read_to_string(whole.outside().join("trace")).unwrap();
    let times = trace.lines().filter(|line| *line == "state.file_replaced").count();
    let mut kills = 0;
    for time in (3..times).step_by(3) {
        let repo = training_repo();
        // A night that takes less time than the first has fewer checkpoints, and may be over before the kill.
        match traced(&repo, &format!("state.file_replaced:{time}")).code {
            None => kills += 1,
            code => assert_eq!(code, Some(0)),
        }
        // The kill may come after the end of the night.
        let has_ended = repo.exists(".autoresearch/t/state/contract.json");
        let agent = agent(&repo, ":");
        let goes_on = if has_ended { vec!["resume", "t"] } else { first_call(&agent, &MORE) };
        ar(&repo, goes_on).ok();
        let told: BTreeSet<String> = told(&repo).into_iter().collect();
        assert_eq!((told, experiments(&repo)), (files(&repo), 1), "killed at {time}");
    }
    assert!(kills > 1, "{kills} of {times}");
}

#[test]
fn the_agent_sums_the_session_up_once_and_changes_nothing() {
    let repo = training_repo();
    let answer = r#"{"type":"result","subtype":"success","is_error":false,"result":"Nothing held.\n\n- so far","session_id":"s","total_cost_usd":0.5,"usage":{"input_tokens":900,"output_tokens":100}}"#;
    let summary = format!(
        "echo junk >> train.sh; echo junk > junk; git add junk; git commit -qm junk; printf '%s\\n' '{answer}'"
    );
    let called = summed_up(&repo, &summary).ok();
    let events = called.json_lines();
    let summaries = named(&events, "summary");
    assert_eq!((summaries.len(), &summaries[0]["id"]), (1, &1.into()), "{called:#?}");
    assert!(summaries[0]["path"].as_str().unwrap().ends_with("/.autoresearch/t/checkpoints/summary.md"));
    assert_eq!(repo.read(format!("{FOLDER}/summary.md")), "Nothing held.\n\n- so far\n");
    let asked = repo.read("../asked");
    assert!(asked.contains("- baseline: ") && !asked.contains("Make the change for experiment"), "{asked}");
    assert!(!repo.read("train.sh").contains("junk") && !repo.path().join("junk").exists());
    let records = ar(&repo, ["log", "--tag", "t", "--format", "json"]).ok().json();
    for record in records["experiments"].as_array().unwrap() {
        let files = record["diff"]["files"].as_u64().unwrap_or(0);
        assert!(files <= 1, "{record}");
    }
    let status = ar(&repo, ["status", "t", "--format", "json"]).ok().json()["sessions"][0].clone();
    assert_eq!((&status["cost"]["total"], &status["experiments"]), (&0.5.into(), &2.into()));

    Called::from(command(&repo, &["resume", "t", "--max-experiments", "1"]).output().unwrap()).ok();
    assert_eq!((calls(&repo), experiments(&repo)), (1, 3), "once");
}

#[test]
fn an_outage_postpones_the_summary_and_a_failure_is_told() {
    let repo = training_repo();
    let summary = "[ $call -gt 1 ] || { echo 'rate limit exceeded, try again in 0.02 seconds'; exit 1; }; echo well";
    let events = summed_up(&repo, summary).ok().json_lines();
    assert_eq!((named(&events, "outage").len(), named(&events, "summary").len(), calls(&repo)), (1, 1, 2));
    assert_eq!((repo.read(format!("{FOLDER}/summary.md")), experiments(&repo)), ("well\n".into(), 2));
    for (summary, why) in [
        ("echo half >> train.sh; exit 3", "exit 3 after"),
        (":", "it printed nothing"),
        ("printf '\\0\\33[2J'", "it printed"),
    ] {
        let repo = training_repo();
        let events = summed_up(&repo, summary).ok().json_lines();
        assert_eq!(notices(&events, &format!("the agent gave no summary: {why}")), 1, "{events:#?}");
        assert_eq!((calls(&repo), experiments(&repo), files(&repo).len()), (1, 2, 0));
    }
}

#[test]
fn a_summary_that_is_killed_is_asked_for_again() {
    let repo = training_repo();
    let killed = format!("echo half >> train.sh; {FIND_OWNER}; kill -9 $owner; sleep 60");
    let called = summed_up(&repo, &format!("[ $call -gt 1 ] || {{ {killed}; }}; echo well"));
    assert_eq!((called.code, calls(&repo)), (None, 1));
    Called::from(command(&repo, &["resume", "t"]).output().unwrap()).ok();
    assert_eq!((repo.read(format!("{FOLDER}/summary.md")), calls(&repo)), ("well\n".into(), 2));
    assert_eq!(experiments(&repo), 2);
    assert!(!repo.read("train.sh").contains("half"));
}

#[test]
fn a_session_with_slots_has_checkpoints_and_a_summary() {
    let repo = training_repo();
    let agent = agent(&repo, "echo junk >> train.sh; echo well");
    let more = ["--slots", "2", "--max-experiments", "2", "--checkpoint", "1s", "--summary-at", "1ms"];
    let called = command(&repo, &first_call(&agent, &more)).output().unwrap();
    Called::from(called).ok();
    let told: BTreeSet<String> = told(&repo).into_iter().collect();
    assert!(told.iter().all(|name| files(&repo).contains(name)));
    assert_eq!((repo.read(format!("{FOLDER}/summary.md")), experiments(&repo)), ("well\n".into(), 2));
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    assert_eq!(log.matches("\"event\":\"summary\"").count(), 1, "{log}");
    let numbers = repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/autoresearch/t/000*"]);
    assert_eq!(numbers.lines().collect::<Vec<_>>(), ["00000", "00001", "00002"], "it takes no number");
    let changes = repo.git(["for-each-ref", "--format=%(subject)", "refs/autoresearch/t/000*"]);
    assert!(!changes.contains("junk"), "{changes}");
    assert_eq!(repo.status(), "");
}
