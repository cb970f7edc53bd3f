//! Folders, links and files where a session has something else, and names that cannot work.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, TestRepo, ar, ar_command, ar_in_time};

fn run_args(count: &'static str) -> [&'static str; 10] {
    ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", count]
}

fn run(repo: &TestRepo, agent: &str, count: &'static str) -> Called {
    ar(repo, run_args(count).into_iter().chain(["--agent", agent]))
}

fn records(repo: &TestRepo) -> usize {
    repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t"]).lines().count()
}

/// Runs as somebody for whom the rights of folders count: root may write everywhere, unless it gives that right up.
fn run_without_privilege(repo: &TestRepo, count: &'static str, flags: &[&str]) -> Called {
    let mut command = Command::new("setpriv");
    let may_drop = Command::new("setpriv").args(["--bounding-set", "-dac_override", "true"]).status();
    if may_drop.is_ok_and(|status| status.success()) {
        command.args([
            "--bounding-set",
            "-dac_override,-dac_read_search",
            "--inh-caps",
            "-dac_override,-dac_read_search",
        ]);
        command.args(["--", AR]);
    } else {
        command = Command::new(AR);
    }
    repo.environment(&mut command);
    command.args(run_args(count)).args(flags).current_dir(repo.path());
    Called::from(command.output().unwrap())
}

#[test]
fn a_read_only_folder_in_the_change_is_taken_back_with_it() {
    let repo = training_repo();
    let agent = "mkdir -p cache/deep; echo x > cache/deep/file; chmod 555 cache/deep cache; echo 3.0 > value";
    let called = run_without_privilege(&repo, "2", &["--agent", agent, "--min-delta", "9"]).ok();
    assert!(!repo.exists("cache"), "{called:#?}");
    assert_eq!(records(&repo), 4, "two refusals of the same change: {called:#?}");
    assert_eq!(repo.git(["show", "refs/autoresearch/t/00001:cache/deep/file"]), "x");
    assert_eq!(repo.status(), "");
}

#[test]
fn a_folder_in_the_place_of_a_state_file_is_moved_aside() {
    let files =
        ["contract.json", "progress.json", "untracked.json", "protected.json", "findings.jsonl", "task_spec.md"];
    for file in files {
        let repo = training_repo();
        run(&repo, "echo x > new.txt", "1").ok();
        let path = format!(".autoresearch/t/state/{file}");
        repo.rm(&path);
        fs::create_dir(repo.file(&path)).unwrap();
        let called = ar(&repo, ["resume", "t", "--max-experiments", "1"]);
        if file == "contract.json" && called.code != Some(0) {
            ar(&repo, ["doctor", "--repair"]).ok();
            ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
        } else {
            called.ok();
        }
        assert!(repo.file(&path).is_file(), "{file}");
        assert!(repo.file(format!("{path}.replaced")).is_dir(), "{file}");
        assert_eq!(records(&repo), 3, "{file}");
    }
}

#[test]
fn a_file_in_the_place_of_the_sessions_folder_is_refused() {
    let repo = training_repo();
    repo.write(".autoresearch", "a note\n");
    let called = run(&repo, "true", "1").exits(1);
    assert!(called.stderr.contains(".autoresearch is not a folder"), "{called:?}");
    assert!(called.stderr.contains("to move it away: mv "), "{called:?}");
    assert_eq!(repo.read(".autoresearch"), "a note\n");
}

#[test]
fn a_link_to_a_folder_elsewhere_is_followed_where_the_user_made_it() {
    let repo = training_repo();
    fs::create_dir(repo.outside().join("elsewhere")).unwrap();
    repo.symlink("../elsewhere", ".autoresearch");
    run(&repo, &format!("{AR} stop; echo $? > ../refused; echo x > new.txt"), "1").ok();
    assert_eq!(fs::read_to_string(repo.outside().join("refused")).unwrap(), "1\n", "commands that act are refused");
    assert!(repo.outside().join("elsewhere/t/state/contract.json").is_file());
    assert!(repo.file(".autoresearch").is_symlink());
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["show", "--name-only", "--format=", "refs/autoresearch/t/00001^{commit}"]), "new.txt");
}

