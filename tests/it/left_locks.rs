//! Locks of git's that an agent's own git left behind when it was killed.

use std::fs;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

const LOCKS: [&str; 5] = ["index.lock", "HEAD.lock", "packed-refs.lock", "config.lock", "refs/heads/main.lock"];

fn run(repo: &TestRepo, agent: &str) -> Called {
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    ar(repo, args.into_iter().chain(["--agent", agent]))
}

#[test]
fn locks_of_a_git_that_died_with_its_agent_are_removed_and_named() {
    let repo = training_repo().without_walls();
    repo.write(".git/gc.pid", "1 host\n");
    let made = LOCKS.map(|lock| format!(": > .git/{lock};")).concat();
    let called = run(&repo, &format!("{made} echo x > new.txt; echo one")).ok();
    assert!(called.stderr.contains("removed locks left behind by a killed git of the agent: "), "{called:?}");
    for lock in LOCKS {
        assert!(!repo.exists(format!(".git/{lock}")) && called.stderr.contains(lock), "{lock}: {called:?}");
    }
    assert!(repo.exists(".git/gc.pid"), "git's own");
    assert_eq!(repo.git(["for-each-ref", "--format=%(contents:subject)", "refs/autoresearch/t/00001"]), "one");
}

#[test]
fn a_lock_from_before_the_call_is_somebody_elses() {
    let repo = training_repo();
    repo.write(".git/refs/heads/other.lock", "");
    let called = run(&repo, "echo x > new.txt").ok();
    assert!(repo.exists(".git/refs/heads/other.lock"), "{called:?}");
}

#[cfg(debug_assertions)]
#[test]
fn a_lock_from_after_the_call_is_somebody_elses() {
    let repo = training_repo();
    let lock = ".git/refs/heads/other.lock";
    let made = repo.outside().join("made");
    // The clock of files is coarse.
    let user = format!(
        "[ -e {path}/.autoresearch/t/runs/00001/agent.exit.json ] && [ ! -e {made} ] && sleep 0.02 && : > {made} && \
            : > {path}/{lock}",
        path = repo.path().display(),
        made = made.display()
    );
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    let mut command = ar_command(&repo, &repo.path(), args);
    command.args(["--agent", "echo x > new.txt"]).env("AR_CRASH_TRACE", repo.outside().join("trace"));
    let called = Called::from(command.env("AR_CRASH_RUN", user).output().unwrap()).ok();
    assert!(made.exists() && repo.exists(lock), "{called:?}");
}

#[test]
fn doctor_repairs_a_lock_that_the_last_agent_left() {
    let repo = training_repo();
    run(&repo, "echo x > new.txt").ok();
    let folder = repo.file(".autoresearch/t/runs/00001");
    let [since, over] =
        ["agent.job.json", "agent.exit.json"].map(|file| fs::metadata(folder.join(file)).unwrap().modified());
    let (since, over) = (since.unwrap(), over.unwrap());
    for (lock, made) in [("packed-refs.lock", since), ("HEAD.lock", over + std::time::Duration::from_millis(20))] {
        let file = fs::File::create(repo.file(format!(".git/{lock}"))).unwrap();
        file.set_modified(made).unwrap();
    }
    until("a lock that is two seconds old", || {
        ar(&repo, ["doctor", "--repair"]);
        (!repo.exists(".git/packed-refs.lock")).then_some(())
    });
    assert!(repo.exists(".git/HEAD.lock"), "one that was made after the call is somebody else's");
}
