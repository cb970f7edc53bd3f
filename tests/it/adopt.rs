//! A run that another `ar` started: whose it is, and that its record is as if nothing had happened.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::recovery::{go, loop_in_its_second_run, runs, scripted};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

const RUN: &str = ".autoresearch/t/runs/00001";

fn started(repo: &TestRepo, folder: &str) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(repo.file(folder).join("started.json")).ok()?).ok()
}

fn kill(pid: &Value) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

/// A process that has nothing to do with any of this.
fn stranger() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

fn assert_unharmed(mut stranger: Child) {
    assert_eq!(stranger.try_wait().unwrap(), None);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Kills a loop in its second run and the run with it; its `started.json` names `stranger` then.
fn lost_with(repo: &TestRepo, boot_id: Option<&str>, stranger: &Child) {
    let mut child = loop_in_its_second_run(repo);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut said = started(repo, RUN).unwrap();
    kill(&said["pid"]);
    let lock = File::open(repo.file(RUN).join("lock")).unwrap();
    until("the end of the shim", || lock.try_lock_shared().ok());
    said["pid"] = stranger.id().into();
    said["host"] = "far-away".into();
    if let Some(boot_id) = boot_id {
        said["boot_id"] = boot_id.into();
    }
    repo.write(format!("{RUN}/started.json"), said.to_string());
}

#[test]
fn a_run_on_another_machine_is_waited_for_and_no_process_of_this_one_signalled() {
    // The second one is of another container on this machine, where process ids mean something else.
    for boot_id in [Some("another boot"), None] {
        let repo = scripted("");
        let stranger = stranger();
        lost_with(&repo, boot_id, &stranger);
        let lock = File::options().write(true).open(repo.file(RUN).join("lock")).unwrap();
        lock.lock().unwrap();
        let mut resumed =
            ar_command(&repo, &repo.path(), ["resume"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let journal = repo.file(".autoresearch/t/state/progress.json");
        until("the owner", || fs::read_to_string(&journal).unwrap().contains("\"running\"").then_some(()));
        // Whoever is not listening yet would be ended by the first signal.
        until("the handler", || {
            let status = fs::read_to_string(format!("/proc/{}/status", resumed.id())).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"))?;
            (u64::from_str_radix(caught, 16).unwrap() & 1 << 14 != 0).then_some(())
        });
        Command::new("kill").args(["-TERM", &resumed.id().to_string()]).status().unwrap();
        until("the end", || resumed.try_wait().unwrap());
        let called = Called::from(resumed.wait_with_output().unwrap()).exits(130);
        assert!(
            called.stderr.contains("note: `sh train.sh` is still running on another machine: far-away"),
            "{called:?}"
        );

        // It ends there, and is measured here.
        let resumed = ar_command(&repo, &repo.path(), ["resume"]).stdout(Stdio::piped()).spawn().unwrap();
        fs::copy(repo.file(".autoresearch/t/runs/00000/exit.json"), repo.file(RUN).join("exit.json")).unwrap();
        repo.write(format!("{RUN}/run.log"), "val_bpb: 1.05\n");
        // As its shim does: behind a wall, the lock names an exit that does not count yet.
        lock.set_len(0).unwrap();
        drop(lock);
        let called = Called::from(resumed.wait_with_output().unwrap()).ok();
        assert!(
            called.stdout.contains("   1  keep     1.05      slower: val_bpb 1.05 is better than 2.0"),
            "{called:?}"
        );
        assert_eq!(runs(&repo), 2, "it was not started again");
        assert_unharmed(stranger);
    }
}

#[test]
fn a_run_of_an_earlier_boot_is_lost_and_its_process_id_is_somebody_elses() {
    let repo = scripted("");
    let stranger = stranger();
    lost_with(&repo, Some("an earlier boot"), &stranger);
    go(&repo);
    let called = ar(&repo, ["resume"]).ok();
    assert!(called.stdout.contains("   1  keep     1.1       slower: val_bpb 1.1 is better than 2.0"), "{called:?}");
    assert_eq!(runs(&repo), 3, "the lost one and another one");
    assert_unharmed(stranger);
}

/// What each of the four runs does when it is let go.
const ENDINGS: &str = "case $(cat value) in\n\
    1) echo val_bpb: 1.5; echo depth: 8 ;;\n\
    2) echo val_bpb: 1.4; echo Traceback; exit 3 ;;\n\
    3) echo val_bpb: 1.3; kill -SEGV $$ ;;\n\
    4) echo val_bpb: 1.2; sleep 1; touch ../late; exec sleep 600 ;;\n\
    *) echo val_bpb: 2.0 ;;\nesac\n";

/// A repository whose run number N waits for the file `go-N` beside it.
fn waiting_repo() -> TestRepo {
    let repo = training_repo();
    let wait = "n=$(cat value); touch ../began-$n; until [ -e ../go-$n ]; do sleep 0.02; done\n";
    repo.write("train.sh", format!("{wait}{ENDINGS}"));
    repo.write("value", "0\n");
    repo.commit_all("waits");
    repo
}

fn endings_command(repo: &TestRepo, resume: bool) -> Command {
    let agent = "echo $AR_EXPERIMENT > value; echo step $AR_EXPERIMENT";
    let first = ["run", "--yes", "--metric", "val_bpb", "--cmd", "exec sh train.sh", "--tag", "t", "--agent", agent];
    let mut args = first.to_vec();
    args.extend(["--max-experiments", "4", "--timeout", "5s", "--grace", "1s"]);
    if resume {
        args = vec!["resume", "--format", "json"];
    }
    let mut command = ar_command(repo, &repo.path(), args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The records, without what depends on the hour and on how fast the machine was.
fn timeless_records(repo: &TestRepo) -> Vec<Value> {
    let text = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t"]);
    let mut records: Vec<Value> =
        text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &mut records {
        assert!(record["memory_gb"].as_f64().unwrap() > 0.0, "{record}");
        record["memory_gb"] = Value::Null;
        let reason = record["reason"].as_str().unwrap().to_owned();
        record["reason"] = json!(reason.split_once(" after ").map_or(reason.as_str(), |(before, _)| before));
        if let Some(agent) = record["agent"].as_object_mut() {
            agent.remove("seconds");
        }
        for run in record["runs"].as_array_mut().unwrap() {
            let run = run.as_object_mut().unwrap();
            assert!(run["seconds"].as_f64().unwrap() < 7.0, "the deadline counts from the start: {run:?}");
            run.remove("seconds");
            run.remove("started");
        }
    }
    records
}

#[test]
fn an_adopted_run_gives_the_record_that_it_would_have_given() {
    let whole = waiting_repo();
    for n in 0..=4 {
        fs::write(whole.outside().join(format!("go-{n}")), "").unwrap();
    }
    let undisturbed = endings_command(&whole, false).spawn().unwrap();

    let repo = waiting_repo();
    let beside = |name: &str| repo.outside().join(name);
    fs::write(beside("go-0"), "").unwrap();
    let mut child = endings_command(&repo, false).spawn().unwrap();
    for n in 1..=4 {
        until("the run", || beside(&format!("began-{n}")).exists().then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        if n == 4 {
            fs::write(beside("go-4"), "").unwrap();
            until("a second of the run", || beside("late").exists().then_some(()));
        }
        child = endings_command(&repo, true).spawn().unwrap();
        fs::write(beside(&format!("go-{n}")), "").unwrap();
    }
    let resumed = Called::from(child.wait_with_output().unwrap()).ok();
    let progress = resumed.json_lines().into_iter().find(|event| event["event"] == "run_progress").unwrap();
    assert!(progress["elapsed"].as_f64().unwrap() >= 1.0, "{progress}");

    Called::from(undisturbed.wait_with_output().unwrap()).ok();
    let records = timeless_records(&repo);
    assert_eq!(records, timeless_records(&whole));
    let ended = |record: &Value| (record["runs"][0]["exit"].as_i64(), record["runs"][0]["signal"].as_i64());
    let classes: Vec<_> = records.iter().map(|record| record["failure"]["class"].as_str()).collect();
    assert_eq!(classes, [None, None, Some("crash"), Some("crash"), Some("timeout")]);
    assert_eq!(ended(&records[2]), (Some(3), None));
    assert_eq!(ended(&records[3]), (None, Some(11)));
    assert_eq!(records[1]["metrics"]["depth"], 8.0);
}
