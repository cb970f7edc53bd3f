//! The resident guard.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use super::{User, ended, send, system_path};
use crate::support::{AR, Called, until};

/// The resident guard in the foreground, looking ten times a second. What a test started ends with its user.
fn start(user: &User, args: &[&str]) -> Child {
    let mut command = user.guard_command(&[&["--resident", "--wake", "100ms"], args].concat());
    command.env("PATH", system_path()).env("AR_TAG", "t");
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(user.resident(), child.id());
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A field of `/proc/PID/status` in KiB.
#[cfg(target_os = "linux")]
fn status(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn it_takes_less_than_4_mb_and_ends_on_term() {
    let user = User::new();
    let mut child = start(&user, &["--beat", "1s", "--patrol", "echo x >> \"$XDG_STATE_HOME/called\""]);
    let called = user.repo.outside().join("state 5%/called");
    // After it has done all that it ever does.
    until("two patrols", || fs::read_to_string(&called).is_ok_and(|text| text.lines().count() > 1).then_some(()));
    let (anonymous, threads) = (status(child.id(), "RssAnon"), status(child.id(), "Threads"));
    assert!(anonymous < 4096, "{anonymous} KiB");
    assert_eq!(threads, 1);
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn it_calls_a_patrol_when_none_came() {
    let user = User::new();
    let child = start(&user, &[]);
    until("a patrol", || user.guard().join("patrol.json").exists().then_some(()));
    end(child);
    user.beat(-7201);
    let old = user.reads("patrol.json");
    let child = start(&user, &[]);
    until("a patrol", || (user.reads("patrol.json") != old).then_some(()));
    end(child);
}

#[test]
fn a_beat_that_nobody_can_read_is_none() {
    let user = User::new();
    fs::write(user.guard().join("patrol.json"), "{\"version\":1,\"at\":\"2026-1").unwrap();
    let child = start(&user, &[]);
    until("a patrol", || user.reads("patrol.json").trim_end().ends_with('}').then_some(()));
    end(child);
}

#[test]
fn a_beat_from_the_future_is_believed_for_as_long_as_a_beat() {
    let user = User::new();
    user.beat(86_400);
    let mut child = start(&user, &["--beat", "1s"]);
    let before = user.reads("patrol.json");
    until("a patrol", || (user.reads("patrol.json") != before).then_some(()));
    child.kill().unwrap();
    let said: Called = child.wait_with_output().unwrap().into();
    assert!(said.stderr.contains("the last patrol ended in the future, by this clock; calling one"), "{said:?}");
}

#[test]
fn its_patrol_gets_no_variables_of_a_session_and_one_that_hangs_is_ended() {
    let user = User::new();
    let command = "env > \"$XDG_STATE_HOME/env\"; pwd; sleep 1000 & echo $! > \"$XDG_STATE_HOME/sleeps\"; wait";
    let child = start(&user, &["--beat", "1s", "--patrol", command]);
    let file = |name: &str| user.repo.outside().join("state 5%").join(name);
    let sleeps = until("the patrol", || {
        fs::read_to_string(file("sleeps")).ok().and_then(|text| text.trim().parse::<u32>().ok())
    });
    assert_eq!(user.reads("patrol.log"), format!("{}\n", user.home().display()));
    let variables = fs::read_to_string(file("env")).unwrap();
    assert!(variables.contains("XDG_STATE_HOME=") && !variables.contains("AR_"), "{variables}");
    let is_gone = || {
        let stat = fs::read_to_string(format!("/proc/{sleeps}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(" Z ")).then_some(())
    };
    until("the end of all that the patrol started", is_gone);
    end(child);
}

#[test]
fn there_is_one_at_a_time() {
    let user = User::new();
    let child = start(&user, &[]);
    let said = user.guards(&["--resident"]).exits(5);
    let expected = format!("error: another resident guard is running: process {0}\nhint: run `kill {0}`", child.id());
    assert!(said.stderr.starts_with(&expected), "{said:?}");
    // The patrol finds it, and starts no other.
    user.guards(&[]).ok();
    assert_eq!(user.residents(), [child.id()]);
    end(child);
}

#[test]
fn each_of_resident_guard_and_patrol_brings_the_other_back() {
    let user = User::new();
    end(start(&user, &["--beat", "1s"]));
    assert_eq!(user.residents(), [] as [u32; 0]);
    user.guards(&[]).ok();
    let pid = user.resident();
    let settings = user.reads("resident.json");
    assert!(settings.contains("\"beat\": 1.0") && settings.contains("\"wake\": 0.1"), "{settings}");
    // No patrol comes by itself any more.
    let last = user.reads("patrol.json");
    until("a patrol", || (user.reads("patrol.json") != last).then_some(()));
    // It leads a session of its own: neither a terminal nor what started it ends it.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!((fields[2], fields[3]), (pid.to_string().as_str(), pid.to_string().as_str()), "{stat}");
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"AR_")));
    send("-KILL", pid);
    until("its end", || user.residents().is_empty().then_some(()));
    user.guards(&[]).ok();
    assert_ne!(user.resident(), pid);
}

#[test]
fn a_file_that_nobody_can_read_still_wants_one() {
    let user = User::new();
    fs::write(user.guard().join("resident.json"), "{\"ver").unwrap();
    user.guards(&[]).ok();
    user.resident();
}

#[test]
fn it_ends_when_none_is_wanted_and_when_its_files_are_gone() {
    let user = User::new();
    for (name, why) in
        [("resident.json", "no resident guard is wanted any more"), ("resident.lock", "the lock file was removed")]
    {
        let child = start(&user, &["--beat", "1h"]);
        fs::remove_file(user.guard().join(name)).unwrap();
        let said = ended(child);
        assert!(said.code == Some(0) && said.stderr.contains(why), "{said:?}");
    }
    fs::remove_file(user.guard().join("resident.json")).unwrap();
    // One that starts too late to be wanted does not wait for its first look.
    let mut late = Command::new(AR);
    user.environment(&mut late);
    let said: Called = late.args(["__resident", "detached"]).output().unwrap().into();
    assert!(said.code == Some(0) && !said.stderr.contains("looks every"), "{said:?}");
    user.guards(&[]).ok();
    assert_eq!(user.residents(), [] as [u32; 0]);
}
