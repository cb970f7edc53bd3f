//! `ar guard` as a service: its printed units, and the resident guard, as a program and as a script.
//!
//! `PATH` has no programs.

mod print;
mod resident;
mod script;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{AR, Called, TestRepo, until};

/// A user with a home folder. All processes that know of it end with it.
struct User {
    repo: TestRepo,
}

impl Drop for User {
    fn drop(&mut self) {
        let left = self.repo.processes();
        if !left.is_empty() {
            let _ = Command::new("kill").arg("-KILL").args(left).stderr(Stdio::null()).status();
        }
    }
}

impl User {
    fn new() -> User {
        let user = User { repo: TestRepo::empty() };
        for folder in [user.home(), user.guard(), user.programs()] {
            fs::create_dir_all(folder).unwrap();
        }
        user
    }

    /// The home folder, with all that has to be quoted somewhere.
    fn home(&self) -> PathBuf {
        self.repo.outside().join("50% of it's \"home\" $HOME")
    }

    /// The folder that guardians write to.
    fn guard(&self) -> PathBuf {
        self.repo.outside().join("state 5%/autoresearch/guard")
    }

    fn programs(&self) -> PathBuf {
        self.repo.outside().join("bin")
    }

    /// Gives a command this user's environment. Its PATH has no programs.
    fn environment(&self, command: &mut Command) {
        self.repo.environment(command);
        command
            .env("PATH", self.programs())
            .env("HOME", self.home())
            .env("XDG_STATE_HOME", self.repo.outside().join("state 5%"))
            .env("AR_METRIC", "x")
            .current_dir(self.repo.path())
            .stdin(Stdio::null());
    }

    /// `ar guard` with these arguments, not started yet.
    fn guard_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(AR);
        self.environment(&mut command);
        command.arg("guard").args(args);
        command
    }

    /// Calls `ar guard`.
    fn guards(&self, args: &[&str]) -> Called {
        self.guard_command(args).output().unwrap().into()
    }

    /// Writes the beat of a patrol, so many seconds from now.
    fn beat(&self, seconds: i64) {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        fs::write(self.guard().join("patrol.json"), format!("{{\"version\": 1, \"at\": \"{at:.3}\"}}\n")).unwrap();
    }

    fn reads(&self, name: &str) -> String {
        fs::read_to_string(self.guard().join(name)).unwrap_or_default()
    }

    /// The running resident guards.
    fn residents(&self) -> Vec<u32> {
        let is_one = |pid: &str| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"__resident")
        };
        self.repo.processes().iter().filter(|pid| is_one(pid)).map(|pid| pid.parse().unwrap()).collect()
    }

    /// Waits until the resident guard that is started in the background holds its lock, and gives its process.
    fn resident(&self) -> u32 {
        until("the resident guard", || {
            let pid: u32 = self.reads("resident.lock").trim().parse().ok()?;
            self.residents().contains(&pid).then_some(pid)
        })
    }
}

/// Runs a checker of another project over a file; says so where it is not installed.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn check(words: &[&str], file: &Path) {
    match Command::new(words[0]).args(&words[1..]).arg(file).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said));
        }
        Err(error) => eprintln!("skipped: {}: {error}", words[0]),
    }
}

/// The path of the developer's programs, for commands that need them.
fn system_path() -> std::ffi::OsString {
    env::var_os("PATH").unwrap_or_default()
}

/// Sends a signal to a process.
fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// What a process came to that must end by itself.
#[track_caller]
fn ended(mut child: Child) -> Called {
    until("the end of a process", || child.try_wait().unwrap());
    child.wait_with_output().unwrap().into()
}
