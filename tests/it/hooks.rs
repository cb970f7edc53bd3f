//! `--on-event`: a command that is told what happens, and cannot hurt the loop.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::interrupt::signal;
use crate::run_loop::{agent, training_repo};
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// The arguments of a loop whose agent makes these steps, after what `first` says.
fn args(first: &str, steps: &str, hook: &str, more: &[&str]) -> Vec<String> {
    let count = steps.split_whitespace().count().to_string();
    let agent = format!("{first}{}", agent(steps));
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let args = [&args[..], &["--max-experiments", &count, "--on-event", hook], more].concat();
    args.into_iter().map(str::to_owned).collect()
}

/// What the command of `--on-event` found wrong, as the log of work has it.
fn warnings(repo: &TestRepo) -> Vec<String> {
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let hooks = lines.filter(|line| line["event"] == "hook");
    hooks
        .map(|line| {
            assert_eq!(line["level"], "warn");
            format!("{} {}", line["data"]["of"].as_str().unwrap_or("-"), line["detail"].as_str().unwrap())
        })
        .collect()
}

const TELLS: &str =
    "echo \"$AR_EVENT $AR_TAG\" >> \"$AR_ROOT/../names\"; cat >> \"$AR_ROOT/../events\"; echo >> hook.log";

fn told(repo: &TestRepo) -> Vec<Value> {
    let text = fs::read_to_string(repo.outside().join("events")).unwrap();
    serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
}

#[test]
fn a_keep_that_gains_too_much_is_doubted_in_line_report_and_hook() {
    let agent = "echo \"echo val_bpb: 0.00$AR_EXPERIMENT\" > train.sh; echo evaluate = lambda";
    let run = |more: &[&str]| {
        let repo = training_repo();
        repo.write("train.sh", "echo val_bpb: 2.000\n");
        repo.commit_all("starts at two");
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
        let called = ar(&repo, [&args[..], &["--max-experiments", "1", "--on-event", TELLS], more].concat()).ok();
        (repo, called)
    };
    let (repo, called) = run(&[]);
    let doubt = "gained more than half of 2.000, the value to beat";
    let line = called.stdout.lines().find(|line| line.contains(" evaluate = lambda: ")).unwrap();
    assert!(line.ends_with(&format!("; doubtful: {doubt}")), "{line}");
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let jump = report["warnings"].as_array().unwrap().iter().find(|warning| warning["kind"] == "jump");
    assert_eq!(jump.unwrap()["what"], format!("experiment 1 {doubt}"));
    let keep = told(&repo).into_iter().find(|event| event["event"] == "keep").unwrap();
    assert!(
        keep["doubt"] == doubt && keep["text"].as_str().unwrap().ends_with(&format!("; doubtful: {doubt}")),
        "{keep}"
    );
    assert_eq!(repo.git(["log", "-1", "--format=%s", "autoresearch/t"]), "evaluate = lambda", "it stops nothing");

    let (repo, called) = run(&["--keep-above", "0.0005", "--higher"]);
    assert!(
        !called.stdout.contains("doubtful") && told(&repo).iter().all(|event| event["doubt"].is_null()),
        "{called:?}"
    );
}

#[test]
fn each_event_is_told_as_json_in_order() {
    let repo = training_repo();
    let first = "if [ $AR_EXPERIMENT = 2 ] && mkdir ../limited 2>/dev/null; then \
                 echo 'Rate limit exceeded. Retry after 0.05 s'; exit 1; fi; ";
    let more = ["--ladder", "structural"];
    ar(&repo, args(first, "better crash syntax oom worse", TELLS, &more)).ok();
    let told = told(&repo);
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["keep", "best", "outage", "pivot", "crash_streak", "pivot", "flagged", "stopped"]);
    let variables = fs::read_to_string(repo.outside().join("names")).unwrap();
    assert_eq!(variables, names.iter().map(|name| format!("{name} t\n")).collect::<String>());
    for event in &told {
        assert_eq!((&event["version"], &event["tag"], &event["metric"]), (&1.into(), &"t".into(), &"val_bpb".into()));
        let text = event["text"].as_str().unwrap();
        assert!(text.starts_with("t: ") && !text.contains('\n'), "{event}");
        assert!(event["reason"].is_string() && event["best"] == 1.9, "{event}");
    }
    let experiments: Vec<_> = told.iter().map(|event| event["experiment"].as_u64().unwrap()).collect();
    assert_eq!(experiments, [1, 1, 2, 3, 4, 4, 5, 5]);
    assert_eq!((&told[0]["value"], &told[2]["value"], &told[4]["value"]), (&1.9.into(), &Value::Null, &Value::Null));
    for (at, words) in [
        (1, "t: new best val_bpb 1.900000: experiment 1: 1: better"),
        (2, "t: the agent's rate limit, waiting until "),
        (4, "t: 3 crashes in a row, the last one experiment 4: out of memory"),
        (7, "t: stopped: the night reached its limit of 5 experiments; 5 experiments, best val_bpb 1.900000"),
    ] {
        assert!(told[at]["text"].as_str().unwrap().starts_with(words), "{}", told[at]);
    }
    assert!(warnings(&repo).is_empty(), "{:?}", warnings(&repo));
    assert!(!repo.exists("hook.log"), "what it leaves is no part of the agent's work");
    assert_eq!(repo.read(".autoresearch/t/logs/on-event/hook.log").lines().count(), 8);
}

