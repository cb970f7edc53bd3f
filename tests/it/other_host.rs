//! Sessions on a file system that several hosts share, where the lock of another host may be invisible.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::escalation::until_waiting;
use crate::interrupt::{signal, waiting_loop};
use crate::patrol::{assert_comes_to_its_end, change_journal, journal, kill, patrol, tree};
use crate::run_loop::{agent, training_repo};
use crate::support::{AR, Called, TestRepo, ar, ar_command, until};

const JOURNAL: &str = ".autoresearch/t/state/progress.json";

/// A loop that was killed in the middle of its second run, as another host sees it; and the file that its run waits for.
fn killed_on_other_host(repo: &TestRepo) -> std::path::PathBuf {
    let (child, go) = waiting_loop(repo);
    // Its shim writes this after the command has begun, and nothing more until that ends.
    until("the run is noted", || repo.exists(".autoresearch/t/runs/00001/started.json").then_some(()));
    kill(child);
    change_journal(repo, "host", "gpu7");
    go
}

/// Sets the last sign of life back.
fn miss_signs(repo: &TestRepo, seconds: u64) {
    let journal = File::options().write(true).open(repo.file(JOURNAL)).unwrap();
    journal.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

/// A call on a host of another name, not started yet. `None` where no host can have one.
fn on_other_host(repo: &TestRepo, args: &[&str]) -> Option<Command> {
    let is_permitted = Command::new("unshare").args(["--uts", "hostname", "gpu8"]).output();
    if !is_permitted.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let here = ar_command(repo, &repo.path(), args);
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname gpu8 && exec \"$@\"", "sh", AR]).args(args);
    command.envs(here.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(repo.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// Hides the locks of an active process, as some network file systems do.
fn hide_locks(repo: &TestRepo) {
    fs::remove_file(repo.file(".autoresearch/t/lock")).unwrap();
    let locks = [".git/autoresearch-owner", ".git/autoresearch-owner-t"];
    assert!(locks.iter().any(|lock| fs::remove_file(repo.file(lock)).is_ok()));
}

/// Enters another process in the journal, as if it had just opened the session. Returns the text.
pub(crate) fn taken_over(repo: &TestRepo) -> String {
    let mut journal = journal(repo);
    let openings = journal["openings"].as_u64().unwrap();
    (journal["openings"], journal["host"], journal["process"]) = (json!(openings + 1), json!("gpu8"), json!(7));
    let text = journal.to_string();
    let new = repo.outside().join("progress.json");
    fs::write(&new, &text).unwrap();
    fs::rename(new, repo.file(JOURNAL)).unwrap();
    text
}

#[test]
fn a_session_of_another_host_is_left_alone_until_it_missed_its_signs_of_life() {
    let repo = training_repo();
    let go = killed_on_other_host(&repo);
    let before = tree(&repo.path());
    for args in [
        &["resume", "t"][..],
        &["run", "--tag", "t"],
        &["try", "--continue", "--tag", "t"],
        &["stop", "t"],
        &["stop", "t", "--now"],
        &["doctor", "t", "--repair"],
    ] {
        let called = ar(&repo, args).exits(5);
        assert!(called.stderr.contains("session t is active on gpu7, seen "), "{args:?}: {called:?}");
        assert!(called.stderr.contains("ago; it can be taken over in 4m"), "{args:?}: {called:?}");
        assert!(called.stderr.contains("run `ar resume t --take-over`"), "{args:?}: {called:?}");
    }
    let status = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(status.contains("active on gpu7, seen ") && !status.contains("killed"), "{status}");
    let found = ar(&repo, ["status", "t", "--format", "json"]).ok().json()["sessions"][0]["elsewhere"].clone();
    assert_eq!((&found["host"], found["wait"].as_f64().unwrap() > 200.0), (&"gpu7".into(), true), "{found}");
    assert_eq!(patrol(&repo, 999, &[]), "0 t working none");
    assert!(tree(&repo.path()) == before);
    // Its trial of the file system changes the time of the folder.
    let doctor = ar(&repo, ["doctor", "t"]).stdout;
    assert!(doctor.contains("an ar is active: on gpu7, seen "), "{doctor}");

    miss_signs(&repo, 271);
    let status = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(status.contains("idle; last active on gpu7, seen 4m3") && !status.contains("killed"), "{status}");
    let told = patrol(&repo, 999, &[]);
    assert!(told.ends_with(" t dead none") && !told.starts_with('0'), "{told}");
    let guard = ar(&repo, ["guard"]).stdout;
    assert!(guard.contains("run `ar resume t --take-over`"), "{guard}");
    fs::write(&go, "").unwrap();
    let resumed = ar(&repo, ["resume", "t"]).ok();
    assert!(resumed.stderr.contains("took over the session, last active on gpu7"), "{resumed:?}");
    assert_comes_to_its_end(&repo, &go);
}

#[test]
fn a_session_of_another_host_can_be_taken_over_at_once() {
    for args in [&["resume", "t", "--take-over"][..], &["run", "--tag", "t", "--take-over"]] {
        let repo = training_repo();
        let go = killed_on_other_host(&repo);
        fs::write(&go, "").unwrap();
        let called = ar(&repo, args).ok();
        assert!(called.stderr.contains("took over the session, last active on gpu7, seen "), "{called:?}");
        assert_comes_to_its_end(&repo, &go);
        assert_ne!(journal(&repo)["host"], "gpu7");
    }
}

#[test]
fn what_ended_in_good_order_or_was_killed_by_a_reboot_is_free_at_once() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    kill(child);
    change_journal(&repo, "boot_id", "another boot");
    fs::write(&go, "").unwrap();
    ar(&repo, ["resume", "t"]).ok();
    assert_comes_to_its_end(&repo, &go);
    change_journal(&repo, "host", "gpu7");
    let resumed = ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert!(!resumed.stderr.contains("took over"), "{resumed:?}");
    assert_eq!(repo.read("results.tsv").lines().count(), 8);
    // A run that continues by itself needs no process.
    change_journal(&repo, "host", "gpu7");
    change_journal(&repo, "status", "detached");
    assert_eq!(patrol(&repo, 0, &[]), "0 t working none");
    ar(&repo, ["resume", "t"]).ok();
}

#[test]
fn no_fresh_runs_are_made_beside_a_loop_of_another_host() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    ar(&repo, [&args[..], &["--agent", &agent("better")]].concat()).ok();
    change_journal(&repo, "host", "gpu7");
    change_journal(&repo, "status", "running");
    for args in [&["verify", "--tag", "t", "0", "1"][..], &["ablate", "--tag", "t"]] {
        let called = ar(&repo, args).exits(5);
        assert!(called.stderr.contains("session t is active on gpu7, seen "), "{called:?}");
    }
    // Its working tree is taken as well.
    let beside = ["run", "--yes", "--tag", "u", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", "none"];
    repo.git(["switch", "--quiet", "main"]);
    assert!(ar(&repo, beside).exits(5).stderr.contains("session t is active on gpu7, seen "));
    repo.git(["switch", "--quiet", "autoresearch/t"]);
    miss_signs(&repo, 271);
    ar(&repo, ["verify", "--tag", "t", "0", "1", "--runs", "2"]).ok();
}

/// A loop with three experiments that waits for the file `go` beside the repository, in the `job` of the first one.
fn loop_that_waits(repo: &TestRepo, job: &str, slots: &[&str]) -> Child {
    let path = |name: &str| repo.outside().join(name).display().to_string();
    let wait = format!("echo $$ >> {}; until [ -e {} ]; do sleep 0.05; done", path("pids"), path("go"));
    let here = |this: &str| if job == this { wait.as_str() } else { ":" };
    repo.write("train.sh", format!("if [ -e slow ]; then {}; fi\necho val_bpb: 2.0\n", here("run")));
    repo.commit_all("waits");
    let agent = format!("{}; echo $AR_EXPERIMENT > slow; git add slow", here("agent"));
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let mut command = ar_command(repo, &repo.path(), args);
    command.args(["--grace", "1s", "--max-experiments", "3"]).args(slots);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let count = if slots.is_empty() { 1 } else { 2 };
    until("the jobs", || (fs::read_to_string(path("pids")).ok()?.lines().count() >= count).then_some(()));
    child
}

/// In place, and on two slots.
const PLACES: [&[&str]; 2] = [&[], &["--slots", "2", "--calls", "2", "--ahead", "0"]];

#[test]
fn a_loop_that_slept_while_another_host_took_over_writes_nothing_more() {
    for (slots, job) in PLACES.into_iter().flat_map(|slots| [(slots, "run"), (slots, "agent")]) {
        let repo = training_repo();
        let Some(mut other) = on_other_host(&repo, &["resume", "t", "--take-over"]) else { return };
        let child = loop_that_waits(&repo, job, slots);
        // Stopped in the middle of a write, it would keep locks of files that only one host keeps in truth.
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, "-STOP");
        hide_locks(&repo);
        let refused = on_other_host(&repo, &["resume", "t"]).unwrap().output().unwrap();
        assert!(Called::from(refused).exits(5).stderr.contains("session t is active on "));
        fs::write(repo.outside().join("go"), "").unwrap();
        Called::from(other.output().unwrap()).ok();
        assert_eq!((&journal(&repo)["host"], &journal(&repo)["status"]), (&"gpu8".into(), &"stopped".into()));
        assert_eq!(repo.read("results.tsv").lines().count(), 5, "{slots:?} {job}");
        let before = tree(&repo.path());
        signal(&child, "-CONT");
        let said = Called::from(child.wait_with_output().unwrap()).exits(5).stderr;
        assert!(said.contains("session t was taken over by process ") && said.contains(" on gpu8"), "{said}");
        assert!(said.contains("hint: run `ar status t`"), "{said}");
        let after = tree(&repo.path());
        assert!(after == before, "{slots:?} {job}: {}", changed(&before, &after));
    }
}

