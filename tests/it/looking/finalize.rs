//! `ar finalize`, with git as the judge.

use super::{commit, session, surroundings};
use crate::support::{Called, ar, ar_command};

#[test]
fn the_kept_chain_is_a_clean_branch_of_one_commit_each() {
    let repo = session("better worse commit-better crash symlink-better");
    repo.write("train.sh", "somebody is at work here\n");
    let is_new = |line: &str| {
        // The session remembers that it was finalized.
        let is_branch = ["t-final ", "review/all ", "linked "].iter().any(|it| line.contains(&format!("heads/{it}")));
        is_branch || line.contains("/state/finalized.json ")
    };
    let before = surroundings(&repo, is_new);
    let called = ar(&repo, ["finalize"]).ok();
    assert!(called.stdout.starts_with("t-final has 3 commits on "), "{called:#?}");
    let start = commit(&repo, 0);
    let commits = repo.git(["rev-list", "--reverse", &format!("{start}..t-final")]);
    let commits: Vec<&str> = commits.lines().collect();
    assert_eq!(commits.len(), 3, "merges and detours are none of it");
    assert_eq!(repo.git(["rev-parse", &format!("{}^", commits[0])]), start);
    for (made, id) in commits.iter().zip([1, 3, 5]) {
        let tree = |commit: &str| repo.git(["rev-parse", &format!("{commit}^{{tree}}")]);
        assert_eq!(tree(made), tree(&commit(&repo, id)), "{id}");
        assert_eq!(repo.git(["log", "-1", "--format=%an <%ae>|%cn", made]), "Test <test@example.com>|Test");
    }
    let message = repo.git(["log", "-1", "--format=%B", commits[1]]);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "3: commit-better");
    assert_eq!(lines[2], "val_bpb 1.900000 -> 1.800000, 0.100000 (5.3%) better");
    assert_eq!(lines[3], "", "the gain is said once: {message}");
    let trailers = repo.git(["log", "-1", "--format=%(trailers:only)", commits[1]]);
    assert_eq!(trailers.trim_end(), "Experiment: t/3\nRecord: refs/autoresearch/t/00003");

    let called = ar(&repo, ["finalize", "t", "--squash", "--branch", "review/all"]).ok();
    assert!(called.stdout.contains(" Session t: 3 kept experiments\n"), "{called:#?}");
    assert_eq!(repo.git(["rev-parse", "review/all^"]), start);
    assert_eq!(repo.git(["rev-parse", "review/all^{tree}"]), repo.git(["rev-parse", "t-final^{tree}"]));
    let message = repo.git(["log", "-1", "--format=%B", "review/all"]);
    assert!(
        message.starts_with("Session t: 3 kept experiments\n\nval_bpb 2.000000 -> 1.700000, 0.300000 (15%) better\n")
    );
    assert!(message.contains("\n- 3: 3: commit-better (val_bpb 1.900000 -> 1.800000,"), "{message}");

    for (args, words) in [
        (&["finalize"][..], "branch t-final already exists"),
        (&["finalize", "--branch", "main"], "branch main already exists"),
        (
            &["finalize", "--branch", "autoresearch/t"],
            "branch autoresearch/t belongs to a session or is named like one\nhint: name another one with --branch\n",
        ),
    ] {
        let called = ar(&repo, args).exits(1);
        assert!(called.stderr.contains(words), "{called:#?}");
    }
    let linked = repo.outside().join("linked");
    repo.git(["worktree", "add", "--quiet", "--detach", linked.to_str().unwrap(), "main"]);
    let mut command = ar_command(&repo, &linked, ["finalize", "t", "--branch", "linked"]);
    Called::from(command.output().unwrap()).ok();
    assert_eq!(repo.git(["rev-parse", "linked^{tree}"]), repo.git(["rev-parse", "t-final^{tree}"]));
    assert_eq!(String::from_utf8(repo.try_git_in(&linked, ["status", "--porcelain"]).stdout).unwrap(), "");
    repo.git(["worktree", "remove", linked.to_str().unwrap()]);
    assert_eq!(surroundings(&repo, is_new), before);
    repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]);
}

#[test]
fn a_session_that_kept_nothing_has_nothing_to_finalize() {
    let repo = session("worse crash");
    let before = surroundings(&repo, |_| false);
    let called = ar(&repo, ["finalize"]).exits(1);
    assert!(
        called.stderr.starts_with(
            "error: session t has kept nothing but its baseline\nhint: run `ar log t` to see the outcomes\n"
        ),
        "{called:#?}"
    );
    assert_eq!(surroundings(&repo, |_| false), before);
}