/// Takes the folder of an experiment as a job that goes on does.
fn take_folder(repo: &TestRepo, id: u32) -> File {
    let folder = repo.file(format!(".autoresearch/t/runs/{id:05}"));
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn an_error_at_any_time_is_told_and_leaves_its_line_where_it_was_written() {
    let repo = training_repo();
    let hook = "echo $AR_EVENT >> \"$AR_ROOT/../names\"";
    let session = ["--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--on-event", hook];
    ar(&repo, [&["run", "--yes"], &session[..]].concat()).ok();
    let is_told = |times: usize| {
        let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
        assert_eq!(journal["status"], "stopped", "{journal}");
        let ended = journal["ended"].as_str().unwrap();
        let log = repo.read(".autoresearch/t/logs/work.jsonl");
        assert_eq!(
            (log.matches("\"level\":\"error\"").count(), log.matches("session_stopped").count()),
            (times, times + 1)
        );
        let logs = fs::read_dir(repo.file(".autoresearch/t/logs")).unwrap().map(|entry| entry.unwrap().file_name());
        let aside: Vec<_> = logs.filter(|name| name.to_string_lossy().contains("rewritten")).collect();
        assert!(aside.is_empty(), "{aside:?}");
        let names = fs::read_to_string(repo.outside().join("names")).unwrap();
        assert_eq!(names, format!("stopped\n{}", "escalated\nstopped\n".repeat(times)));
        ended.to_owned()
    };
    let taken = take_folder(&repo, 1);
    repo.write("train.sh", format!("{}# longer\n", repo.read("train.sh")));
    let called = ar(&repo, ["run", "--adopt"]).exits(4);
    assert!(is_told(1).contains("job.json"), "before the first call: {called:#?}");
    drop(taken);
    let taken = take_folder(&repo, 2);
    let called = ar(&repo, ["resume", "--agent", "echo >> train.sh"]).exits(4);
    assert_eq!(repo.read("results.tsv").lines().count(), 3, "{called:#?}");
    assert_eq!(called.stderr.matches("`ar resume`").count(), 1, "{called:#?}");
    assert!(is_told(2).contains("another command is still running"), "{called:#?}");
    drop(taken);
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
}

#[test]
fn a_try_tells_of_its_experiment() {
    let repo = training_repo();
    let better = repo.read("train.sh").replace("VAL_BPB=2", "VAL_BPB=1");
    repo.write("train.sh", format!("{better}# long\n# and longer\n"));
    let args = ["try", "-m", "one", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--on-event", TELLS];
    ar(&repo, [&args[..], &["--simpler-wins", "0.1"]].concat()).ok();
    let names = || fs::read_to_string(repo.outside().join("names")).unwrap();
    assert_eq!(names(), "keep t\nbest t\n");
    repo.write("train.sh", better);
    ar(&repo, ["try", "-m", "shorter"]).ok();
    assert_eq!(names(), "keep t\nbest t\nkeep t\n", "one that is kept for being shorter is not the best");
}

#[cfg(debug_assertions)]
#[test]
fn a_try_that_fails_tells_of_what_it_had_recorded() {
    let repo = training_repo();
    repo.write("train.sh", repo.read("train.sh").replace("VAL_BPB=2", "VAL_BPB=1"));
    let args = ["try", "-m", "one", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--on-event", TELLS];
    let mut killed = ar_command(&repo, &repo.path(), args);
    killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "settling.remembered:2");
    assert!(!killed.output().unwrap().status.success());
    let path = ".autoresearch/t/state/progress.json";
    let mut journal: Value = serde_json::from_str(&repo.read(path)).unwrap();
    let commit = "0".repeat(40);
    journal["aside"] = serde_json::json!({"commit": commit, "description": "", "reference": "refs/none"});
    repo.write(path, journal.to_string());
    let called = ar(&repo, ["try", "--continue"]).exits(1);
    assert!(repo.git(["for-each-ref"]).contains("refs/autoresearch/t/00001"), "{called:#?}");
    assert_eq!(fs::read_to_string(repo.outside().join("names")).unwrap(), "keep t\nbest t\n", "{called:#?}");
}

#[test]
fn a_command_that_fails_floods_forks_or_is_not_there_leaves_a_line_and_nothing_else() {
    let repo = training_repo();
    let hook = "case $AR_EVENT in \
                keep) yes 'a flood of words' | head -c 3000000 ;; \
                best) cat; exit 3 ;; \
                pivot) no-such-program ;; \
                flagged) exec <&-; for n in 1 2; do setsid sh -c 'echo $$ >> \"$AR_ROOT/../daemons\"; sleep 60' & done; sleep 0.2 ;; \
                stopped) kill -9 $$ ;; esac";
    let called = ar(&repo, args("", "better worse crash oom nan", hook, &["--ladder", "structural"])).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 7);
    let note = "note: the command of --on-event failed; see logs/work.jsonl and logs/on-event.log of the session\n";
    assert!(!called.stdout.contains("flood") && called.stderr == note, "{called:#?}");
    let expected = ["best exit 3", "pivot exit 127", "pivot exit 127", "stopped ended by a signal"];
    assert_eq!(warnings(&repo), expected);
    let output = repo.read(".autoresearch/t/logs/on-event.log");
    assert!((60_000..80_000).contains(&output.len()), "{} bytes", output.len());
    assert!(output.contains("t: new best val_bpb 1.900000") && output.contains("\"event\":\"best\""), "{output}");
    assert!(output.contains("no-such-program"), "{output}");
    let daemons = fs::read_to_string(repo.outside().join("daemons")).unwrap();
    assert_eq!(daemons.lines().count(), 2);
    for pid in daemons.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} goes on");
    }
}

