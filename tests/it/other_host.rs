//! Sessions on a file system that several hosts share, where the lock of another host may be invisible.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use crate::interrupt::waiting_loop;
use crate::patrol::{assert_comes_to_its_end, change_journal, journal, kill, patrol, tree};
use crate::run_loop::{agent, training_repo};
use crate::support::{TestRepo, ar};

const JOURNAL: &str = ".autoresearch/t/state/progress.json";

/// A loop that was killed in the middle of its second run, as another host sees it; and the file that its run waits for.
fn killed_on_other_host(repo: &TestRepo) -> std::path::PathBuf {
    let (child, go) = waiting_loop(repo);
    kill(child);
    change_journal(repo, "host", "gpu7");
    go
}

/// Sets the last sign of life back.
fn miss_signs(repo: &TestRepo, seconds: u64) {
    let journal = File::options().write(true).open(repo.file(JOURNAL)).unwrap();
    journal.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
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
    let doctor = ar(&repo, ["doctor", "t"]).stdout;
    assert!(doctor.contains("an ar is active: on gpu7, seen "), "{doctor}");
    assert_eq!(patrol(&repo, 999, &[]), "0 t working none");
    assert!(tree(&repo.path()) == before);

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
        ar(&repo, args).ok();
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
    miss_signs(&repo, 271);
    ar(&repo, ["verify", "--tag", "t", "0", "1", "--runs", "2"]).ok();
}
