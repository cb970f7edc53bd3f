//! Reading objects again: what a commit needs, each once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::{head, open};
use crate::support::TestRepo;

/// Long enough for any test.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(300)
}

#[test]
fn what_is_sound_is_read_once_and_what_is_new_then() {
    let repo = TestRepo::new();
    repo.write("a/b.txt", "one\n");
    let inner = TestRepo::new();
    repo.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        inner.path().to_str().unwrap(),
        "sub",
    ]);
    repo.commit_all("a folder and a submodule");
    let git = open(&repo);
    let all = repo.git(["ls-tree", "-r", "-t", "HEAD"]).lines().filter(|line| !line.contains(" commit ")).count() + 2;
    let mut checker = git.objects.checker();
    let first = checker.check(&[head(&repo)], later());
    assert_eq!((first.objects, first.is_cut, first.damaged.len()), (all, false, 0), "commit, tree and all below");
    assert_eq!(checker.check(&[head(&repo)], later()).objects, 0);
    repo.write("a/b.txt", "two\n");
    repo.commit_all("a change");
    // What stands in the place of an object for git itself is not what the session wrote.
    repo.git(["replace", "HEAD:a/b.txt", "HEAD~:a/b.txt"]);
    let new = checker.check(&[head(&repo)], later());
    assert_eq!((new.objects, new.damaged.len()), (4, 0), "commit, two trees and the file: {new:?}");
    assert!(git.objects.checker().check(&[head(&repo)], Instant::now()).is_cut);
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let repo = TestRepo::new();
    for name in ["gone", "cut", "other"] {
        repo.write(name, format!("{name}\n"));
    }
    repo.commit_all("files");
    let object = |name: &str| {
        let id = repo.git(["rev-parse", &format!("HEAD:{name}")]);
        let path = repo.path().join(".git/objects").join(&id[..2]).join(&id[2..]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        (id, path)
    };
    let [gone, cut, other] = ["gone", "cut", "other"].map(object);
    fs::copy(&gone.1, &other.1).unwrap();
    fs::write(&cut.1, &fs::read(&cut.1).unwrap()[..5]).unwrap();
    fs::remove_file(&gone.1).unwrap();
    let mut checked = open(&repo).objects.checker().check(&[head(&repo)], later());
    checked.damaged.sort();
    let starts =
        [(cut.0, "cannot be read: "), (gone.0, "is missing"), (other.0, "has other content than its name says")];
    let mut starts = starts.map(|(id, what)| format!("blob {id} {what}"));
    starts.sort();
    assert_eq!(checked.damaged.len(), 3, "{checked:?}");
    assert!(checked.damaged.iter().zip(&starts).all(|(found, start)| found.starts_with(start)), "{checked:?}");
}
