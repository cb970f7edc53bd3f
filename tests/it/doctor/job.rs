//! `ar doctor --job`: a short job of the executor says what it sees.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::session::edit;
use crate::cluster::Engine;
use crate::lanes::landscape::first_call;
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, in_time, until};

/// The folders of trials that are there.
fn trials(repo: &TestRepo) -> Vec<PathBuf> {
    let entries = fs::read_dir(repo.file(".autoresearch")).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".ar-trial-"))
        .map(|entry| entry.path())
        .collect()
}

/// What it says of the executor: level, text, hint.
#[track_caller]
fn of_executor(called: &Called) -> Vec<(String, String, String)> {
    let found = called.json();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = found["findings"].as_array().unwrap().iter();
    let findings = findings.filter(|finding| finding["area"] == "executor");
    findings.map(|finding| (text(finding, "level"), text(finding, "what"), text(finding, "hint"))).collect()
}

#[track_caller]
fn says(found: &[(String, String, String)], level: &str, what: &str, hint: &str) {
    let is_it =
        |(its, text, more): &&(String, String, String)| its == level && text.contains(what) && more.contains(hint);
    assert!(found.iter().any(|finding| is_it(&finding)), "no {level} `{what}` with `{hint}` in {found:#?}");
}

fn spawn(repo: &TestRepo, args: &[&str]) -> Child {
    let mut command = ar_command(repo, &repo.path(), args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Calls it with so much of its waits that an engine in Python answers within them on a busy machine, too.
fn ar_patiently(repo: &TestRepo, args: &[&str], waits: &str) -> Called {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env("AR_WAITS", waits);
    in_time(command)
}

/// The settings without which the doctor has an error of its own.
const SET: &str = "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\n";

const JSON: [&str; 4] = ["doctor", "--job", "--format", "json"];

#[test]
fn a_job_says_what_it_sees_before_a_session_and_in_one() {
    let (repo, engine) = Engine::with(SET);
    let named = of_executor(&ar(&repo, ["doctor", "--format", "json"]).ok());
    says(&named, "ok", "`commands` executes runs; `ar doctor --job` tests it", "");
    assert_eq!((named.len(), engine.calls("submit")), (1, 0), "it was not asked for");
    let called = ar_in_time(&repo, JSON).ok();
    assert!(called.stderr.contains("waiting up to 5m for a job of `commands` to start"), "{called:#?}");
    let found = of_executor(&called);
    for what in
        ["a job of `commands` ran on ", ", which is this host after ", " in the queue", "is the same version as here"]
    {
        says(&found, "ok", what, "");
    }
    assert!(found.iter().all(|(level, _, _)| level == "ok"), "{found:#?}");
    assert!(!repo.exists(".autoresearch"), "nothing is left");
    assert!(engine.tokens()[0].starts_with("ar--doctor-.ar-trial-"), "{:?}", engine.tokens());

    ar_in_time(&repo, first_call(&repo, ["0", "0.05"], "", &["--max-experiments", "0"])).ok();
    repo.write("ar.toml", "");
    let before = engine.calls("submit");
    let found = of_executor(&ar_in_time(&repo, [&JSON[..], &["t"]].concat()).ok());
    says(&found, "ok", "a job of `commands` ran on ", "");
    assert_eq!(engine.calls("submit"), before + 1, "the session goes by its own executor");
    assert!(trials(&repo).is_empty());
    assert!(engine.tokens().iter().any(|token| token.starts_with("ar-t-doctor-")), "{:?}", engine.tokens());
}

#[test]
fn a_job_that_does_not_start_in_time_is_cancelled() {
    let (repo, engine) = Engine::with(SET);
    engine.write("hold", "0");
    let called = ar_patiently(&repo, &[&JSON[..], &["--wait", "2s"]].concat(), "1").exits(1);
    let found = of_executor(&called);
    says(&found, "error", "no job of `commands` started within 2s", "ar doctor --job --wait 1h");
    assert!(!found.iter().any(|(_, what, _)| what.contains("could not confirm")), "{found:#?}");
    assert!(engine.folder.join("jobs/1/cancelled").exists() && !repo.exists(".autoresearch"));

    // An engine that says nothing more hangs nothing.
    engine.write("faults-states", &"fail\n".repeat(200));
    let called = ar_patiently(&repo, &[&JSON[..], &["--wait", "3s"]].concat(), "1").exits(1);
    // The engine may be away from the first question on, or from the last.
    let found = of_executor(&called);
    let told = ["no job of `commands` started within 3s", "`ar` could not confirm", "the engine is away"];
    assert!(found.iter().any(|(_, what, _)| told.iter().all(|part| what.contains(part))), "{found:#?}");
    assert!(engine.folder.join("jobs/2/cancelled").exists());
}

#[test]
fn an_engine_that_takes_no_job_says_why() {
    let (repo, engine) = Engine::with(SET);
    engine.write("faults-submit", &"fail\n".repeat(50));
    let found = of_executor(&ar_patiently(&repo, &JSON, "3").exits(1));
    says(&found, "error", "the executor `commands` takes no job: the engine is away", "correct `submit` in [executor]");
    assert!(!repo.exists(".autoresearch"));
}

#[test]
fn a_program_that_does_not_start_there_is_named_in_the_words_of_the_engine() {
    let (repo, _engine) = Engine::with(SET);
    let states = "import json, sys; print(json.dumps({'version': 1, 'jobs': [{'id': '1', 'token': job['token'], \
                  'state': 'failed', 'exit': 127} for job in json.load(sys.stdin)['jobs']]}))";
    repo.write("states.py", states);
    repo.write(
        "ar.toml",
        format!(
            "[executor]\nsubmit = '''echo '{{\"version\": 1, \"id\": \"1\"}}' '''\nstates = 'python3 {}'\n\
             cancel = \"true\"\nlogs = \"echo sh: ar: not found\"\n",
            repo.file("states.py").display()
        ),
    );
    let found = of_executor(&ar_in_time(&repo, JSON).exits(1));
    says(
        &found,
        "error",
        "left no trace at the executor `commands` but this: sh: ar: not found",
        "that all nodes have",
    );
}

#[test]
fn what_is_missing_where_the_job_runs_is_an_error() {
    let (repo, engine) = Engine::with(SET);
    engine.write("hold", "0");
    let doctor = spawn(&repo, &JSON);
    let folder = until("the job is in the queue", || {
        let folder = trials(&repo).pop()?;
        let job = fs::read_to_string(folder.join("trial.job.json")).ok()?;
        job.contains("\"id\"").then_some(folder)
    });
    // As on a node that has other files.
    fs::remove_file(folder.join("seen")).unwrap();
    let name = folder.join("trial.job.json");
    edit(&repo, name.strip_prefix(repo.path()).unwrap().to_str().unwrap(), |job| {
        for variable in job["env"].as_array_mut().unwrap() {
            match variable[0].as_str() {
                Some("AR_TRIAL_TREE") => variable[1] = "/no/such/tree".into(),
                Some("AR_TRIAL_PROGRAM") => variable[1] = "/no/such/ar".into(),
                Some("AR_TRIAL_WALL") => variable[1] = "/no/such/bwrap".into(),
                _ => {}
            }
        }
    });
    engine.write("hold", "1");
    let found = of_executor(&Called::from(doctor.wait_with_output().unwrap()).exits(1));
    says(&found, "error", "did not see a file that was written here before", "a file system that all nodes mount");
    says(&found, "error", "the working tree /", "a file system that all nodes mount");
    says(&found, "error", "does not start; here: ar (autoresearch)", "install the same `ar`");
}

#[test]
fn an_interrupt_cancels_the_job_and_a_kill_leaves_what_disturbs_nobody() {
    let (repo, engine) = Engine::with(SET);
    engine.write("hold", "0");
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let jobs = engine.tokens().len();
        let doctor = spawn(&repo, &JSON);
        until("the job is in the queue", || (engine.tokens().len() > jobs).then_some(()));
        Command::new("kill").args([signal, &doctor.id().to_string()]).status().unwrap();
        let called = Called::from(doctor.wait_with_output().unwrap());
        assert_eq!(called.code, code, "{called:#?}");
        if code.is_some() {
            assert!(called.stderr.contains("interrupted; cancelled the job"), "{called:#?}");
            assert!(engine.folder.join("jobs/1/cancelled").exists() && !repo.exists(".autoresearch"));
        }
    }
    assert_eq!(trials(&repo).len(), 1);
    let json = ar(&repo, ["doctor", "--format", "json"]).ok().json();
    assert_eq!(json["sessions"], serde_json::json!([]));
}

#[test]
fn where_runs_are_executed_here_there_is_no_job_to_test() {
    let repo = TestRepo::new();
    let found = of_executor(&ar(&repo, JSON).exits(1));
    says(&found, "error", "runs are executed on this machine", "omit --job");
    assert!(ar(&repo, ["doctor", "--wait", "1m"]).exits(2).stderr.contains("--job"));
}
