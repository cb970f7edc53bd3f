//! `ar guard`: it restarts what died and nudges who is silent, and writes nothing into a session.

mod deaths;
#[cfg(target_os = "linux")]
mod layers;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::escalation;
use crate::interrupt::{signal, waiting_loop};
use crate::run_loop::training_repo;
use crate::support::{AR, CLOCK, Called, TestRepo, ar, ar_command, until};

/// So many minutes after the sessions of the tests began.
fn after(minutes: i64) -> String {
    let begun: Timestamp = CLOCK.parse().unwrap();
    (begun + SignedDuration::from_mins(minutes)).to_string()
}

/// A call of `ar` so many minutes after the session began.
fn ar_after(repo: &TestRepo, minutes: i64, args: &[&str]) -> Called {
    ar_command(repo, &repo.path(), args).env("AR_CLOCK", after(minutes)).output().unwrap().into()
}

/// What a patrol so many minutes after the session began says of the only session; its exit code first.
#[track_caller]
pub(crate) fn patrol(repo: &TestRepo, minutes: i64, more: &[&str]) -> String {
    let called = ar_after(repo, minutes, &[&["guard", "--format", "json"], more].concat());
    let lines = called.json_lines();
    let [line] = &lines[..] else { panic!("{called:?}") };
    assert_eq!(line["version"], 1);
    assert_eq!(line["repository"].as_str(), repo.path().canonicalize().unwrap().to_str());
    let text = |name: &str| line[name].as_str().unwrap().to_owned();
    format!("{} {} {} {}", called.code.unwrap(), text("tag"), text("state"), text("action"))
}

pub(crate) fn journal(repo: &TestRepo) -> Value {
    serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap()
}

pub(crate) fn change_journal(repo: &TestRepo, field: &str, value: &str) {
    let mut journal = journal(repo);
    journal[field] = value.into();
    repo.write(".autoresearch/t/state/progress.json", journal.to_string());
}

/// The lines of a log that guardians wrote, as their events.
fn guardian_lines(repo: &TestRepo) -> Vec<String> {
    let log = repo.read(".autoresearch/t/logs/heartbeat.jsonl");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["source"] == "guard").map(|line| line["event"].as_str().unwrap().to_owned()).collect()
}

/// All files below a folder, with what is in them and when they were written.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let (path, meta) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            files.insert(path.clone(), (meta.modified().unwrap(), content));
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    files
}

fn user_folder(repo: &TestRepo) -> PathBuf {
    repo.outside().join("home/.local/state/autoresearch")
}

/// The process of the loop, if there is one.
fn looping(repo: &TestRepo) -> Option<u32> {
    let status = ar(repo, ["status", "t", "--format", "json"]).json();
    u32::try_from(status["sessions"][0]["owner"]["process"].as_u64()?).ok()
}

/// Kills a loop in the middle of its second run, which goes on.
pub(crate) fn kill(mut child: Child) {
    signal(&child, "-KILL");
    child.wait().unwrap();
}

/// Waits until the loop that a patrol started has come to its end, with every experiment made once.
#[track_caller]
pub(crate) fn assert_comes_to_its_end(repo: &TestRepo, go: &Path) {
    assert_comes_to_its_end_after(repo, go, 6);
}

/// Lets the session go on, and checks that it ends with each experiment recorded once after so many runs.
fn assert_comes_to_its_end_after(repo: &TestRepo, go: &Path, count: usize) {
    fs::write(go, "").unwrap();
    until("the end of the session", || (journal(repo)["status"] == "stopped").then_some(()));
    let ids = repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/autoresearch/t/0*"]);
    assert_eq!(ids.lines().collect::<Vec<_>>(), ["00000", "00001", "00002", "00003", "00004", "00005"]);
    assert_eq!(repo.read("results.tsv").lines().count(), 7);
    let runs = fs::read_to_string(repo.outside().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), count, "{runs}");
    // The process may still be telling its end.
    until("the lock", || {
        ar(repo, ["status", "t", "--format", "json"]).json()["sessions"][0]["owner"]["process"].is_null().then_some(())
    });
}

