//! Errors when installing, removing or starting the guard.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::domain::shell_word;
use crate::fs::FileError;
use crate::session::ErrorKind;
use crate::state::StateError;

/// The reason why the guard cannot be installed, removed or started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Neither variable names a folder.
    #[error("no home folder: neither HOME nor XDG_STATE_HOME is an absolute path")]
    NoHome,
    /// The machine offers nothing that calls a patrol.
    #[error("cannot install the guard: found no systemd of this user, no crontab and no launchd")]
    NoScheduler,
    /// A resident guard is running.
    #[error("another resident guard is running{}", process.map(|pid| format!(": process {pid}")).unwrap_or_default())]
    Running {
        /// Its process, if its lock file names it.
        process: Option<u32>,
    },
    /// A path or an argument that the files of a scheduler cannot contain.
    #[error("cannot write {what} into a file of the guard: it contains a line break or is not UTF-8")]
    Unwritable {
        /// A name for the path or argument.
        what: String,
    },
    /// A command of a scheduler failed.
    #[error("`{line}` failed: {why}")]
    Command {
        /// The command line.
        line: String,
        /// Its standard error, or its exit status.
        why: String,
    },
    /// A program did not start.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The resident guard ended by an error.
    #[error("it ended ({0}); guard/resident.log in your state folder has its output")]
    Ended(ExitStatus),
    /// A file of the guard's.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the guard's with JSON.
    #[error(transparent)]
    State(#[from] StateError),
}

impl ServiceError {
    /// The kind, which gives the exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ServiceError::Running { .. } => ErrorKind::Held,
            _ => ErrorKind::CannotStart,
        }
    }

    /// The next command to type, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServiceError::NoHome => Some("set HOME to your home folder: export HOME=/home/you".into()),
            ServiceError::NoScheduler => {
                Some("call `ar guard` each hour by other means, or start `ar guard --resident` at each boot".into())
            }
            ServiceError::Running { process } => {
                let end = process.map(|pid| format!("run `kill {pid}` to end it, or ")).unwrap_or_default();
                Some(format!("{end}run `ar guard --uninstall` to want none"))
            }
            ServiceError::Unwritable { .. } => Some("change it to one line of UTF-8".into()),
            ServiceError::Command { .. } => {
                Some("run `ar guard --install` again when it works, or `ar guard --uninstall`".into())
            }
            ServiceError::Start { program, .. } => {
                Some(format!("run `ls -l {}` to see what it is", shell_word(program)))
            }
            ServiceError::Ended(_) => Some("run `ar guard --resident` to see why".into()),
            ServiceError::File(error) => {
                let folder = error.path.parent().unwrap_or(Path::new("/"));
                Some(format!("run `ls -ld {}` to see who may write there", shell_word(folder)))
            }
            ServiceError::State(error) => error.hint(),
        }
    }
}
