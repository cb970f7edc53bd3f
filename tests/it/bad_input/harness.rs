//! What the tests of bad input share.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Called, TestRepo, ar_command};

/// A call that starts a session in a [`TestRepo::new`], if nothing is wrong.
pub(super) const RUN: &[&str] = &["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t1"];

/// The same with a change in the working tree.
pub(super) const TRY: &[&str] = &["try", "-m", "x", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t1"];

/// A repository with a training script that prints a number.
pub(super) fn training_repo() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("train.sh", "echo val_bpb: 1.0\n");
    repo.commit_all("training");
    repo
}

/// Every file below `dir`, the repository's own ones too. Left out are the index, which `git status` refreshes, and what the shim
/// of a job notes until it is over.
pub(crate) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                found.insert(path.clone(), Vec::new());
                folders.push(path);
            } else if meta.is_symlink() {
                found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
            } else if meta.is_file() && !["index", "namespaces"].iter().any(|name| path.ends_with(name)) {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[track_caller]
pub(super) fn assert_says(called: &Called, needles: &[&str]) {
    for needle in needles {
        assert!(called.stderr.contains(needle), "no `{needle}` in {called:#?}");
    }
    assert!(called.stderr.starts_with("error: ") || called.stderr.contains("\nerror: "), "{called:#?}");
    assert!(called.stderr.contains("hint: "), "{called:#?}");
    assert!(!called.stderr.contains("panicked"), "{called:#?}");
}

/// Calls `ar` in `dir`: it must exit with `code`, say all of `needles`, and change nothing.
#[track_caller]
pub(super) fn refused_in(repo: &TestRepo, dir: &Path, args: &[&str], code: i32, needles: &[&str]) {
    let before = files(dir);
    let called = Called::from(ar_command(repo, dir, args).output().unwrap()).exits(code);
    assert_says(&called, needles);
    let after = files(dir);
    let changed: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "{args:?} changed {changed:?}");
}

#[track_caller]
pub(super) fn refused(repo: &TestRepo, args: &[&str], code: i32, needles: &[&str]) {
    refused_in(repo, &repo.path(), args, code, needles);
}

/// Both `ar run` and `ar try` cannot start.
#[track_caller]
pub(super) fn both_refused(repo: &TestRepo, needles: &[&str]) {
    refused(repo, RUN, 1, needles);
    refused(repo, TRY, 1, needles);
}

/// What a failed baseline must leave as it was.
pub(super) fn standing(repo: &TestRepo) -> (String, String, String, Option<String>) {
    (
        repo.git(["status", "--porcelain"]),
        repo.git(["for-each-ref"]),
        repo.read(".git/HEAD"),
        repo.exists("results.tsv").then(|| repo.read("results.tsv")),
    )
}

pub(super) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

pub(super) fn start(repo: &TestRepo, args: &[&str]) -> Child {
    ar_command(repo, &repo.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[track_caller]
pub(super) fn both_refused_with_change(repo: &TestRepo, needles: &[&str]) {
    refused(repo, RUN, 1, needles);
    repo.write("README.md", "changed\n");
    refused(repo, TRY, 1, needles);
    repo.git(["checkout", "--quiet", "README.md"]);
}
