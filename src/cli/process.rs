//! The process itself: the folder that it was started in, and the runtime on which it waits.

use std::env;
use std::io;
use std::path::PathBuf;

use autoresearch::exec;
use autoresearch::session::SessionError;
use tokio::runtime::Runtime;

use super::error::CliError;

/// Makes the runtime that waits for processes, timers and signals, on this thread.
pub(super) fn runtime() -> Result<Runtime, CliError> {
    exec::runtime().map_err(no_runtime)
}

/// The error of a process that cannot wait.
pub(super) fn no_runtime(error: io::Error) -> CliError {
    CliError::new(format!("cannot wait for processes and signals: {error}"), None)
}

/// The folder that the command was called in.
pub(super) fn current_dir() -> Result<PathBuf, SessionError> {
    env::current_dir().map_err(|source| SessionError::Io { action: "find", path: ".".into(), source })
}
