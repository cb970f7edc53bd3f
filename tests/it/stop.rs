//! `ar stop`: from another shell, what Ctrl-C does.

use std::fs;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::exec::LOCAL;
use crate::interrupt::{wait_for_runs, wait_for_words, waiting_loop};
use crate::run_loop::training_repo;
use crate::support::{Called, FIND_OWNER, TestRepo, ar, ar_command, until};

const REQUEST: &str = ".autoresearch/t/stop.json";

/// Kills the loop itself; its run goes on.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whether the run of an experiment is over and its shim gone.
fn is_over(repo: &TestRepo, id: u32) -> bool {
    !LOCAL.is_busy(&repo.file(format!(".autoresearch/t/runs/{id:05}")))
}

#[test]
fn a_request_lets_the_experiment_finish_however_often_it_is_made() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    for _ in 0..2 {
        assert_eq!(ar(&repo, ["stop"]).ok().stdout, "session t stops after experiment 1\n");
        let status = ar(&repo, ["status", "--format", "json"]).ok().json();
        let session = &status["sessions"][0];
        assert!(session["doing"].as_str().unwrap().ends_with("; stopping after this experiment"), "{session}");
        assert_eq!((&session["stopping"], &session["next"][0]), (&"experiment".into(), &"ar stop t --now".into()));
    }
    assert!(!repo.exists(REQUEST));
    // Any file of that name is one.
    repo.write(REQUEST, "");
    until("the third request to be heard", || (!repo.exists(REQUEST)).then_some(()));
    fs::write(go, "").unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  keep") && called.stdout.ends_with("stopped: on request\n"), "{called:?}");
    let said = fs::read_to_string(repo.outside().join("stderr")).unwrap();
    assert_eq!(said, "note: `ar stop` was requested; stopping after this experiment\n");
    let status = ar(&repo, ["status", "--format", "json"]).ok().json();
    let session = &status["sessions"][0];
    assert_eq!((&session["stopping"], &session["ended"]), (&Value::Null, &"on request".into()));
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
    assert_eq!(repo.status(), "");
    assert!(repo.read(".autoresearch/t/logs/work.jsonl").contains("`ar stop` was requested"));
}

#[test]
fn a_request_for_now_ends_the_run_and_waits_until_everything_is_put_back() {
    let repo = training_repo();
    let (child, _) = waiting_loop(&repo);
    ar(&repo, ["stop"]).ok();
    let said = ar(&repo, ["stop", "t", "--now"]).ok().stdout;
    assert_eq!(said, "session t has stopped; what was unfinished is rolled back\n");
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), repo.git(["rev-parse", "main"]));
    assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:value"]), "1.1");
    assert_eq!(repo.status(), "");
    assert!(is_over(&repo, 1));
    Called::from(child.wait_with_output().unwrap()).ok();
    wait_for_words(&repo, "`ar stop --now` was requested; terminating the run and rolling back");
}

