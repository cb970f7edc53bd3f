//! Diffs, against those of git.

use std::fs;
use std::process::{Command, Stdio};

use autoresearch::domain::CommitId;

use super::open;
use crate::support::TestRepo;

/// Two commits with every kind of change between them.
fn changed() -> (TestRepo, CommitId, CommitId) {
    let repo = TestRepo::new();
    let lines =
        |from: u32, to: u32| (from..to).map(|n| format!("def line_{n}():\n    return {n}\n")).collect::<String>();
    repo.write("train.py", lines(0, 60));
    repo.write("moved from.py", lines(100, 150));
    repo.write("gone.txt", "gone\n");
    repo.write("no newline", "a\nb\nc");
    repo.write("mode.sh", "#!/bin/sh\n");
    repo.write("type", "a file\n");
    repo.write("image.png", b"\x89PNG\0\x01");
    repo.write("folder/file", "x\n");
    repo.write("caf\u{e9} \"q\".txt", "old\n");
    repo.write("empty", "");
    let a = CommitId::new(repo.commit_all("a"));
    let edited = lines(0, 60)
        .replace("return 3\n", "return 33\n")
        .replace("return 8\n", "")
        .replace("return 50\n", "return 5\nend\n");
    repo.write("train.py", format!("first\n{edited}"));
    fs::rename(repo.file("moved from.py"), repo.file("moved.py")).unwrap();
    repo.rm("gone.txt");
    repo.write("no newline", "a\nb\nd\ne");
    repo.chmod("mode.sh", true);
    repo.rm("type");
    repo.symlink("train.py", "type");
    repo.write("image.png", b"\x89PNG\0\x02");
    repo.write("new image.png", b"\0\0");
    fs::remove_dir_all(repo.file("folder")).unwrap();
    repo.write("folder", "now a file\n");
    repo.write("caf\u{e9} \"q\".txt", "new\n");
    repo.rm("empty");
    repo.write("empty too", "");
    repo.write("added one.txt", "line\n");
    let b = CommitId::new(repo.commit_all("b"));
    (repo, a, b)
}

#[test]
fn reads_as_git_prints_it() {
    let (repo, a, b) = changed();
    let ours = String::from_utf8(open(&repo).objects.diff_text(&a, &b).unwrap()).unwrap();
    let gits = repo.git(["diff", a.as_str(), b.as_str()]);
    assert_eq!(ours.trim_end_matches('\n'), gits);
    let back = String::from_utf8(open(&repo).objects.diff_text(&b, &a).unwrap()).unwrap();
    assert_eq!(back.trim_end_matches('\n'), repo.git(["diff", b.as_str(), a.as_str()]));
    assert!(open(&repo).objects.diff_text(&a, &a).unwrap().is_empty());
}

#[test]
fn counts_as_git_counts() {
    let (repo, a, b) = changed();
    let stat = open(&repo).objects.diff(&a, &b).unwrap().stat();
    let numstat = repo.git(["diff", "--numstat", a.as_str(), b.as_str()]);
    let column =
        |n: usize| numstat.lines().map(|line| line.split('\t').nth(n).unwrap().parse().unwrap_or(0)).sum::<u32>();
    assert_eq!((stat.files as usize, stat.added, stat.deleted), (numstat.lines().count(), column(0), column(1)));
}

#[test]
fn can_be_applied() {
    let repo = TestRepo::new();
    repo.write("a b.txt", "1\n2\n3");
    repo.write("gone/deep.txt", "x\n");
    let a = CommitId::new(repo.commit_all("a"));
    repo.write("a b.txt", "1\n2\n3\n4\n");
    fs::remove_dir_all(repo.file("gone")).unwrap();
    repo.write("new/\u{1f600}.sh", "#!/bin/sh\n");
    repo.chmod("new/\u{1f600}.sh", true);
    repo.symlink("a b.txt", "link");
    let b = CommitId::new(repo.commit_all("b"));
    let diff = open(&repo).objects.diff_text(&a, &b).unwrap();
    repo.git(["reset", "--quiet", "--hard", a.as_str()]);
    let mut apply = Command::new("git");
    repo.environment(&mut apply);
    let mut apply = apply.current_dir(repo.path()).args(["apply", "--index"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut apply.stdin.take().unwrap(), &diff).unwrap();
    assert!(apply.wait().unwrap().success());
    assert_eq!(repo.git(["write-tree"]), open(&repo).objects.tree_of(&b).unwrap());
}
