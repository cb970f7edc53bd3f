//! Loop, patrol and resident guard, which bring each other back.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{ar_after, assert_comes_to_its_end, change_journal, kill, looping, patrol, user_folder};
use crate::interrupt::waiting_loop;
use crate::run_loop::training_repo;
use crate::support::{TestRepo, ar, ar_command, until};

/// The process that holds the lock of the resident guard, if it is there.
fn resident(repo: &TestRepo) -> Option<u32> {
    let pid: u32 = fs::read_to_string(user_folder(repo).join("guard/resident.lock")).ok()?.trim().parse().ok()?;
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    words.split(|byte| *byte == 0).any(|word| word == b"__resident").then_some(pid)
}

fn kill_process(pid: u32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    // A thread lets go of its locks just before it is a zombie.
    let is_over = |task: &Path| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    };
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    until("the end of a process", || threads().all(|thread| is_over(&thread.path())).then_some(()));
}

#[test]
fn two_of_the_three_layers_are_brought_back_by_the_third() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    let mut command = ar_command(&repo, &repo.path(), ["guard", "--resident", "--wake", "100ms", "--beat", "1s"]);
    let mut first = command.stderr(Stdio::null()).spawn().unwrap();
    until("the resident guard", || resident(&repo).filter(|pid| *pid == first.id()));
    // The resident guard and the loop die, and the machine is another one since.
    first.kill().unwrap();
    first.wait().unwrap();
    kill(child);
    change_journal(&repo, "boot_id", "another");
    assert_eq!(patrol(&repo, 1, &[]), "0 t dead restart");
    let second = until("the resident guard", || resident(&repo));
    let again = until("the loop", || looping(&repo));
    // The loop dies, and no patrol comes but that of the resident guard.
    kill_process(again);
    change_journal(&repo, "boot_id", "another");
    until("the loop", || looping(&repo).filter(|pid| *pid != again));
    // The resident guard dies, and the loop at work or the next patrol brings it back.
    kill_process(second);
    patrol(&repo, 1, &[]);
    let third = until("the resident guard", || resident(&repo).filter(|pid| *pid != second));
    assert_comes_to_its_end(&repo, &go);
    // A loop that starts looks for it as well.
    kill_process(third);
    ar(&repo, ["resume"]).ok();
    let fourth = until("the resident guard", || resident(&repo).filter(|pid| *pid != third));
    fs::remove_file(user_folder(&repo).join("guard/resident.json")).unwrap();
    until("the end of the resident guard", || (resident(&repo) != Some(fourth)).then_some(()));
}

#[test]
fn a_loop_at_work_brings_the_resident_guard_back() {
    let repo = training_repo();
    // No patrol is made, which would do that as well.
    let mut command = ar_command(&repo, &repo.path(), ["guard", "--resident", "--wake", "100ms", "--patrol", "true"]);
    let mut first = command.stderr(Stdio::null()).spawn().unwrap();
    until("the resident guard", || resident(&repo).filter(|pid| *pid == first.id()));
    first.kill().unwrap();
    first.wait().unwrap();
    let (mut child, go) = waiting_loop(&repo);
    let second = until("the resident guard", || resident(&repo));
    kill_process(second);
    until("the resident guard", || resident(&repo).filter(|pid| *pid != second));
    fs::remove_file(user_folder(&repo).join("guard/resident.json")).unwrap();
    until("the end of the resident guard", || resident(&repo).is_none().then_some(()));
    fs::write(go, "").unwrap();
    assert!(child.wait().unwrap().success());
}

/// The children of a process that ended, and were not waited for.
fn zombies(parent: u32) -> usize {
    let stat = |entry: io::Result<fs::DirEntry>| fs::read_to_string(entry.ok()?.path().join("stat")).ok();
    let is_one = |stat: &String| {
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().take(2).collect::<Vec<_>>();
        fields == ["Z", &parent.to_string()]
    };
    fs::read_dir("/proc").unwrap().filter_map(stat).filter(is_one).count()
}

#[test]
fn a_resident_guard_that_ends_at_once_is_told_once_and_leaves_no_zombies() {
    let repo = training_repo();
    let guard = user_folder(&repo).join("guard");
    // Nobody can lock a folder.
    fs::create_dir_all(guard.join("resident.lock")).unwrap();
    let settings = r#"{"version": 1, "beat": 3600.0, "wake": 0.1, "arguments": []}"#;
    fs::write(guard.join("resident.json"), settings).unwrap();
    let (mut child, go) = waiting_loop(&repo);
    let log = guard.join("resident.log");
    for _ in 0..4 {
        // Each start makes the file anew.
        until("the next start", || fs::metadata(&log).is_ok_and(|log| log.len() > 0).then_some(()));
        fs::write(&log, "").unwrap();
    }
    assert!(zombies(child.id()) < 3, "{}", zombies(child.id()));
    fs::write(go, "").unwrap();
    assert!(child.wait().unwrap().success());
    let said = fs::read_to_string(repo.outside().join("stderr")).unwrap();
    let told = "warning: the resident guard does not start: it ended (exit status: 1)";
    assert_eq!(said.matches(told).count(), 1, "{said}");
}

#[test]
fn odd_files_of_a_guard_hold_up_neither_a_patrol_nor_the_session() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    assert_eq!(patrol(&repo, 5, &[]), "0 t dead restart");
    kill_process(until("the loop", || looping(&repo)));
    let sessions = user_folder(&repo).join("guard/sessions");
    let folder = fs::read_dir(&sessions).unwrap().next().unwrap().unwrap().path();
    let memory = folder.join("memory.json");
    fs::remove_file(&memory).unwrap();
    fs::create_dir(&memory).unwrap();
    let beat = || fs::read_to_string(user_folder(&repo).join("guard/patrol.json")).unwrap();
    let before = beat();
    let said = ar_after(&repo, 15, &["guard"]).exits(4).stdout;
    assert!(said.contains("the guard's own files: "), "{said}");
    assert!(beat() != before, "the patrol came to its end");
    fs::remove_dir(&memory).unwrap();
    // Nobody waits for whoever would read from a pipe, and no link leads out.
    let theirs = repo.outside().join("theirs");
    fs::write(&theirs, "mine").unwrap();
    fs::remove_file(folder.join("resume.log")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("resume.log")).status().unwrap().success());
    assert!(ar_after(&repo, 20, &["guard"]).ok().stdout.starts_with("dead     restart"));
    kill_process(until("the loop", || looping(&repo)));
    fs::remove_file(folder.join("resume.log")).unwrap();
    std::os::unix::fs::symlink(&theirs, folder.join("resume.log")).unwrap();
    assert!(ar_after(&repo, 90, &["guard"]).ok().stdout.starts_with("dead     restart"));
    kill_process(until("the loop", || looping(&repo)));
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine");
    fs::remove_file(folder.join("lines.jsonl")).unwrap();
    let made = Command::new("mkfifo").arg(folder.join("lines.jsonl")).status().unwrap();
    assert!(made.success());
    // Nothing is done that could not be noted.
    assert!(ar_after(&repo, 190, &["guard"]).exits(4).stdout.contains("lines.jsonl"));
    fs::write(go, "").unwrap();
    let resumed = ar(&repo, ["resume"]).ok();
    assert!(resumed.stdout.contains("   5  discard"), "{resumed:?}");
    assert!(resumed.stderr.contains("cannot read the messages of `ar guard`: "), "{resumed:?}");
}
