//! Killed in the one moment in which a step could count twice, a session counts it once.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use autoresearch::state::LessonFile;
use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{TestRepo, ar, ar_command, until};

/// The arguments of a session whose one experiment is kept and has a finding.
const RUN: [&str; 12] = [
    "run",
    "--yes",
    "--metric",
    "val_bpb",
    "--tag",
    "t",
    "--cmd",
    "sh train.sh",
    "--max-experiments",
    "1",
    "--agent",
    "sed -i \"s/^VAL_BPB=.*/VAL_BPB=0.0$((9 - AR_EXPERIMENT))/\" train.sh; \
     echo '{\"description\": \"better\", \"findings\": [\"smaller is better\"]}' > $AR_PROPOSAL",
];

/// Runs it until it is killed at a point; `meanwhile` is done beside it.
fn killed_at(repo: &TestRepo, point: &str, meanwhile: impl FnOnce()) {
    let mut child = ar_command(repo, &repo.path(), RUN)
        .env("AR_CRASH_TRACE", repo.outside().join("trace"))
        .env("AR_CRASH_AT", format!("{point}:1"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    meanwhile();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "{point}");
}

#[test]
fn an_experiment_whose_folder_is_deleted_while_it_is_settled_counts_once() {
    let repo = training_repo();
    let lessons = File::create(repo.file("autoresearch-lessons.md")).unwrap();
    lessons.lock().unwrap();
    killed_at(&repo, "heal.memory_made", || {
        // It counted the experiment, and waits for the lessons.
        let log = repo.file(".autoresearch/t/state/iteration_log.jsonl");
        until("its iteration", || fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n')).then_some(()));
        fs::remove_dir_all(repo.file(".autoresearch/t")).unwrap();
        lessons.unlock().unwrap();
    });
    ar(&repo, ["resume", "t"]).ok();
    let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["total_findings"], &journal["iteration"]), (&1.into(), &1.into()), "{journal}");
    assert_eq!(repo.read(".autoresearch/t/state/findings.jsonl").lines().count(), 1);
}

#[test]
fn experiments_that_were_summed_up_before_a_kill_are_in_no_other_summary() {
    let repo = training_repo();
    killed_at(&repo, "stop.lesson_added", || {});
    ar(&repo, ["resume", "t", "--max-experiments", "2"]).ok();
    let lessons = LessonFile::new(&repo.path()).read().unwrap();
    let summaries = lessons.iter().filter(|lesson| lesson.id.to_string().contains("summary"));
    let summaries: Vec<_> = summaries.map(|it| (it.id.to_string(), it.experiment.clone())).collect();
    let expected = [("t/summary-1", "1"), ("t/summary-3", "2 to 3")];
    assert_eq!(summaries, expected.map(|(id, experiments)| (id.to_owned(), experiments.to_owned())));
}

#[test]
fn a_call_that_changed_nothing_counts_although_the_loop_is_killed_after_it() {
    let repo = training_repo();
    let run = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", "echo no idea"];
    // The first time is the baseline's.
    let killed = ar_command(&repo, &repo.path(), run)
        .env("AR_CRASH_TRACE", repo.outside().join("trace"))
        .env("AR_CRASH_AT", "idle.entered:2")
        .output()
        .unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["idle_calls"], &journal["spent"]["calls"]), (&1.into(), &1.into()), "{journal}");
    assert_eq!((&journal["open"], &journal["iteration"]), (&Value::Null, &1.into()), "{journal}");
}
