//! `ar delete`: a session leaves the repository, and its refs a bundle.

use std::fs;
use std::process::Stdio;

use crate::interrupt::waiting_loop;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// A session `t` of two experiments, on slots: its branch is checked out nowhere.
fn session() -> TestRepo {
    let repo = training_repo();
    let agent = "echo \"# $AR_EXPERIMENT\" >> train.sh";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--slots", "1"];
    ar(&repo, args.into_iter().chain(["--agent", agent, "--max-experiments", "2"])).ok();
    repo
}

/// The refs that begin so, each with its object.
fn refs(repo: &TestRepo, tag: &str) -> String {
    let below = [format!("refs/heads/autoresearch/{tag}"), format!("refs/autoresearch/{tag}")];
    repo.git(["for-each-ref", "--format=%(objectname) %(refname)", &below[0], &below[1]])
}

#[test]
fn a_session_is_deleted_even_after_a_kill_and_a_bundle_brings_it_back() {
    let repo = session();
    // Of another session, whose name begins like this one.
    let other =
        [repo.git(["branch", "autoresearch/tt"]), repo.git(["update-ref", "refs/autoresearch/tt/saved/00001", "HEAD"])];
    assert_eq!(other.concat(), "");
    repo.write(".autoresearch/tt/state/contract.json", "{}\n");
    repo.write(".autoresearch/t/aside/1/theirs", "moved here\n");
    // A working tree that git knows is left by a loop that was killed.
    repo.git(["worktree", "add", "--detach", ".autoresearch/t/trees/slot-0"]);
    let (before, rows, others) = (refs(&repo, "t"), repo.read("results.tsv"), refs(&repo, "tt"));
    assert_eq!(before.lines().count(), 4, "{before}");

    // What git leaves where it is killed while it writes a bundle is in nobody's way.
    for name in ["t.part", "t.part.lock"] {
        repo.write(format!(".autoresearch/deleted/{name}"), "half");
    }
    let mut killed = ar_command(&repo, &repo.path(), ["delete", "t"]);
    killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "git.ref_moved:2");
    let killed = Called::from(killed.output().unwrap());
    assert!(killed.code != Some(0) && refs(&repo, "t").lines().count() < 4, "{killed:?}");
    let called = ar(&repo, ["delete", "t"]).ok();
    assert_eq!(called.stdout, "deleted session t; its rows in the ledger stay\n");
    assert_eq!((refs(&repo, "t"), refs(&repo, "tt"), repo.read("results.tsv")), (String::new(), others, rows));
    let left = |folder: &str| -> Vec<String> {
        let names = fs::read_dir(repo.file(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    };
    assert_eq!(
        (left(".autoresearch/t"), left(".autoresearch/deleted")),
        (vec!["aside".into()], vec!["t.bundle".into()])
    );
    assert!(repo.exists(".autoresearch/t/aside/1/theirs") && repo.exists(".autoresearch/tt/state/contract.json"));
    assert_eq!(repo.git(["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    let again = ar(&repo, ["log", "t"]).exits(1);
    assert!(again.stderr.contains("session"), "{again:?}");

    let command = called.stderr.split("to bring it back: ").nth(1).unwrap_or_else(|| panic!("{called:?}"));
    let mut shell = std::process::Command::new("sh");
    repo.environment(&mut shell);
    assert!(shell.args(["-c", command]).current_dir(repo.path()).status().unwrap().success());
    assert_eq!(refs(&repo, "t"), before);
    assert!(ar(&repo, ["log", "t"]).ok().stdout.contains("discard"));
    fs::remove_dir_all(repo.file(".autoresearch/t")).unwrap();
    let found = ar(&repo, ["doctor", "t"]).ok().stdout;
    assert!(
        found.contains("fetched: only its records are in this repository") && !found.contains("missing"),
        "{found}"
    );
    ar(&repo, ["delete", "--tag", "t"]).ok();
    assert_eq!(left(".autoresearch/deleted"), ["t.bundle"], "the same refs are in it");
    // A later one of the same name is another one.
    let args = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", "true"];
    ar(&repo, args.into_iter().chain(["--max-experiments", "0"])).ok();
    repo.git(["switch", "-q", "main"]);
    fs::remove_dir_all(repo.file(".autoresearch/t")).unwrap();
    let found = ar(&repo, ["doctor", "t"]).exits(1).stdout;
    assert!(found.contains("contract.json is missing") && !found.contains("fetched"), "{found}");
}

#[test]
fn a_deleted_session_keeps_its_row_beside_another_one_from_the_same_commit() {
    let repo = training_repo();
    let run = |tag: &str| {
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--slots", "1", "--tag", tag];
        ar(&repo, args.into_iter().chain(["--agent", "true", "--max-experiments", "0"])).ok();
    };
    ["t", "u"].into_iter().for_each(run);
    ar(&repo, ["delete", "t"]).ok();
    run("v");
    let rows = repo.read("results.tsv");
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("results.tsv has 2 rows of ar, and 1 foreign row"), "{found}");
    ar(&repo, ["doctor", "--repair"]).ok();
    assert_eq!((repo.read("results.tsv"), rows.lines().count()), (rows.clone(), 4), "{rows}");
}

#[test]
fn a_session_that_begins_beside_another_one_after_a_deletion_has_its_row() {
    let repo = training_repo();
    let args = |tag| ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--slots", "1", "--tag", tag];
    let begin = |tag| _ = ar(&repo, args(tag).into_iter().chain(["--agent", "true", "--max-experiments", "0"])).ok();
    begin("t");
    ar(&repo, ["delete", "t"]).ok();
    let [called, go] = ["called", "go"].map(|name| repo.outside().join(name));
    let agent = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; echo '# change' >> train.sh",
        called.display(),
        go.display()
    );
    let more = ["--agent", &agent, "--max-experiments", "1", "--sandbox", "off"];
    let mut child = ar_command(&repo, &repo.path(), args("u").into_iter().chain(more))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the agent", || called.exists().then_some(()));
    begin("v");
    fs::write(go, "").unwrap();
    assert!(child.wait().unwrap().success());
    let rows = repo.read("results.tsv");
    assert_eq!(rows.matches("\tbaseline").count(), 3, "{rows}");
}

#[test]
fn the_link_to_the_log_of_a_deleted_session_goes_with_it() {
    let repo = training_repo();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "0"])
        .ok();
    repo.git(["checkout", "-q", "main"]);
    let link = || fs::symlink_metadata(repo.file("run.log")).is_ok();
    assert!(link());
    ar(&repo, ["delete", "t"]).ok();
    assert!(!link());
}