type Tree = std::collections::BTreeMap<std::path::PathBuf, (SystemTime, Vec<u8>)>;

fn changed(before: &Tree, after: &Tree) -> String {
    let paths = before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path));
    paths.map(|path| format!("{}\n", path.display())).collect()
}

/// Waits until the processes are gone whose ids are in the file at `pids`, one in a line.
fn wait_for_ends(pids: &Path) {
    let pids = fs::read_to_string(pids).unwrap();
    for pid in pids.lines() {
        until("the end of a job", || (!Path::new("/proc").join(pid).exists()).then_some(()));
    }
}

#[test]
fn a_loop_that_was_taken_over_ends_its_agent_and_its_runs() {
    for (slots, job) in PLACES.into_iter().flat_map(|slots| [(slots, "run"), (slots, "agent")]) {
        let repo = training_repo();
        let child = loop_that_waits(&repo, job, slots);
        let refs = repo.git(["for-each-ref"]);
        let (rows, text) = (repo.read("results.tsv"), taken_over(&repo));
        let called = Called::from(child.wait_with_output().unwrap()).exits(5);
        assert!(called.stderr.contains("session t was taken over by process 7 on gpu8"), "{called:?}");
        wait_for_ends(&repo.outside().join("pids"));
        assert_eq!((repo.read(JOURNAL), repo.read("results.tsv")), (text, rows), "{slots:?} {job}");
        assert_eq!(repo.git(["for-each-ref"]), refs);
    }
}