#[test]
fn a_killed_loop_is_restarted_and_no_experiment_is_lost_or_doubled() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    assert_eq!(patrol(&repo, 0, &[]), "0 t working none");
    assert_eq!(journal(&repo)["interval"], 90);
    kill(child);
    let before = tree(&repo.path());
    assert_eq!(patrol(&repo, 4, &[]), "0 t dead none", "three intervals are not over");
    assert!(tree(&repo.path()) == before);
    // A loop by these settings would be refused.
    let mut command = ar_command(&repo, &repo.path(), ["guard"]);
    let called = Called::from(command.env("AR_CLOCK", after(5)).env("AR_METRIC", "other").output().unwrap()).ok();
    assert!(called.stdout.starts_with("dead     restart  t in "), "{called:?}");
    assert_comes_to_its_end(&repo, &go);
    assert_eq!(patrol(&repo, 999, &[]), "0 t stopped none");
    assert_eq!(guardian_lines(&repo), ["restart"]);
    let beat: Value = serde_json::from_slice(&fs::read(user_folder(&repo).join("guard/patrol.json")).unwrap()).unwrap();
    assert_eq!((&beat["version"], &beat["at"]), (&1.into(), &"2026-11-21T14:39:00.000Z".into()));
}

/// A session that is driven by hand, with one experiment.
fn driven() -> TestRepo {
    let repo = training_repo();
    repo.write("train.sh", repo.read("train.sh").replace("=2.000000", "=1.5"));
    let told = "echo \"$AR_EVENT\" >> \"$AR_ROOT/../events\"";
    let first = ["try", "-m", "first", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--on-event", told];
    ar(&repo, first).ok();
    repo
}

#[test]
fn a_silent_driver_is_nudged_three_times_and_then_begins_anew() {
    let repo = driven();
    assert_eq!(patrol(&repo, 600, &[]), "0 t stalled none", "nobody said how");
    let nudges = repo.outside().join("nudges");
    let command = "{ echo \"nudge $AR_TAG $AR_STATE_DIR ${AR_CLOCK-} ${AR_NO_PAUSES-}.\"; cat; } >> ../nudges; \
                   echo 'Shall I go on?'; echo over >> ../nudges";
    let nudged = || fs::read_to_string(&nudges).map_or(0, |text| text.lines().filter(|line| *line == "over").count());
    let refs = repo.git(["for-each-ref"]);
    let before = tree(&repo.path());
    let mut found = Vec::new();
    for hours in [1, 2, 3, 4, 6, 8, 10] {
        let said = patrol(&repo, hours * 60, &["--nudge", command]);
        let made = found.iter().chain([&said]).filter(|said: &&String| said.ends_with("nudge")).count();
        until("the nudge", || (nudged() == made).then_some(()));
        found.push(said);
    }
    let states =
        ["0 t working none", "0 t stalled nudge", "0 t stalled none", "0 t stalled nudge", "0 t stalled nudge"];
    assert_eq!(found, [&states[..], &["4 t stalled redirect", "4 t stalled none"]].concat());
    assert!(tree(&repo.path()) == before, "a guardian writes nothing into a repository");
    assert_eq!(repo.git(["for-each-ref"]), refs);
    let text = fs::read_to_string(&nudges).unwrap();
    let folder = repo.path().canonicalize().unwrap().join(".autoresearch/t/state");
    assert!(
        text.starts_with(&format!(
            "nudge t {}  .\nYou drive session t of `ar` (its driver has been silent for 2h00m; nudge 1 of 3).",
            folder.display()
        )),
        "{text}"
    );
    let task = repo.read(".autoresearch/t/state/task_spec.md");
    assert!(text.contains(task.trim()) && text.contains("- iterations: 1\n"), "{text}");

    let brief = ar(&repo, ["brief"]).ok();
    assert!(brief.stdout.contains("Fresh start."), "{brief:?}");
    assert!(brief.stderr.contains("flagged for review, starting over in an untried direction"), "{brief:?}");
    assert_eq!(guardian_lines(&repo), ["nudge", "nudge", "nudge", "redirect"]);
    let flagged = || journal(&repo)["flagged"].clone();
    assert_eq!(flagged(), serde_json::json!([1]));
    let events = || fs::read_to_string(repo.outside().join("events")).unwrap();
    assert!(events().ends_with("flagged\n"), "{}", events());
    assert!(repo.read(".autoresearch/t/logs/orchestrator.jsonl").contains("a guardian nudged it in vain"));
    let again = ar(&repo, ["brief"]).ok();
    assert!(again.stdout.contains("Fresh start.") && again.stderr.is_empty(), "{again:?}");

    repo.write("train.sh", repo.read("train.sh").replace("=1.5", "=1.4"));
    ar_after(&repo, 660, &["try", "-m", "other", "--direction", "new"]).ok();
    assert_eq!(flagged(), serde_json::json!([1]), "once");
    assert_eq!(patrol(&repo, 700, &["--nudge", command]), "0 t working none");
    assert_eq!(patrol(&repo, 800, &["--nudge", command]), "0 t stalled nudge", "progress sets the count to zero");

    // What was said to a journal that is lost concerns no other.
    ar(&repo, ["brief"]).ok();
    let copied = guardian_lines(&repo);
    repo.rm(".autoresearch/t/state/progress.json");
    repo.write("train.sh", repo.read("train.sh").replace("=1.4", "=1.3"));
    let rebuilt = ar_after(&repo, 810, &["try", "-m", "another", "--direction", "newer"]).ok();
    assert!(!rebuilt.stderr.contains("starting over"), "{rebuilt:?}");
    assert_eq!((guardian_lines(&repo), flagged()), (copied, serde_json::json!([])));
    until("the nudge", || (nudged() == 4).then_some(()));
}

#[test]
fn a_driver_that_ended_its_session_is_not_nudged() {
    for end in ["stop", "finalize"] {
        let repo = driven();
        ar(&repo, [end, "t"]).ok();
        assert_eq!(patrol(&repo, 600, &["--nudge", "echo too late > ../nudges"]), "0 t stopped none", "{end}");
    }
    let repo = driven();
    repo.write("train.sh", repo.read("train.sh").replace("=1.5", "=1.4"));
    ar(&repo, ["try", "-m", "last", "--max-experiments", "2"]).ok();
    assert_eq!(patrol(&repo, 600, &["--nudge", "true"]), "0 t stopped none", "it has made all that it may");
}

#[test]
fn a_redirect_is_taken_in_by_the_next_try_as_well() {
    let repo = driven();
    let nudge = ["--nudge", "true"];
    for hours in [2, 4, 6] {
        patrol(&repo, hours * 60, &nudge);
    }
    // By whatever path a patrol is led to it, it is the same session.
    fs::create_dir(repo.path().join("sub")).unwrap();
    assert_eq!(patrol(&repo, 480, &[&nudge[..], &["sub/../."]].concat()), "4 t stalled redirect");
    repo.write("train.sh", repo.read("train.sh").replace("=1.5", "=1.7"));
    let called = ar_after(&repo, 490, &["try", "-m", "worse"]).ok();
    assert!(called.stderr.contains("flagged for review, starting over in an untried direction"), "{called:?}");
    assert_eq!(journal(&repo)["flagged"], serde_json::json!([1]));
}

#[test]
fn the_register_has_a_line_for_each_session_that_is_there() {
    let repo = driven();
    let register = user_folder(&repo).join("sessions");
    let lines = || fs::read_to_string(&register).unwrap();
    let root = repo.path().canonicalize().unwrap();
    assert_eq!(
        lines(),
        format!(
            "{{\"version\":1,\"repository\":\"{}\",\"tag\":\"t\",\"opened\":\"2026-11-20T22:00:00.000Z\"}}\n",
            root.display()
        )
    );
    let gone = lines().replace(&format!("{}\"", root.display()), "/is/gone\"");
    let never = lines().replace("\"t\"", "\"u\"");
    fs::write(&register, lines() + &gone + &never).unwrap();
    assert_eq!(patrol(&repo, 0, &[]), "0 t working none");
    assert_eq!(lines().lines().count(), 1);
    let path = repo.path();
    assert_eq!(patrol(&repo, 0, &[path.to_str().unwrap()]), "0 t working none");
    // A disk that is not mounted has left its folder.
    fs::create_dir(repo.outside().join("disk")).unwrap();
    let away = lines().replace(root.to_str().unwrap(), &format!("{}/disk/repo", repo.outside().display()));
    fs::write(&register, lines() + &away).unwrap();
    assert_eq!(patrol(&repo, 0, &[]), "0 t working none");
    assert_eq!(lines().lines().count(), 2);
    fs::remove_dir(repo.outside().join("disk")).unwrap();
    assert_eq!(patrol(&repo, 0, &[]), "0 t working none");
    assert_eq!(lines().lines().count(), 1);

    let refused = Called::from(ar_command(&repo, &repo.path(), ["guard"]).env_remove("HOME").output().unwrap());
    assert!(refused.exits(1).stderr.contains("neither HOME nor XDG_STATE_HOME"));
    let run = ["run", "--yes", "--tag", "v", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let called = Called::from(ar_command(&repo, &repo.path(), run).env_remove("HOME").output().unwrap()).ok();
    assert!(called.stderr.contains("cannot register the session for `ar guard`: neither HOME"), "{called:?}");
}

#[test]
fn a_session_that_cannot_be_read_needs_a_person_and_holds_up_no_other() {
    let repo = driven();
    let run = ["run", "--yes", "--tag", "v", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    ar(&repo, run).ok();
    repo.write(".autoresearch/t/state/progress.json", "{\"version\": 1, ");
    let called = ar(&repo, ["guard", "--format", "json"]).exits(4);
    let states: Vec<_> = called.json_lines().iter().map(|line| format!("{} {}", line["tag"], line["state"])).collect();
    assert_eq!(states, ["\"t\" \"stuck\"", "\"v\" \"stopped\""]);
    repo.write(".autoresearch/v/state/escalation.md", "the disk is full\n");
    repo.rm(".autoresearch/t/state/contract.json");
    assert_eq!(patrol(&repo, 0, &[]), "4 v stopped none");
}

#[test]
fn each_session_has_one_line_by_whatever_paths_a_patrol_is_led_to_it() {
    let repo = driven();
    let run = ["run", "--yes", "--tag", "v", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    ar(&repo, run).ok();
    let called = ar(&repo, ["guard", ".", "./.", ".", "--format", "json"]).ok();
    let tags: Vec<_> = called.json_lines().iter().map(|line| line["tag"].as_str().unwrap().to_owned()).collect();
    assert_eq!(tags, ["t", "v"]);
}

#[test]
fn a_path_that_leads_nowhere_or_cannot_be_written_down_is_named() {
    let repo = training_repo();
    for args in [&["guard", "/is/not/here"][..], &["guard", "--resident", "/is/not/here"]] {
        let called = ar(&repo, args).exits(1);
        assert!(called.stderr.starts_with("error: cannot find /is/not/here\n"), "{called:?}");
        assert!(called.stderr.contains("hint: pass the path of a repository"), "{called:?}");
    }
    let odd = repo.outside().join(OsStr::from_bytes(b"od\xffd"));
    if fs::create_dir(&odd).is_err() {
        // Not all file systems have such names.
        return;
    }
    for service in ["--resident", "--print-sh"] {
        let mut command = ar_command(&repo, &repo.path(), ["guard", service]);
        let called = Called::from(command.arg(&odd).output().unwrap()).exits(1);
        assert!(called.stderr.contains("od\u{fffd}d into a file of the guard"), "{called:?}");
    }
    assert!(!user_folder(&repo).join("guard/resident.json").exists());
}

#[test]
fn a_resident_guard_that_does_not_start_hides_no_session() {
    let repo = driven();
    let guard = user_folder(&repo).join("guard");
    fs::create_dir_all(&guard).unwrap();
    fs::write(guard.join("resident.json"), "{\"version\": 99}").unwrap();
    let called = ar_after(&repo, 0, &["guard"]).exits(1);
    assert!(called.stdout.starts_with("working  none     t in "), "{called:?}");
    assert!(called.stderr.starts_with("error: ") && called.stderr.contains("resident.json"), "{called:?}");
    repo.write(".autoresearch/t/state/progress.json", "{\"version\": 1, ");
    let called = ar_after(&repo, 0, &["guard"]).exits(4);
    assert!(called.stdout.starts_with("stuck ") && called.stderr.contains("resident.json"), "{called:?}");
}

#[test]
fn a_stuck_loop_is_nudged_and_takes_a_redirect_in_by_itself() {
    let repo = training_repo();
    let (mut child, go) = waiting_loop(&repo);
    assert_eq!(patrol(&repo, 230, &[]), "0 t working none", "a run of ten minutes has three hours more");
    let nudge = ["--nudge", "cat >> ../nudges"];
    let nudges = || fs::read_to_string(repo.outside().join("nudges")).unwrap_or_default();
    // The next nudge ends one that is still there.
    let patrols = [(240, "nudge", 1), (300, "none", 1), (360, "nudge", 2), (480, "nudge", 3)];
    for (minutes, action, calls) in patrols {
        assert_eq!(patrol(&repo, minutes, &nudge), format!("0 t stuck {action}"));
        until("the nudges", || (nudges().matches("Start no second loop").count() == calls).then_some(()));
    }
    assert_eq!(journal(&repo)["flagged"], serde_json::json!([]));
    assert_eq!(patrol(&repo, 600, &nudge), "4 t stuck redirect");
    fs::write(go, "").unwrap();
    assert!(child.wait().unwrap().success());
    // The loop hears it between two jobs, or as soon as something else wakes it.
    assert_eq!(journal(&repo)["flagged"].as_array().unwrap().len(), 1);
    assert_eq!(guardian_lines(&repo), ["nudge", "nudge", "nudge", "redirect"]);
    let prompt = repo.read(".autoresearch/t/runs/00002/prompt.md");
    assert!(prompt.contains("Fresh start."), "{prompt}");
}

#[test]
fn a_loop_that_waits_for_a_person_is_not_nudged() {
    let repo = training_repo();
    let out = "echo 'Credit balance is too low'; exit 1";
    let run = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", out];
    let wait = ["--outage-limit", "100ms", "--escalate", "wait"];
    let args: Vec<String> = run.iter().chain(&wait).map(|word| (*word).to_owned()).collect();
    let mut child = escalation::start(&repo, &args);
    escalation::until_waiting(&repo);
    repo.rm(escalation::REPORT);
    for hours in [1, 10, 20] {
        assert_eq!(patrol(&repo, hours * 60, &["--nudge", "echo x >> ../nudges"]), "4 t paused none");
    }
    assert!(!repo.outside().join("nudges").exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_first_act_of_a_command_is_its_sign_of_life() {
    let repo = driven();
    let seen = || journal(&repo)["last_seen"].as_str().unwrap().to_owned();
    assert_eq!((seen().as_str(), journal(&repo)["driver"].as_str()), ("2026-11-20T22:00:00.000Z", Some("hand")));
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    assert_eq!(journal(&repo)["boot_id"].as_str(), boot.as_deref().map(str::trim));
    // Nothing comes of a try whose branch leads elsewhere.
    let mut journal = journal(&repo);
    let open = serde_json::json!({"id": 7, "base": "0".repeat(40), "commit": null, "started": CLOCK});
    journal["attempts"] = serde_json::json!([{"phase": "committing", "open": open}]);
    repo.write(".autoresearch/t/state/progress.json", journal.to_string());
    ar_after(&repo, 60, &["try", "--continue"]).exits(6);
    assert_eq!(seen(), "2026-11-20T23:00:00.000Z");
}

#[test]
fn all_sessions_have_a_line_each_in_the_status() {
    let repo = driven();
    let other = repo.outside().join("other");
    assert!(Command::new("cp").arg("-a").args([repo.path(), other.clone()]).status().unwrap().success());
    fs::remove_dir_all(other.join(".autoresearch")).unwrap();
    repo.git(["-C", other.to_str().unwrap(), "for-each-ref"]);
    let run = ["run", "--yes", "--tag", "v", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    Called::from(ar_command(&repo, &other, run).output().unwrap()).ok();
    let gone = repo.outside().join("gone");
    let home = repo.outside().join("home");
    let all = |args: &[&str]| -> Called { ar_command(&repo, &home, args).output().unwrap().into() };
    let table = all(&["status", "--all"]).ok().stdout;
    let lines: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let root = repo.path().canonicalize().unwrap();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("session repository doing"), "{table}");
    assert!(lines[1].starts_with(&format!("t {} idle", root.display())), "{table}");
    assert!(lines[2].starts_with(&format!("v {} idle", root.with_file_name("other").display())), "{table}");
    let json = all(&["status", "--all", "--format", "json"]).ok().json();
    assert_eq!((&json["version"], &json["sessions"][1]["tag"]), (&1.into(), &"v".into()));
    assert_eq!(json["sessions"][0]["repository"].as_str(), root.to_str());
    fs::rename(&other, &gone).unwrap();
    assert_eq!(all(&["status", "--all"]).ok().stdout.lines().count(), 2);
    all(&["status", "--all", "t"]).exits(2);
}

#[test]
fn patrols_at_the_same_time_nudge_once_and_a_nudge_that_hangs_is_ended_by_the_next() {
    let repo = driven();
    let pids = repo.outside().join("pids");
    let started = || fs::read_to_string(&pids).map_or(0, |text| text.lines().count());
    let guard = |hours: i64| {
        let mut command = ar_command(&repo, &repo.path(), ["guard", "--nudge", "echo $$ >> ../pids; sleep 600"]);
        command.env("AR_CLOCK", after(hours * 60)).stdout(Stdio::null()).spawn().unwrap()
    };
    let patrols: Vec<Child> = (0..4).map(|_| guard(2)).collect();
    patrols.into_iter().for_each(|mut patrol| assert!(patrol.wait().unwrap().success()));
    until("the nudge", || (started() > 0).then_some(()));
    assert!(guard(4).wait().unwrap().success());
    until("the second nudge", || (started() > 1).then_some(()));
    let pids = fs::read_to_string(&pids).unwrap();
    let [first, second] = pids.lines().collect::<Vec<_>>()[..] else { panic!("{pids}") };
    let is_there = |pid: &str| Path::new("/proc").join(pid).exists();
    assert!(!is_there(first) && is_there(second));
}

#[test]
fn a_nudged_driver_makes_experiments_again() {
    let repo = driven();
    let command = format!("sed -i s/=1.5/=1.4/ train.sh; {AR} try -m nudged --format json > ../tried 2>&1");
    assert_eq!(patrol(&repo, 120, &["--nudge", &command]), "0 t stalled nudge");
    let tried = until("the try", || {
        let text = fs::read_to_string(repo.outside().join("tried")).ok()?;
        text.lines().any(|line| line.starts_with('{') && line.ends_with('}')).then_some(text)
    });
    let record = tried.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{tried}"));
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!((&record["id"], &record["tag"], &record["outcome"]), (&2.into(), &"t".into(), &"keep".into()));
}
