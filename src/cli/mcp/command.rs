//! The commands of this program, started as processes of their own: what they print is the answer of a tool.

use std::path::Path;
use std::process::Stdio;

use autoresearch::domain::with_causes;
use autoresearch::exec::running_program;
use autoresearch::session::SessionError;
use tokio::process::Command;

/// Why a tool has no answer, as the text that the agent reads: error, causes and hint.
#[derive(Debug, Clone)]
pub(super) struct Failure(pub(super) String);

impl Failure {
    pub(super) fn new(error: impl AsRef<str>, hint: impl AsRef<str>) -> Failure {
        Failure(format!("error: {}\nhint: {}", error.as_ref(), hint.as_ref()))
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let text = with_causes(&error);
        match error.hint() {
            Some(hint) => Failure::new(text, hint),
            None => Failure(format!("error: {text}")),
        }
    }
}

/// A command of this program in a folder, with nothing to read.
pub(super) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(running_program());
    command.args(args).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end and returns its standard output. It is killed where the answer is no longer wanted.
pub(super) async fn answer(dir: &Path, args: &[&str]) -> Result<String, Failure> {
    let (name, rest) = args.split_at(1);
    let mut command = command(dir, &[name, &["--quiet"], rest].concat());
    let done = command.kill_on_drop(true).output().await.map_err(not_started)?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(said(&done.stderr)),
    }
}

/// The error of a command that failed.
pub(super) fn said(stderr: &[u8]) -> Failure {
    Failure(String::from_utf8_lossy(stderr).trim().to_owned())
}

/// The error of a command that could not be started.
pub(super) fn not_started(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot start `ar`: {error}"), "ask the user to start the server `ar mcp` again")
}