#[test]
fn in_a_partial_clone_the_missing_objects_are_named_and_a_fetch_brings_them() {
    let origin = training_repo();
    origin.write("old", "gone later\n");
    origin.commit_all("old");
    origin.rm("old");
    origin.commit_all("new");
    origin.git(["config", "uploadpack.allowFilter", "true"]);
    let repo = training_repo();
    let clone = repo.outside().join("clone");
    let url = format!("file://{}", origin.path().display());
    repo.git(["clone", "-q", "--filter=blob:none", &url, clone.to_str().unwrap()]);
    let call = |args: &[&str]| Called::from(ar_command(&repo, &clone, args).output().unwrap());
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "0"];
    call(&[&args[..], &["--slots", "1"]].concat()).ok();
    let refused = call(&["delete", "t"]).exits(1);
    assert!(refused.stderr.contains("run `git fetch --refetch --no-filter` to have all objects here"), "{refused:?}");
    assert!(repo.try_git_in(&clone, ["fetch", "-q", "--refetch", "--no-filter"]).status.success());
    call(&["delete", "t"]).ok();
    assert!(clone.join(".autoresearch/deleted/t.bundle").exists());
}

#[test]
fn a_session_at_work_or_checked_out_is_not_deleted() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    let held = ar(&repo, ["delete", "t"]).exits(5);
    assert!(held.stderr.contains(&format!("process {} with session t", child.id())), "{held:?}");
    fs::write(go, "").unwrap();
    Called::from(child.wait_with_output().unwrap()).ok();
    let here = ar(&repo, ["delete", "t"]).exits(1);
    assert!(
        here.stderr.contains("autoresearch/t is checked out in") && here.stderr.contains(" switch main`"),
        "{here:?}"
    );
    let unnamed = ar(&repo, ["delete"]).exits(2);
    assert!(unnamed.stderr.contains("TAG"), "{unnamed:?}");
    let none = ar(&repo, ["delete", "nothing"]).exits(1);
    assert!(none.stderr.contains("nothing") && !repo.exists(".autoresearch/nothing"), "{none:?}");
}

#[test]
fn a_branch_that_the_user_deleted_is_a_warning_with_both_ways() {
    let repo = session();
    repo.git(["branch", "-D", "autoresearch/t"]);
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("the branch autoresearch/t is missing"), "{found}");
    let hint = "ar doctor --repair brings it back; `ar delete t` removes the session, after a bundle of its refs \
                in .autoresearch/deleted\n";
    assert!(found.contains(hint), "{found}");
    let repaired = ar(&repo, ["doctor", "--repair"]).ok().stdout;
    assert!(repaired.contains("recreated the branch autoresearch/t at "), "{repaired}");
    repo.git(["branch", "-D", "autoresearch/t"]);
    ar(&repo, ["delete", "t"]).ok();
    assert_eq!(refs(&repo, "t"), "");
}
