//! The resident guard as a shell script.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{User, check, ended, send, system_path};
use crate::crash::in_parallel;
use crate::support::{Called, until};

/// Shells that stand for those of many systems.
const SHELLS: [&str; 5] = ["dash", "bash", "busybox", "ksh", "mksh"];

/// Prints the script, which looks once a second, into a file.
fn print(user: &User, args: &[&str]) -> PathBuf {
    let mut command = user.guard_command(&[&["--print-sh", "--wake", "1s"], args].concat());
    let script = Called::from(command.env("PATH", system_path()).output().unwrap()).ok().stdout;
    let path = user.repo.outside().join("guard.sh");
    fs::write(&path, script).unwrap();
    path
}

/// Starts the script; `None`, and said so, where there is no such shell.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn start(user: &User, shell: &str, script: &PathBuf) -> Option<Child> {
    let mut command = Command::new(shell);
    user.environment(&mut command);
    command.env("PATH", system_path()).env_remove("XDG_STATE_HOME");
    command.args((shell == "busybox").then_some("sh")).arg(script).stderr(Stdio::piped());
    command.spawn().inspect_err(|error| eprintln!("skipped: {shell}: {error}")).ok()
}

#[test]
fn shells_and_their_checkers_accept_the_script() {
    let user = User::new();
    for args in [["--beat", "2h"].as_slice(), &["--patrol", "claude -p 'it''s \"$HOME\"' 50% \\ "]] {
        let script = print(&user, args);
        check(&["sh", "-n"], &script);
        for shell in SHELLS {
            let words = if shell == "busybox" { vec![shell, "sh", "-n"] } else { vec![shell, "-n"] };
            check(&words, &script);
        }
        check(&["shellcheck"], &script);
    }
}

#[test]
fn the_script_calls_a_patrol_when_the_last_one_is_too_old() {
    in_parallel(&SHELLS, |shell| {
        let user = User::new();
        user.beat(-7201);
        let old = user.reads("patrol.json");
        let Some(mut child) = start(&user, shell, &print(&user, &[])) else { return };
        let new = || Some(user.reads("patrol.json")).filter(|beat| !beat.is_empty() && *beat != old);
        until("a patrol", new);
        let second = start(&user, shell, &user.repo.outside().join("guard.sh")).unwrap();
        let said = ended(second);
        let expected = format!("another resident guard is running: process {}\n", child.id());
        assert_eq!((said.code, said.stderr), (Some(5), expected), "{shell}");
        send("-TERM", child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(15), "{shell}");
        // What a killed one left holds up nobody, and garbage is no beat.
        fs::write(user.guard().join("patrol.json"), "\0\"at\": \"2026-").unwrap();
        let mut child = start(&user, shell, &user.repo.outside().join("guard.sh")).unwrap();
        until("a patrol", || user.reads("patrol.json").trim_end().ends_with('}').then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn of_two_that_start_at_once_on_the_lock_of_a_killed_one_one_stays() {
    in_parallel(&SHELLS, |shell| {
        let user = User::new();
        let script = print(&user, &[]);
        let lock = user.guard().join("resident-sh.lock");
        fs::create_dir(&lock).unwrap();
        // No system has so high a number.
        fs::write(lock.join("process"), "999999999\n").unwrap();
        let Some(first) = start(&user, shell, &script) else { return };
        let mut both = vec![first, start(&user, shell, &script).unwrap()];
        let loser = until("the end of one", || both.iter_mut().position(|one| one.try_wait().unwrap().is_some()));
        let said = ended(both.remove(loser));
        let mut winner = both.remove(0);
        assert_eq!(said.code, Some(5), "{shell}: {said:?}");
        assert!(said.stderr.ends_with(&format!(": process {}\n", winner.id())), "{shell}: {said:?}");
        until("a patrol", || user.guard().join("patrol.json").exists().then_some(()));
        // Another one that takes the lock later ends it as well.
        fs::write(lock.join("process"), "1\n").unwrap();
        assert_eq!(winner.wait().unwrap().code(), Some(5), "{shell}");
    });
}

#[test]
fn the_script_believes_a_beat_from_the_future_for_as_long_as_a_beat_and_ends_a_patrol_that_hangs() {
    let user = User::new();
    user.beat(86_400);
    let noted = user.repo.outside().join("noted");
    let command = format!("env | grep -c ^AR_ >>{0}; echo $$ >>{0}; exec sleep 1000", noted.display());
    let script = print(&user, &["--beat", "2s", "--patrol", &command]);
    let Some(mut child) = start(&user, "sh", &script) else { return };
    let lines = || fs::read_to_string(&noted).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    let patrol = until("a patrol", || lines().get(1).cloned());
    assert_eq!(lines()[0], "0", "variables of a session");
    let is_gone = || fs::read_to_string(format!("/proc/{patrol}/comm")).map_or(true, |name| name != "sleep\n");
    until("the end of the patrol", || is_gone().then_some(()));
    until("the next one", || (lines().len() > 3).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
}
