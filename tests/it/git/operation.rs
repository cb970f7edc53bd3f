//! Operations of git's that somebody left half done.

use autoresearch::domain::CommitId;
use autoresearch::git::{GitError, Repo, Untracked};

use super::{head, open, save_as};
use crate::support::TestRepo;

/// A repository whose branch `side` changed `train.py`, as `main` did; gives the base and the tip of `side`.
fn diverged() -> (TestRepo, CommitId, CommitId) {
    let repo = TestRepo::new();
    repo.write("gone.py", "base\n");
    repo.commit_all("base");
    repo.git(["checkout", "--quiet", "-b", "side"]);
    repo.write("train.py", "side\n");
    repo.write("gone.py", "side\n");
    repo.write("side.py", "side\n");
    repo.commit_all("on the side");
    let side = head(&repo);
    repo.git(["checkout", "--quiet", "-"]);
    repo.write("train.py", "main\n");
    repo.rm("gone.py");
    repo.commit_all("on main");
    let base = head(&repo);
    (repo, base, side)
}

#[track_caller]
fn nothing_in_progress(repo: &TestRepo, git: &Repo) {
    let status = repo.git(["status"]);
    for words in ["in progress", "You are", "you are still", "unmerged", "bisecting", "rebasing"] {
        assert!(!status.contains(words), "{status}");
    }
    assert_eq!(git.clear_operation().unwrap(), None);
    git.ready().unwrap();
}

#[test]
fn whatever_is_half_done_is_cleared_as_git_sees_it() {
    for (arguments, name) in [
        (&["merge", "side"][..], "merge"),
        (&["merge", "--no-commit", "-s", "ours", "side"], "merge"),
        (&["cherry-pick", "side"], "cherry-pick"),
        (&["cherry-pick", "side", "side~1"], "cherry-pick"),
        (&["revert", "--no-edit", "HEAD~1"], "revert"),
        (&["rebase", "side"], "rebase"),
        (&["rebase", "--apply", "side"], "rebase"),
        (&["am", "side.patch"], "am"),
        (&["bisect", "start", "HEAD", "HEAD~1"], "bisect"),
    ] {
        let (repo, ..) = diverged();
        let git = open(&repo);
        if name == "am" {
            let patch = repo.git(["format-patch", "-1", "--stdout", "side"]);
            std::fs::write(repo.file("side.patch"), patch + "\n").unwrap();
        }
        if name == "revert" {
            repo.write("train.py", "later\n");
            repo.commit_all("later");
        }
        repo.try_git_in(&repo.path(), arguments);
        match git.ready() {
            Err(GitError::InProgress(found)) => assert_eq!(found, name, "{arguments:?}"),
            other => panic!("{arguments:?}: {other:?}: {}", repo.git(["status"])),
        }
        assert_eq!(git.clear_operation().unwrap().unwrap().name, name, "{arguments:?}");
        let base = head(&repo);
        git.working_tree.restore(&base, &save_as(&base), &Untracked::default()).unwrap();
        nothing_in_progress(&repo, &git);
    }
}

#[test]
fn what_is_left_of_several_picks_is_cleared_too() {
    let (repo, ..) = diverged();
    let git = open(&repo);
    repo.try_git_in(&repo.path(), ["cherry-pick", "side", "side~1"]);
    repo.git(["reset", "--quiet", "--hard"]);
    assert!(repo.git(["status"]).contains("Cherry-pick currently in progress"));
    assert!(matches!(git.ready(), Err(GitError::InProgress("cherry-pick"))));
    git.clear_operation().unwrap();
    nothing_in_progress(&repo, &git);
}

#[test]
fn a_commit_that_only_the_operation_names_is_given_back() {
    let (repo, _, side) = diverged();
    let git = open(&repo);
    repo.try_git_in(&repo.path(), ["merge", "side"]);
    assert_eq!(git.operation().unwrap().unwrap().commits, [], "the branch names it");
    repo.git(["branch", "--quiet", "-D", "side"]);
    assert_eq!(git.operation().unwrap().unwrap().commits, std::slice::from_ref(&side));
    assert_eq!(git.clear_operation().unwrap().unwrap().commits, [side]);
}

#[test]
fn a_tree_in_conflict_is_taken_as_it_is_on_disk() {
    let (repo, base, _) = diverged();
    let git = open(&repo);
    assert!(!repo.try_git_in(&repo.path(), ["merge", "side"]).status.success());
    assert_eq!(repo.status(), "DU gone.py\nA  side.py\nUU train.py");
    git.clear_operation().unwrap();
    let conflict = repo.read("train.py");
    assert!(conflict.contains("<<<<<<<"));

    let proposal = git.working_tree.propose(&base, &Untracked::default()).unwrap();
    let commit = git.working_tree.commit(&proposal, &base, "half merged").unwrap();
    git.working_tree.adopt_index(proposal).unwrap();
    repo.git(["update-ref", "HEAD", commit.as_str()]);
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["show", "HEAD:train.py"]), conflict.trim_end());
    assert_eq!(repo.git(["show", "HEAD:gone.py"]), "side");

    repo.git(["update-ref", "HEAD", base.as_str()]);
    git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap();
    nothing_in_progress(&repo, &git);
    assert_eq!(repo.status(), "");

    assert!(!repo.try_git_in(&repo.path(), ["merge", "side"]).status.success());
    git.clear_operation().unwrap();
    let saved = git.working_tree.restore(&base, &save_as(&base), &Untracked::default()).unwrap().saved.unwrap();
    assert_eq!(repo.git(["show", &format!("{}:train.py", saved.reference)]), conflict.trim_end());
    nothing_in_progress(&repo, &git);
    assert_eq!(repo.status(), "");
}