#[test]
fn a_command_that_hangs_holds_nothing_up() {
    let repo = training_repo();
    let hook = "[ $AR_EVENT != stopped ] || exec cat > \"$AR_ROOT/../stopped\"; \
                trap '' TERM; echo $$ > \"$AR_ROOT/../hook\"; sleep 60; sleep 60";
    let mut command = ar_command(&repo, &repo.path(), args("", "better worse", hook, &[]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the end of the loop", || {
        let journal = fs::read(repo.file(".autoresearch/t/state/progress.json")).ok()?;
        let journal: Value = serde_json::from_slice(&journal).ok()?;
        (journal["status"] == "stopped").then_some(())
    });
    let hook = until("the command to start", || {
        let hook = fs::read_to_string(repo.outside().join("hook")).ok()?;
        hook.ends_with('\n').then_some(hook)
    });
    let is_there = || Path::new("/proc").join(hook.trim()).exists();
    assert!(is_there(), "it still hangs, and both experiments are done");
    let job: Value = serde_json::from_str(&repo.read(".autoresearch/t/logs/on-event/hook.job.json")).unwrap();
    assert_eq!(job["timeout"]["secs"].as_u64().unwrap() + job["grace"]["secs"].as_u64().unwrap(), 30);
    // At the end it is waited for, and a signal ends that; that the loop ended is told all the same.
    signal(&child, "-INT");
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.ends_with("stopped: the night reached its limit of 2 experiments\n"), "{called:#?}");
    assert_eq!(warnings(&repo), ["- stopped waiting for the command of --on-event"]);
    let stopped: Value = serde_json::from_slice(&fs::read(repo.outside().join("stopped")).unwrap()).unwrap();
    assert_eq!((&stopped["event"], &stopped["experiment"]), (&"stopped".into(), &2.into()));
    until("the end of all that it started", || (!is_there()).then_some(()));
}
