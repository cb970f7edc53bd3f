//! Filters and signing programs of git's that hang or fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt::{signal, wait_for_runs};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

const ARGS: [&str; 8] = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];

/// An agent that makes its change while programs of git's hang.
const AGENT: &str = "touch ../hang; echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh";

/// A program that does `work`, and with the file `hang` beside the repository notes that it waits, and waits for ever.
fn program(repo: &TestRepo, work: &str) -> String {
    program_that(repo, "sh -c \"$wait\"", work)
}

/// A program that does `work`, and with the file `hang` beside the repository does `$wait` as `hang` says.
fn program_that(repo: &TestRepo, hang: &str, work: &str) -> String {
    let outside = repo.outside().display();
    let path = repo.outside().join("program");
    let wait = format!("wait='echo > {outside}/waits; sleep 600'");
    fs::write(&path, format!("#!/bin/sh\n{wait}\n[ -e {outside}/hang ] && {hang} && exit 1\n{work}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// What is configured, for each kind of program.
fn configure(repo: &TestRepo, kind: &str) {
    match kind {
        "filter" => {
            repo.write(".gitattributes", "*.sh filter=x\n");
            repo.commit_all("a filter");
            repo.git(["config", "filter.x.clean", &program(repo, "cat")]);
        }
        "daemon" => {
            repo.write(".gitattributes", "*.sh filter=x\n");
            repo.commit_all("a filter");
            // It is gone at once, and what it left behind keeps the pipe open, in a session of its own.
            let hang = "(setsid sh -c \"$wait\" &) && exit 0";
            repo.git(["config", "filter.x.clean", &program_that(repo, hang, "cat")]);
        }
        "openpgp" | "x509" => {
            let sign = "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo SIGNED-BY-TEST";
            repo.git(["config", "commit.gpgSign", "true"]);
            repo.git(["config", "user.signingKey", "me"]);
            repo.git(["config", "gpg.format", kind]);
            repo.git(["config", &format!("gpg.{kind}.program"), &program(repo, sign)]);
        }
        _ => {
            let sign = "for file; do :; done; echo SIGNED-BY-TEST > \"$file.sig\"";
            repo.git(["config", "commit.gpgSign", "true"]);
            repo.git(["config", "gpg.format", "ssh"]);
            repo.git(["config", "user.signingKey", "key::ssh-ed25519 AAAA"]);
            repo.git(["config", "gpg.ssh.program", &program(repo, sign)]);
        }
    }
}

/// A loop that waits for such a program after its first call of the agent.
fn hanging_loop(repo: &TestRepo, more: &[&str]) -> Child {
    let mut command = ar_command(repo, &repo.path(), ARGS);
    command.args(["--agent", AGENT, "--grace", "1s"]).args(more).env("AR_LIMITS", "5");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the program to wait", || repo.outside().join("waits").exists().then_some(()));
    child
}

fn ends(repo: &TestRepo, child: Child, code: i32) {
    let called = Called::from(child.wait_with_output().unwrap()).exits(code);
    assert!(called.stdout.contains("\nstopped: "), "{called:#?}");
    until("all programs to be gone", || repo.processes().is_empty().then_some(()));
}

#[test]
fn a_program_of_gits_that_hangs_keeps_no_request_to_stop_waiting() {
    let cases = [
        ("filter", "-INT"),
        ("filter", "stop"),
        ("daemon", "-TERM"),
        ("openpgp", "-TERM"),
        ("x509", "-TERM"),
        ("ssh", "-INT"),
    ];
    // Each has some seconds for the way back.
    thread::scope(|scope| cases.map(|(kind, stop)| drop(scope.spawn(move || hangs_and_is_ended(kind, stop)))));
}

/// What the kernel says of a process that was not waited for yet.
fn status_of(child: &Child, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim_start_matches(':').trim().to_owned()
}

/// Presses Ctrl-C twice for an `ar` that waits for a program.
pub(crate) fn interrupt_twice(child: &Child) {
    signal(child, "-INT");
    // Two of them at once would be one.
    until("the first one to be heard", || status_of(child, "ShdPnd").ends_with("0000000000000000").then_some(()));
    signal(child, "-INT");
    // It was one with the first if the signals' own thread was asleep. One after the loop's end would kill `ar`.
    let patience = Instant::now() + Duration::from_secs(5);
    let has_ended = until("the second one to be heard", || {
        let has_ended = status_of(child, "State").starts_with('Z');
        (has_ended || Instant::now() > patience).then_some(has_ended)
    });
    if !has_ended {
        signal(child, "-INT");
    }
}

fn hangs_and_is_ended(kind: &str, stop: &str) {
    let repo = training_repo();
    configure(&repo, kind);
    let child = hanging_loop(&repo, &[]);
    match stop {
        "stop" => drop(ar(&repo, ["stop", "--now"]).ok()),
        "-INT" => interrupt_twice(&child),
        signal_name => signal(&child, signal_name),
    }
    ends(&repo, child, if stop == "stop" { 0 } else { 130 });
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), repo.git(["rev-parse", "main"]), "{kind}");
    fs::remove_file(repo.outside().join("hang")).unwrap();
    let agent = "echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh";
    ar(&repo, ["resume", "--max-experiments", "1", "--agent", agent]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3, "{kind}");
    let is_signed = repo.git(["cat-file", "commit", "autoresearch/t"]).contains("SIGNED-BY-TEST");
    assert_eq!(is_signed, !["filter", "daemon"].contains(&kind), "{kind}");
}

#[test]
fn a_filter_that_hangs_keeps_no_request_to_stop_a_repeat_or_a_restored_branch_waiting() {
    let repo = training_repo();
    configure(&repo, "filter");
    repo.git(["config", "filter.x.smudge", &repo.outside().join("program").display().to_string()]);
    let agent = "echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh";
    ar(&repo, ARGS.into_iter().chain(["--agent", agent, "--max-experiments", "1"])).ok();
    let refs = repo.git(["for-each-ref"]);
    fs::write(repo.outside().join("hang"), "").unwrap();
    let dir = repo.outside().join("restored").display().to_string();
    for args in [&["repro", "1"][..], &["restore", "1", "--worktree", &dir]] {
        let _ = fs::remove_file(repo.outside().join("waits"));
        let mut command = ar_command(&repo, &repo.path(), args);
        command.env("AR_LIMITS", "5");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the program to wait", || repo.outside().join("waits").exists().then_some(()));
        signal(&child, "-INT");
        let called = Called::from(child.wait_with_output().unwrap()).exits(130);
        assert!(called.stderr.contains("terminated a git filter"), "{called:#?}");
        until("all programs to be gone", || repo.processes().is_empty().then_some(()));
        assert_eq!((repo.git(["for-each-ref"]), repo.git(["worktree", "list"]).lines().count()), (refs.clone(), 1));
    }
    assert!(!repo.outside().join("restored").exists());
}

#[test]
fn filters_work_on_the_way_back_whether_or_not_they_are_used_for_a_file() {
    for attributes in ["", "value filter=x\n"] {
        let repo = training_repo();
        repo.write("train.sh", "echo run >> ../runs; [ ! -e slow ] || sleep 600; echo val_bpb: 2.0\n");
        repo.write("value", "1\n");
        repo.write("other", "1\n");
        repo.write(".gitattributes", attributes);
        repo.commit_all("a filter");
        repo.git(["config", "filter.x.clean", "cat"]);
        repo.git(["config", "filter.x.smudge", "cat"]);
        let agent = "touch slow; echo 2 > value; echo 2 > other";
        let mut command = ar_command(&repo, &repo.path(), ARGS);
        command.args(["--agent", agent, "--grace", "1s"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_for_runs(&repo, 2);
        signal(&child, "-TERM");
        ends(&repo, child, 130);
        assert_eq!(repo.status(), "", "{attributes}");
        assert_eq!((repo.read("value"), repo.read("other")), ("1\n".into(), "1\n".into()), "{attributes}");
        assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), repo.git(["rev-parse", "main"]), "{attributes}");
        assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:value"]), "2", "{attributes}");
    }
}

#[test]
fn a_program_of_gits_that_hangs_ends_with_the_time_of_the_loop() {
    let repo = training_repo();
    configure(&repo, "filter");
    let child = hanging_loop(&repo, &["--for", "2s"]);
    ends(&repo, child, 0);
}

#[test]
fn a_key_that_cannot_sign_is_said_before_the_baseline_and_no_sign_is_stored() {
    let repo = training_repo();
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "gpg.program", "false"]);
    let agent = "echo echo val_bpb: 1.$AR_EXPERIMENT > train.sh";
    let called = ar(&repo, ARGS.into_iter().chain(["--agent", agent])).exits(1);
    assert!(called.stderr.starts_with("error: cannot sign commits\n"), "{called:#?}");
    assert!(called.stderr.contains("--no-sign"), "{called:#?}");
    assert!(!repo.exists("results.tsv") && repo.git(["branch", "--list", "autoresearch/*"]).is_empty());
    ar(&repo, ARGS.into_iter().chain(["--agent", agent, "--no-sign", "--max-experiments", "1"])).ok();
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
    assert!(!repo.git(["cat-file", "commit", "autoresearch/t"]).contains("gpgsig"));
}
