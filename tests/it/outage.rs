//! An agent that cannot work for a while: waited out, counted for nothing, given up in the end.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::guards;
use crate::interrupt::signal;
use crate::run_loop::training_repo;
use crate::support::{Called, MovableClock, TestRepo, ar, ar_command, until};

/// An agent that does what `first` says, with the number of the call in `$call`, and then changes something else each time.
fn agent(first: &str) -> String {
    format!(
        "echo call >> ../calls; call=$(grep -c call ../calls); {first}; echo \"# $call\" >> train.sh; echo change $call"
    )
}

fn args<'a>(agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    [&args[..], more].concat()
}

fn run(repo: &TestRepo, first: &str, more: &[&str]) -> Called {
    ar(repo, args(&agent(first), more))
}

fn calls(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("calls")).map_or(0, |text| text.lines().count())
}

fn journal(repo: &TestRepo) -> Value {
    serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap()
}

#[test]
fn an_outage_is_waited_out_and_counts_for_nothing() {
    let repo = training_repo();
    let first = "case $call in \
                 1) echo 'API Error: 529 overloaded_error'; exit 1 ;; \
                 3) touch half.txt; echo 'Rate limit is exceeded. Try again in 4 seconds.'; exit 1 ;; \
                 5) echo 'sh: 1: model: not found'; exit 127 ;; \
                 7) echo \"# $call\" >> train.sh; echo 'You have hit your limit, resets 3pm'; exit 0 ;; \
                 8) echo \"# $call\" >> train.sh; echo 'cleaned up after a KeyError'; exit 1 ;; esac";
    let called = run(&repo, first, &["--max-experiments", "5", "--format", "json"]).ok();
    let events = called.json_lines();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let outages = named("outage");
    let kinds: Vec<_> = outages.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["overloaded", "rate_limit", "not_started"], "{called:#?}");
    assert_eq!(outages[0]["said"], "API Error: 529 overloaded_error");
    assert!(outages[0]["until"].is_null(), "{outages:#?}");
    assert_eq!(outages[1]["until"], outages[1]["again"], "it is called again when it said");
    let ids: Vec<_> = outages.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3], "it is called again for the same experiment");
    let over = named("outage_over");
    assert_eq!(over.len(), 3);
    assert!(over[0]["seconds"].as_f64().unwrap() >= 1.0, "{over:#?}");
    // Eight calls: three came to nothing, and five to an experiment each, also that which failed after it had worked.
    assert_eq!((calls(&repo), named("experiment_finished").len(), named("agent_finished").len()), (8, 6, 5));
    assert_eq!((&journal(&repo)["iteration"], &journal(&repo)["outage"]), (&5.into(), &Value::Null));
    assert_eq!(repo.read(".autoresearch/t/state/iteration_log.jsonl").lines().count(), 5);
    let record: Value =
        serde_json::from_str(repo.git(["cat-file", "-p", "refs/autoresearch/t/00002"]).lines().last().unwrap())
            .unwrap();
    let waited = over[1]["seconds"].as_f64().unwrap();
    assert!(waited >= 3.0 && record["agent"]["seconds"].as_f64().unwrap() < waited, "the wait is no work: {record}");
    // What the second one had begun is kept, and no part of an experiment.
    assert!(!repo.exists("half.txt"));
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
    assert!(saved.lines().any(|kept| repo.git(["ls-tree", "--name-only", kept]).contains("half.txt")), "{saved}");
    let decisions = repo.read(".autoresearch/t/logs/orchestrator.jsonl");
    assert_eq!((decisions.matches("\"outage\"").count(), decisions.matches("\"outage_over\"").count()), (3, 3));
}

