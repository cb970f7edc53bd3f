//! `ar restore`, with git as the judge.

use std::fs;
use std::path::Path;

use super::{commit, play, session, surroundings};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// What git says of a working tree, which must be in order.
#[track_caller]
fn assert_clean(repo: &TestRepo, dir: &Path, commit: &str) {
    let git = |args: &[&str]| {
        let output = repo.try_git_in(dir, args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    assert_eq!(git(&["status", "--porcelain", "--ignored"]), "", "{}", dir.display());
    assert_eq!(git(&["rev-parse", "HEAD"]), commit);
    assert_eq!(git(&["write-tree"]), git(&["rev-parse", "HEAD^{tree}"]));
    git(&["diff", "--exit-code", "HEAD"]);
    git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
}

#[test]
fn the_code_of_any_experiment_is_on_a_new_branch_and_nothing_else_changed() {
    let repo = session("better rename-worse crash symlink-better");
    repo.write("train.sh", "somebody is at work here\n");
    repo.write("mine.txt", "untracked\n");
    let is_new =
        |line: &str| ["t-2 ", "mine/3 ", "t-4 "].iter().any(|name| line.contains(&format!("refs/heads/{name}")));
    let before = surroundings(&repo, is_new);
    let called = ar(&repo, ["restore", "2"]).ok();
    assert!(called.stdout.contains("is on the branch t-2\n"), "{called:#?}");
    ar(&repo, ["restore", "3", "--branch", "mine/3"]).ok();
    ar(&repo, ["restore", "best"]).ok();
    assert_eq!(surroundings(&repo, is_new), before);
    for (branch, id) in [("t-2", 2), ("mine/3", 3), ("t-4", 4)] {
        assert_eq!(repo.git(["rev-parse", branch]), commit(&repo, id), "{branch}");
    }
    for (args, words) in [
        (
            &["2"][..],
            "error: branch t-2 already exists\nhint: see what it has with `git log t-2`, or name another one with --branch t-2-2\n",
        ),
        (&["2", "--branch", "main"], "branch main already exists"),
        (
            &["2", "--branch", "mine"],
            "cannot create branch mine: git does not allow it beside the existing branch mine/3",
        ),
        (
            &["2", "--branch", "t-2/x"],
            "cannot create branch t-2/x: git does not allow it beside the existing branch t-2",
        ),
        (&["2", "--branch", "autoresearch/t"], "branch autoresearch/t belongs to a session"),
        (&["2", "--branch", "autoresearch/new"], "or is named like one"),
        (&["2", "--branch", "a..b"], "`a..b` is not a valid branch name"),
        (&["2", "--branch=-x"], "`-x` is not a valid branch name"),
        (&["2", "--branch", "x", "--worktree", "."], "already exists\nhint: name a folder that does not exist yet"),
        (&["2", "--branch", "x", "--worktree", "docs/new"], "is inside the working tree"),
    ] {
        let called = ar(&repo, [&["restore"], args].concat()).exits(1);
        assert!(called.stderr.contains(words), "{words}: {called:#?}");
    }
    assert_eq!(surroundings(&repo, is_new), before, "a refusal leaves nothing");
    // A call that was killed has made the branch, and then a working tree that may not be whole.
    let dir = repo.outside().join("again");
    let args = ["restore", "2", "--worktree", dir.to_str().unwrap()];
    let called = ar(&repo, args).ok();
    assert!(called.stdout.contains("is on the branch t-2, checked out in "), "{called:#?}");
    let called = ar(&repo, args).exits(1);
    assert!(
        called.stderr.contains(&format!("`git worktree remove --force {}` and retry", dir.display())),
        "{called:#?}"
    );
}

#[test]
fn a_new_working_tree_is_one_that_git_could_have_made() {
    let repo = training_repo();
    // Line endings and a filter, as git's own checkout applies them.
    repo.git(["config", "filter.shout.smudge", "tr a-z A-Z"]);
    repo.git(["config", "filter.shout.clean", "tr A-Z a-z"]);
    play(&repo, "rename-better executable-better symlink-better unicode-better delete-worse");
    repo.write(".gitattributes", "*.win text eol=crlf\n*.loud filter=shout\n");
    repo.write("a.win", "one\ntwo\n");
    repo.write("b.loud", "quiet\n");
    let best = ar(&repo, ["try", "-m", "attributes", "--max-experiments", "9"]);
    assert!(best.code == Some(0), "{best:#?}");
    let linked = repo.outside().join("linked one");
    let is_new = |line: &str| line.contains("refs/heads/t-") || line.contains("refs/heads/other");
    let before = surroundings(&repo, is_new);
    for (id, dir) in [(4, "four"), (5, "five"), (6, "six"), (6, "linked one")] {
        let dir = repo.outside().join(dir);
        let branch = if dir == linked { "other".to_owned() } else { format!("t-{id}") };
        let args = ["restore", &id.to_string(), "--branch", &branch, "--worktree", dir.to_str().unwrap()];
        ar(&repo, args).ok();
        assert_clean(&repo, &dir, &commit(&repo, id));
        let gits = repo.outside().join("gits");
        repo.git(["worktree", "add", "--quiet", "--detach", gits.to_str().unwrap(), &branch]);
        let diff = std::process::Command::new("diff")
            .args(["--recursive", "--no-dereference", "--exclude=.git"])
            .args([&dir, &gits])
            .output()
            .unwrap();
        assert!(diff.status.success(), "{diff:?}");
        repo.git(["worktree", "remove", gits.to_str().unwrap()]);
    }
    assert_eq!(fs::read(linked.join("a.win")).unwrap(), b"one\r\ntwo\r\n");
    assert_eq!(fs::read(linked.join("b.loud")).unwrap(), b"QUIET\n");
    assert_eq!(surroundings(&repo, is_new), before);
    let list = repo.git(["worktree", "list", "--porcelain"]);
    assert!(list.contains("linked one\n") && list.contains("\nbranch refs/heads/other"), "{list}");
    // From within a linked working tree it is the same.
    let deeper = repo.outside().join("from linked");
    let args = ["restore", "t/1", "--worktree", deeper.to_str().unwrap()];
    Called::from(ar_command(&repo, &linked, args).output().unwrap()).ok();
    assert_clean(&repo, &deeper, &commit(&repo, 1));
    for dir in ["four", "five", "six", "linked one", "from linked"] {
        repo.git(["worktree", "remove", repo.outside().join(dir).to_str().unwrap()]);
    }
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(surroundings(&repo, is_new), before);
}

#[test]
fn a_branch_below_that_of_a_session_is_refused_without_touching_the_session() {
    let repo = session("better");
    let before = surroundings(&repo, |_| false);
    let said = ar(&repo, ["restore", "1", "--branch", "autoresearch/t/x"]).exits(1).stderr;
    assert!(said.contains("hint: autoresearch/t is a session's branch; choose another name"), "{said}");
    assert!(!said.contains("git branch -m"), "{said}");
    assert_eq!(surroundings(&repo, |_| false), before);
}
