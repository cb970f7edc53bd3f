//! Repositories and working trees that cannot be worked in.

use std::fs;

use super::harness::{
    RUN, TRY, assert_says, both_refused, both_refused_with_change, files, is_root, refused, refused_in, standing,
    training_repo,
};
use crate::support::{Called, TestRepo, ar, ar_command};

#[test]
fn where_there_is_no_repository_or_no_working_tree() {
    let repo = training_repo();
    let dir = repo.outside().join("plain");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("train.sh"), "echo val_bpb: 1\n").unwrap();
    for args in [RUN, TRY, &["init"]] {
        refused_in(&repo, &dir, args, 1, &["no git repository at or above", "or make one: git init "]);
    }
    for args in [&["report"][..], &["log"], &["show", "0"]] {
        refused_in(
            &repo,
            &dir,
            args,
            1,
            &["no git repository at or above", "hint: cd into a git repository and retry"],
        );
    }
    let bare = repo.outside().join("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    for args in [RUN, TRY] {
        refused_in(&repo, &bare, args, 1, &["bare repository", "hint: run `git worktree add"]);
    }
}

#[test]
fn a_branch_without_a_commit() {
    let repo = TestRepo::empty();
    repo.write("train.sh", "echo val_bpb: 1.0\n");
    both_refused(&repo, &["main has no commit yet, and the baseline needs one", "hint: git add -A && git commit"]);
}

#[test]
fn a_merge_or_a_rebase_that_is_half_done() {
    let repo = training_repo();
    repo.git(["checkout", "--quiet", "-b", "other"]);
    repo.write("README.md", "a\n");
    repo.commit_all("other");
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("README.md", "b\n");
    repo.commit_all("main");
    assert!(!repo.try_git(["merge", "other"]).status.success());
    both_refused(&repo, &["a merge is in progress", "git merge --abort"]);
    repo.git(["merge", "--abort"]);
    assert!(!repo.try_git(["rebase", "other"]).status.success());
    both_refused(&repo, &["a rebase is in progress", "git rebase --abort"]);
}

#[test]
fn a_detached_head_is_fine_to_start_from_and_detached_again_after_a_failed_baseline() {
    let repo = training_repo();
    repo.git(["checkout", "--quiet", "--detach"]);
    let before = standing(&repo);
    let mut call = RUN.to_vec();
    call[2] = "loss";
    let called = ar(&repo, &call).exits(3);
    assert_says(&called, &["the run printed no loss", "val_bpb"]);
    assert_eq!(standing(&repo), before);
    ar(&repo, RUN).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t1");
}

#[test]
fn repositories_of_a_kind_that_cannot_be_worked_in_safely() {
    let repo = training_repo();
    repo.write("wide.txt", "x\n");
    repo.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n");
    repo.git(["add", ".gitattributes"]);
    both_refused(&repo, &["working-tree-encoding=UTF-16", "hint: store these files as UTF-8"]);

    let sparse = training_repo();
    sparse.write("a/x", "1\n");
    sparse.write("b/y", "2\n");
    sparse.commit_all("folders");
    sparse.git(["sparse-checkout", "set", "--sparse-index", "a"]);
    both_refused(&sparse, &["sparse indexes are not supported", "hint: git sparse-checkout reapply --no-sparse-index"]);

    let tables = repo.outside().join("tables");
    fs::create_dir(&tables).unwrap();
    if repo.try_git_in(&tables, ["init", "--quiet", "--ref-format=reftable", "."]).status.success() {
        for args in [RUN, TRY] {
            refused_in(&repo, &tables, args, 1, &["`reftable`", "hint: git refs migrate --ref-format=files"]);
        }
    } else {
        eprintln!("skipped: this git knows no reftable");
    }
}

#[test]
fn a_repository_of_another_user() {
    if !is_root() {
        eprintln!("skipped: only root can give a folder to another user");
        return;
    }
    let repo = training_repo();
    for path in files(&repo.path()).into_keys().chain([repo.path(), repo.file(".git/index")]) {
        std::os::unix::fs::lchown(path, Some(65534), None).unwrap();
    }
    refused(&repo, RUN, 1, &["belongs to another user", "git config --global --add safe.directory"]);
}

#[test]
fn without_an_identity_the_fallback_is_said_once_for_each_session() {
    let repo = training_repo();
    repo.git(["config", "--unset", "user.name"]);
    repo.git(["config", "--unset", "user.email"]);
    let nameless = |args: &[&str]| {
        let mut command = ar_command(&repo, &repo.path(), args);
        for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            command.env_remove(name);
        }
        Called::from(command.output().unwrap()).ok()
    };
    let said = |called: &Called| called.stderr.matches("user.name").count();
    assert_eq!(said(&nameless(RUN)), 1);
    repo.write("README.md", "changed\n");
    assert_eq!(said(&nameless(TRY)), 0);
    assert_eq!(said(&nameless(&["run"])), 0);
    assert_eq!(repo.git(["log", "-1", "--format=%an <%ae>", "refs/autoresearch/t1/00001"]), "ar <ar@localhost>");
}

#[test]
fn an_index_that_somebody_else_holds() {
    let repo = training_repo();
    repo.write(".git/index.lock", "");
    both_refused(&repo, &["the index is locked by ", "hint: wait for the other git process; if there is none: rm "]);
}

#[test]
fn a_dirty_working_tree() {
    let repo = training_repo();
    repo.write("README.md", "changed\n");
    repo.write("train.sh", "echo val_bpb: 0.5\n");
    refused(&repo, RUN, 1, &["README.md, train.sh", "--adopt"]);
    let called = ar(&repo, [RUN, &["--adopt"]].concat()).ok();
    assert!(
        called
            .stdout
            .contains("1  keep     0.5       README.md, train.sh: 2 files changed, +2 -2: val_bpb 0.5 is better"),
        "{called:?}"
    );
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "README.md\ntrain.sh");
    refused(
        &repo,
        &["run", "--adopt"],
        1,
        &["nothing to adopt: the working tree has no uncommitted change", "hint: omit --adopt"],
    );
}

#[test]
fn a_state_folder_that_is_tracked() {
    let repo = training_repo();
    repo.write(".autoresearch/t0/notes", "x\n");
    repo.commit_all("too much");
    both_refused_with_change(&repo, &[".autoresearch is tracked", "hint: git rm -r --quiet --cached .autoresearch"]);
}

#[test]
fn a_start_that_fails_before_its_first_run_leaves_no_folder() {
    let harms: [(&str, &str, &[&str]); 3] = [
        ("refs/heads/autoresearch/t.lock", "", &[]),
        ("HEAD.lock", "", &[]),
        ("worktrees", "a file\n", &["--slots", "2"]),
    ];
    for (path, content, more) in harms {
        let repo = training_repo();
        repo.write(format!(".git/{path}"), content);
        let seen = || (repo.git(["for-each-ref"]), repo.git(["status", "--short", "--branch"]));
        let before = seen();
        let args =
            ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "0"];
        let failed = ar(&repo, args.iter().chain(more));
        assert_ne!(failed.code, Some(0), "{failed:?}");
        assert_eq!(seen(), before, "{path}");
        assert!(!repo.exists(".autoresearch"), "{path}: {failed:?}");
        repo.rm(format!(".git/{path}"));
        ar(&repo, args.iter().chain(more)).ok();
    }
}
