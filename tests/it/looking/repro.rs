//! `ar repro`.

use std::fs;
use std::process::{Command, Stdio};

use super::{commit, session, surroundings};
use crate::recovery::{go, runs, scripted};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// The working trees that git knows.
fn worktrees(repo: &TestRepo) -> Vec<String> {
    let list = repo.git(["worktree", "list", "--porcelain"]);
    list.lines().filter_map(|line| line.strip_prefix("worktree ")).map(str::to_owned).collect()
}

#[test]
fn a_number_that_comes_back_leaves_nothing_behind() {
    let repo = session("better symlink-worse crash");
    let before = surroundings(&repo, |_| false);
    let called = ar(&repo, ["repro", "2"]).ok();
    assert!(called.stdout.contains("\nthe value was reproduced exactly (exit 0 after "), "{called:#?}");
    assert!(called.stderr.starts_with("running `sh train.sh` in /"), "{called:#?}");
    assert!(
        called
            .stderr
            .contains("untracked files are not included: model.ckpt; pass --link for those that the run needs"),
        "{called:#?}"
    );
    let json = ar(&repo, ["repro", "baseline", "--format", "json"]).ok().json();
    assert_eq!((&json["came_back"], &json["measured"]), (&true.into(), &2.0.into()), "{json}");
    assert!(json["seconds"].as_f64().unwrap() > 0.0 && json["worktree"].is_null(), "{json}");
    assert_eq!(worktrees(&repo).len(), 1);
    // Where it was asked for, the working tree stays.
    let kept = repo.outside().join("kept");
    ar(&repo, ["repro", "1", "--worktree", kept.to_str().unwrap()]).ok();
    let git = |args: &[&str]| String::from_utf8(repo.try_git_in(&kept, args).stdout).unwrap();
    assert_eq!(git(&["rev-parse", "HEAD"]).trim_end(), commit(&repo, 1));
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=no"]), "");
    assert!(fs::read_to_string(kept.join("run.log")).unwrap().contains("val_bpb:          1.900000"));
    assert!(
        ar(&repo, ["repro", "1", "--worktree", kept.to_str().unwrap()]).exits(1).stderr.contains("kept already exists")
    );
    repo.git(["worktree", "remove", "--force", kept.to_str().unwrap()]);
    // A crash that was recorded crashes again.
    let called = ar(&repo, ["repro", "3"]).ok();
    assert!(called.stdout.contains("\nit failed again in the same way: crash (exit "), "{called:#?}");
    assert!(called.stderr.contains("note it with: ar note t/3 'repro: crash on "), "{called:#?}");
    assert_eq!(worktrees(&repo).len(), 1);
    assert_eq!(surroundings(&repo, |_| false), before);
}

