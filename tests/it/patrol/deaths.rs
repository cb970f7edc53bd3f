//! Loops that ended, and whether a patrol restarts them.

use std::fs;
use std::process::Stdio;

use super::{
    after, ar_after, assert_comes_to_its_end, assert_comes_to_its_end_after, change_journal, driven, journal, kill,
    looping, patrol, user_folder,
};
use crate::interrupt::{signal, wait_for_words, waiting_loop};
use crate::lanes::landscape::{check, first_call, landscape, records};
use crate::run_loop::training_repo;
use crate::support::{Called, SmallDisk, TestRepo, ar, ar_command, until};

#[test]
fn after_a_reboot_a_loop_is_restarted_at_once() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    change_journal(&repo, "boot_id", "another boot");
    assert_eq!(patrol(&repo, 0, &[]), "0 t dead restart");
    assert_comes_to_its_end(&repo, &go);
}

/// A loop that these signals have ended.
fn signalled(signals: &[&str]) -> TestRepo {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    for name in signals {
        signal(&child, name);
        wait_for_words(&repo, if *name == "-INT" { "stopping after" } else { "terminating the run" });
    }
    fs::write(go, "").unwrap();
    Called::from(child.wait_with_output().unwrap()).exits(130);
    repo
}

#[test]
fn a_loop_that_a_shutdown_terminated_is_restarted_after_the_boot() {
    let repo = signalled(&["-TERM"]);
    assert_eq!(journal(&repo)["ended"], "terminated by a signal");
    assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none", "somebody ended it on this boot");
    change_journal(&repo, "boot_id", "another boot");
    assert_eq!(patrol(&repo, 999, &[]), "0 t dead restart");
    until("the end of the session", || {
        journal(&repo)["ended"].as_str().is_some_and(|ended| ended.contains("limit of 5")).then_some(())
    });
    until("the lock", || looping(&repo).is_none().then_some(()));
    assert_eq!(repo.read("results.tsv").lines().count(), 7);
}

#[test]
fn a_loop_that_a_shutdown_terminated_is_dead_until_one_goes_on() {
    let repo = signalled(&["-TERM"]);
    change_journal(&repo, "boot_id", "another boot");
    // No loop goes on from a commit that no record has.
    repo.git(["commit", "-q", "--amend", "--allow-empty", "-m", "mine"]);
    for minutes in [900, 910] {
        assert_eq!(patrol(&repo, minutes, &[]), "0 t dead restart");
        let sessions = user_folder(&repo).join("guard/sessions");
        let log = fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path().join("resume.log");
        until("the end of the restart", || fs::read_to_string(&log).ok().filter(|said| said.contains("hint: ")));
        until("the lock", || looping(&repo).is_none().then_some(()));
        fs::remove_file(log).unwrap();
    }
}

#[test]
fn a_loop_that_a_person_stopped_stays_so_after_the_boot() {
    for signals in [&["-INT"][..], &["-INT", "-TERM"]] {
        let repo = signalled(signals);
        change_journal(&repo, "boot_id", "another boot");
        assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none", "{signals:?}");
    }
    let repo = signalled(&["-TERM"]);
    ar(&repo, ["stop", "t"]).ok();
    change_journal(&repo, "boot_id", "another boot");
    assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none");
}

#[test]
fn a_hang_up_is_a_death_and_a_stop_is_none() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    ar(&repo, ["stop", "t"]).ok();
    assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none");
    // Who resumes it has it watched again.
    change_journal(&repo, "status", "detached");
    assert_eq!(patrol(&repo, 999, &[]), "0 t dead restart");
    assert_comes_to_its_end(&repo, &go);
}

#[test]
fn on_a_full_disk_a_patrol_does_nothing_and_says_why() {
    let repo = training_repo();
    let Some(disk) = SmallDisk::mount(repo.outside().join("small")) else { return };
    let (child, go) = waiting_loop(&repo);
    kill(child);
    disk.fill();
    let guard = |minutes| {
        let mut command = ar_command(&repo, &repo.path(), ["guard", "."]);
        Called::from(command.env("AR_CLOCK", after(minutes)).env("XDG_STATE_HOME", disk.path()).output().unwrap())
    };
    let full = guard(5).exits(1);
    assert!(full.stderr.contains("No space left on device") && full.stderr.contains("hint: free disk"), "{full:?}");
    disk.free();
    assert!(guard(6).ok().stdout.starts_with("dead     restart"));
    assert_comes_to_its_end(&repo, &go);
}

/// A loop that was killed, and whose contract was changed since: none starts by it.
fn unresumable() -> TestRepo {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    fs::write(go, "").unwrap();
    let contract = repo.read(".autoresearch/t/state/contract.json");
    repo.write(".autoresearch/t/state/contract.json", contract.replace("\"val_bpb\"", "\"val_bpc\""));
    repo
}

#[test]
fn a_third_death_within_an_hour_is_flagged_and_a_fourth_left() {
    let repo = unresumable();
    let found: Vec<_> = [5, 6, 15, 25, 35, 70].map(|minutes| patrol(&repo, minutes, &[])).into();
    let expected = ["0 t dead restart", "0 t dead none", "0 t dead restart", "4 t dead restart", "4 t dead none"];
    assert_eq!(found[..5], expected);
    assert_eq!(found[5], "4 t dead restart", "of the first one an hour has passed");
}

