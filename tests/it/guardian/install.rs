//! Installing and removing the guard, by each scheduler.

use std::fs;
use std::process::Command;

use super::{User, check, files};
use crate::support::{AR, Called, until};

/// A crontab in a file, as `crontab` handles one.
const CRONTAB: &str = r#"tab=${0%/bin/*}/tab
case $1 in
-l) cat "$tab" 2>/dev/null || { echo "no crontab for me" >&2; exit 1; } ;;
-r) rm "$tab" ;;
-) cat >"$tab" ;;
*) exit 2 ;;
esac"#;

fn with_systemd() -> User {
    let user = User::new();
    user.program("systemctl", "");
    user.program("loginctl", "echo Linger=no");
    user.program("crontab", CRONTAB);
    user
}

fn with_cron() -> User {
    let user = User::new();
    user.program("systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    user.program("crontab", CRONTAB);
    user
}

fn with_launchd() -> User {
    let user = User::new();
    user.program(
        "launchctl",
        "case $1 in managername) echo Aqua ;; bootout) echo 'No such process' >&2; exit 3 ;; esac",
    );
    user
}

/// What the doctor says of the guard, with `level` first.
fn doctor(user: &User) -> Vec<String> {
    let mut command = Command::new(AR);
    user.environment(&mut command);
    let said: Called = command.args(["doctor", "--format", "csv"]).output().unwrap().into();
    let lines = said.stdout.lines().filter(|line| line.starts_with("guardian,"));
    lines.map(|line| line.trim_start_matches("guardian,,").to_owned()).collect()
}

/// Removes the guard and waits until the resident guard has ended, too.
fn uninstall(user: &User) -> Called {
    let said = user.guards(&["--uninstall"]).ok();
    until("the end of the resident guard", || user.residents().is_empty().then_some(()));
    said
}

#[test]
fn systemd_gets_a_timer_and_all_of_it_is_removed_again() {
    let user = with_systemd();
    let before = files(&user.home());
    assert_eq!(doctor(&user), ["ok,no guard is installed (`ar guard --install`),"]);
    user.calls();
    let first = user.guards(&["--install", "--every", "30m", "--wake", "100ms"]).ok();
    user.resident();
    let acting = ["daemon-reload", "enable autoresearch-guard.timer", "restart autoresearch-guard.timer"];
    let acting = acting.map(|word| format!("systemctl --user {word}"));
    let calls = user.calls();
    assert_eq!(calls[calls.len() - 3..], acting);
    assert!(first.stdout.contains("a patrol comes every 30m"), "{first:?}");
    assert!(first.stderr.contains("hint: run `loginctl enable-linger`"), "{first:?}");
    let units = user.home().join(".config/systemd/user");
    let timer = fs::read_to_string(units.join("autoresearch-guard.timer")).unwrap();
    assert!(timer.contains("\nOnUnitActiveSec=1800\n"), "{timer}");
    let unit = fs::read_to_string(units.join("autoresearch-guard.service")).unwrap();
    let quoted = |text: &str| text.replace('"', "\\\"").replace('%', "%%");
    for (name, value) in [("XDG_STATE_HOME", user.repo.outside().join("state 5%")), ("PATH", user.programs())] {
        let line = format!("\nEnvironment=\"{name}={}\"\n", quoted(value.to_str().unwrap()));
        assert!(unit.contains(&line), "{unit}");
    }
    assert!(!unit.contains("AR_METRIC"), "{unit}");
    check(&["systemd-analyze", "verify", "--man=no"], &units.join("autoresearch-guard.service"));
    check(&["systemd-analyze", "verify", "--man=no"], &units.join("autoresearch-guard.timer"));

    let installed = files(&user.home());
    let again = user.guards(&["--install", "--every", "30m", "--wake", "100ms"]).ok();
    assert!(again.stdout.contains("the resident guard is running already"), "{again:?}");
    assert_eq!((files(&user.home()), user.residents().len()), (installed, 1));
    user.beat(-1);
    let said = doctor(&user);
    assert!(
        said[0].starts_with("ok,\"a guard is installed as a timer of systemd; the last patrol ended at"),
        "{said:?}"
    );
    assert!(said[1].starts_with("ok,the resident guard is running: process"), "{said:?}");
    user.beat(-10_000);
    assert!(doctor(&user)[0].starts_with("warning,"), "{:?}", doctor(&user));

    user.calls();
    uninstall(&user);
    assert_eq!(files(&user.home()), before);
    let calls = user.calls();
    assert!(calls.contains(&"systemctl --user disable --now autoresearch-guard.timer".to_owned()), "{calls:?}");
    assert!(!user.guard().join("resident.json").exists());
    let nothing = uninstall(&user);
    assert_eq!(nothing.stdout, "no guard is installed\n");
}

#[test]
fn a_dry_run_prints_everything_and_changes_nothing() {
    for user in [with_systemd(), with_cron(), with_launchd()] {
        let outside = || files(user.repo.outside()).into_iter().filter(|(path, _)| !path.ends_with("calls"));
        let before: Vec<_> = outside().collect();
        let said = user.guards(&["--install", "--dry-run"]).ok().stdout;
        assert!(said.contains("would write ") && said.contains("would start the resident guard\n"), "{said}");
        assert!(said.lines().any(|line| line.starts_with("  | ") && line.contains("guard")), "{said}");
        user.guards(&["--uninstall", "--dry-run"]).ok();
        assert_eq!((outside().collect::<Vec<_>>(), user.residents()), (before, vec![]));
        let reading = ["systemctl --user show-environment", "crontab -l", "launchctl managername"];
        let is_reading = |call: &String| reading.contains(&call.as_str()) || call.starts_with("loginctl show-user ");
        assert!(user.calls().iter().all(is_reading));
    }
}

#[test]
fn a_user_who_lingers_gets_no_hint() {
    let user = with_systemd();
    user.program("loginctl", "echo Linger=yes");
    let said = user.guards(&["--install", "--dry-run"]).ok();
    assert!(!said.stderr.contains("linger"), "{said:?}");
}

#[test]
fn cron_gets_a_line_that_makes_a_patrol_and_keeps_those_of_the_user() {
    let user = with_cron();
    let tab = user.repo.outside().join("tab");
    let users = b"# \xff\nMAILTO=me\n\n0 1 * * * backup %now\n";
    fs::write(&tab, users).unwrap();
    let said = user.guards(&["--install", "--every", "90m", "--wake", "100ms"]).ok();
    assert!(said.stdout.contains("a patrol comes every 1h;"), "{said:?}");
    user.guards(&["--install", "--wake", "100ms"]).ok();
    let installed = fs::read(&tab).unwrap();
    let line = installed.strip_prefix(users).unwrap();
    let line = String::from_utf8(line.to_owned()).unwrap();
    assert_eq!((line.lines().count(), line.contains('%')), (1, false), "{line}");
    // Two programs of that name have the check as two options.
    let usage = Command::new("crontab").arg("--help").output().map(|output| output.stderr).unwrap_or_default();
    let test = if String::from_utf8_lossy(&usage).contains("dry run") { "-n" } else { "-T" };
    check(&["crontab", test], &tab);
    check(&["dash", "-n"], &user.guard().join("patrol.sh"));
    check(&["shellcheck"], &user.guard().join("patrol.sh"));
    // As cron calls it.
    fs::remove_file(user.guard().join("resident.json")).unwrap();
    until("the end of the resident guard", || user.residents().is_empty().then_some(()));
    let command = line.trim_end().splitn(6, ' ').nth(5).unwrap();
    let mut cron = Command::new("/bin/sh");
    cron.args(["-c", command]).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    assert!(cron.status().unwrap().success());
    assert!(user.guard().join("patrol.json").exists(), "{}", user.reads("patrol.log"));

    assert!(doctor(&user)[0].contains("as a line of your crontab; the last patrol"), "{:?}", doctor(&user));
    uninstall(&user);
    assert_eq!((fs::read(&tab).unwrap(), user.guard().join("patrol.sh").exists()), (users.to_vec(), false));
}

#[test]
fn a_crontab_that_was_not_there_is_removed_again() {
    let user = with_cron();
    user.guards(&["--install", "--wake", "100ms"]).ok();
    assert!(user.repo.outside().join("tab").exists());
    uninstall(&user);
    assert!(!user.repo.outside().join("tab").exists());
}

#[test]
fn a_crontab_that_cannot_be_read_is_not_replaced() {
    let user = with_cron();
    user.program("crontab", "case $1 in -l) echo 'disk error' >&2; exit 1 ;; *) echo \"$1\" >\"$0.wrote\" ;; esac");
    let said = user.guards(&["--install"]).exits(1);
    assert!(said.stderr.contains("`crontab -l` failed: disk error\nhint: "), "{said:?}");
    assert!(!user.programs().join("crontab.wrote").exists());
    assert_eq!((files(&user.guard()), user.residents()), (vec![], vec![]));
}

#[test]
fn who_changes_to_systemd_has_no_line_in_the_crontab_any_more() {
    let user = with_cron();
    user.guards(&["--install", "--wake", "100ms"]).ok();
    user.program("systemctl", "");
    user.program("loginctl", "echo Linger=yes");
    user.guards(&["--install", "--wake", "100ms"]).ok();
    assert!(!user.repo.outside().join("tab").exists() && !user.guard().join("patrol.sh").exists());
    assert!(user.home().join(".config/systemd/user/autoresearch-guard.timer").exists());
}

#[test]
fn launchd_gets_a_job_and_all_of_it_is_removed_again() {
    let user = with_launchd();
    let before = files(&user.home());
    user.guards(&["--install", "--every", "30m", "--wake", "100ms"]).ok();
    let list = user.home().join("Library/LaunchAgents/autoresearch.guard.plist");
    let me = rustix::process::getuid().as_raw();
    let calls = user.calls();
    assert_eq!(calls.last().unwrap(), &format!("launchctl bootstrap gui/{me} {}", list.display()), "{calls:?}");
    check(&["plutil", "-lint"], &list);
    let read =
        "import plistlib, sys; job = plistlib.load(open(sys.argv[1], 'rb')); assert job['StartInterval'] == 1800";
    check(&["python3", "-c", read], &list);
    uninstall(&user);
    assert_eq!(files(&user.home()), before);
    assert!(user.calls().contains(&format!("launchctl bootout gui/{me}/autoresearch.guard")));
}

#[test]
fn a_step_that_fails_is_said_and_may_be_repeated() {
    let user = with_systemd();
    user.program("systemctl", "case $* in *enable*) echo 'unit is masked' >&2; exit 1 ;; esac");
    let said = user.guards(&["--install"]).exits(1);
    let expected = "error: `systemctl --user enable autoresearch-guard.timer` failed: unit is masked\nhint: ";
    assert!(said.stderr.contains(expected), "{said:?}");
    assert_eq!(user.residents(), [] as [u32; 0]);
    user.program("systemctl", "");
    user.guards(&["--install", "--wake", "100ms"]).ok();
    user.program("systemctl", "exit 1");
    uninstall(&user);
    assert_eq!(files(&user.home()), []);
}

#[test]
fn what_cannot_be_done_is_said_with_a_hint() {
    let user = User::new();
    let said = user.guards(&["--install"]).exits(1);
    assert!(said.stderr.contains("found no systemd of this user, no crontab and no launchd\nhint: "), "{said:?}");
    for args in [["--install", "--dry-run"].as_slice(), &["--uninstall"], &["--resident"], &["--print-sh"]] {
        let mut command = user.guard_command(args);
        let said: Called = command.env_remove("HOME").env_remove("XDG_STATE_HOME").output().unwrap().into();
        let expected = "error: no home folder: neither HOME nor XDG_STATE_HOME is an absolute path\nhint: ";
        assert!(said.stderr.starts_with(expected) && said.code == Some(1), "{args:?} {said:?}");
    }
    user.program("crontab", CRONTAB);
    for value in ["/a\nb", "/\u{1b}"] {
        let said: Called = user.guard_command(&["--install"]).env("XDG_CACHE_HOME", value).output().unwrap().into();
        let expected = "error: cannot write XDG_CACHE_HOME into a file of the guard: it contains a line break";
        assert!(said.stderr.starts_with(expected) && said.code == Some(1), "{said:?}");
    }
    for args in [
        ["--install", "--uninstall"].as_slice(),
        &["--install", "--resident"],
        &["--every", "1h"],
        &["--install", "--every", "30s"],
        &["--install", "--every", "25h"],
        &["--dry-run"],
        &["--resident", "--dry-run"],
        &["--beat", "1h"],
        &["--uninstall", "--beat", "1h"],
        &["--resident", "--patrol", " "],
    ] {
        user.guards(args).exits(2);
    }
}