#[test]
fn another_number_says_how_far_and_data_come_along_as_links() {
    let repo = training_repo();
    repo.write(
        "train.sh",
        "cat data/set/offset | tee uv.lock; echo \"val_bpb: $(cat data/set/offset)\"; echo x > made\n",
    );
    repo.write(".gitignore", "data/\n");
    repo.write("data/set/offset", "1.25\n");
    repo.git(["add", "train.sh", ".gitignore"]);
    repo.git(["commit", "--quiet", "-m", "data"]);
    ar(&repo, ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    let called = ar(&repo, ["repro", "0", "--format", "json"]).exits(20);
    assert!(
        called.stderr.contains("not included: data, made, uv.lock; pass --link for those that the run needs"),
        "{called:#?}"
    );
    repo.git(["worktree", "remove", "--force", &worktrees(&repo).pop().unwrap()]);
    assert!(ar(&repo, ["repro", "0", "--link", "data"]).ok().stdout.contains("was reproduced exactly"));
    let mut below = ar_command(&repo, &repo.file("data"), ["repro", "0", "--link", "set", "--format", "json"]);
    Called::from(below.output().unwrap()).ok();
    repo.write("data/set/offset", "1.5\n");
    let called = ar(&repo, ["repro", "0", "--link", "data/set"]).exits(10);
    assert!(called.stdout.contains("a different value: 0.25 (20%) worse than the recorded 1.25; the"), "{called:#?}");
    assert!(called.stdout.contains("\nit ran elsewhere than the record: lockfile "), "{called:#?}");
    let hint = "rerun it with `ar repro 0 --tag t` to see how far apart the numbers are";
    assert!(called.stderr.contains(hint) && called.stderr.contains("`ar run --tag t-again "), "{called:#?}");
    let note = called.stderr.split_once("note it with: ar note t/0 'repro: 1.5 on ");
    assert!(note.is_some(), "{called:#?}");
    assert_eq!(worktrees(&repo).len(), 2, "what was another number can be looked at");
    repo.git(["worktree", "remove", "--force", &worktrees(&repo).pop().unwrap()]);
    assert!(repo.exists("data/set/offset"), "what was linked is still there");
    assert!(
        ar(&repo, ["repro", "0", "--link", "nowhere"])
            .exits(1)
            .stderr
            .contains("cannot link nowhere: it does not exist\nhint: ")
    );
    assert!(ar(&repo, ["repro", "0", "--link", "/"]).exits(1).stderr.contains("is not in the working tree"));
    let called = ar(&repo, ["repro", "0", "--link", "train.sh"]).exits(1);
    assert!(
        called
            .stderr
            .contains("cannot link train.sh: it already exists in the new working tree\nhint: omit --link train.sh")
    );
    assert_eq!(worktrees(&repo).len(), 1);
}

#[test]
fn an_interrupt_ends_the_run_and_removes_its_working_tree() {
    let repo = training_repo();
    repo.write("train.sh", "[ -e ../slow ] && { (sleep 600) & echo $! > ../child; wait; }; echo val_bpb: 1.0\n");
    repo.commit_all("slow the second time");
    ar(&repo, ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--grace", "1s"]).ok();
    let before = surroundings(&repo, |_| false);
    let place = repo.outside().join("place");
    fs::create_dir(&place).unwrap();
    fs::write(repo.outside().join("place/slow"), "").unwrap();
    let dir = place.join("run");
    let mut command = ar_command(&repo, &repo.path(), ["repro", "0", "--worktree", dir.to_str().unwrap()]);
    let call = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let child = until("the run", || fs::read_to_string(place.join("child")).ok().filter(|it| it.ends_with('\n')));
    assert!(Command::new("kill").args(["-INT", &call.id().to_string()]).status().unwrap().success());
    let called = Called::from(call.wait_with_output().unwrap()).exits(130);
    assert!(called.stderr.contains("interrupted; terminated the run"), "{called:#?}");
    assert!(!dir.exists() && worktrees(&repo).len() == 1);
    assert!(!Command::new("kill").args(["-0", child.trim()]).stderr(Stdio::null()).status().unwrap().success());
    assert_eq!(surroundings(&repo, |_| false), before);
}

#[test]
fn the_doctor_names_the_working_tree_of_a_call_that_was_killed() {
    let repo = training_repo();
    repo.write("train.sh", "[ -e ../slow ] && { touch ../there; sleep 600; }; echo val_bpb: 1.0\n");
    repo.commit_all("slow the second time");
    ar(&repo, ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    let place = repo.outside().join("place");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("slow"), "").unwrap();
    let dir = place.join("run");
    let mut command = ar_command(&repo, &repo.path(), ["repro", "0", "--worktree", dir.to_str().unwrap()]);
    let mut call = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the run", || place.join("there").exists().then_some(()));
    let remove = format!("git worktree remove --force {}", dir.display());
    assert!(!ar(&repo, ["doctor"]).stdout.contains(&remove), "it is in use");
    call.kill().unwrap();
    call.wait().unwrap();
    let said = ar(&repo, ["doctor"]).stdout;
    assert!(
        said.contains("a killed `ar repro`, `verify` or `ablate` left the working tree ") && said.contains(&remove),
        "{said}"
    );
    fs::remove_file(place.join("slow")).unwrap();
    repo.git(["worktree", "remove", "--force", dir.to_str().unwrap()]);
    // One that is kept on purpose is nothing to remark.
    ar(&repo, ["repro", "0", "--worktree", dir.to_str().unwrap()]).ok();
    assert!(!ar(&repo, ["doctor"]).stdout.contains(&remove));
}

#[test]
fn what_was_refused_is_not_run_later_either() {
    let repo = training_repo().without_walls();
    repo.write("fixed", "1\n");
    repo.commit_all("fixed");
    let args = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--protect", "fixed"];
    ar(&repo, [&args[..], &["--agent", "echo 2 > fixed", "--max-experiments", "1"]].concat()).ok();
    let said = ar(&repo, ["repro", "1"]).exits(1).stderr;
    assert!(said.starts_with("error: experiment 1 was refused and never ran: "), "{said}");
    assert!(said.contains("hint: see its change with `ar show 1`, or extract it with `ar restore 1`\n"), "{said}");
    assert_eq!(worktrees(&repo).len(), 1);
}

#[test]
fn an_experiment_is_rerun_while_a_loop_is_active() {
    for more in [&[][..], &["--slots", "2"]] {
        // The run of experiment 1 waits, in the user's tree or a slot's.
        let repo = scripted("");
        let agent = "touch slow; echo 1.5 > value";
        let args = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", agent];
        let mut command = ar_command(&repo, &repo.path(), args);
        command.args(["--max-experiments", "1"]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let active = command.spawn().unwrap();
        let started = if more.is_empty() { 2 } else { 3 };
        until("the run of experiment 1", || (runs(&repo) == started).then_some(()));
        let called = ar(&repo, ["repro", "0"]).ok();
        assert!(called.stdout.contains("\nthe value was reproduced exactly (exit 0 after "), "{called:#?}");
        assert_eq!(runs(&repo), started + 1, "{more:?}");
        go(&repo);
        let called = Called::from(active.wait_with_output().unwrap()).ok();
        assert!(called.stdout.contains("   1  keep     1.5 "), "{called:#?}");
        assert_eq!((worktrees(&repo).len(), repo.status().as_str()), (1, ""), "{more:?}: {called:#?}");
        repo.git(["fsck", "--full", "--strict"]);
    }
}
