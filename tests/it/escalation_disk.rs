//! A full disk that the loop waits out: who tells of it, where its report is, and how often.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::escalation::{start, status, until_waiting};
use crate::run_loop::training_repo;
use crate::support::{Called, SmallDisk, TestRepo, ar, ar_command, until};

/// An agent that changes a file and fills the disk in its first calls. The change is the same each time.
fn filler(calls: u32) -> String {
    format!(
        "echo '# changed' >> train.sh; echo x >> ../calls; [ $(grep -c x ../calls) -gt {calls} ] && exit; \
         {{ cat /dev/zero > fill; }} 2>/dev/null; exit 1"
    )
}

/// A repository on a small disk; `None`, said aloud, where none can be mounted.
#[expect(clippy::print_stderr, reason = "a skipped test names the cause")]
fn on_small_disk() -> Option<(TestRepo, SmallDisk)> {
    // The git folder that a call has behind a wall is room for the report when it is removed.
    let repo = training_repo().without_walls();
    // What fills the disk is part of no change.
    repo.write(".git/info/exclude", "fill\n");
    let disk = SmallDisk::under(&repo);
    if disk.is_none() {
        eprintln!("skipped: no small file system can be mounted here");
    }
    Some((repo, disk?))
}

fn args(repo: &TestRepo, calls: u32, more: &[&str]) -> Vec<String> {
    let (agent, told) = (filler(calls), format!("cat >> {}/told", repo.outside().display()));
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    let more = ["--agent", &agent, "--on-event", &told].into_iter().chain(more.iter().copied());
    args.into_iter().chain(more).map(str::to_owned).collect()
}

/// Empties the file first: a process that another test starts at this moment may have it open.
fn free(repo: &TestRepo) {
    File::create(repo.file("fill")).unwrap();
    repo.rm("fill");
}

/// The `escalated` alerts that the command of `--on-event` received.
fn alerts(repo: &TestRepo) -> usize {
    let told = fs::read_to_string(repo.outside().join("told")).unwrap_or_default();
    told.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["event"] == "escalated").count()
}

/// The files about escalations in the user's folder.
fn elsewhere(repo: &TestRepo) -> Vec<PathBuf> {
    let folder = repo.outside().join("home/.local/state/autoresearch/escalations");
    let sessions = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    sessions.flat_map(|session| fs::read_dir(session).unwrap().map(|entry| entry.unwrap().path())).collect()
}

/// What `ar guard` says of the session.
fn guarded(repo: &TestRepo) -> Value {
    ar(repo, ["guard", "--format", "json"]).exits(4).json()
}

#[test]
fn a_full_disk_is_told_alike_by_status_guard_hook_and_report() {
    let Some((repo, _disk)) = on_small_disk() else { return };
    let child = start(&repo, &args(&repo, 1, &["--escalate", "wait"]));
    let session = until_waiting(&repo);
    let escalation = &session["escalation"];
    assert_eq!(escalation["kind"], "disk", "{session}");
    assert!(session["doing"].as_str().unwrap().starts_with("waiting for you: "), "{session}");
    let (what, since) = (escalation["what"].as_str().unwrap(), escalation["since"].as_str().unwrap());
    let report = Path::new(escalation["report"].as_str().unwrap());
    let text = fs::read_to_string(report).unwrap();
    assert!(text.contains(what) && text.contains(since) && text.contains("the session waits"), "{text}");
    let guarded = guarded(&repo);
    assert_eq!(guarded["state"], "paused", "{guarded}");
    let detail = guarded["detail"].as_str().unwrap();
    assert!(
        detail.contains(&format!("waiting for your answer; it needs you: disk, since {since}: {what}")),
        "{detail}"
    );
    assert!(detail.contains(report.to_str().unwrap()), "{detail}");
    until("the alert", || (alerts(&repo) == 1).then_some(()));
    free(&repo);
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    assert!(called.stdout.contains(&format!("the report is {}", report.display())), "{called:#?}");
    assert_eq!((alerts(&repo), elsewhere(&repo)), (1, Vec::new()));
    assert!(!report.exists() && status(&repo).unwrap()["escalation"].is_null());
    ar(&repo, ["guard"]).ok();
}

#[test]
fn a_disk_that_fills_again_and_again_is_one_event_and_one_saved_change() {
    let Some((repo, _disk)) = on_small_disk() else { return };
    let child = start(&repo, &args(&repo, 3, &["--escalate", "wait"]));
    let calls = || fs::read_to_string(repo.outside().join("calls")).unwrap_or_default().lines().count();
    let mut since = None;
    for call in 1..=3 {
        until("the next call", || (calls() == call).then_some(()));
        let session = until_waiting(&repo);
        let escalation = &session["escalation"];
        assert_eq!((&escalation["kind"], &escalation["times"]), (&"disk".into(), &call.into()), "{session}");
        assert_eq!(since.get_or_insert(escalation["since"].clone()), &escalation["since"]);
        free(&repo);
    }
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    assert_eq!(called.stdout.matches("      needs you: ").count(), 1, "{called:#?}");
    assert_eq!(called.stderr.matches("the session still needs you: disk, since ").count(), 2, "{called:#?}");
    assert_eq!(alerts(&repo), 1);
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/saved"]).lines().count(), 1);
}

