//! The program that calls the patrols on this machine.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::getuid;

use super::service_error::ServiceError;

/// A program of the machine that starts others at their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub(super) enum Scheduler {
    /// launchd of macOS.
    Launchd,
    /// The systemd of this user.
    Systemd,
    /// cron.
    Cron,
}

impl Scheduler {
    /// Finds the one that answers: launchd, else systemd, else cron.
    pub(super) fn find() -> Result<Scheduler, ServiceError> {
        let answers = |words: &[&str]| output(words).is_ok_and(|output| output.status.success());
        if answers(&["launchctl", "managername"]) {
            return Ok(Scheduler::Launchd);
        }
        if answers(&["systemctl", "--user", "show-environment"]) {
            return Ok(Scheduler::Systemd);
        }
        match output(&["crontab", "-l"]) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ServiceError::NoScheduler),
            _ => Ok(Scheduler::Cron),
        }
    }
}

/// The domain of launchd in which a job of this user runs: that of the desktop, or of a login over the network.
pub(super) fn launchd_domains() -> [String; 2] {
    let user = getuid().as_raw();
    [format!("gui/{user}"), format!("user/{user}")]
}

/// The one of [`launchd_domains`] that this process belongs to.
pub(super) fn launchd_domain() -> String {
    let [desktop, network] = launchd_domains();
    let is_desktop = output(&["launchctl", "managername"]).is_ok_and(|output| output.stdout.trim_ascii() == b"Aqua");
    if is_desktop { desktop } else { network }
}

/// Returns whether systemd terminates this user's processes at logout.
pub(super) fn ends_at_logout() -> bool {
    let user = getuid().as_raw().to_string();
    !output(&["loginctl", "show-user", &user, "--property=Linger"])
        .is_ok_and(|output| output.stdout.trim_ascii() == b"Linger=yes")
}

/// The user's crontab, empty if there is none.
///
/// # Errors
///
/// The user may have none, or `crontab` fails otherwise: to write one then could lose lines.
pub(super) fn crontab() -> Result<Vec<u8>, ServiceError> {
    let words = ["crontab", "-l"];
    let output = output(&words).map_err(|source| ServiceError::Start { program: PathBuf::from(words[0]), source })?;
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    match output.status.success() {
        true => Ok(output.stdout),
        false if said.contains("no crontab") || said.contains("no such file") => Ok(Vec::new()),
        false => Err(failure(&words, &output)),
    }
}

/// Replaces the user's crontab; an empty one is removed.
pub(super) fn write_crontab(content: &[u8]) -> Result<(), ServiceError> {
    if content.is_empty() {
        return run(&["crontab", "-r"]);
    }
    let words = ["crontab", "-"];
    let write = || -> io::Result<Output> {
        let mut child = Command::new(words[0])
            .arg(words[1])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        // A program that does not read says why by its exit status.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(content));
        child.wait_with_output()
    };
    let output = write().map_err(|source| ServiceError::Start { program: PathBuf::from(words[0]), source })?;
    if output.status.success() { Ok(()) } else { Err(failure(&words, &output)) }
}

/// Runs a command.
pub(super) fn run(words: &[&str]) -> Result<(), ServiceError> {
    let output = output(words).map_err(|source| ServiceError::Start { program: PathBuf::from(words[0]), source })?;
    if output.status.success() { Ok(()) } else { Err(failure(words, &output)) }
}

fn output(words: &[&str]) -> io::Result<Output> {
    // Messages are compared.
    Command::new(words[0]).args(&words[1..]).env("LC_ALL", "C").stdin(Stdio::null()).output()
}

fn failure(words: &[&str], output: &Output) -> ServiceError {
    let said = String::from_utf8_lossy(&output.stderr);
    let why = if said.trim().is_empty() { output.status.to_string() } else { said.trim().to_owned() };
    ServiceError::Command { line: words.join(" "), why }
}