#[test]
fn an_agent_at_work_and_the_pause_after_one_that_fails_hear_it_too() {
    let calls =
        |repo: &TestRepo| fs::read_to_string(repo.outside().join("calls")).map_or(0, |text| text.lines().count());
    for (agent, seen, stop, answer) in [
        ("echo >> ../calls; sleep 60", 1, &["stop", "--now"][..], "session t has stopped; what was unfinished"),
        (
            "echo >> ../calls; until [ -e ../go ]; do sleep 0.02; done; echo 1 > new",
            1,
            &["stop"],
            "session t stops after experiment 1\n",
        ),
        // Which of the two it says depends on who is faster.
        ("echo >> ../calls; exit 3", 6, &["stop"], "session t "),
    ] {
        let repo = training_repo();
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
        let child = ar_command(&repo, &repo.path(), args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        until("the agent", || (calls(&repo) == seen).then_some(()));
        if seen > 1 {
            until("the pause", || {
                let status = ar(&repo, ["status", "--format", "json"]).ok().json();
                (status["sessions"][0]["activity"] == "waiting").then_some(())
            });
        }
        let said = ar(&repo, stop).ok().stdout;
        assert!(said.starts_with(answer) && !said.contains("is idle"), "{agent}: {said}");
        fs::write(repo.outside().join("go"), "").unwrap();
        Called::from(child.wait_with_output().unwrap()).ok();
        assert_eq!(calls(&repo), seen, "{agent}");
        assert_eq!(repo.read("results.tsv").lines().count(), if agent.contains("new") { 3 } else { 2 }, "{agent}");
        assert_eq!(repo.status(), "");
    }
}

#[test]
fn with_nobody_at_work_it_says_so_and_an_old_request_stops_no_later_night() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    ar(&repo, args).ok();
    for stop in [&["stop"][..], &["stop", "--now"]] {
        let said = ar(&repo, stop).ok().stdout;
        assert_eq!(said, "session t is idle; nothing to stop\n");
    }
    repo.write(REQUEST, r#"{"version": 1, "when": "now", "asked": "2026-11-20T22:00:00Z"}"#);
    let agent = "echo echo val_bpb: 0.5 > train.sh";
    ar(&repo, ["run", "--agent", agent, "--max-experiments", "1"]).ok();
    assert!(!repo.exists(REQUEST));
    assert!(ar(&repo, ["stop", "nosuch"]).exits(1).stderr.contains("no session `nosuch` found"));
}

#[test]
fn a_run_without_a_loop_is_only_ended_when_that_is_asked_for() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    let said = ar(&repo, ["stop"]).ok().stdout;
    assert_eq!(
        said,
        "no loop is active in session t, but the run of experiment 1 is still going\n\
         `ar stop t --now` terminates it; `ar resume t` waits for it and continues\n"
    );
    assert!(!repo.exists(REQUEST) && !is_over(&repo, 1));
    let called = ar(&repo, ["stop", "--now"]).ok();
    assert_eq!(called.stdout, "terminated the run of experiment 1 and rolled its change back\n");
    assert!(called.stderr.contains("its change is in refs/autoresearch/t/saved/00000"), "{called:?}");
    assert!(is_over(&repo, 1));
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), repo.git(["rev-parse", "main"]));
    assert_eq!((repo.status().as_str(), repo.read("results.tsv").lines().count()), ("", 2));
    fs::write(go, "").unwrap();
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
}

#[test]
fn a_run_whose_files_were_deleted_is_ended_too() {
    for adopted in [true, false] {
        let repo = training_repo();
        let (child, _) = waiting_loop(&repo);
        kill(child);
        let started: Value = serde_json::from_str(&repo.read(".autoresearch/t/runs/00001/started.json")).unwrap();
        let resumed = adopted.then(|| {
            let child = ar_command(&repo, &repo.path(), ["resume"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let opened = format!("\"process\":{}", child.id());
            until("the session to be open", || {
                let beats = fs::read_to_string(repo.file(".autoresearch/t/logs/heartbeat.jsonl")).ok()?;
                beats.contains(&opened).then_some(())
            });
            child
        });
        // Who is at work may write a file meanwhile.
        until("the folder to go", || fs::remove_dir_all(repo.file(".autoresearch")).ok());
        let said = ar(&repo, ["stop", "--now"]).ok().stdout;
        let called = resumed.map(|child| Called::from(child.wait_with_output().unwrap()));
        // What supervised it has let go of its lock, and may take a moment to exit. One that is dead and that nobody has
        // reaped yet has no arguments any more.
        let arguments = format!("/proc/{}/cmdline", started["pid"]);
        until(&format!("the run to be over, after {said}{called:?}"), || {
            fs::read(&arguments).unwrap_or_default().is_empty().then_some(())
        });
        if let Some(called) = called {
            assert_eq!(said, "session t has stopped; what was unfinished is rolled back\n", "{called:?}");
            called.ok();
            assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), repo.git(["rev-parse", "main"]));
        } else {
            assert_eq!(said, "terminated the run of experiment 1; run `ar doctor t` to see what is left of it\n");
        }
        assert!(ar(&repo, ["stop", "--now"]).ok().stdout.contains("is idle; nothing to stop"));
    }
}

#[test]
fn an_experiment_that_was_left_while_its_agent_worked_is_closed_and_another_session_can_start() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag"];
    let agent = "echo '# half done' >> train.sh; touch ../begun; sleep 60";
    let child = ar_command(&repo, &repo.path(), args).args(["t", "--agent", agent]).stderr(Stdio::null()).spawn();
    until("the agent", || repo.outside().join("begun").exists().then_some(()));
    kill(child.unwrap());
    let refused = ar(&repo, args.into_iter().chain(["other"])).exits(1).stderr;
    assert!(refused.contains("or `ar stop t --now` to save its change and close it"), "{refused}");
    let said = ar(&repo, ["stop"]).ok().stdout;
    assert!(said.starts_with("session t is idle, but experiment 1 is still open\n`ar stop t --now` saves"), "{said}");
    let called = ar(&repo, ["stop", "t", "--now"]).ok();
    assert_eq!(called.stdout, "closed experiment 1 and rolled its change back\n");
    assert!(called.stderr.contains("saved the unfinished change of experiment 1 as refs/"), "{called:?}");
    assert!(repo.git(["show", "refs/autoresearch/t/saved/00000:train.sh"]).ends_with("# half done"));
    assert_eq!((repo.status().as_str(), repo.read("results.tsv").lines().count()), ("", 2));
    assert_eq!(ar(&repo, ["stop", "--now"]).ok().stdout, "session t is idle; nothing to stop\n");
    repo.git(["switch", "--quiet", "main"]);
    ar(&repo, args.into_iter().chain(["other"])).ok();
}

