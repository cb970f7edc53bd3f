//! Looking closer at experiments, and taking their code out of a session.

mod diff;
mod finalize;
mod log;
mod names;
mod notes;
mod repro;
mod restore;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::run_loop::{agent, training_repo};
use crate::support::{TestRepo, ar};

/// A session `t` whose experiments are these steps of the scripted agent.
fn session(steps: &str) -> TestRepo {
    let repo = training_repo();
    play(&repo, steps);
    repo
}

fn play(repo: &TestRepo, steps: &str) {
    let count = steps.split(' ').count().to_string();
    let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    ar(repo, run.into_iter().chain(["--agent", &agent(steps), "--max-experiments", &count])).ok();
}

/// The record of an experiment as plain git has it.
fn record(repo: &TestRepo, id: u32) -> Value {
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", &format!("refs/autoresearch/t/{id:05}")]);
    serde_json::from_str(&body).unwrap()
}

fn commit(repo: &TestRepo, id: u32) -> String {
    record(repo, id)["commit"].as_str().unwrap().to_owned()
}

/// Everything that a command which takes code out of a session leaves as it is: HEAD, index, working tree, rows, the
/// session's files, and all refs, but for what `is_new` names.
fn surroundings(repo: &TestRepo, is_new: impl Fn(&str) -> bool) -> String {
    let refs = repo.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
    let refs: Vec<&str> = refs.lines().filter(|line| !is_new(line)).collect();
    let mut all = vec![fs::read_to_string(repo.file(".git/HEAD")).unwrap(), refs.join("\n")];
    all.push(repo.git(["ls-files", "--stage"]));
    all.push(repo.status());
    all.push(repo.read("results.tsv"));
    all.extend(listing(&repo.file(".autoresearch")).lines().filter(|line| !is_new(line)).map(str::to_owned));
    all.push(listing(&repo.file("docs")));
    all.join("\n")
}

/// The files of a folder with their sizes and times.
pub(crate) fn listing(folder: &Path) -> String {
    let mut lines = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                lines.push(format!("{} {} {:?}", entry.path().display(), meta.len(), meta.modified().unwrap()));
            }
        }
    }
    lines.sort();
    lines.join("\n")
}