#[test]
fn what_a_killed_loop_noted_elsewhere_is_gone_once_the_next_one_works() {
    let Some((repo, _disk)) = on_small_disk() else { return };
    let mut child = start(&repo, &args(&repo, 1, &["--escalate", "wait"]));
    until_waiting(&repo);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!elsewhere(&repo).is_empty());
    free(&repo);
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!(elsewhere(&repo), Vec::<PathBuf>::new());
    assert!(status(&repo).unwrap()["escalation"].is_null());
    ar(&repo, ["guard"]).ok();
}

#[test]
fn a_full_disk_that_stops_the_loop_is_told_alike_afterwards() {
    let Some((repo, _disk)) = on_small_disk() else { return };
    let called = Called::from(start(&repo, &args(&repo, 1, &[])).wait_with_output().unwrap()).exits(4);
    let session = status(&repo).unwrap();
    let escalation = &session["escalation"];
    let (what, report) = (escalation["what"].as_str().unwrap(), escalation["report"].as_str().unwrap());
    assert_eq!((&escalation["kind"], &escalation["waits"]), (&"disk".into(), &false.into()), "{session}");
    assert!(called.stdout.contains(&format!("needs you: {what}")), "{called:#?}");
    assert!(called.stdout.contains(&format!("the report is {report}")), "{called:#?}");
    assert!(fs::read_to_string(report).unwrap().contains("the session has stopped"), "{report}");
    assert!(guarded(&repo)["detail"].as_str().unwrap().contains(what));
    assert_eq!(alerts(&repo), 1);
}

#[test]
fn a_report_that_fits_nowhere_is_not_named() {
    let Some((repo, _disk)) = on_small_disk() else { return };
    // Nothing can be written below a file.
    fs::write(repo.outside().join("home/.local"), "").unwrap();
    let mut blocked = Vec::new();
    for base in [format!("/run/user/{}", user()), "/dev/shm".to_owned()] {
        let folder = Path::new(&base).join(format!("autoresearch-{}/escalations", user()));
        if Path::new(&base).is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
            let file = folder.join(name_of_files(&repo));
            fs::write(&file, "").unwrap();
            blocked.push(file);
        }
    }
    let called = Called::from(start(&repo, &args(&repo, 1, &[])).wait_with_output().unwrap()).exits(4);
    blocked.into_iter().for_each(|file| fs::remove_file(file).unwrap());
    assert!(called.stdout.contains("; there is no room for a report"), "{called:#?}");
    assert_eq!(alerts(&repo), 1);
}

/// A call where the user's folder is on the disk of the repository, and what is in memory is in `memory`.
fn on_one_disk(repo: &TestRepo, memory: Option<&Path>, args: &[&str]) -> Command {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env("XDG_STATE_HOME", repo.file(".git/state"));
    if let Some(memory) = memory {
        command.env("XDG_RUNTIME_DIR", memory);
    }
    command
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn with_repository_and_user_on_one_full_disk_the_report_is_in_memory() {
    // Patrols come from cron, whose jobs have no variable.
    for (is_named, is_seen) in [(true, true), (false, false)] {
        let Some((repo, _disk)) = on_small_disk() else { return };
        let memory = repo.outside().join("memory");
        fs::create_dir(&memory).unwrap();
        fs::set_permissions(&memory, fs::Permissions::from_mode(0o700)).unwrap();
        let (named, seen) = (is_named.then_some(&*memory), is_seen.then_some(&*memory));
        let args = args(&repo, 1, &["--escalate", "wait"]);
        let mut command = on_one_disk(&repo, named, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let call = |args: &[&str]| Called::from(on_one_disk(&repo, seen, args).output().unwrap());
        let session = until("the wait for an answer", || {
            let called = call(&["status", "t", "--format", "json"]);
            let session = (called.code == Some(0)).then(|| called.json()["sessions"][0].clone());
            session.filter(|session| session["escalation"]["waits"] == true)
        });
        assert!(session["doing"].as_str().unwrap().starts_with("waiting for you: "), "{session}");
        let report = PathBuf::from(session["escalation"]["report"].as_str().unwrap());
        assert_eq!(report.starts_with(&memory), is_named, "{}", report.display());
        assert!(fs::read_to_string(&report).unwrap().contains("the session waits"), "{}", report.display());
        let folder = report.ancestors().find(|folder| folder.ends_with(format!("autoresearch-{}", user()))).unwrap();
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        let guarded = call(&["guard", "--format", "json"]).exits(4);
        let line = guarded.json();
        assert_eq!((&line["state"], &line["needs_person"]), (&"paused".into(), &true.into()), "{guarded:#?}");
        assert!(line["detail"].as_str().unwrap().contains(report.to_str().unwrap()), "{guarded:#?}");
        assert!(guarded.stderr.contains("cannot write") || guarded.stderr.contains("cannot create"), "{guarded:#?}");
        free(&repo);
        let called = Called::from(child.wait_with_output().unwrap()).ok();
        assert!(called.stdout.contains(&format!("the report is {}", report.display())), "{called:#?}");
        assert!(!report.exists() && files_below(report.parent().unwrap()).is_empty());
        call(&["guard"]).ok();
    }
}

/// The name of the folder that has the files about the session where its own folder has no room.
fn name_of_files(repo: &TestRepo) -> String {
    let session = repo.path().canonicalize().unwrap().join(".autoresearch/t");
    let hash = Sha256::digest(session.as_os_str().as_encoded_bytes());
    let start: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{start}-t")
}

/// The number of the user who runs the tests.
fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}
