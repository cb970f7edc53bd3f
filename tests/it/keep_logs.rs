//! The logs of a night: compressed, kept within a quota, and read as if they were plain.

use std::fs;
use std::process::Command;

use autoresearch::state::SessionFolder;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, SmallDisk, TestRepo, ar, ar_command};

/// A repository whose runs print two megabytes and then the number in `value`.
fn talkative_repo() -> TestRepo {
    let repo = training_repo();
    repo.write("train.sh", "yes 'step 1 of many' | head -n 125000\necho val_bpb: $(cat value)\n");
    repo.write("value", "2.0\n");
    repo.commit_all("talkative");
    repo
}

/// Runs `count` experiments in all, each a little worse than the baseline; the first one is better.
fn run(repo: &TestRepo, count: u32, more: &[&str]) -> Called {
    let agent = "echo 2.$AR_EXPERIMENT > value; [ $AR_EXPERIMENT != 1 ] || echo 1.5 > value";
    let count = count.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(repo, args.iter().chain(&["--max-experiments", &count]).chain(more))
}

fn in_run(repo: &TestRepo, id: u32, name: &str) -> bool {
    repo.exists(format!(".autoresearch/t/runs/{id:05}/{name}"))
}

#[test]
fn large_logs_are_compressed_and_everything_reads_them_as_before() {
    let repo = talkative_repo();
    run(&repo, 3, &[]).ok();
    for id in 0..2 {
        assert!(in_run(&repo, id, "run.log.gz") && !in_run(&repo, id, "run.log"), "{id}");
    }
    // That of the newest run stays as it is, for the link in the root.
    assert!(in_run(&repo, 3, "run.log") && repo.read("run.log").ends_with("val_bpb: 2.3\n"));
    let log = repo.file(".autoresearch/t/runs/00001/run.log.gz");
    let zcat = Command::new("zcat").arg(&log).output().unwrap();
    assert!(zcat.status.success());
    assert_eq!(zcat.stdout.len(), 125_000 * "step 1 of many\n".len() + "val_bpb: 1.5\n".len());
    assert!(fs::metadata(&log).unwrap().len() < 200_000);

    let called = ar(&repo, ["show", "1"]).ok();
    assert!(called.stdout.contains("step 1 of many\nval_bpb: 1.5\n"), "{called:?}");
    assert!(called.stdout.contains("runs/00001/run.log.gz\n"), "{called:?}");
    let read = |args: &[&str]| ar(&repo, args.iter().chain(&["--metric", "val_bpb", "--format", "json"])).ok().json();
    assert_eq!(read(&["extract", log.to_str().unwrap()])["raw"], "1.5");
    let mut command = ar_command(&repo, &repo.path(), ["extract", "-", "--metric", "val_bpb"]);
    let called = Called::from(command.stdin(fs::File::open(&log).unwrap()).output().unwrap()).ok();
    assert!(called.stdout.contains("1.5"), "{called:?}");
}

#[test]
fn logs_beyond_the_quota_are_dropped_and_that_is_said() {
    let repo = talkative_repo();
    run(&repo, 13, &["--keep-logs", "0"]).ok();
    let called = ar(&repo, ["resume", "--max-experiments", "1", "--keep-logs", "all"]).ok();
    assert!(!called.stderr.contains("log"), "{called:?}");
    let left: Vec<u32> =
        (0..=14).filter(|id| in_run(&repo, *id, "run.log") || in_run(&repo, *id, "run.log.gz")).collect();
    // The last look was before experiment 13 ran: the best one and the newest ten stayed.
    assert_eq!(left, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    for id in 0..=14 {
        assert!(in_run(&repo, id, "exit.json"), "{id}");
        assert_eq!(in_run(&repo, id, "prompt.md"), id != 0 && left.contains(&id), "{id}");
    }
    let called = ar(&repo, ["show", "2"]).ok();
    let note = "deleted the logs of experiment 2 (";
    assert!(called.stdout.contains(note) && called.stdout.contains(") to stay within --keep-logs 0"));
    let record = ar(&repo, ["show", "2", "--format", "json"]).ok().json();
    assert!(record["logs_dropped"].as_str().unwrap().starts_with(note) && record["metric"]["raw"] == "2.2");
    let events = repo.read(".autoresearch/t/logs/work.jsonl");
    let dropped: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["event"] == "logs_dropped")
        .collect();
    let numbers: Vec<_> = dropped.iter().map(|event| event["data"]["experiments"].to_string()).collect();
    assert_eq!(numbers, ["[0]", "[2]"], "{dropped:?}");
}

#[test]
fn a_disk_that_is_full_of_logs_is_freed_of_them_before_the_loop_gives_up() {
    let repo = talkative_repo();
    // 1.5 MB each on a disk of four: two of them leave no room for a third.
    repo.write("train.sh", "yes 'step 1 of many' | head -n 100000\necho val_bpb: $(cat value)\n");
    repo.commit_all("less talkative");
    let Some(disk) = SmallDisk::under(&repo) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    run(&repo, 4, &[]).ok();
    assert!((0..3).all(|id| in_run(&repo, id, "run.log.gz")) && in_run(&repo, 4, "run.log"));

    let folder = SessionFolder::new(disk.path(), &"t".parse().unwrap());
    disk.fill();
    folder.drop_logs(1.into(), "there were too many").unwrap();
    assert_eq!(folder.why_dropped(1.into()).as_deref(), Some("there were too many"));
    assert!(!in_run(&repo, 1, "run.log.gz"));
}

#[test]
fn a_try_keeps_the_quota_too_and_a_session_of_before_has_one() {
    let repo = talkative_repo();
    repo.write("value", "1.9\n");
    let args = ["try", "-m", "first", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    ar(&repo, args).ok();
    let contract = repo.read(".autoresearch/t/state/contract.json");
    assert!(contract.contains("\"keep_logs\": 10000000000"), "{contract}");
    let mut old: serde_json::Map<String, Value> = serde_json::from_str(&contract).unwrap();
    old.retain(|field, _| field != "keep_logs" && field != "hash");
    repo.write(".autoresearch/t/state/contract.json", serde_json::to_string(&old).unwrap());
    repo.write("value", "1.8\n");
    ar(&repo, ["try", "-m", "second"]).ok();
    assert!(in_run(&repo, 0, "run.log.gz") && in_run(&repo, 1, "run.log.gz") && in_run(&repo, 2, "run.log"));
}

#[test]
fn a_size_that_is_none_is_refused() {
    let repo = talkative_repo();
    let called = run(&repo, 1, &["--keep-logs", "20"]).exits(2);
    assert!(called.stderr.contains("`20` is not a size; write 500MB, 2GB, 0 or all"), "{called:?}");
}
