//! A repository in which gains add up, and what must hold of any session over it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::run_loop::FIXTURES;
use crate::support::{Template, TestRepo};

/// A repository with the landscape in it, on `main`, with a change of the user's that is not committed.
pub(crate) fn landscape() -> TestRepo {
    static LANDSCAPE: Template = Template::new();
    let repo = LANDSCAPE.copy(|| {
        let repo = TestRepo::empty();
        for file in ["train.sh", "guard.sh", "ideas/0"] {
            repo.write(file, fs::read(Path::new(FIXTURES).join("train/landscape").join(file)).unwrap());
        }
        repo.write("notes.txt", "of the user\n");
        repo.commit_all("a landscape");
        repo
    });
    repo.write("notes.txt", "of the user, and more\n");
    repo
}

/// The first call of session `t`, with a run and a call of so many seconds each.
pub(crate) fn first_call(repo: &TestRepo, [run, call]: [&str; 2], moods: &str, more: &[&str]) -> Vec<String> {
    let memory = repo.outside().join("memory");
    let agent = format!("sh {FIXTURES}/agents/ideas.sh {} {call} {moods}", memory.display());
    let command = format!("sh train.sh {run}");
    let args = ["run", "--yes", "--metric", "loss", "--tag", "t", "--cmd", &command, "--agent", &agent];
    args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

/// The records of session `t` in the order in which they were made.
pub(crate) fn records(repo: &TestRepo) -> Vec<Value> {
    let text = repo.git(["for-each-ref", "--format=%(refname) %(contents:body)", "refs/autoresearch/t"]);
    let mut records: Vec<Value> = Vec::new();
    for line in text.lines() {
        let Some((name, body)) = line.split_once(' ') else { continue };
        if name.rsplit('/').next().is_some_and(|last| last.len() == 5) && name.matches('/').count() == 3 {
            records.push(serde_json::from_str(body).unwrap());
        }
    }
    records.sort_by_key(|record| record["sequence"].as_u64());
    records
}

/// The loss of a commit's tree.
pub(super) fn loss(repo: &TestRepo, commit: &str) -> i64 {
    let ideas = repo.git(["grep", "-h", "-e", "", commit, "--", "ideas"]);
    1000 - ideas.lines().map(|line| line.trim().parse::<i64>().unwrap()).sum::<i64>()
}

/// Checks all that must hold of a session that has come to an end, however it got there. Gives its records.
#[track_caller]
pub(crate) fn check(repo: &TestRepo, what: &str) -> Vec<Value> {
    let records = records(repo);
    let places: Vec<u64> = records.iter().map(|record| record["sequence"].as_u64().unwrap()).collect();
    assert_eq!(places, (0..records.len() as u64).collect::<Vec<_>>(), "{what}: the places have no gaps");
    let mut tip = records[0]["commit"].as_str().unwrap().to_owned();
    for record in &records {
        let commit = record["commit"].as_str().unwrap();
        if let Some(value) = record["metric"]["value"].as_f64() {
            assert_eq!(value, loss(repo, commit) as f64, "{what}: the number of {record} is that of its tree");
        }
        if record["outcome"] == "keep" && record["id"] != 0 {
            assert_eq!(record["base"], tip.as_str(), "{what}: what is kept is a chain: {record}");
            assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), tip, "{what}: {record}");
            commit.clone_into(&mut tip);
        }
        for replay in record["replays"].as_array().into_iter().flatten() {
            let commit = replay["commit"].as_str().unwrap();
            assert!(repo.try_git(["cat-file", "-e", commit]).status.success(), "{what}: {replay} of {record}");
            if let Some(value) = replay["value"].as_f64() {
                assert_eq!(value, loss(repo, commit) as f64, "{what}: {replay} of {record}");
            }
        }
    }
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), tip, "{what}: the branch is at the last keep");
    let rows = repo.read("results.tsv");
    let rows: Vec<&str> = rows.lines().skip(1).map(|row| row.split('\t').next().unwrap()).collect();
    let commits: Vec<&str> = records.iter().map(|record| &record["commit"].as_str().unwrap()[..8]).collect();
    assert_eq!(rows, commits, "{what}: one row for each record, in their order");
    let ids: BTreeSet<u64> = records.iter().map(|record| record["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), records.len(), "{what}");

    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main", "{what}");
    assert_eq!(repo.status(), " M notes.txt", "{what}: the user's working tree is untouched");
    assert_eq!(repo.read("notes.txt"), "of the user, and more\n", "{what}");
    assert_eq!(repo.git(["rev-parse", "main"]), records[0]["commit"], "{what}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/open"]), "", "{what}: nothing is open");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1, "{what}: no tree is left");
    assert!(!repo.exists(".autoresearch/t/trees"), "{what}");
    let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["open"], journal.get("attempts")), (&Value::Null, None), "{what}: {journal}");
    assert_eq!(repo.git(["fsck", "--no-dangling", "--no-progress"]), "", "{what}");
    assert_eq!(repo.processes(), [""; 0], "{what}: no process is left");
    records
}
