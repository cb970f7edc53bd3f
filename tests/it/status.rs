//! `ar status`: what is happening, whoever is at work and whatever is damaged.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::exec::LOCAL;
use crate::interrupt::wait_for_runs;
use crate::run_loop::training_repo;
use crate::support::{TestRepo, ar, ar_command, until};

const STATE: &str = ".autoresearch/t/state";

/// Starts a loop with five experiments of which the third waits for the file `go` beside the repository, and waits
/// until that one runs and has printed a number.
fn loop_in_its_third_experiment() -> (TestRepo, Child) {
    let repo = training_repo();
    let script = "echo run >> ../runs\nif [ -e slow ]; then echo val_bpb: 1.75; until [ -e ../go ]; do sleep 0.02; \
                  done; fi\ncat value\n";
    repo.write("train.sh", script);
    repo.write("value", "val_bpb: 2.0\n");
    repo.commit_all("waits");
    let agent = "case $AR_EXPERIMENT in 1) echo val_bpb: 1.8 > value; echo half the batch size;; 2) echo none > value; \
                 echo twice the width;; *) touch slow; echo val_bpb: 1.7 > value; echo warm up longer;; esac";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let child = ar_command(&repo, &repo.path(), args)
        .args(["--max-experiments", "5", "--goal", "1.5", "--for", "8h"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_runs(&repo, 4);
    let log = repo.file(".autoresearch/t/runs/00003/run.log");
    until("a number", || fs::read_to_string(&log).is_ok_and(|text| text.contains("1.75")).then_some(()));
    (repo, child)
}

fn go(repo: &TestRepo) {
    fs::write(repo.outside().join("go"), "").unwrap();
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The only session that `ar status` shows.
fn session(repo: &TestRepo) -> Value {
    let json = ar(repo, ["status", "--format", "json"]).ok().json();
    assert_eq!(json["version"], 1);
    assert_eq!(json["sessions"].as_array().map(Vec::len), Some(1), "{json}");
    json["sessions"][0].clone()
}

/// What `ar status` shows, with signs for hashes, processes and times.
fn shown(repo: &TestRepo, args: &[&str]) -> String {
    let mut text = ar(repo, [&["status"], args].concat()).ok().stdout;
    let marks = [
        (r"\b[0-9a-f]{8}\b", "########"),
        (r"process \d+ for \d+s", "process # for #"),
        (r", \d+s of 10m", ", # of 10m"),
        (r"7h5\dm", "7h#"),
    ];
    for (pattern, sign) in marks {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, sign).into_owned();
    }
    text.replace(repo.path().to_str().unwrap(), "REPO")
}

#[test]
fn a_loop_that_is_at_work_can_be_read_at_a_glance() {
    let (repo, child) = loop_in_its_third_experiment();
    insta::assert_snapshot!("at_work", shown(&repo, &[]));
    insta::assert_snapshot!("at_work_in_markdown", shown(&repo, &["t", "--format", "md"]));
    let csv = ar(&repo, ["status", "--format", "csv"]).ok().stdout;
    assert!(csv.lines().nth(1).unwrap().starts_with("t,\"running experiment 3, "), "{csv}");
    let session = session(&repo);
    assert_eq!(session["activity"], "running");
    assert_eq!((&session["open"]["id"], &session["open"]["newest"]), (&3.into(), &1.75.into()));
    assert_eq!(session["owner"]["process"], child.id());
    assert_eq!((&session["incumbent"]["id"], &session["since_keep"]), (&1.into(), &1.into()));
    assert!(
        session["for_left"].as_f64().unwrap() > 28_000.0 && session["damage"] == serde_json::json!([]),
        "{session}"
    );
    // The journal is written once a minute, and the log by each step of the run.
    let journal = repo.read(format!("{STATE}/progress.json"));
    let year = regex::Regex::new(r#"("last_seen":\s*")\d{4}"#).unwrap();
    repo.write(format!("{STATE}/progress.json"), year.replace(&journal, "${1}2001").as_bytes());
    let said = ar(&repo, ["status"]).ok().stdout;
    assert!(regex::Regex::new(r"last sign of life \d+s ago").unwrap().is_match(&said), "{said}");
    repo.write(format!("{STATE}/progress.json"), &journal);
    kill(child);
    insta::assert_snapshot!("run_goes_on_alone", shown(&repo, &[]));
    go(&repo);
    until("the end of the run", || (!LOCAL.is_busy(&repo.file(".autoresearch/t/runs/00003"))).then_some(()));
    assert_eq!(session_words(&repo), "idle; the run of experiment 3 has finished and is not recorded yet");
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    insta::assert_snapshot!("idle_at_its_cap", shown(&repo, &[]));
}

fn session_words(repo: &TestRepo) -> String {
    session(repo)["doing"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_is_waited_for_and_left_without_a_loop() {
    let repo = training_repo();
    let agent = "touch ../there; until [ -e ../go ]; do sleep 0.02; done";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let child = ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).spawn().unwrap();
    until("the agent", || repo.outside().join("there").exists().then_some(()));
    let words = session_words(&repo);
    assert!(words.starts_with("waiting for the agent to propose experiment 1, "), "{words}");
    kill(child);
    assert!(session_words(&repo).starts_with("idle; experiment 1 was left unfinished"));
    assert_eq!(session(&repo)["next"][0], "ar resume t");
}

#[test]
fn what_is_damaged_or_gone_is_named_and_the_rest_is_shown() {
    let (repo, child) = loop_in_its_third_experiment();
    let owner = child.id();
    // Torn under a loop that is at work, and that is held still: it would put its files back.
    assert!(Command::new("kill").args(["-STOP", &owner.to_string()]).status().unwrap().success());
    let journal = repo.read(format!("{STATE}/progress.json"));
    let contract = repo.read(format!("{STATE}/contract.json"));
    repo.write(format!("{STATE}/progress.json"), &journal[..journal.len() / 2]);
    repo.write(format!("{STATE}/contract.json"), "{");
    let torn = session(&repo);
    assert_eq!((&torn["activity"], &torn["owner"]["process"]), (&"working".into(), &owner.into()));
    // The terms are also in the record of the baseline.
    assert_eq!((&torn["metric"], &torn["incumbent"]["value"]), (&"val_bpb".into(), &1.8.into()));
    let damage: Vec<&str> = torn["damage"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert!(damage[0].contains("contract.json: EOF") && damage[1].contains("progress.json: EOF"), "{damage:?}");
    repo.write(format!("{STATE}/progress.json"), &journal);
    repo.write(format!("{STATE}/contract.json"), contract);
    repo.git(["tag", "-a", "-m", "no record", "bad", "HEAD"]);
    repo.git(["update-ref", "refs/autoresearch/t/00002", "refs/tags/bad"]);
    let session = session(&repo);
    assert!(session["damage"][0].as_str().unwrap().starts_with("cannot read the record refs/autoresearch/t/00002"));
    assert_eq!((&session["activity"], &session["experiments"]), (&"running".into(), &1.into()));

    fs::rename(repo.file(".autoresearch"), repo.outside().join("deleted")).unwrap();
    let words = shown(&repo, &[]);
    // The lock of the working tree still tells of the owner.
    assert!(
        words.contains("doing        active, but the current step is unreadable\nactive       process # for #\n"),
        "{words}"
    );
    assert!(words.contains("damaged      files in REPO/.autoresearch/t/state are missing; "), "{words}");
    assert!(words.contains("ar doctor t"), "{words}");
    assert!(words.contains("best         1.8  experiment 1"), "{words}");
    kill(child);
    go(&repo);
}

#[test]
fn several_sessions_have_a_line_each_also_from_a_linked_worktree() {
    let (repo, child) = loop_in_its_third_experiment();
    let other = repo.outside().join("other");
    repo.git(["worktree", "add", "--quiet", "--detach", other.to_str().unwrap(), "main"]);
    fs::write(other.join("train.sh"), "echo val_bpb: 1.25\n").unwrap();
    let there = |args: &[&str]| crate::support::Called::from(ar_command(&repo, &other, args).output().unwrap()).ok();
    there(&["try", "-m", "x", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "u"]);
    // HEAD's session is meant, where it is on one.
    assert!(there(&["status"]).stdout.starts_with("session      u on branch autoresearch/u\n"));
    let detail = there(&["status", "t"]).stdout;
    assert!(detail.starts_with(&format!("session      t on branch autoresearch/t in {}\n", repo.path().display())));
    repo.try_git_in(&other, ["switch", "--quiet", "--detach"]);
    let lines = there(&["status"]).stdout;
    assert!(lines.lines().any(|line| line.starts_with("t        running experiment 3, ")), "{lines}");
    assert!(lines.lines().any(|line| line.starts_with("u        idle ")), "{lines}");
    let json = there(&["status", "--format", "json"]).json();
    assert_eq!((&json["sessions"][0]["tag"], &json["sessions"][1]["tag"]), (&"t".into(), &"u".into()));
    kill(child);
    go(&repo);
}

#[test]
fn somebody_who_looks_keeps_nobody_from_taking_the_session() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    ar(&repo, args).ok();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let locks = [".autoresearch/t/lock", ".git/autoresearch-owner"];
                let held = locks.map(|path| File::open(repo.file(path)).unwrap());
                let _ = held.each_ref().map(File::try_lock_shared);
                thread::sleep(Duration::from_millis(20));
                drop(held);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let called: Vec<_> = (0..5).map(|_| ar(&repo, args)).collect();
        done.store(true, Ordering::Relaxed);
        for called in called {
            called.ok();
        }
    });
}

#[test]
fn slots_and_seats_are_told_also_of_a_session_in_place() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    ar(&repo, args).ok();
    let before = session(&repo);
    let idle = |name: &str| serde_json::json!({name: 0, "experiment": null, "phase": "idle", "since": null, "left": null, "late": false});
    assert_eq!(before["seats"], serde_json::json!([idle("seat")]));
    let mut slot = idle("slot");
    slot["gpu"] = Value::Null;
    assert_eq!((&before["slots"], &before["attempts"]), (&serde_json::json!([slot]), &serde_json::json!([])));

    let mut journal: Value = serde_json::from_str(&repo.read(format!("{STATE}/progress.json"))).unwrap();
    let base = repo.git(["rev-parse", "autoresearch/t"]);
    let open = |id: u32, phase: &str, more: Value| {
        let mut open = serde_json::json!({"id": id, "base": base.trim(), "commit": base.trim(),
            "description": format!("change {id}"), "started": "2026-11-20T22:00:00Z"});
        open.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::json!({"phase": phase, "open": open})
    };
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00000"]);
    let record: Value = serde_json::from_str(body.trim()).unwrap();
    journal["attempts"] = serde_json::json!([
        open(1, "waiting", serde_json::json!({"slot": 1, "draft": record})),
        open(2, "running", serde_json::json!({"slot": 1, "neighbours": [1]})),
        open(3, "proposing", serde_json::json!({"seat": 0, "merge_with": base.trim()})),
        open(4, "committing", serde_json::json!({})),
    ]);
    journal["given"] = 4.into();
    journal["layout"] = serde_json::json!({"slots": 2, "ahead": 1, "calls": 1});
    journal["gpus"] = serde_json::json!(["GPU-a", "GPU-b"]);
    repo.write(format!("{STATE}/progress.json"), journal.to_string());
    let seen = session(&repo);
    let experiments = |name: &str| -> Vec<Value> {
        seen[name].as_array().unwrap().iter().map(|lane| lane["experiment"].clone()).collect()
    };
    assert_eq!((experiments("slots"), experiments("seats")), (vec![Value::Null, 2.into()], vec![3.into()]));
    assert_eq!((&seen["slots"][1]["gpu"], &seen["slots"][1]["phase"]), (&"GPU-b".into(), &"running".into()));
    assert_eq!((&seen["open"]["id"], seen["attempts"].as_array().unwrap().len()), (&1.into(), 4));
    assert_eq!(seen["doing"], "idle; left unfinished: experiments 1, 2, 3 and 4");
    insta::assert_snapshot!("several_left_unfinished", shown(&repo, &[]));
}
