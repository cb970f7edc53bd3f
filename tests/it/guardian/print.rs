//! `ar guard --print`: the units that have a scheduler make patrols, and what the doctor says of patrols.

use std::fs;
use std::process::{Command, Stdio};

use super::{User, check, ended};
use crate::support::{Called, until};

/// The lines of `ar doctor` about the guard.
fn doctor(user: &User) -> Vec<String> {
    let mut command = Command::new(crate::support::AR);
    user.environment(&mut command);
    let said: Called = command.args(["doctor", "--format", "csv"]).output().unwrap().into();
    let lines = said.stdout.lines().filter(|line| line.starts_with("guardian,"));
    lines.map(|line| line.trim_start_matches("guardian,,").to_owned()).collect()
}

#[test]
fn the_units_of_systemd_name_program_options_and_folders() {
    let user = User::new();
    let said = user.guards(&["--print", "systemd", "--every", "30m", "--stall", "3h"]).ok().stdout;
    let (service, timer) = said.split_once("\n\n# Save as").unwrap();
    assert!(timer.contains("\nOnUnitActiveSec=1800\n"), "{said}");
    assert!(service.contains(r#" "guard" "--stall" "3h""#), "{said}");
    let quoted = |text: &str| text.replace('"', "\\\"").replace('%', "%%");
    for (name, value) in [("XDG_STATE_HOME", user.repo.outside().join("state 5%")), ("PATH", user.programs())] {
        let line = format!("\nEnvironment=\"{name}={}\"\n", quoted(value.to_str().unwrap()));
        assert!(service.contains(&line), "{said}");
    }
    assert!(!said.contains("AR_METRIC"), "{said}");
    for (name, unit) in
        [("autoresearch-guard.service", service), ("autoresearch-guard.timer", &format!("# Save as{timer}"))]
    {
        assert!(said.contains(&format!("# Save as ~/.config/systemd/user/{name}\n")), "{said}");
        let path = user.repo.outside().join(name);
        fs::write(&path, unit).unwrap();
        check(&["systemd-analyze", "verify", "--man=no"], &path);
    }
    assert_eq!(doctor(&user), ["ok,no patrol has come yet (`ar guard --print systemd`),"]);
}

#[test]
fn the_line_of_cron_makes_a_patrol() {
    let user = User::new();
    let line = user.guards(&["--print", "cron"]).ok().stdout;
    assert_eq!((line.lines().count(), line.contains('%')), (1, false), "{line}");
    let tab = user.repo.outside().join("tab");
    fs::write(&tab, &line).unwrap();
    // Two programs of that name have the check as two options.
    let usage = Command::new("crontab").arg("--help").output().map(|output| output.stderr).unwrap_or_default();
    let test = if String::from_utf8_lossy(&usage).contains("dry run") { "-n" } else { "-T" };
    check(&["crontab", test], &tab);
    // As cron calls it.
    let command = line.trim_end().strip_prefix("0 * * * * ").unwrap();
    let mut cron = Command::new("/bin/sh");
    cron.args(["-c", command]).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    assert!(cron.status().unwrap().success());
    assert!(user.guard().join("patrol.json").exists(), "{}", user.reads("patrol.log"));
    assert!(doctor(&user)[0].starts_with("ok,\"the last patrol ended at"), "{:?}", doctor(&user));
    user.beat(-10_000);
    assert!(doctor(&user)[0].starts_with("warning,\"patrols are missing: "), "{:?}", doctor(&user));
}

#[test]
fn launchd_reads_its_list() {
    let user = User::new();
    let list = user.repo.outside().join("autoresearch.guard.plist");
    fs::write(&list, user.guards(&["--print", "launchd", "--every", "30m"]).ok().stdout).unwrap();
    check(&["plutil", "-lint"], &list);
    let read =
        "import plistlib, sys; job = plistlib.load(open(sys.argv[1], 'rb')); assert job['StartInterval'] == 1800";
    let mut python = Command::new("python3");
    assert!(python.args(["-c", read]).arg(&list).status().unwrap().success());
}

#[test]
fn a_resident_guard_is_wanted_until_its_file_is_deleted() {
    let user = User::new();
    let mut command = user.guard_command(&["--resident", "--wake", "100ms"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    user.resident();
    assert!(doctor(&user)[1].starts_with("ok,the resident guard is running: process"), "{:?}", doctor(&user));
    let file = user.guard().join("resident.json");
    let said = user.guards(&["--resident"]).exits(5);
    let hint = format!("to end it, or run `rm '{}'` to want none", file.display().to_string().replace('\'', "'\\''"));
    assert!(said.stderr.replace('\n', " ").contains(&hint), "{said:?} {hint}");
    fs::remove_file(file).unwrap();
    until("the end of the resident guard", || user.residents().is_empty().then_some(()));
    assert_eq!(ended(child).code, Some(0));
}

#[test]
fn what_cannot_be_printed_is_said_with_a_hint() {
    let user = User::new();
    for args in [["--print", "cron"].as_slice(), &["--resident"], &["--print-sh"]] {
        let mut command = user.guard_command(args);
        let said: Called = command.env_remove("HOME").env_remove("XDG_STATE_HOME").output().unwrap().into();
        let expected = "error: no home folder: neither HOME nor XDG_STATE_HOME is an absolute path\nhint: ";
        assert!(said.stderr.starts_with(expected) && said.code == Some(1), "{args:?} {said:?}");
    }
    for value in ["/a\nb", "/\u{1b}"] {
        let mut command = user.guard_command(&["--print", "systemd"]);
        let said: Called = command.env("XDG_CACHE_HOME", value).output().unwrap().into();
        let expected = "error: cannot write XDG_CACHE_HOME into a file of the guard: it contains a line break";
        assert!(said.stderr.starts_with(expected) && said.code == Some(1), "{said:?}");
    }
    let mut command = user.guard_command(&["--print", "cron"]);
    let said: Called = command.env("XDG_CACHE_HOME", format!("/{}", "x".repeat(1000))).output().unwrap().into();
    assert!(
        said.stderr.starts_with("error: the line of the crontab would be longer than cron reads\nhint: "),
        "{said:?}"
    );
    for args in [
        ["--print", "systemd", "--resident"].as_slice(),
        &["--print", "upstart"],
        &["--every", "1h"],
        &["--print", "cron", "--every", "30s"],
        &["--print", "cron", "--every", "25h"],
        &["--beat", "1h"],
        &["--print", "cron", "--beat", "1h"],
        &["--resident", "--patrol", " "],
    ] {
        user.guards(args).exits(2);
    }
}
