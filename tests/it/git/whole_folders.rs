//! What is found in folders in which nothing was put or taken away for a while, and which are not read again then.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use autoresearch::fs::FileStamp;
use autoresearch::git::Repo;

use super::open;
use crate::support::{TestRepo, until};

type Edit = fn(&TestRepo, &str);

/// Each is made in a folder of its own, with the tracked files `a`, `b` and `c/d`.
const EDITS: [(&str, Edit); 18] = [
    ("a new file", |repo, folder| repo.write(format!("{folder}/new"), "new\n")),
    ("a new file below", |repo, folder| repo.write(format!("{folder}/c/new"), "new\n")),
    ("a new folder", |repo, folder| repo.write(format!("{folder}/n/new"), "new\n")),
    ("an ignored file", |repo, folder| repo.write(format!("{folder}/new.log"), "new\n")),
    ("a file that comes from elsewhere", |repo, folder| {
        fs::write(repo.outside().join("old"), "old\n").unwrap();
        fs::rename(repo.outside().join("old"), repo.file(format!("{folder}/old"))).unwrap();
    }),
    ("a deleted file", |repo, folder| repo.rm(format!("{folder}/a"))),
    ("a deleted folder", |repo, folder| fs::remove_dir_all(repo.file(format!("{folder}/c"))).unwrap()),
    ("a renamed file", |repo, folder| {
        fs::rename(repo.file(format!("{folder}/a")), repo.file(format!("{folder}/z"))).unwrap();
    }),
    ("another content", |repo, folder| repo.write(format!("{folder}/a"), "another\n")),
    ("a folder in the place of a file", |repo, folder| {
        repo.rm(format!("{folder}/a"));
        repo.write(format!("{folder}/a/new"), "new\n");
    }),
    ("a file that is tracked no more", |repo, folder| {
        repo.git(["rm", "--quiet", "--cached", &format!("{folder}/a")]);
    }),
    ("a file that is tracked in the place of another, and not there", |repo, folder| track(repo, folder, "a", "z")),
    ("the same where it is not looked for", |repo, folder| {
        track(repo, folder, "a", "z");
        repo.git(["update-index", "--skip-worktree", &format!("{folder}/z")]);
    }),
    ("a file that is tracked as a folder", |repo, folder| track(repo, folder, "a", "a/x")),
    ("a folder that is tracked in the place of a file, and not there", |repo, folder| track(repo, folder, "a", "n/x")),
    ("a folder that is tracked as a file", |repo, folder| track(repo, folder, "c", "c")),
    ("a file that is tracked in the place of a folder", |repo, folder| track(repo, folder, "c", "z")),
    ("a folder that is tracked no more", |repo, folder| {
        repo.git(["rm", "--quiet", "--cached", "-r", &format!("{folder}/c")]);
    }),
];

/// Has the index have a file in the place of another one or of a folder, and leaves the working tree as it is.
fn track(repo: &TestRepo, folder: &str, old: &str, new: &str) {
    let blob = repo.git(["rev-parse", &format!("HEAD:{folder}/a")]);
    repo.git(["rm", "--quiet", "--cached", "-r", &format!("{folder}/{old}")]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{folder}/{new}")]);
}

/// What git says of the working tree: the tracked files that differ from `HEAD`, and the untracked ones.
fn by_git(repo: &TestRepo) -> [BTreeSet<PathBuf>; 2] {
    let status = repo.git(["status", "--porcelain", "--untracked-files=all", "--no-renames", "-z"]);
    let lines = status.split('\0').filter(|line| !line.is_empty());
    let (untracked, tracked): (Vec<&str>, _) = lines.partition(|line| line.starts_with("??"));
    [tracked, untracked].map(|lines| lines.iter().map(|line| PathBuf::from(&line[3..])).collect())
}

fn by_ar(git: &Repo) -> [BTreeSet<PathBuf>; 2] {
    let changes = git.working_tree.changes().unwrap();
    [
        changes.tracked.into_iter().map(|(path, _)| path).collect(),
        changes.untracked.paths().map(Path::to_owned).collect(),
    ]
}

#[test]
fn folders_that_are_not_read_again_hide_nothing() {
    let repo = TestRepo::new();
    repo.write(".gitignore", "*.log\n");
    let folders: Vec<_> = (0..EDITS.len()).map(|number| format!("folder{number}")).collect();
    for folder in &folders {
        for name in ["a", "b", "c/d"] {
            repo.write(format!("{folder}/{name}"), format!("{name}\n"));
        }
    }
    repo.commit_all("folders");
    until("folders in which nobody did anything for a while", || {
        let last = FileStamp::of(&repo.file(format!("{}/c", folders.last()?)))?;
        last.is_settled().then_some(())
    });
    let git = open(&repo);
    assert_eq!(by_ar(&git), by_git(&repo));
    for ((what, edit), folder) in EDITS.iter().zip(&folders) {
        edit(&repo, folder);
        for _ in 0..2 {
            assert_eq!(by_ar(&git), by_git(&repo), "{what} in {folder}");
        }
    }
}
