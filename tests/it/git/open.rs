//! What is opened, and what is refused.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use autoresearch::git::{GitError, Head, Repo};

use super::{head, open};
use crate::support::TestRepo;

#[track_caller]
fn refused(dir: &Path) -> GitError {
    match Repo::discover(dir) {
        Ok(_) => panic!("opened {}", dir.display()),
        Err(err) => {
            assert!(err.hint().is_some(), "no hint: {err}");
            err
        }
    }
}

#[test]
fn opens_from_below_and_knows_where_it_is() {
    let repo = TestRepo::new();
    repo.write("src/deep/a.py", "");
    let git = Repo::discover(&repo.file("src/deep")).unwrap();
    assert_eq!(git.worktree().canonicalize().unwrap(), repo.path().canonicalize().unwrap());
    assert_eq!(git.main_worktree().canonicalize().unwrap(), repo.path().canonicalize().unwrap());
    assert_eq!(git.refs.head().unwrap(), Head::Branch { name: "refs/heads/main".to_owned(), commit: head(&repo) });
    repo.git(["checkout", "--quiet", "--detach"]);
    assert_eq!(git.refs.head().unwrap(), Head::Detached { commit: head(&repo) });
    git.ready().unwrap();
}

#[test]
fn a_linked_worktree_knows_the_main_one() {
    let repo = TestRepo::new();
    let linked = repo.outside().join("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    let git = Repo::discover(&linked).unwrap();
    assert_eq!(git.worktree().canonicalize().unwrap(), linked.canonicalize().unwrap());
    assert_eq!(git.main_worktree().canonicalize().unwrap(), repo.path().canonicalize().unwrap());
    assert_eq!(git.common_dir().canonicalize().unwrap(), repo.file(".git").canonicalize().unwrap());
    assert_eq!(git.refs.head().unwrap().branch(), Some("refs/heads/side"));
    git.exclude(&["results.tsv"]).unwrap();
    fs::write(linked.join("results.tsv"), "").unwrap();
    assert_eq!(String::from_utf8_lossy(&repo.try_git_in(&linked, ["status", "--porcelain"]).stdout), "");
}

#[test]
fn refuses_what_it_cannot_work_in() {
    let outside = tempfile::tempdir().unwrap();
    assert!(matches!(refused(outside.path()), GitError::NoRepository(_)));

    let repo = TestRepo::new();
    let bare = repo.outside().join("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    assert!(matches!(refused(&bare), GitError::Bare(_)));

    let config = repo.read(".git/config");
    repo.git(["config", "core.repositoryFormatVersion", "1"]);
    repo.git(["config", "extensions.futureThing", "true"]);
    assert!(matches!(Repo::discover(&repo.path()), Err(GitError::Extension(name)) if name == "futurething"));
    repo.write(".git/config", config);
    open(&repo);

    repo.write(".gitattributes", "*.rc text working-tree-encoding=UTF-16LE\n");
    open(&repo);
    repo.commit_all("attributes");
    assert!(matches!(refused(&repo.path()), GitError::WorkingTreeEncoding { .. }));
    repo.git(["rm", "--quiet", ".gitattributes"]);
    repo.write(".git/info/attributes", "*.rc working-tree-encoding=utf-16\n");
    assert!(matches!(refused(&repo.path()), GitError::WorkingTreeEncoding { .. }));
}

#[test]
fn refuses_reftable() {
    let repo = TestRepo::empty();
    let dir = repo.outside().join("reftable");
    let made = repo.try_git(["init", "--quiet", "--ref-format=reftable", dir.to_str().unwrap()]);
    assert!(made.status.success(), "git without reftable");
    assert!(matches!(refused(&dir), GitError::RefStorage(name) if name == "reftable"));
}

#[test]
fn refuses_a_sparse_index() {
    let repo = TestRepo::new();
    repo.write("in/a", "");
    repo.write("out/b", "");
    repo.commit_all("folders");
    repo.git(["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    assert!(matches!(refused(&repo.path()), GitError::SparseIndex));
    repo.git(["sparse-checkout", "reapply", "--no-sparse-index"]);
    open(&repo);
}

#[test]
fn refuses_the_repository_of_another_user() {
    let repo = TestRepo::new();
    let me = fs::metadata(repo.path()).unwrap().uid();
    // Only root can give a folder away; for others nobody else's repository is at hand.
    if std::os::unix::fs::chown(repo.path(), Some(me + 4711), None).is_err() {
        return;
    }
    std::os::unix::fs::chown(repo.file(".git"), Some(me + 4711), None).unwrap();
    assert!(matches!(refused(&repo.path()), GitError::ForeignOwner(_)));
}

#[test]
fn is_not_ready_without_a_commit_or_amid_an_operation() {
    let empty = TestRepo::empty();
    let git = open(&empty);
    assert_eq!(git.refs.head().unwrap(), Head::Unborn { name: "refs/heads/main".to_owned() });
    let err = git.ready().unwrap_err();
    assert!(matches!(&err, GitError::Unborn(_)) && err.hint().is_some());

    let repo = TestRepo::new();
    repo.git(["checkout", "--quiet", "-b", "side"]);
    repo.write("train.py", "side\n");
    repo.commit_all("side");
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("train.py", "main\n");
    repo.commit_all("main");
    for operation in ["merge", "rebase", "cherry-pick"] {
        assert!(!repo.try_git([operation, "side"]).status.success());
        let err = open(&repo).ready().unwrap_err();
        assert!(matches!(&err, GitError::InProgress(name) if *name == operation), "{err}");
        assert!(err.hint().unwrap().contains(&format!("git {operation} --abort")));
        repo.git([operation, "--abort"]);
        open(&repo).ready().unwrap();
    }
    repo.git(["bisect", "start"]);
    assert!(matches!(open(&repo).ready(), Err(GitError::InProgress("bisect"))));
}

#[test]
fn a_lock_of_another_process_is_named_and_a_dead_one_of_ours_is_taken_over() {
    let repo = TestRepo::new();
    let git = open(&repo);
    repo.write(".git/index.lock", "");
    let err = git.index.is_free().unwrap_err();
    assert!(matches!(&err, GitError::IndexLocked { lock, age: Some(_) } if lock.ends_with("index.lock")), "{err}");
    assert!(err.hint().unwrap().contains("index.lock"));
    let before = head(&repo);
    assert!(matches!(
        git.working_tree.restore(&before, &super::save_as(&before), &autoresearch::git::Untracked::default()),
        Err(GitError::IndexLocked { .. })
    ));
    assert!(repo.exists(".git/index.lock"));

    repo.write(".git/index.lock", "ar holds the index\n");
    git.index.is_free().unwrap();
    git.working_tree.restore(&before, &super::save_as(&before), &autoresearch::git::Untracked::default()).unwrap();
    assert!(!repo.exists(".git/index.lock"));
}

#[test]
fn excludes_are_added_once_and_keep_what_is_there() {
    let repo = TestRepo::new();
    repo.write(".git/info/exclude", "*.tmp");
    let git = open(&repo);
    git.exclude(&["/results.tsv", "/.autoresearch/"]).unwrap();
    git.exclude(&["/results.tsv", "/run.log"]).unwrap();
    assert_eq!(repo.read(".git/info/exclude"), "*.tmp\n# ar\n/results.tsv\n/.autoresearch/\n/run.log\n");
    repo.write("results.tsv", "");
    repo.write(".autoresearch/x", "");
    repo.write("a.tmp", "");
    assert_eq!(repo.status(), "");
}

#[test]
fn makes_a_repository_and_its_first_commit() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("train.sh"), "echo 1\n").unwrap();
    let git = Repo::init(dir.path()).unwrap();
    assert!(matches!(git.ready(), Err(GitError::Unborn(_))));
    let commit = git.commit_first("first").unwrap();
    git.ready().unwrap();
    let judge = TestRepo::empty();
    let git_says = |args: &[&str]| String::from_utf8(judge.try_git_in(dir.path(), args).stdout).unwrap();
    assert_eq!(git_says(&["rev-parse", "HEAD"]).trim(), commit.as_str());
    assert_eq!(git_says(&["status", "--porcelain"]), "");
    assert_eq!(git_says(&["ls-tree", "--name-only", "HEAD"]), "train.sh\n");
    assert_eq!(git_says(&["log", "--format=%s"]), "first\n");
}

#[test]
fn without_an_identity_a_fallback_commits() {
    // The environment of a process cannot be changed safely, so the test calls itself in another one.
    if let Some(dir) = std::env::var_os("AR_TEST_NO_IDENTITY") {
        let git = Repo::discover(Path::new(&dir)).unwrap();
        assert!(git.identity_is_fallback());
        let base = git.refs.head().unwrap().commit().unwrap().clone();
        let commit = super::propose_and_commit(&git, &base);
        git.refs.advance("refs/heads/main", &base, &commit, "test").unwrap();
        return;
    }
    let repo = TestRepo::new();
    assert!(!open(&repo).identity_is_fallback());
    repo.git(["config", "--unset", "user.name"]);
    repo.git(["config", "--unset", "user.email"]);
    repo.write("a", "a");
    let mut child = Command::new(std::env::current_exe().unwrap());
    repo.environment(&mut child);
    for name in ["AUTHOR_NAME", "AUTHOR_EMAIL", "AUTHOR_DATE", "COMMITTER_NAME", "COMMITTER_EMAIL", "COMMITTER_DATE"] {
        child.env_remove(format!("GIT_{name}"));
    }
    child.env("AR_TEST_NO_IDENTITY", repo.path());
    let output = child.args(["--exact", "git::open::without_an_identity_a_fallback_commits"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(repo.git(["log", "-1", "--format=%an %ae %cn %ce"]), "ar ar@localhost ar ar@localhost");
}