#[test]
fn an_outage_that_takes_too_long_stops_the_loop_and_says_how_to_go_on() {
    let repo = training_repo();
    let first = "[ -e ../paid ] || { echo 'Credit balance is too low'; exit 1; }";
    // The call is a part of the limit.
    let called = run(&repo, first, &["--outage-limit", "4s", "--max-experiments", "1"]).exits(4);
    for words in [
        "   1  -        the agent is out of credit: Credit balance is too low\n      waiting until ",
        "stopped: the agent is out of credit, for N; last output: Credit balance is too low\n      buy credit",
        "then run `ar resume` to continue\n",
    ] {
        assert!(timeless(&called.stdout).contains(words), "{words}: {called:#?}");
    }
    assert!(calls(&repo) > 1, "once more at the end of the limit");
    let made = calls(&repo);
    let status = ar(&repo, ["status"]).ok().stdout;
    assert!(timeless(&status).contains("the agent is out of credit, for N"), "{status}");

    let limited =
        agent(&format!("[ $call != {} ] || {{ echo 'limit reached ∙ resets in 9 hours'; exit 1; }}", made + 1));
    let called = ar(&repo, ["resume", "--agent", &limited, "--outage-limit", "8h"]).exits(4);
    assert_eq!(calls(&repo), made + 1, "a reset beyond the limit is not waited for");
    assert!(called.stdout.contains("stopped: the agent's rate limit until "), "{called:#?}");
    assert!(called.stdout.contains(", longer than --outage-limit allows; last output: "), "{called:#?}");
    let events = repo.read(".autoresearch/t/logs/orchestrator.jsonl");
    assert!(events.lines().any(|line| line.contains("\"outage\"") && line.contains("\"again\":null")), "{events}");
    let called = ar(&repo, ["resume"]).ok();
    assert!(called.stdout.contains("   1  discard"), "who starts it again has seen to it: {called:#?}");
}

/// The text with `N` for how long an outage took.
fn timeless(text: &str) -> String {
    let (before, after) = text.split_once(", for ").unwrap_or((text, ""));
    let rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    format!("{before}, for N{rest}")
}