#[test]
fn a_try_and_a_loop_that_waits_for_an_answer_notice_it_too() {
    let repo = training_repo();
    let pids = repo.outside().join("pids");
    repo.write("train.sh", format!("echo $$ >> {}; sleep 600\n", pids.display()));
    let tried = ["try", "-m", "x", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--grace", "1s"];
    let spawn = |repo: &TestRepo, args: &[&str]| {
        let mut command = ar_command(repo, &repo.path(), args);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    repo.git(["commit", "--quiet", "--all", "-m", "waits"]);
    repo.write("train.sh", repo.read("train.sh") + "# x\n");
    let child = spawn(&repo, &tried);
    until("the run", || pids.exists().then_some(()));
    let text = taken_over(&repo);
    Called::from(child.wait_with_output().unwrap()).exits(5);
    wait_for_ends(&pids);
    assert_eq!(repo.read(JOURNAL), text);

    for agent in ["echo 'Credit balance is too low'; exit 1", "kill -KILL $PPID; sleep 0.1"] {
        let repo = training_repo();
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
        let child = spawn(&repo, &[&args[..], &["--outage-limit", "100ms", "--escalate", "wait"]].concat());
        until_waiting(&repo);
        let text = taken_over(&repo);
        Called::from(child.wait_with_output().unwrap()).exits(5);
        assert_eq!(repo.read(JOURNAL), text, "{agent}");
    }
}

#[test]
fn a_copy_of_the_journal_from_before_takes_no_session_over() {
    let repo = training_repo();
    repo.write("train.sh", "cat .autoresearch/t/state/progress.json > ../old\necho val_bpb: 2.0\n");
    repo.commit_all("copies the journal");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    ar(&repo, [&args[..], &["--agent", "echo 1 > x; git add x", "--sandbox", "off"]].concat()).ok();
    let old: Value = serde_json::from_str(&fs::read_to_string(repo.outside().join("old")).unwrap()).unwrap();
    let back = "echo 2 > x; cp ../old .autoresearch/t/state/progress.json";
    ar(&repo, ["resume", "t", "--agent", back, "--max-experiments", "1"]).ok();
    let now = journal(&repo);
    assert_eq!((&old["openings"], &now["openings"]), (&1.into(), &2.into()));
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
}