#[test]
fn a_link_to_a_folder_on_another_file_system_is_followed() {
    let repo = training_repo().without_walls();
    // The repositories are made in memory where there is plenty.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    repo.symlink(elsewhere.path(), ".autoresearch");
    repo.write(".git/info/exclude", "eval/\n");
    repo.write("eval/data", "the data\n");
    let agent = "case $AR_EXPERIMENT in 1) rm eval/data; mkdir -p eval/data/deep; ln -s x eval/data/link; \
                 echo forged > eval/data/deep/file; chmod 555 eval/data/deep;; esac; echo $AR_EXPERIMENT > new.txt";
    let called = ar(&repo, run_args("2").into_iter().chain(["--protect", "eval", "--agent", agent])).ok();
    assert_eq!(record(&repo, 1)["failure"]["class"], "protected", "{called:#?}");
    assert_eq!(record(&repo, 2)["failure"], Value::Null, "{called:#?}");
    assert_eq!(repo.read("eval/data"), "the data\n");
    let aside = elsewhere.path().join("t/aside/00001/eval/data");
    assert_eq!(fs::read_to_string(aside.join("deep/file")).unwrap(), "forged\n", "{called:#?}");
    assert!(aside.join("link").is_symlink());
    assert!(repo.file("run.log").is_symlink() && !repo.read("run.log").is_empty(), "{called:#?}");
    assert!(!repo.exists("run.log.before-link"));
    assert_eq!(repo.status(), "");
}

#[test]
fn a_link_that_appears_in_the_place_of_the_folder_is_undone() {
    let repo = training_repo().without_walls();
    fs::create_dir(repo.outside().join("precious")).unwrap();
    fs::write(repo.outside().join("precious/file"), "x").unwrap();
    // `ar` may recreate the folder before the link has its place.
    let link = "until ln -sT $to .autoresearch; do rm -rf .autoresearch; done 2> ../tries";
    let agent = format!(
        "case $AR_EXPERIMENT in 1) mv .autoresearch ../moved; to=../moved;; 2) rm -rf .autoresearch; to=../precious;; esac; \
         {link}; echo $AR_EXPERIMENT > new.txt"
    );
    let called = run(&repo, &agent, "2").ok();
    assert!(repo.file(".autoresearch").is_dir() && !repo.file(".autoresearch").is_symlink(), "{called:#?}");
    assert!(called.stderr.contains("restored .autoresearch, replaced while the agent was active"), "{called:#?}");
    assert_eq!(fs::read_to_string(repo.outside().join("precious/file")).unwrap(), "x");
    assert_eq!(records(&repo), 3, "{called:#?}");
    let iterations = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    assert_eq!(iterations.lines().count(), 2, "{iterations}");
    assert_eq!(repo.status(), "");
}

#[test]
fn a_deleted_file_whose_copy_is_gone_is_called_that() {
    let repo = training_repo().without_walls();
    repo.write("notes.txt", "mine\n");
    let object = "f=$(git hash-object notes.txt); rm -f .git/objects/$(echo $f | cut -c1-2)/$(echo $f | cut -c3-)";
    let called = run(&repo, &format!("{object}; rm notes.txt; echo x > new.txt"), "1").ok();
    assert!(called.stderr.contains("not restored, because git's copies were deleted too: notes.txt"), "{called:?}");
    assert!(!called.stderr.contains("too large"), "{called:?}");
}

#[test]
fn a_repository_whose_path_is_not_text_is_refused() {
    let repo = training_repo();
    let odd = repo.outside().join(OsStr::from_bytes(b"caf\xe9"));
    fs::rename(repo.path(), &odd).unwrap();
    for args in [&["run", "--metric", "loss", "--cmd", "true"][..], &["init"]] {
        let called = Called::from(ar_command(&repo, &odd, args).output().unwrap()).exits(1);
        assert!(called.stderr.contains("the repository's path is not UTF-8"), "{called:?}");
        assert!(called.stderr.contains("hint: move the repository"), "{called:?}");
    }
    fs::rename(&odd, repo.path()).unwrap();
}

#[test]
fn a_tag_that_windows_reserves_is_refused_by_name() {
    let repo = training_repo();
    let called = ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "aux"]).exits(2);
    assert!(called.stderr.contains("Windows reserves the name `aux`"), "{called:?}");
}

#[test]
fn a_name_with_brackets_is_written_as_git_writes_it() {
    let repo = training_repo();
    repo.git(["config", "user.name", "Ada <the first> Lovelace."]);
    let mut command = ar_command(&repo, &repo.path(), run_args("1"));
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
        command.env_remove(name);
    }
    Called::from(command.args(["--agent", "echo x > new.txt"]).output().unwrap()).ok();
    let names = repo.git(["log", "-1", "--format=%an|%cn", "refs/autoresearch/t/00001"]);
    assert_eq!(names, "Ada the first Lovelace|Ada the first Lovelace");
    repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]);
}