/// A loop whose agent is out until the file `back` is there, beside the repository; it waits already.
fn waiting(repo: &TestRepo, reset: &str, first_call: bool) -> Child {
    let limited =
        agent(&format!("[ -e ../back ] || {{ echo \"You've hit your usage limit. Try again in {reset}.\"; exit 1; }}"));
    let args = if first_call { args(&limited, &["--max-experiments", "1"]) } else { vec!["resume"] };
    let mut command = ar_command(repo, &repo.path(), args);
    waits(repo, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// This loop, once it waits for its agent.
fn waits(repo: &TestRepo, child: Child) -> Child {
    let status = || Some(ar(repo, ["status", "--format", "json"])).filter(|called| called.code == Some(0));
    until("the wait", || status().filter(|called| called.json()["sessions"][0]["activity"] == "waiting"));
    child
}

#[test]
fn the_wait_survives_a_kill_and_ends_at_once_when_somebody_asks() {
    let repo = training_repo();
    let mut child = waiting(&repo, "2 hours", true);
    let status = ar(&repo, ["status"]).ok().stdout;
    let doing = status.lines().find(|line| line.starts_with("doing")).unwrap();
    assert!(doing.contains("waiting: the agent's rate limit, until "), "{status}");
    assert!(status.contains("You've hit your usage limit."), "{status}");
    let seen = ar(&repo, ["status", "--format", "json"]).ok().json();
    let session = &seen["sessions"][0];
    assert_eq!((&session["activity"], &session["outage"]["kind"]), (&"waiting".into(), &"rate_limit".into()));
    let before = journal(&repo)["outage"].clone();
    child.kill().unwrap();
    child.wait().unwrap();
    let status = ar(&repo, ["status"]).ok().stdout;
    assert!(status.contains("\ndoing        idle"), "{status}");

    let began = Instant::now();
    let child = waiting(&repo, "", false);
    let outage = &journal(&repo)["outage"];
    assert_eq!((&outage["since"], &outage["waits"]), (&before["since"], &1.into()), "the same outage goes on");
    ar(&repo, ["stop"]).ok();
    Called::from(child.wait_with_output().unwrap()).ok();
    for name in ["-INT", "-TERM"] {
        let child = waiting(&repo, "", false);
        signal(&child, name);
        Called::from(child.wait_with_output().unwrap()).exits(130);
    }
    assert_eq!(journal(&repo)["outage"]["outage"]["until"], before["outage"]["until"]);
    assert_eq!(calls(&repo), 1, "nobody calls an agent that said when its limit is lifted");
    assert!(began.elapsed().as_secs() < 600, "none of them waited for its two hours");
    ar(&repo, ["resume", "--agent", &agent("true")]).ok();
    assert_eq!(
        (repo.read("results.tsv").lines().count(), &journal(&repo)["iteration"]),
        (3, &1.into()),
        "another agent"
    );
}

#[test]
fn a_session_that_is_resumed_waits_for_the_reset_and_no_longer() {
    let repo = training_repo();
    let mut child = waiting(&repo, "2 hours", true);
    child.kill().unwrap();
    child.wait().unwrap();
    // As after a night of refusals, after which the loop alone would wait for minutes, and shortly before the reset.
    let mut noted = journal(&repo);
    fs::write(repo.outside().join("back"), "").unwrap();
    let reset = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 6).unwrap();
    let outage = &mut noted["outage"];
    assert!(outage["waits"] == 1 && outage["until"].is_string(), "{outage:#}");
    outage["waits"] = 20.into();
    outage["until"] = reset.to_string().into();
    outage["outage"]["until"] = reset.to_string().into();
    repo.write(".autoresearch/t/state/progress.json", noted.to_string());
    let called = ar(&repo, ["resume", "--format", "json"]).ok();
    let events = called.json_lines();
    let outage = events.iter().find(|event| event["event"] == "outage").expect("it says that it waits");
    assert_eq!(outage["again"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap(), reset, "{outage}");
    assert_eq!(calls(&repo), 2);
    assert!(jiff::Timestamp::now() >= reset);
    assert_eq!(journal(&repo)["outage"], Value::Null);
}

#[test]
fn an_agent_that_fails_for_reasons_that_nobody_knows_is_waited_for_and_given_up() {
    let repo = training_repo();
    let first = "[ -e ../back ] || { touch half.txt; rm half.txt; echo service temporarily broken; exit 1; }";
    let called = run(&repo, first, &["--outage-limit", "3s", "--max-experiments", "1"]).exits(4);
    let said =
        "stopped: the agent failed, for N; last output: exit 1: service temporarily broken\n      check its command";
    assert!(timeless(&called.stdout).contains(said), "{called:#?}");
    assert_eq!(called.stdout.matches("   1  -  ").count(), 1, "{called:#?}");
    let log = repo.read(".autoresearch/t/logs/orchestrator.jsonl");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let outages: Vec<Value> =
        events.filter(|event| event["event"] == "outage").map(|event| event["data"].clone()).collect();
    // On a very slow machine the first call takes longer than the limit.
    let again: Vec<i64> = outages
        .iter()
        .filter_map(|outage| Some(outage["again"].as_str()?.parse::<jiff::Timestamp>().unwrap().as_millisecond()))
        .collect();
    assert_eq!(calls(&repo), again.len() + 1, "once more after each wait: {outages:#?}");
    // After 100 ms, then 200, and so on; the last pause ends with the limit.
    let mut pause = 200;
    for pair in again.windows(2).take(again.len().saturating_sub(2)) {
        assert!(pair[1] - pair[0] >= pause - 1, "{outages:#?}");
        pause *= 2;
    }
    let journal = journal(&repo);
    assert_eq!(
        (&journal["idle_calls"], &journal["stale_count"], &journal["iteration"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert_eq!(repo.read(".autoresearch/t/state/iteration_log.jsonl"), "");
    fs::write(repo.outside().join("back"), "").unwrap();
    assert!(ar(&repo, ["resume"]).ok().stdout.contains("   1  discard"));
}

#[test]
fn a_budget_ends_the_wait() {
    let repo = training_repo();
    let clock = MovableClock::new(&repo);
    let agent = agent("echo 'Network is unreachable, retry after 7200 s'; exit 1");
    let mut command = ar_command(&repo, &repo.path(), args(&agent, &["--max-experiments", "1", "--for", "5h"]));
    clock.show_to(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = waits(&repo, command.spawn().unwrap());
    clock.move_to("2026-11-21T03:00:00Z");
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("the agent is offline: Network is unreachable"), "{called:#?}");
    assert!(called.stdout.ends_with("stopped: time limit of 5h reached\n"), "{called:#?}");
}

#[test]
fn a_stop_during_the_outage_of_a_rework_records_the_version_before_it() {
    let repo = guards::repo();
    let agent = "echo call >> ../calls; [ $(grep -c call ../calls) = 1 ] || { echo 'API Error: 429, retry after 60 s'; exit 1; }; \
                 echo echo val_bpb: 1.5 > src/value; echo 'echo bad; exit 3' > src/check";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh eval.sh", "--tag", "t", "--agent", agent];
    let mut command = ar_command(&repo, &repo.path(), args.into_iter().chain(["--guard", "sh guard.sh"]));
    let child = command.env_remove("AR_NO_PAUSES").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the outage", || {
        (repo.exists(".autoresearch/t/state/progress.json") && !journal(&repo)["outage"].is_null()).then_some(())
    });
    ar(&repo, ["stop", "t"]).ok();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    let record = guards::record(&repo, 1);
    assert_eq!((&record["outcome"], &record["failure"]["class"]), (&"discard".into(), &"guard_failed".into()));
    assert!(record["reason"].as_str().unwrap().ends_with("the loop ended before its rework"), "{record} {called:#?}");
    assert_eq!((calls(&repo), repo.status().as_str()), (2, ""));
}

#[test]
fn an_experiment_that_is_worked_on_again_waits_out_an_outage_too() {
    let repo = guards::repo();
    let edits = [
        "echo echo val_bpb: 1.5 > src/value; echo 'echo bad; exit 3' > src/check",
        "echo half > src/half; echo half > src/value; echo 'API Error: 429, retry after 0.05 s'; exit 1",
        "echo 'no program'; exit 127",
        "echo 'echo well' > src/check",
    ];
    guards::session(&repo, &["--guard", "sh guard.sh"], &edits, 1).ok();
    let record = guards::record(&repo, 1);
    assert_eq!((&record["outcome"], &record["metric"]["value"]), (&"keep".into(), &1.5.into()), "{record}");
    assert_eq!(record["versions"].as_array().unwrap().len(), 1, "an outage is no try: {record}");
    for call in [2, 3, 4] {
        assert!(guards::prompt(&repo, call).contains("This is try 1 of 2."), "{}", guards::prompt(&repo, call));
    }
    assert!(!repo.exists("src/half") && repo.status().is_empty(), "{}", repo.status());
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
    let halves = saved.lines().filter(|kept| repo.git(["ls-tree", "-r", "--name-only", kept]).contains("src/half"));
    assert_eq!(halves.count(), 1, "{saved}");
    assert_eq!(journal(&repo)["outage"], Value::Null);
}

#[test]
fn a_program_that_the_agents_script_misses_ends_the_loop_after_three_calls() {
    let repo = training_repo();
    let first = "echo 'reading the prompt'; nosuchprogram --version";
    let called = run(&repo, &format!("{first} || exit"), &["--max-experiments", "1"]).exits(4);
    assert_eq!(calls(&repo), 3, "{called:#?}");
    assert!(
        called.stdout.contains("reading the prompt | sh: ") && called.stdout.contains("nosuchprogram"),
        "{called:#?}"
    );
    assert!(called.stdout.contains("install what its command line needs"), "{called:#?}");
}

#[test]
fn an_aider_that_cannot_fetch_its_price_list_changed_nothing_and_is_not_out() {
    let repo = training_repo();
    let lines = "Aider v0.86.1|Main model: gpt-4o with diff edit format|HTTPSConnectionPool(host=example.com, port=443): Max \
                 retries exceeded with url: /prices.json|No change is needed.|Tokens: 1.2k sent, 34 received.";
    let agent = |lines: &str| format!("printf '%s\\n' '{}'", lines.replace('|', "' '"));
    let run = |tag: &str, lines: &str| {
        let agent = agent(lines);
        let args =
            ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", tag, "--max-experiments", "1"];
        ar(&repo, args.iter().chain(&["--agent", &agent, "--outage-limit", "100ms"]))
    };
    let called = run("t", lines);
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    assert!(!log.contains("\"outage\"") && log.contains("agent_finished"), "{called:#?}: {log}");
    // Without tokens the words count.
    repo.git(["checkout", "-q", "main"]);
    let called = run("u", lines.split_once("|Tokens").unwrap().0);
    let log = repo.read(".autoresearch/u/logs/work.jsonl");
    assert!(log.contains("\"outage\""), "{called:#?}: {log}");
}
