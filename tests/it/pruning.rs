//! `git gc --prune=now` beside a loop.

use std::process::{Child, Command, Stdio};

use crate::lanes::landscape::{check, first_call, landscape};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar_command, ar_in_time, until};

const ARGS: [&str; 10] =
    ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "3"];

/// A loop of a keep and two discards, with `command` run at each named moment.
fn loop_beside(repo: &TestRepo, command: &str) {
    let mut ar = ar_command(repo, &repo.path(), ARGS);
    ar.args([
        "--agent",
        "mkdir -p new && echo $AR_EXPERIMENT > new/file; echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh",
    ]);
    ar.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_RUN", command);
    let called = Called::from(ar.output().unwrap()).ok();
    is_whole(repo, &called, 4);
}

/// Whether so many records are there with their rows, and no object is missing.
fn is_whole(repo: &TestRepo, called: &Called, count: usize) {
    assert_eq!(repo.read("results.tsv").lines().count(), 1 + count, "{called:#?}");
    let records = repo.git(["for-each-ref", "--format=%(objecttype) %(*objecttype)", "refs/autoresearch/t/0*"]);
    assert_eq!(records, vec!["tag commit"; count].join("\n"), "{called:#?}");
    let checked = repo.git(["fsck", "--connectivity-only", "--no-dangling"]);
    assert_eq!(checked, "", "{called:#?}");
    assert_eq!(repo.status(), "");
}

#[test]
fn objects_that_are_pruned_at_any_named_moment_are_written_again() {
    loop_beside(&training_repo(), "git prune --expire=now 2>/dev/null");
}

#[test]
fn objects_that_are_packed_and_pruned_at_any_named_moment_are_written_again() {
    loop_beside(&training_repo(), "git gc --quiet --prune=now 2>/dev/null");
}

/// A process that is over when it is dropped.
struct ActiveGc(Child);

impl Drop for ActiveGc {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `git gc --prune=now` in a loop, and waits for the first one.
fn gc_again_and_again(repo: &TestRepo) -> ActiveGc {
    let mut git = Command::new("sh");
    repo.environment(&mut git);
    let gc = "while :; do git gc --quiet --prune=now; echo >> ../packed; done";
    let gc = ActiveGc(git.args(["-c", gc]).current_dir(repo.path()).stderr(Stdio::null()).spawn().unwrap());
    until("the first gc", || repo.outside().join("packed").exists().then_some(()));
    gc
}

#[test]
fn a_loop_reads_on_while_its_packs_are_replaced_again_and_again() {
    let repo = training_repo();
    for folder in 0..20 {
        repo.write(format!("data/{folder}/file"), format!("{folder}\n"));
    }
    repo.commit_all("data");
    let gc = gc_again_and_again(&repo);
    let agent =
        "mkdir -p new && echo $AR_EXPERIMENT > new/$AR_EXPERIMENT; echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh";
    let more = ["12", "--agent", agent];
    let args = ARGS[..9].iter().chain(&more);
    let called = Called::from(ar_command(&repo, &repo.path(), args).output().unwrap()).ok();
    drop(gc);
    until("the gc to be over", || (!repo.exists(".git/gc.pid")).then_some(()));
    is_whole(&repo, &called, 13);
}

#[test]
fn a_session_on_slots_reads_on_while_its_packs_are_replaced_again_and_again() {
    let repo = landscape();
    for folder in 0..20 {
        repo.write(format!("data/{folder}/file"), format!("{folder}\n"));
    }
    repo.git(["add", "data"]);
    repo.git(["commit", "--quiet", "-m", "data"]);
    let gc = gc_again_and_again(&repo);
    let more = ["--slots", "4", "--calls", "4", "--guard", "sh guard.sh", "--max-experiments", "12"];
    ar_in_time(&repo, first_call(&repo, ["0.05", "0.03"], "guards broken", &more)).ok();
    drop(gc);
    until("the gc to be over", || (!repo.exists(".git/gc.pid") && repo.processes().is_empty()).then_some(()));
    assert_eq!(check(&repo, "beside a gc").len(), 13);
}

const TRY: [&str; 9] = ["try", "-m", "one", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];

/// One experiment on the change in the working tree, with `command` run at each named moment.
fn try_beside(command: &str) {
    let repo = training_repo();
    repo.write("train.sh", "echo val_bpb: 1.5\n");
    let mut ar = ar_command(&repo, &repo.path(), TRY);
    ar.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_RUN", command);
    let called = Called::from(ar.output().unwrap()).ok();
    until("the gc to be over", || (!repo.exists(".git/gc.pid")).then_some(()));
    is_whole(&repo, &called, 2);
}

#[test]
fn objects_that_are_packed_and_pruned_beside_a_try_are_written_again() {
    try_beside("git gc --quiet --prune=now 2>/dev/null");
}

#[test]
fn a_try_outlasts_a_gc_that_removes_at_its_end_what_it_found_loose_before() {
    // What a gc does that chose before a record had its ref: it goes on for a second after the session is at rest.
    try_beside(
        r#"
        [ "$(tail -n 1 "$AR_CRASH_TRACE")" = git.tag_written ] || exit 0
        lost=$(git prune --dry-run --expire=now | cut -d' ' -f1)
        export lost
        sh -c '
            echo "$$ $(uname -n)" > .git/gc.pid
            until grep -q "\"status\": \"stopped\"" .autoresearch/t/state/progress.json; do sleep 0.05; done
            sleep 1
            for id in $lost; do rm -f ".git/objects/${id%${id#??}}/${id#??}"; done
            rm .git/gc.pid
        ' > /dev/null 2>&1 &
        until [ -s .git/gc.pid ]; do sleep 0.01; done
    "#,
    );
}