#[test]
fn a_repository_with_sha_256_is_refused_with_a_way_out() {
    let repo = TestRepo::new();
    let other = repo.outside().join("sha256");
    fs::create_dir(&other).unwrap();
    assert!(repo.try_git_in(&other, ["init", "--quiet", "--object-format=sha256", "."]).status.success());
    let called = Called::from(ar_command(&repo, &other, run_args("1")).output().unwrap()).exits(1);
    assert!(called.stderr.contains("git init --object-format=sha1 ../copy"), "{called:?}");
    assert!(called.stderr.contains("sha256"), "{called:?}");
}

#[test]
fn a_copy_of_a_protected_file_keeps_its_permissions() {
    let repo = training_repo().without_walls();
    repo.write(".git/info/exclude", "eval/\n");
    repo.write("eval/run.sh", "echo x\n");
    fs::set_permissions(repo.file("eval/run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let args = run_args("1").into_iter().chain(["--protect", "eval", "--agent", "rm -rf eval"]);
    let called = ar(&repo, args).ok();
    assert_eq!(fs::metadata(repo.file("eval/run.sh")).unwrap().permissions().mode() & 0o777, 0o750, "{called:?}");
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]);
    let record: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(record["failure"]["class"], "protected", "a change of nothing else is recorded too");
}

fn record(repo: &TestRepo, id: u32) -> Value {
    let name = format!("refs/autoresearch/t/{id:05}");
    serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", &name])).unwrap()
}

#[test]
fn a_protected_file_is_restored_in_a_folder_without_rights() {
    let repo = training_repo().without_walls();
    repo.write(".git/info/exclude", "eval/\n");
    repo.write("eval/data", "the data\n");
    repo.write("eval/deep/more", "more of it\n");
    let agent = "case $AR_EXPERIMENT in 1) rm eval/data; chmod 555 eval;; 2) rm -r eval/deep; chmod 555 eval;; \
                 3) chmod 000 eval/deep eval;; 4) echo > eval/forged; chmod 000 eval;; esac; echo $AR_EXPERIMENT > new.txt";
    let called = run_without_privilege(&repo, "5", &["--protect", "eval", "--agent", agent]).ok();
    assert_eq!(repo.read("eval/data"), "the data\n");
    assert_eq!(repo.read("eval/deep/more"), "more of it\n");
    let classes: Vec<Value> = (1..=5).map(|id| record(&repo, id)["failure"]["class"].clone()).collect();
    let protected = || Value::from("protected");
    assert_eq!(classes, [protected(), protected(), Value::Null, protected(), Value::Null], "{called:#?}");
    assert!(!repo.exists("eval/forged"));
}

#[test]
fn a_pipe_below_a_protected_path_is_named_and_not_read() {
    let repo = training_repo();
    repo.write(".git/info/exclude", "eval/\n");
    repo.write("eval/data", "the data\n");
    assert!(Command::new("mkfifo").arg(repo.file("eval/pipe")).status().unwrap().success());
    let args = run_args("2").into_iter().chain(["--protect", "eval", "--agent", "echo $AR_EXPERIMENT > new.txt"]);
    let called = ar_in_time(&repo, args).ok();
    assert!(called.stderr.contains("cannot protect pipes, sockets and devices: eval/pipe"), "{called:#?}");
    for id in 1..=2 {
        assert_eq!(record(&repo, id)["failure"], Value::Null, "{called:#?}");
    }
    assert!(repo.exists("eval/pipe"));
}

#[test]
fn a_change_of_protected_files_that_are_too_large_to_copy_counts_once() {
    let repo = training_repo().without_walls();
    repo.write(".git/info/exclude", "eval/\n");
    for name in ["eval/large", "eval/gone"] {
        repo.write(name, "");
        fs::File::options().write(true).open(repo.file(name)).unwrap().set_len(1 << 30).unwrap();
    }
    let agent = "[ $AR_EXPERIMENT != 1 ] || { truncate -s 5 eval/large; rm eval/gone; }; echo $AR_EXPERIMENT > new.txt";
    ar(&repo, run_args("1").into_iter().chain(["--protect", "eval", "--agent", agent])).ok();
    let called = ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert_eq!(record(&repo, 1)["failure"]["class"], "protected", "{called:#?}");
    assert_eq!(record(&repo, 2)["failure"], Value::Null, "{called:#?}");
}