#[test]
fn a_session_that_cannot_be_resumed_needs_a_person_though_patrols_are_hours_apart() {
    let repo = unresumable();
    let sessions = user_folder(&repo).join("guard/sessions");
    let said = || {
        let log = fs::read_dir(&sessions).ok()?.next()?.ok()?.path().join("resume.log");
        fs::read_to_string(log).ok().filter(|text| text.contains("hint: "))
    };
    for (hours, code, count) in
        [(1, 0, ""), (2, 0, ""), (3, 4, "; restart 3 in a row without progress"), (4, 4, "; restart 4")]
    {
        let line = ar_after(&repo, hours * 60, &["guard", "--format", "json"]).exits(code).json();
        let detail = line["detail"].as_str().unwrap();
        assert_eq!(line["action"], "restart");
        assert!(detail.contains(count), "{detail}");
        assert_eq!(detail.contains("; the last restart said: error: "), hours > 1, "{detail}");
        until("the end of the restart", said);
    }
}

#[test]
fn a_session_with_commits_of_the_users_needs_a_person() {
    let repo = signalled(&["-TERM"]);
    change_journal(&repo, "boot_id", "another boot");
    repo.git(["commit", "-q", "--allow-empty", "-m", "mine"]);
    assert_eq!(patrol(&repo, 900, &[]), "4 t dead none");
    let said = ar_after(&repo, 900, &["guard"]).stdout;
    assert!(said.contains("your commits are on its branch autoresearch/t; run `ar run` there"), "{said}");
    ar(&repo, ["resume"]).exits(1);
    assert!(!repo.exists(".autoresearch/t-2"));
}

#[test]
fn a_patrol_takes_no_working_tree_from_a_user_who_has_moved_on() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    repo.git(["switch", "-q", "-f", "main"]);
    repo.write("notes.txt", "mine\n");
    assert_eq!(patrol(&repo, 5, &[]), "4 t dead none");
    assert!(
        ar_after(&repo, 5, &["guard"]).stdout.contains("is on the branch main now; run `ar resume t` there to go on")
    );
    assert_eq!(
        (repo.git(["symbolic-ref", "HEAD"]).as_str(), repo.read("notes.txt").as_str()),
        ("refs/heads/main", "mine\n")
    );
    repo.rm("notes.txt");
    repo.git(["switch", "-q", "autoresearch/t"]);
    assert_eq!(patrol(&repo, 6, &[]), "0 t dead restart");
    // The user switched branches below the active run, so it is repeated.
    assert_comes_to_its_end_after(&repo, &go, 7);
}

#[test]
fn a_session_whose_linked_working_tree_is_gone_is_continued_nowhere_else() {
    let repo = training_repo();
    let tree = repo.outside().join("linked");
    repo.git(["worktree", "add", "-q", tree.to_str().unwrap(), "HEAD", "--detach"]);
    let agent = "sleep 600";
    let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", agent];
    let child = ar_command(&repo, &tree, run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the call", || repo.exists(".autoresearch/t/runs/00001/agent.started.json").then_some(()));
    kill(child);
    ar(&repo, ["stop", "--now", "t"]);
    change_journal(&repo, "status", "running");
    fs::remove_dir_all(&tree).unwrap();
    assert_eq!(patrol(&repo, 5, &[]), "4 t dead none");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
}

/// Takes the journal of the session away, and has it rebuilt if that is asked for.
fn lose_journal(repo: &TestRepo, is_repaired: bool) {
    repo.rm(".autoresearch/t/state/progress.json");
    if is_repaired {
        ar(repo, ["doctor", "t", "--repair"]);
        assert!(repo.exists(".autoresearch/t/state/progress.json"));
    }
}

#[test]
fn a_killed_session_on_slots_is_restarted_although_its_journal_is_gone() {
    for is_repaired in [false, true] {
        let repo = landscape();
        let args = first_call(&repo, ["0.3", "0.1"], "", &["--slots", "2", "--max-experiments", "6"]);
        let mut child = ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).spawn().unwrap();
        until("the first experiments", || (records(&repo).len() >= 3).then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        until("the end of its jobs", || repo.processes().is_empty().then_some(()));
        lose_journal(&repo, is_repaired);
        assert_eq!(patrol(&repo, 5, &[]), "0 t dead restart", "repaired: {is_repaired}");
        let path = ".autoresearch/t/state/progress.json";
        until("the end", || (repo.exists(path) && journal(&repo)["status"] == "stopped").then_some(()));
        until("the lock", || looping(&repo).is_none().then_some(()));
        until("the end of its jobs", || repo.processes().is_empty().then_some(()));
        let ended = check(&repo, "a journal that was gone").len();
        assert_eq!((ended, journal(&repo)["layout"]["slots"].as_u64()), (7, Some(2)), "repaired: {is_repaired}");
    }
}

#[test]
fn a_session_that_was_stopped_stays_so_although_its_journal_is_gone() {
    for is_repaired in [false, true] {
        let repo = signalled(&["-INT"]);
        lose_journal(&repo, is_repaired);
        assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none", "repaired: {is_repaired}");
    }
}

#[test]
fn a_session_without_a_journal_and_logs_is_flagged_until_you_say_what_it_is() {
    for is_repaired in [false, true] {
        let repo = signalled(&["-INT"]);
        for log in ["work", "orchestrator", "heartbeat"] {
            repo.rm(format!(".autoresearch/t/logs/{log}.jsonl"));
        }
        lose_journal(&repo, is_repaired);
        assert_eq!(patrol(&repo, 999, &[]), "4 t stopped none", "repaired: {is_repaired}");
        ar(&repo, ["stop", "t"]).ok();
        if is_repaired {
            assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none");
        }
    }
}

#[test]
fn a_session_that_is_driven_by_hand_is_not_restarted_although_its_journal_is_gone() {
    let repo = driven();
    lose_journal(&repo, false);
    assert_eq!(patrol(&repo, 600, &[]), "0 t stalled none");
}
