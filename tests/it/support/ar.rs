//! Running the real binary.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use super::TestRepo;

/// The binary under test.
pub(crate) const AR: &str = env!("CARGO_BIN_EXE_ar");

/// What a call of the binary came to.
#[derive(Debug)]
pub(crate) struct Called {
    /// The exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Called {
    /// Standard output as a JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Standard output as a JSON document a line.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Itself, if it exited with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Called {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Itself, if it exited with `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Called {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

impl From<Output> for Called {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Called { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// The day on which all sessions of the tests begin.
pub(crate) const CLOCK: &str = "2026-11-20T22:00:00Z";

/// By how much waits of `ar` are shorter that only bound or pace.
pub(crate) const WAITS: &str = "10";

/// A call of the binary in `dir`, in the environment of `repo`, not started yet.
pub(crate) fn ar_command<S: AsRef<OsStr>>(repo: &TestRepo, dir: &Path, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(AR);
    repo.environment(&mut command);
    command
        .env("AR_CLOCK", CLOCK)
        .env("AR_NO_PAUSES", "1")
        .env("AR_WAITS", WAITS)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// How long a call may take that could wait for ever.
const DEADLINE: Duration = Duration::from_secs(300);

/// Calls the binary in the root of the working tree, and fails where it waits for ever.
#[track_caller]
pub(crate) fn ar_in_time<S: AsRef<OsStr>>(repo: &TestRepo, args: impl IntoIterator<Item = S>) -> Called {
    in_time(ar_command(repo, &repo.path(), args))
}

/// Makes this call, and fails where it waits for ever.
#[track_caller]
pub(crate) fn in_time(mut command: Command) -> Called {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let (over, output) = mpsc::channel();
    std::thread::spawn(move || over.send(child.wait_with_output()));
    match output.recv_timeout(DEADLINE) {
        Ok(output) => output.unwrap().into(),
        Err(_) => {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            let left: Option<Called> = output.recv().ok().map(|output| output.unwrap().into());
            panic!("still there after {DEADLINE:?}: {left:#?}");
        }
    }
}

/// Calls the binary in the root of the working tree.
pub(crate) fn ar<S: AsRef<OsStr>>(repo: &TestRepo, args: impl IntoIterator<Item = S>) -> Called {
    ar_command(repo, &repo.path(), args).output().unwrap().into()
}