#[test]
fn a_baseline_without_a_loop_is_ended_and_its_session_taken_back() {
    let repo = training_repo();
    repo.write("train.sh", "echo run >> ../runs; sleep 60\n");
    repo.commit_all("slow");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let child = ar_command(&repo, &repo.path(), args).stderr(Stdio::null()).spawn().unwrap();
    wait_for_runs(&repo, 1);
    kill(child);
    assert!(ar(&repo, ["stop"]).ok().stdout.contains("the run of the baseline is still going"));
    ar(&repo, ["stop", "--now"]).ok();
    assert!(is_over(&repo, 0));
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(repo.git(["branch", "--list", "autoresearch/*"]), "");
}

#[test]
fn a_try_is_stopped_like_a_loop() {
    let repo = training_repo();
    repo.write(
        "train.sh",
        "echo run >> ../runs; until [ -e ../go ]; do sleep 0.02; done; echo val_bpb: $(cat value)\n",
    );
    repo.write("value", "2.0\n");
    repo.commit_all("waits");
    let go = repo.outside().join("go");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    fs::write(&go, "").unwrap();
    ar(&repo, args).ok();
    let begin = |value: &str, runs: usize| {
        let _ = fs::remove_file(&go);
        repo.write("value", value);
        let child = ar_command(&repo, &repo.path(), ["try", "-m", "x"]).stdout(Stdio::piped()).spawn().unwrap();
        wait_for_runs(&repo, runs);
        child
    };
    let child = begin("1.5\n", 2);
    assert_eq!(ar(&repo, ["stop"]).ok().stdout, "session t stops after experiment 1\n");
    fs::write(&go, "").unwrap();
    assert!(Called::from(child.wait_with_output().unwrap()).ok().stdout.contains("   1  keep     "));
    let child = begin("1.25\n", 3);
    ar(&repo, ["stop", "--now"]).ok();
    Called::from(child.wait_with_output().unwrap()).exits(130);
    assert_eq!((repo.read("value").as_str(), repo.status().as_str()), ("1.5\n", ""));
}

#[test]
fn a_first_try_goes_on_from_its_baseline_to_the_change() {
    let repo = training_repo();
    let script = "echo run >> ../runs; until [ -e ../go ]; do sleep 0.02; done; echo val_bpb: $(cat value)\n";
    repo.write("train.sh", script);
    repo.write("value", "2.0\n");
    repo.commit_all("waits");
    repo.write("value", "1.5\n");
    let args = ["try", "-m", "x", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let child = ar_command(&repo, &repo.path(), args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_runs(&repo, 1);
    assert_eq!(ar(&repo, ["stop", "t"]).ok().stdout, "session t stops after experiment 1\n");
    fs::write(repo.outside().join("go"), "").unwrap();
    assert!(Called::from(child.wait_with_output().unwrap()).ok().stdout.contains("   1  keep     "));
}

#[test]
fn a_signal_that_ends_the_loop_and_its_run_is_no_failure_of_the_change() {
    let repo = training_repo();
    let train = format!(
        "[ $AR_EXPERIMENT = 0 ] || ! mkdir ../ended 2>/dev/null || \
         {{ {FIND_OWNER}; kill -TERM $owner $$; }}; echo val_bpb: $(cat value)"
    );
    repo.write("value", "2.0\n");
    repo.commit_all("a value");
    let agent = "echo 1.5 > value; echo better";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", &train, "--tag", "t", "--agent", agent];
    ar(&repo, args.into_iter().chain(["--max-experiments", "1", "--control", "false"])).exits(130);
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!(repo.read("results.tsv").lines().filter(|row| row.contains("1.5")).count(), 1);
    assert!(!repo.read("results.tsv").contains("killed"), "{}", repo.read("results.tsv"));
}
