//! What a crash of the machine empties in git's own folder.

use std::process::Command;

use super::session::{assert_healthy, doctor, edit, session, state};
use crate::support::ar;

#[test]
fn an_emptied_head_is_named_and_put_back_where_it_was() {
    for (branch, content) in [("autoresearch/t", ""), ("main", "\0\0\0\0\0\0\0\0"), ("main", "ref: ")] {
        let repo = session();
        repo.git(["switch", "--quiet", branch]);
        repo.write(".git/HEAD", content);
        ar(&repo, ["resume", "t"]).exits(1);
        let said = doctor(&repo, &[], 1);
        assert!(said.contains("reading HEAD failed") && said.contains("hint: ar doctor --repair"), "{said}");
        let said = doctor(&repo, &["--repair"], 0);
        assert!(said.contains(&format!("put HEAD back to {branch}")), "{said}");
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]), format!("refs/heads/{branch}"));
        assert_eq!(repo.status(), "");
        assert_healthy(&repo, "an emptied HEAD");
    }
}

#[test]
fn the_branch_of_an_emptied_head_without_a_log_is_that_of_the_killed_session_or_yours_to_say() {
    let repo = session();
    repo.rm(".git/logs/HEAD");
    repo.write(".git/HEAD", "");
    let said = doctor(&repo, &["--repair"], 1);
    assert!(said.contains("hint: echo 'ref: refs/heads/autoresearch/t' > "), "{said}");
    edit(&repo, &state("progress.json"), |journal| journal["status"] = "running".into());
    doctor(&repo, &["--repair"], 0);
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t");
    assert!(repo.exists(".git/autoresearch-damaged-HEAD"));
}

#[test]
fn odd_entries_of_linked_trees_are_named_with_the_command_that_mends_them() {
    let repo = session();
    let trees = ["pruned", "locked", "common", "head", "doubt"].map(|name| repo.outside().join(name));
    for tree in &trees {
        repo.git(["worktree", "add", "--quiet", "--detach", tree.to_str().unwrap()]);
    }
    assert!(repo.try_git_in(&trees[3], ["switch", "--quiet", "--create", "idea"]).status.success());
    repo.git(["worktree", "lock", trees[1].to_str().unwrap()]);
    for emptied in ["pruned/gitdir", "locked/gitdir", "common/commondir", "head/HEAD", "doubt/HEAD", "doubt/logs/HEAD"]
    {
        repo.write(format!(".git/worktrees/{emptied}"), "");
    }
    repo.write(".git/worktrees/plain", "");
    let said = doctor(&repo, &[], 1);
    for what in [
        "worktrees/pruned names no working tree; git would prune it",
        "worktrees/locked is locked and names no working tree; git keeps it",
        "worktrees/common/commondir does not lead to ",
        "worktrees/head/HEAD names neither branch nor commit",
        "worktrees/doubt/HEAD names neither branch nor commit",
        "hint: echo 'ref: refs/heads/BRANCH' > ",
        "worktrees/plain is not a folder",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
    // As it is told.
    let hints = said.lines().filter_map(|line| line.trim().strip_prefix("hint: echo "));
    for hint in hints.filter(|hint| !hint.contains("BRANCH")) {
        let done = Command::new("sh").args(["-c", &format!("echo {hint}")]).status().unwrap();
        assert!(done.success(), "{hint}");
    }
    repo.git(["worktree", "prune"]);
    for tree in ["common", "head"] {
        let status = repo.try_git_in(&repo.outside().join(tree), ["status", "--porcelain"]);
        assert!(status.status.success() && status.stdout.is_empty(), "{status:?}");
    }
    repo.git(["worktree", "repair", trees[1].to_str().unwrap()]);
    repo.write(".git/worktrees/doubt/HEAD", "ref: refs/heads/main\n");
    assert_healthy(&repo, "odd entries");
    assert_eq!(repo.git(["worktree", "prune", "--dry-run", "--verbose"]), "");
}
