//! Branches, `HEAD` and their reflogs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use autoresearch::domain::CommitId;
use autoresearch::git::{GitError, HeadTarget};

use super::{head, open};
use crate::support::TestRepo;

#[test]
fn branches_are_created_moved_and_deleted_only_from_where_they_are() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let first = head(&repo);
    let second = CommitId::new(repo.commit_all("second"));
    let branch = "refs/heads/autoresearch/t";
    assert_eq!(git.refs.branch(branch).unwrap(), None);
    git.refs.create_branch(branch, &first, "ar: start").unwrap();
    assert!(
        matches!(git.refs.create_branch(branch, &first, "again"), Err(GitError::RefExists(name)) if name == branch)
    );
    git.refs.advance(branch, &first, &second, "ar: keep").unwrap();
    let err = git.refs.advance(branch, &first, &second, "ar: keep").unwrap_err();
    assert!(
        matches!(&err, GitError::RefMoved { expected, found, .. } if *expected == Some(first.clone()) && *found == Some(second.clone()))
    );
    let reflog = repo.git(["reflog", "show", "--format=%gs", branch]);
    assert_eq!(reflog, "ar: keep\nar: start");
    assert!(matches!(git.refs.delete_branch(branch, &first), Err(GitError::RefMoved { .. })));
    repo.git(["pack-refs", "--all"]);
    assert_eq!(git.refs.branch(branch).unwrap(), Some(second.clone()));
    git.refs.advance(branch, &second, &first, "ar: back").unwrap();
    git.refs.delete_branch(branch, &first).unwrap();
    assert_eq!(git.refs.branch(branch).unwrap(), None);
    assert!(git.refs.create_branch("refs/heads/a..b", &first, "bad").is_err());
}

#[test]
fn head_moves_as_git_moves_it() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let first = head(&repo);
    let second = CommitId::new(repo.commit_all("second"));
    let branch = "refs/heads/autoresearch/t";
    git.refs.create_branch(branch, &second, "ar: start").unwrap();
    git.refs.point_head(&HeadTarget::Branch(branch.to_owned())).unwrap();
    assert_eq!(git.refs.head().unwrap().branch(), Some(branch));
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), branch);
    git.refs.advance(branch, &second, &first, "ar: discard").unwrap();
    assert_eq!(
        repo.git(["reflog", "-2", "--format=%gs", "HEAD"]),
        "ar: discard\ncheckout: moving from main to autoresearch/t"
    );
    repo.git(["reset", "--quiet", "--hard"]);
    repo.git(["checkout", "--quiet", "-"]);
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    git.refs.point_head(&HeadTarget::Detached(first.clone())).unwrap();
    assert_eq!(repo.git(["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    assert_eq!(head(&repo), first);
}

#[test]
fn names_lead_to_commits() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let commit = head(&repo);
    repo.git(["tag", "--annotate", "v1", "--message", "v1"]);
    for spec in ["HEAD", "main", "refs/heads/main", commit.short(8), "v1"] {
        assert_eq!(git.refs.resolve(spec).unwrap(), commit, "{spec}");
    }
    for spec in ["nothing", "HEAD~5", "", "main:train.py"] {
        assert!(matches!(git.refs.resolve(spec), Err(GitError::NotFound { .. })), "{spec}");
    }
}

#[test]
fn refs_that_git_packs_while_others_are_deleted_survive() {
    let repo = TestRepo::new();
    let (git, commit) = (open(&repo), head(&repo));
    let (path, is_over) = (repo.path(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut pack = std::process::Command::new("git");
                // It fails while this process has the lock.
                let _ = pack.args(["pack-refs", "--all", "--prune"]).current_dir(&path).output();
            }
        });
        for n in 0..60 {
            git.refs.put_ref(&format!("refs/autoresearch/t/open/{n}"), commit.as_str()).unwrap();
            git.refs.write_record(&format!("refs/autoresearch/t/{n:05}"), &commit, "a record").unwrap();
            if n >= 2 {
                git.refs.drop_ref(&format!("refs/autoresearch/t/open/{}", n - 2)).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let found = repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/autoresearch/t"]);
    let mut expected: Vec<String> = (0..60).map(|n| format!("{n:05}")).collect();
    expected.extend(["open/58", "open/59"].map(str::to_owned));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    repo.git(["fsck", "--strict"]);
}
