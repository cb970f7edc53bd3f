//! A full disk, no terminal, no UTF-8.

use std::fs;
use std::process::Command;

use super::harness::{RUN, TRY, assert_says, refused, training_repo};
use crate::support::{AR, Called, SmallDisk, ar, ar_command};

#[test]
fn a_disk_that_is_full() {
    let repo = training_repo();
    let Some(disk) = SmallDisk::mount(repo.outside().join("small")) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let dir = disk.path().join("repo");
    let git = |args: &[&str]| {
        let output = repo.try_git_in(&dir, args);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let call = |args: &[&str]| Called::from(ar_command(&repo, &dir, args).output().unwrap());
    repo.git(["clone", "--quiet", ".", dir.to_str().unwrap()]);
    call(RUN).ok();

    disk.fill();
    // A file of one block that is there already can still be written.
    fs::write(dir.join("README.md"), "changed\n").unwrap();
    let refs = git(&["for-each-ref"]);
    let called = call(&["try", "-m", "x"]).exits(1);
    assert_says(&called, &["the disk is too full for an experiment: 0 B and ", "free disk space"]);
    assert_eq!(git(&["for-each-ref"]), refs);
    assert_eq!(fs::read_to_string(dir.join("README.md")).unwrap(), "changed\n");
    disk.free();
    assert_eq!(git(&["status", "--porcelain"]), " M README.md\n");
    call(&["try", "-m", "x"]).ok();

    // The run of an experiment fills it; with room again, the same commit is measured.
    let agent = "echo '[ -e ../room ] || cat /dev/zero > ../fill; echo val_bpb: 0.5' > train.sh; echo fill the disk";
    let called = call(&["run", "--agent", agent, "--max-experiments", "1"]).exits(4);
    assert_says(&called, &["full", "free disk space"]);
    disk.free();
    fs::write(disk.path().join("room"), "").unwrap();
    let called = call(&["resume"]).ok();
    assert!(
        called.stdout.contains("2  keep     0.5       fill the disk: val_bpb 0.5 is better than 1.0"),
        "{called:#?}"
    );
    assert_eq!(git(&["status", "--porcelain"]), "");
    git(&["fsck", "--strict"]);
    assert_eq!(fs::read_to_string(dir.join("results.tsv")).unwrap().lines().count(), 4);
}

#[test]
fn no_terminal_and_not_even_open_files() {
    let repo = training_repo();
    let closed = |closing: &str, args: &[&str]| {
        let mut command = Command::new("sh");
        repo.environment(&mut command);
        let status = command
            .args(["-c", &format!("exec \"$0\" \"$@\" {closing}"), AR])
            .args(args)
            .current_dir(repo.path())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{args:?} {closing}");
    };
    closed("<&- >&- 2>/dev/null", RUN);
    repo.write("README.md", "changed\n");
    closed("<&- >&- 2>&-", TRY);
    closed("2>&- >/dev/null", &["run"]);
    for command in ["report", "log"] {
        closed(">&-", &[command]);
        closed("<&- 2>&- | :", &[command]);
    }
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
    for n in ["00000", "00001"] {
        assert_eq!(repo.read(format!(".autoresearch/t1/runs/{n}/run.log")), "val_bpb: 1.0\n");
    }
    repo.git(["fsck", "--strict"]);
}

#[test]
fn a_locale_without_utf_8() {
    let repo = training_repo();
    repo.write("naïve ☃.py", "1\n");
    repo.commit_all("größer");
    ar(&repo, RUN).ok();
    repo.write("naïve ☃.py", "2\n");
    refused(&repo, &["run"], 1, &["naïve ☃.py"]);
    let called = ar(&repo, ["try", "-m", "größer ☃ 你好"]).ok();
    assert!(called.stdout.contains("größer ☃ 你好"), "{called:?}");
    assert!(repo.read("results.tsv").ends_with("\trejected\tgrößer ☃ 你好\n"));
    assert_eq!(repo.git(["for-each-ref", "--format=%(subject)", "refs/autoresearch/t1/00001"]), "größer ☃ 你好");
    assert_eq!(repo.read("naïve ☃.py"), "1\n");
    assert!(ar(&repo, ["log"]).ok().stdout.contains("größer ☃ 你好"));
    // Arguments that are no UTF-8 at all.
    let latin = std::os::unix::ffi::OsStrExt::from_bytes(b"gr\xf6\xdfer");
    let mut command = ar_command(&repo, &repo.path(), ["try", "-m"]);
    let called = Called::from(command.arg::<&std::ffi::OsStr>(latin).output().unwrap()).exits(2);
    assert!(called.stderr.starts_with("error: "), "{called:?}");
}
